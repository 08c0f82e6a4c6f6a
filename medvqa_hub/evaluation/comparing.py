"""`medvqa-hub compare RUN RUN …`: any number of evaluations on the same questions, with intervals and paired tests.

A run is a folder that `evaluate` wrote with its scored.jsonl (or one of its control's: RUN/scored-shuffled.jsonl).
Scores are made from the rows: a failed answer is a wrong one here, so that all runs are scored on the same questions;
where nothing failed, they are the scores of results.json. Runs on different questions, or scored in different ways,
are not compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import read_object
from medvqa_core.metrics.answer_text import words
from medvqa_core.metrics.bleu import ORDER, combine_counts, count_pair
from medvqa_core.metrics.caption_row import COLUMNS as TEXT_COLUMNS
from medvqa_core.metrics.meddqa_scores import TABLE_5, find_column
from medvqa_core.metrics.paired import Score, bootstrap, holm, interval, mean_score, p_value
from medvqa_core.progress import track
from medvqa_core.runs.predictions import check_stated
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS
from mimic_cxr_vqa.answer_types import CLOSED, OPEN
from mimic_cxr_vqa.schema import HEART

CXR, MEDDQA = "cxr-evaluation", "meddqa-evaluation"
REMEDY = "evaluate it again with --scored: answers that are there are kept"
# measures of public datasets -> the answer type that they are of
SHORT = {"closed_accuracy": CLOSED, "open_recall": OPEN, "exact": None}
NAMED = 3  # ids that a message names


@dataclass(frozen=True)
class Run:
    """One evaluation: its results and the rows behind them, by question id."""

    name: str
    folder: Path
    results: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]

    @property
    def kind(self) -> str:
        return str(self.results.get("kind"))

    @property
    def governance(self) -> Governance:
        return check_stated(self.folder, self.results.get("governance"))


@dataclass(frozen=True)
class Metric:
    """A score with what it sums: `sums(row)` of a row that counts, None of one that does not."""

    name: str
    score: Score
    sums: Any


@dataclass(frozen=True)
class Comparison:
    """Attributes:
    scores: metric -> per run its value and interval (None where there is none).
    tests: (metric, place of a run, place of another) -> difference second - first, its p, and p among all tests of
        the metric.
    """

    runs: tuple[Run, ...]
    units: int
    questions: int
    resamples: int
    scores: dict[str, list[tuple[float | None, tuple[float, float] | None]]] = field(default_factory=dict)
    tests: dict[tuple[str, int, int], tuple[float | None, float | None, float | None]] = field(default_factory=dict)

    @property
    def governance(self) -> Governance:
        return strictest(run.governance for run in self.runs)


def compare_runs(folders: Sequence[Path], resamples: int = 2000, seed: int = 0, common: bool = False) -> Comparison:
    """Score the runs with intervals, and test every pair.

    Args:
        resamples: of the bootstrap; five times as many exchanges are drawn for a test.
        common: compare on the questions that all runs have, and leave out the others.

    Raises:
        ConfigError: fewer than two runs, or no resamples.
        InputError: a run is no evaluation or has no rows; the runs are of different questions, or scored differently.
    """
    if len(folders) < 2 or resamples < 1:
        raise ConfigError(f"{len(folders)} runs, {resamples} resamples; at least 2 runs and 1 resample are needed")
    runs = name_apart([read_run(folder) for folder in folders])
    if common:
        runs = in_common(runs)
    refuse_different(runs)
    units = sorted({unit_of(row) for row in runs[0].rows.values()}, key=str)
    places = {unit: place for place, unit in enumerate(units)}
    made = Comparison(tuple(runs), len(units), len(runs[0].rows), resamples)
    for metric in track(metrics_of(runs), "Comparing, metric by metric"):
        sums = [sum_units(run, metric, places) for run in runs]
        if not any(part.any() for part in sums):
            continue
        boots = bootstrap(sums, metric.score, resamples, seed)
        values = [metric.score(part.sum(0)) for part in sums]
        made.scores[metric.name] = [(value, interval(boot)) for value, boot in zip(values, boots, strict=True)]
        pairs = list(combinations(range(len(runs)), 2))
        tested = [p_value(sums[one], sums[other], metric.score, 5 * resamples, seed) for one, other in pairs]
        for (one, other), p, among in zip(pairs, tested, holm(tested), strict=True):
            first, second = values[one], values[other]
            difference = None if first is None or second is None else second - first
            made.tests[metric.name, one, other] = (difference, p, among)
    return made


def read_run(place: Path) -> Run:
    """A run from its folder, or from the scored rows of one of its conditions.

    Raises:
        InputError: results or rows are missing or broken.
    """
    scored = place if place.suffix == ".jsonl" else place / "scored.jsonl"
    suffix = scored.stem.removeprefix("scored")
    results = read_object(scored.parent / f"results{suffix}.json", "name a folder that medvqa-hub evaluate wrote")
    if results.get("kind") not in (CXR, MEDDQA):
        raise InputError(f"{scored.parent}: results of kind {results.get('kind')!r}; allowed: {CXR}, {MEDDQA}")
    if not scored.is_file():
        raise InputError(f"{scored}: no such file; {REMEDY}")
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(scored.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            rows[str(row.get("qa_id", row.get("id")))] = row
        except (ValueError, AttributeError):
            raise InputError(f"{scored}, line {number}: no row of scores; {REMEDY}") from None
    if not rows:
        raise InputError(f"{scored}: no rows; {REMEDY}")
    name = str(results["model"].get("name"))
    return Run(name if not suffix else f"{name}, {suffix[1:]} images", scored.parent, results, rows)


def name_apart(runs: Sequence[Run]) -> list[Run]:
    """The runs with names of their own: models of one name are told apart by their folders."""
    names = [run.name for run in runs]
    return [
        run if names.count(run.name) == 1 else Run(f"{run.name} ({run.folder.name})", run.folder, run.results, run.rows)
        for run in runs
    ]


def in_common(runs: Sequence[Run]) -> list[Run]:
    """The runs with the questions that all of them have. Raises InputError where there is none."""
    shared = set.intersection(*(set(run.rows) for run in runs))
    if not shared:
        raise InputError(f"{', '.join(str(run.folder) for run in runs)}: no question is in all of them")
    return [
        Run(run.name, run.folder, run.results, {id: row for id, row in run.rows.items() if id in shared})
        for run in runs
    ]


def refuse_different(runs: Sequence[Run]) -> None:
    """Raise an InputError that names how runs differ in questions, references or scoring."""
    first = runs[0]
    for other in runs[1:]:
        pair = f"{first.folder} and {other.folder}"
        if first.kind != other.kind:
            raise InputError(f"{pair}: evaluations of {first.kind} and {other.kind} are not compared")
        both = ((first, other), (other, first))
        lacking = [(one, [id for id in two.rows if id not in one.rows]) for one, two in both]
        said = [f"{run.folder} lacks {len(ids)} ({', '.join(ids[:NAMED])}, …)" for run, ids in lacking if ids]
        if said:
            raise InputError(f"{pair} are of different questions: {'; '.join(said)}; --common leaves them out")
        for name in ("question", "answer" if first.kind == MEDDQA else "reference"):
            changed = [id for id, row in first.rows.items() if row.get(name) != other.rows[id].get(name)]
            if changed:
                raise InputError(
                    f"{pair}: the {name} of {len(changed)} questions differs ({', '.join(changed[:NAMED])}, …)"
                )
        ways = [_scored_with(run.results) for run in (first, other)]
        differing = [name for name in ways[0] if ways[0][name] != ways[1].get(name)]
        if differing:
            said = [f"{name} {ways[0][name]!r} and {ways[1].get(name)!r}" for name in differing]
            raise InputError(f"{pair} are scored differently: {'; '.join(said)}; evaluate one of them again")


def _scored_with(results: Mapping[str, Any]) -> dict[str, Any]:
    if results["kind"] == MEDDQA:
        return {name: results["scores"].get(name) for name in ("profile", "units")}
    described = results["scored_with"]
    return {name: described.get(name) for name in ("profile", "tokenizer", "bertscore_settings", "baseline_source")}


def unit_of(row: Mapping[str, Any]) -> Any:
    """What is drawn: the study, or the image."""
    return row["study_id"] if "study_id" in row else row["img_path"]


def sum_units(run: Run, metric: Metric, places: Mapping[Any, int]) -> np.ndarray:
    """(units, k) sums of the rows that count."""
    counted = [(unit_of(row), metric.sums(row)) for row in run.rows.values()]
    width = max((len(sums) for _, sums in counted if sums is not None), default=2)
    totals = np.zeros((len(places), width))
    for unit, sums in counted:
        if sums is not None:
            totals[places[unit]] += sums
    return totals


def metrics_of(runs: Sequence[Run]) -> list[Metric]:
    """The metrics that the runs' rows hold."""
    if runs[0].kind == MEDDQA:
        return [Metric(f"{column} {name}", mean_score, _of_column(column, name)) for column, name in TABLE_5]
    rows = [row for run in runs for row in run.rows.values()]
    made = [Metric(f"bleu_{n + 1}", _bleu(n), _bleu_sums) for n in range(ORDER) if _there(rows, f"bleu_{n + 1}")]
    values = [name for name in TEXT_COLUMNS if not name.startswith("bleu") and _there(rows, name)]
    made += [Metric(name, mean_score, _of_text(name)) for name in values]
    if any(row.get("label_value") in SCORED_LABELS for row in rows):
        made.append(Metric("finding accuracy", mean_score, _finding))
    if any("closed_accuracy" in row for row in rows):
        made += [Metric(name.replace("_", " "), mean_score, _of_short(name, only)) for name, only in SHORT.items()]
    return made


def _there(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(row.get(name) is not None for row in rows)


def _has_reference(row: Mapping[str, Any]) -> bool:
    return bool((row.get("reference") or "").strip())


def _of_text(name: str) -> Any:
    return lambda row: (row.get(name) or 0.0, 1.0) if _has_reference(row) else None


def _of_column(column: str, name: str) -> Any:
    """A row of the column of Table 5; its score is None where the answer is empty."""

    def sums(row: Mapping[str, Any]) -> tuple[float, float] | None:
        counts = find_column(row["task"], row["answer_type"]) == column and row[name] is not None
        return (row[name], 1.0) if counts else None

    return sums


def _of_short(name: str, only: str | None) -> Any:
    """A measure of the rows of one answer type, or of all."""
    return lambda row: (row[name] or 0.0, 1.0) if _has_reference(row) and only in (None, row["answer_type"]) else None


def _finding(row: Mapping[str, Any]) -> tuple[float, float] | None:
    if row["category"] == HEART or row.get("label_value") not in SCORED_LABELS:
        return None
    return float(row.get("polarity") == row["label_value"]), 1.0


def _bleu_sums(row: Mapping[str, Any]) -> list[float] | None:
    if not _has_reference(row):
        return None
    matched, guessed, length, closest = count_pair(
        row.get("in_words", row.get("answer")) or "", [row["reference"]], words
    )
    return [*matched, *guessed, length, closest]


def _bleu(n: int) -> Score:
    def score(sums: np.ndarray) -> float | None:
        if not sums[-1]:
            return None
        return combine_counts(sums[:ORDER], sums[ORDER : 2 * ORDER], sums[-2], sums[-1])[n]

    return score
