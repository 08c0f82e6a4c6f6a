"""Measure a judge with injected errors (`cxr judge --probe`).

The probe takes the extractive engine's answers, which quote the findings, and injects errors. An error counts as caught
if the judge rates the altered answer worse than the original on some dimension, so a judge that objects to everything
catches nothing. The probe also reports how often originals are objected to, and whether verdicts depend on the order of
the categories or on the length of the report.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from medvqa_core.digests import digest
from medvqa_core.errors import InputError
from medvqa_core.json_files import write_json
from medvqa_core.runs.predictions import PredictionStore
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.judging.base import Judge
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, is_flawless
from mimic_cxr_vqa.judging.injected_errors import ANOTHER, DROPPED, KINDS, inject_error
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs, require_pairs, sample_studies
from mimic_cxr_vqa.judging.run_judge import judge_all
from mimic_cxr_vqa.judging.verdicts import (
    PROBE,
    PROBE_RESULT,
    JudgeRequest,
    Sample,
    iterate_verdicts,
    judge_folder,
    open_verdicts,
)
from mimic_cxr_vqa.schema import HEART, NO_FINDING
from mimic_cxr_vqa.workspace import Workspace

_Z = 1.959963984540054  # 95% of a normal distribution, two-sided
Verdicts = dict[JudgeRequest, Verdict | None]


@dataclass(frozen=True)
class InjectedError:
    """A pair with an error in its answer, and the original pair."""

    kind: str
    pair: Pair
    unaltered: Pair


def run_probe(workspace: Workspace, judge: Judge, sample: Sample, per_kind: int, retry_failed: bool = False) -> str:
    """Inject errors into answers about the sampled reports, judge them and write probe.json. Returns it as text.

    Raises:
        InputError: answers are missing, or no error applies to any of them. Otherwise as `judge_all`.
    """
    governance, folder = workspace.governance(), judge_folder(workspace, judge.name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    pairs = require_pairs([pair for study in iterate_pairs(workspace, studies) for pair in study], workspace)
    injected = inject_errors(pairs, per_kind, sample.seed)
    if not injected:
        raise InputError(f"{workspace.root}: no kind of error applies to its answers. Increase --sample-reports.")
    judge_all(folder / PROBE, governance, judge, probe_requests(injected), retry_failed=retry_failed)
    with open_verdicts(folder / PROBE, governance) as store:
        found = measure_probe(store, injected)
    write_json(folder / PROBE_RESULT, {"judge": dict(judge.settings), **asdict(sample), "per_kind": per_kind, **found})
    return format_probe(found)


def inject_errors(pairs: Sequence[Pair], per_kind: int, seed: int) -> list[InjectedError]:
    """Up to `per_kind` errors of each kind, in random pairs that the kind applies to."""
    quoted = _answer_by_quotes(pairs)
    shuffled = sorted(quoted, key=lambda pair: digest(f"{seed}/probe/{pair.id}"))
    donors = _find_donors(shuffled)
    injected = []
    for kind in KINDS:
        made: list[InjectedError] = []
        for pair in shuffled:
            if len(made) == per_kind:
                break
            others = donors[pair.request.category, not _is_positive(pair)] if kind == ANOTHER else ()
            if kind == DROPPED and not _has_details(pair):
                continue
            answer = inject_error(kind, pair.id, pair.answer, others)
            if answer is not None:
                made.append(InjectedError(kind, replace(pair, answer=answer), pair))
        injected += made
    return injected


def probe_requests(injected: Iterable[InjectedError]) -> Iterator[list[JudgeRequest]]:
    """The requests of each study: original pairs in both orders of the categories, and altered pairs."""
    studies: dict[int, dict[JudgeRequest, None]] = defaultdict(dict)
    for one in injected:
        for request in (JudgeRequest(one.unaltered), JudgeRequest(one.unaltered, True), JudgeRequest(one.pair)):
            studies[one.pair.request.study_id][request] = None
    return (list(studies[study]) for study in sorted(studies))


def measure_probe(store: PredictionStore, injected: Sequence[InjectedError]) -> dict[str, Any]:
    """The result of the probe as JSON: recall by kind, false alarms, order and length. Failures are counted apart."""
    requests = [request for study in probe_requests(injected) for request in study]
    verdicts = {request: verdict for request, _, verdict in iterate_verdicts(store, requests)}
    originals = list(dict.fromkeys(one.unaltered for one in injected))
    rated = {pair: verdict for pair in originals if (verdict := verdicts[JudgeRequest(pair)]) is not None}
    return {
        "recall": {kind: _recall([one for one in injected if one.kind == kind], verdicts) for kind in KINDS},
        "false_alarms": _false_alarms(list(rated.values())),
        "order": _order(originals, verdicts),
        "length": _length(rated, injected, verdicts),
        "failed": sum(verdict is None for verdict in verdicts.values()),
        "requests": len(verdicts),
    }


def format_probe(found: dict[str, Any]) -> str:
    """The result as text."""
    lines = [f"{'injected error':24}{'injected':>9}{'caught':>9}{'recall':>9}   95%"]
    for kind, row in found["recall"].items():
        lines.append(f"{kind:24}{row['planted']:>9}{row['caught']:>9}{_format_rate(row)}")
    alarms, order, length = found["false_alarms"], found["order"], found["length"]
    lines.append(f"{'original, objected to':24}{alarms['judged']:>9}{alarms['flagged']:>9}{_format_rate(alarms)}")
    lines.append(f"same verdict with the categories in the other order: {_number(order['same'])} of {order['pairs']}")
    lines.append(
        f"rank correlation of the verdict on originals with length: report {_number(length['report'])}, answer "
        f"{_number(length['answer'])}. Recall on short reports {_number(length['recall_short'])}, on long ones "
        f"{_number(length['recall_long'])}"
    )
    if found["failed"]:
        lines.append(f"{found['failed']} of {found['requests']} replies could not be read and are not counted")
    return "\n".join(lines)


def _answer_by_quotes(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with the extractive engine's answers."""
    replies = asyncio.run(ExtractiveEngine().answer([pair.request for pair in pairs]))
    return [
        replace(p, answer=reply.answer) for p, reply in zip(pairs, replies, strict=True) if reply.answer is not None
    ]


def _is_positive(pair: Pair) -> bool:
    return (pair.label_value == "positive") != (pair.request.category == NO_FINDING)


def _has_details(pair: Pair) -> bool:
    """Whether a dropped detail is an error. A denial is equally true without its adjectives."""
    return _is_positive(pair) and pair.request.category != HEART


def _find_donors(pairs: Iterable[Pair]) -> dict[tuple[str, bool], list[str]]:
    """(category, whether positive) -> answers. Heart is left out because its label does not tell its size."""
    donors: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for pair in pairs:
        if pair.request.category != HEART and pair.label_value != "uncertain":
            donors[pair.request.category, _is_positive(pair)].append(pair.answer)
    return donors


def _recall(injected: Sequence[InjectedError], verdicts: Verdicts) -> dict[str, Any]:
    both = [(verdicts[JudgeRequest(one.pair)], verdicts[JudgeRequest(one.unaltered)]) for one in injected]
    read = [(changed, before) for changed, before in both if changed is not None and before is not None]
    caught = sum(_is_worse(changed, before) for changed, before in read)
    return {"planted": len(read), "caught": caught, **_rate(caught, len(read)), "unread": len(both) - len(read)}


def _is_worse(one: Verdict, other: Verdict) -> bool:
    return any(d.categories.index(one[name]) < d.categories.index(other[name]) for name, d in DIMENSIONS.items())


def _false_alarms(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    flagged = sum(not is_flawless(verdict) for verdict in verdicts)
    by_dimension = {name: sum(v[name] != d.best for v in verdicts) for name, d in DIMENSIONS.items()}
    return {"judged": len(verdicts), "flagged": flagged, **_rate(flagged, len(verdicts)), "by_dimension": by_dimension}


def _order(pairs: Iterable[Pair], verdicts: Verdicts) -> dict[str, Any]:
    both = [(verdicts[JudgeRequest(pair)], verdicts[JudgeRequest(pair, True)]) for pair in pairs]
    read = [(one, other) for one, other in both if one is not None and other is not None]
    changed = {name: sum(one[name] != other[name] for one, other in read) for name in DIMENSIONS}
    same = sum(one == other for one, other in read)
    return {"pairs": len(read), "same": same / len(read) if read else None, "changed_by_dimension": changed}


def _length(rated: dict[Pair, Verdict], injected: Sequence[InjectedError], verdicts: Verdicts) -> dict[str, Any]:
    """Rank correlation of a flawless verdict with lengths, and the recall on the shorter and the longer reports."""
    flawless = [is_flawless(verdict) for verdict in rated.values()]
    middle = np.median([len(one.pair.request.findings) for one in injected]) if injected else 0.0
    halves: dict[str, list[InjectedError]] = {"short": [], "long": []}
    for one in injected:
        halves["short" if len(one.pair.request.findings) <= middle else "long"].append(one)
    return {
        "report": rank_correlation([len(pair.request.findings) for pair in rated], flawless),
        "answer": rank_correlation([len(pair.answer) for pair in rated], flawless),
        **{f"recall_{name}": _recall(half, verdicts)["rate"] for name, half in halves.items()},
    }


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's correlation, or None if one of the two does not vary."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _rate(hits: int, total: int) -> dict[str, Any]:
    """A rate with Wilson's 95% interval."""
    if not total:
        return {"rate": None, "low": None, "high": None}
    share, scale = hits / total, 1 + _Z**2 / total
    middle = (share + _Z**2 / (2 * total)) / scale
    half = _Z * sqrt(share * (1 - share) / total + _Z**2 / (4 * total**2)) / scale
    return {"rate": share, "low": max(0.0, middle - half), "high": min(1.0, middle + half)}


def _format_rate(row: dict[str, Any]) -> str:
    return "        -" if row["rate"] is None else f"{row['rate']:>9.1%}   [{row['low']:.1%}, {row['high']:.1%}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
