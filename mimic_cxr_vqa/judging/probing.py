"""Does a judge deserve trust? Errors are planted in answers that quote the report, and the judge has to notice.

The answers are the extractive engine's: quotes of the findings, right as far as the labeler reads them. Each planted
one stands beside its unaltered self, and counts as caught where the judge rates it worse than that on some dimension: a
judge that objects to everything catches nothing. Shown besides: how often unaltered answers are objected to, whether
the order in which categories are listed changes verdicts, and whether they go with the length of the report.
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
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, is_flawless
from mimic_cxr_vqa.judging.error_injection import ANOTHER, DROPPED, KINDS, plant
from mimic_cxr_vqa.judging.judges import Judge
from mimic_cxr_vqa.judging.pairs import Pair, check_some, iterate_pairs, sample_studies
from mimic_cxr_vqa.judging.run_judge import (
    PROBE,
    PROBE_RESULT,
    JudgeRequest,
    Sample,
    iterate_verdicts,
    judge_all,
    judge_folder,
    open_verdicts,
)
from mimic_cxr_vqa.schema import HEART, NO_FINDING
from mimic_cxr_vqa.workspace import Workspace

_Z = 1.959963984540054


@dataclass(frozen=True)
class InjectedError:
    """A pair with an error of a kind in its answer, beside the pair that it was made from."""

    kind: str
    pair: Pair
    unaltered: Pair


def run_probe(workspace: Workspace, judge: Judge, sample: Sample, per_kind: int, retry_failed: bool = False) -> str:
    """Plant errors in answers about the sampled reports, have them judged, write probe.json; returns it as text.

    Raises:
        InputError: nothing is answered yet, or no error fits any answer. Otherwise as `judge_all`.
    """
    governance, folder = workspace.governance(), judge_folder(workspace, judge.name)
    studies = set(sample_studies(workspace, sample.sample_reports, sample.seed))
    pairs = check_some([pair for study in iterate_pairs(workspace, studies) for pair in study], workspace)
    planted = plant_errors(pairs, per_kind, sample.seed)
    if not planted:
        raise InputError(f"{workspace.root}: no error can be planted in its answers; take more with --sample-reports")
    judge_all(folder / PROBE, governance, judge, probe_requests(planted), retry_failed=retry_failed)
    with open_verdicts(folder / PROBE, governance) as store:
        found = measure_probe(store, planted)
    write_json(folder / PROBE_RESULT, {"judge": dict(judge.settings), **asdict(sample), "per_kind": per_kind, **found})
    return format_probe(found)


def plant_errors(pairs: Sequence[Pair], per_kind: int, seed: int) -> list[InjectedError]:
    """Up to `per_kind` planted errors of each kind, in pairs drawn at random among those that the kind fits."""
    quoted = _quote(pairs)
    shuffled = sorted(quoted, key=lambda pair: digest(f"{seed}/probe/{pair.id}"))
    donors = _donors(shuffled)
    planted = []
    for kind in KINDS:
        made: list[InjectedError] = []
        for pair in shuffled:
            if len(made) == per_kind:
                break
            others = donors[pair.request.category, not _is_positive(pair)] if kind == ANOTHER else ()
            if kind == DROPPED and not _has_details(pair):
                continue
            answer = plant(kind, pair.id, pair.answer, others)
            if answer is not None:
                made.append(InjectedError(kind, replace(pair, answer=answer), pair))
        planted += made
    return planted


def probe_requests(planted: Iterable[InjectedError]) -> Iterator[list[JudgeRequest]]:
    """Each study's requests: its unaltered pairs, the same with the categories in the other order, the planted ones."""
    studies: dict[int, dict[JudgeRequest, None]] = defaultdict(dict)
    for one in planted:
        for request in (JudgeRequest(one.unaltered), JudgeRequest(one.unaltered, True), JudgeRequest(one.pair)):
            studies[one.pair.request.study_id][request] = None
    return (list(studies[study]) for study in sorted(studies))


def measure_probe(store: PredictionStore, planted: Sequence[InjectedError]) -> dict[str, Any]:
    """What the probe shows, as JSON: recall by kind, false alarms, order, length. Failures are counted apart."""
    requests = [request for study in probe_requests(planted) for request in study]
    verdicts = {request: verdict for request, _, verdict in iterate_verdicts(store, requests)}
    unaltered = list(dict.fromkeys(one.unaltered for one in planted))
    rated = {pair: verdicts[JudgeRequest(pair)] for pair in unaltered}
    return {
        "recall": {kind: _recall([one for one in planted if one.kind == kind], verdicts) for kind in KINDS},
        "false_alarms": _false_alarms([verdict for verdict in rated.values() if verdict is not None]),
        "order": _order(unaltered, verdicts),
        "length": _length(rated, planted, verdicts),
        "failed": sum(verdict is None for verdict in verdicts.values()),
        "requests": len(verdicts),
    }


def format_probe(found: dict[str, Any]) -> str:
    """The probe as lines of text."""
    lines = [f"{'planted error':24}{'planted':>9}{'caught':>9}{'recall':>9}   95%"]
    for kind, row in found["recall"].items():
        lines.append(f"{kind:24}{row['planted']:>9}{row['caught']:>9}{_share(row)}")
    alarms, order, length = found["false_alarms"], found["order"], found["length"]
    lines.append(f"{'unaltered, objected to':24}{alarms['judged']:>9}{alarms['flagged']:>9}{_share(alarms)}")
    lines.append(f"same verdict with the categories in the other order: {_number(order['same'])} of {order['pairs']}")
    lines.append(
        f"verdict on unaltered answers against length (rank correlation): report {_number(length['report'])}, answer "
        f"{_number(length['answer'])}; recall on short reports {_number(length['recall_short'])}, on long ones "
        f"{_number(length['recall_long'])}"
    )
    if found["failed"]:
        lines.append(f"{found['failed']} of {found['requests']} replies could not be read and count nowhere")
    return "\n".join(lines)


def _quote(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with the extractive engine's answer in place of theirs."""
    replies = asyncio.run(ExtractiveEngine().answer([pair.request for pair in pairs]))
    return [
        replace(pair, answer=reply.answer)
        for pair, reply in zip(pairs, replies, strict=True)
        if reply.answer is not None
    ]


def _is_positive(pair: Pair) -> bool:
    return (pair.label_value == "positive") != (pair.request.category == NO_FINDING)


def _has_details(pair: Pair) -> bool:
    """Whether something is there that could be dropped: a denial without its adjectives is as true."""
    return _is_positive(pair) and pair.request.category != HEART


def _donors(pairs: Iterable[Pair]) -> dict[tuple[str, bool], list[str]]:
    """(category, whether positive) -> answers of one study each; Heart's label says nothing of its size."""
    donors: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for pair in pairs:
        if pair.request.category != HEART and pair.label_value != "uncertain":
            donors[pair.request.category, _is_positive(pair)].append(pair.answer)
    return donors


def _recall(planted: Sequence[InjectedError], verdicts: dict[JudgeRequest, Verdict | None]) -> dict[str, Any]:
    both = [(verdicts[JudgeRequest(one.pair)], verdicts[JudgeRequest(one.unaltered)]) for one in planted]
    read = [(changed, before) for changed, before in both if changed is not None and before is not None]
    caught = sum(_is_worse(changed, before) for changed, before in read)
    return {"planted": len(read), "caught": caught, **_rate(caught, len(read)), "unread": len(both) - len(read)}


def _is_worse(one: Verdict, other: Verdict) -> bool:
    return any(d.categories.index(one[name]) < d.categories.index(other[name]) for name, d in DIMENSIONS.items())


def _false_alarms(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    flagged = sum(not is_flawless(verdict) for verdict in verdicts)
    by_dimension = {name: sum(v[name] != d.best for v in verdicts) for name, d in DIMENSIONS.items()}
    return {"judged": len(verdicts), "flagged": flagged, **_rate(flagged, len(verdicts)), "by_dimension": by_dimension}


def _order(pairs: Iterable[Pair], verdicts: dict[JudgeRequest, Verdict | None]) -> dict[str, Any]:
    both = [(verdicts[JudgeRequest(pair)], verdicts[JudgeRequest(pair, True)]) for pair in pairs]
    read = [(one, other) for one, other in both if one is not None and other is not None]
    changed = {name: sum(one[name] != other[name] for one, other in read) for name in DIMENSIONS}
    same = sum(one == other for one, other in read)
    return {"pairs": len(read), "same": same / len(read) if read else None, "changed_by_dimension": changed}


def _length(
    rated: dict[Pair, Verdict | None], planted: Sequence[InjectedError], verdicts: dict[JudgeRequest, Verdict | None]
) -> dict[str, Any]:
    """Rank correlation of a flawless verdict with the lengths, and the recall in the shorter and the longer half."""
    read = [(pair, verdict) for pair, verdict in rated.items() if verdict is not None]
    flawless = [is_flawless(verdict) for _, verdict in read]
    lengths = [len(one.pair.request.findings) for one in planted]
    middle = float(np.median(lengths)) if lengths else 0.0
    halves = {"short": [], "long": []}
    for one, length in zip(planted, lengths, strict=True):
        halves["short" if length <= middle else "long"].append(one)
    return {
        "report": rank_correlation([len(pair.request.findings) for pair, _ in read], flawless),
        "answer": rank_correlation([len(pair.answer) for pair, _ in read], flawless),
        **{f"recall_{name}": _recall(half, verdicts)["rate"] for name, half in halves.items()},
    }


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's correlation, ties sharing their mean rank; None where one of the two does not vary."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _rate(hits: int, of: int) -> dict[str, Any]:
    """A share with Wilson's 95% interval; None of nothing."""
    if not of:
        return {"rate": None, "low": None, "high": None}
    share, scale = hits / of, 1 + _Z**2 / of
    middle = (share + _Z**2 / (2 * of)) / scale
    half = _Z * sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2)) / scale
    return {"rate": share, "low": max(0.0, middle - half), "high": min(1.0, middle + half)}


def _share(row: dict[str, Any]) -> str:
    return "        -" if row["rate"] is None else f"{row['rate']:>9.1%}   [{row['low']:.1%}, {row['high']:.1%}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
