"""`medvqa-hub compare RUN RUN …`: evaluations on the same questions, with intervals and paired tests.

A run is a folder that `evaluate --scored` wrote, or the file of a control such as RUN/scored-shuffled.jsonl. Failed
answers count as wrong, as in `evaluate cxr --failed empty`, so that no run gains by failing at hard questions. Answers
that a metric cannot score are left out, and a paired test uses the questions that it can score in both runs. Runs with
different questions or scored in different ways are not compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import read_object
from medvqa_core.metrics.answer_text import words
from medvqa_core.metrics.bleu import ORDER, combine_counts, count_pair
from medvqa_core.metrics.caption_row import METRICS
from medvqa_core.metrics.meddqa_scores import TABLE_5, find_column
from medvqa_core.metrics.paired import Score, bootstrap, holm, interval, mean_score, p_value
from medvqa_core.progress import track
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS
from medvqa_hub.evaluation.hashes import check_hashes
from medvqa_hub.evaluation.run_class import check_stated
from mimic_cxr_vqa.answer_types import CLOSED, OPEN
from mimic_cxr_vqa.schema import HEART

CXR, MEDDQA = "cxr-evaluation", "meddqa-evaluation"
REMEDY = "Evaluate again with --scored, which keeps existing answers."
# measures of public datasets, and the answer type that they apply to
SHORT = {"closed_accuracy": CLOSED, "open_recall": OPEN, "exact": None}
BLEU = tuple(f"bleu_{n}" for n in range(1, ORDER + 1))
SETTINGS = ("profile", "tokenizer", "bertscore_settings", "baseline_source")
NAMED = 3  # ids in a message


@dataclass(frozen=True)
class Run:
    """One evaluation: its results and the rows behind them, by question id.

    Attributes:
        verified: whether the rows have the hashes in the results. False if these do not state any.
    """

    name: str
    folder: Path
    results: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]
    verified: bool = False

    @property
    def kind(self) -> str:
        return str(self.results.get("kind"))

    @property
    def governance(self) -> Governance:
        return check_stated(self.folder, self.results.get("governance"))


@dataclass(frozen=True)
class Metric:
    """A score of summed rows. `sums(row)` is None for a row that does not count."""

    name: str
    score: Score
    sums: Any


@dataclass(frozen=True)
class Comparison:
    """Attributes:
    scores: metric -> value and interval of each run.
    tests: (metric, number of a run, number of another) -> difference second - first, its p value, and its p value
        adjusted for all tests of the metric.
    left_out: the same keys -> number of questions that only one of both runs has a score for.
    """

    runs: tuple[Run, ...]
    units: int
    questions: int
    resamples: int
    scores: dict[str, list[tuple[float | None, tuple[float, float] | None]]] = field(default_factory=dict)
    tests: dict[tuple[str, int, int], tuple[float | None, float | None, float | None]] = field(default_factory=dict)
    left_out: dict[tuple[str, int, int], int] = field(default_factory=dict)

    @property
    def governance(self) -> Governance:
        return strictest(run.governance for run in self.runs)


def compare_runs(folders: Sequence[Path], resamples: int = 2000, seed: int = 0, common: bool = False) -> Comparison:
    """Score the runs with intervals, and test every pair.

    Args:
        resamples: of the bootstrap. A test draws five times as many permutations.
        common: compare the questions that all runs have, and leave out the others.

    Raises:
        ConfigError: fewer than two runs, or no resamples.
        InputError: a run is not an evaluation, or the runs differ in questions or scoring.
    """
    if len(folders) < 2 or resamples < 1:
        raise ConfigError(
            f"compare got {len(folders)} runs and {resamples} resamples. Expected at least 2 runs and 1 resample."
        )
    runs = make_names_unique([read_run(folder) for folder in folders])
    if common:
        runs = keep_common_questions(runs)
    check_comparable(runs)
    units = sorted({get_unit(row) for row in runs[0].rows.values()}, key=str)
    places = {unit: place for place, unit in enumerate(units)}
    made = Comparison(tuple(runs), len(units), len(runs[0].rows), resamples)
    for metric in track(list_metrics(runs), "Comparing, metric by metric"):
        counted = [sum_rows(run, metric) for run in runs]
        if not any(counted):
            continue
        sums = sum_units(counted, runs[0], places)
        boots = bootstrap(sums, metric.score, resamples, seed)
        values = [metric.score(part.sum(0)) for part in sums]
        made.scores[metric.name] = [(value, interval(boot)) for value, boot in zip(values, boots, strict=True)]
        differences, tested, pairs = [], [], list(combinations(range(len(runs)), 2))
        for one, other in pairs:
            both = counted[one].keys() & counted[other].keys()
            made.left_out[metric.name, one, other] = len(counted[one].keys() ^ counted[other].keys())
            parts = [{id: counted[place][id] for id in counted[place] if id in both} for place in (one, other)]
            before, after = sum_units(parts, runs[0], places)
            first, second = metric.score(before.sum(0)), metric.score(after.sum(0))
            differences.append(None if first is None or second is None else second - first)
            tested.append(p_value(before, after, metric.score, 5 * resamples, seed))
        for (one, other), *figures in zip(pairs, differences, tested, holm(tested), strict=True):
            made.tests[metric.name, one, other] = (figures[0], figures[1], figures[2])
    return made


def read_run(place: Path) -> Run:
    """Read a run from its folder, or from the scored rows of a control. Raises InputError."""
    scored = place if place.suffix == ".jsonl" else place / "scored.jsonl"
    suffix = scored.stem.removeprefix("scored")
    results = read_object(scored.parent / f"results{suffix}.json", "name a folder that medvqa-hub evaluate wrote")
    if results.get("kind") not in (CXR, MEDDQA):
        raise InputError(f"{scored.parent} has results of kind {results.get('kind')!r}. Expected {CXR} or {MEDDQA}.")
    if not scored.is_file():
        raise InputError(f"{scored} is missing. {REMEDY}")
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(scored.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            rows[str(row.get("qa_id", row.get("id")))] = row
        except (ValueError, AttributeError):
            raise InputError(f"{scored}, line {number} is broken. {REMEDY}") from None
    if not rows:
        raise InputError(f"{scored} is empty. {REMEDY}")
    verified = check_hashes(results.get("hashes"), rows.values(), scored)
    name = str(results["model"].get("name"))
    return Run(name if not suffix else f"{name}, {suffix[1:]} images", scored.parent, results, rows, verified)


def make_names_unique(runs: Sequence[Run]) -> list[Run]:
    """Add the folder to names that occur twice."""
    names = [run.name for run in runs]
    return [run if names.count(run.name) == 1 else replace(run, name=f"{run.name} ({run.folder.name})") for run in runs]


def keep_common_questions(runs: Sequence[Run]) -> list[Run]:
    """The runs with the questions that all of them have. Raises InputError without such questions."""
    shared = set.intersection(*(set(run.rows) for run in runs))
    if not shared:
        raise InputError(f"{', '.join(str(run.folder) for run in runs)} do not have common questions.")
    return [replace(run, rows={id: row for id, row in run.rows.items() if id in shared}) for run in runs]


def check_comparable(runs: Sequence[Run]) -> None:
    """Raise InputError if runs differ in questions, references or scoring."""
    first = runs[0]
    for other in runs[1:]:
        pair = f"{first.folder} and {other.folder}"
        if first.kind != other.kind:
            raise InputError(f"{pair} cannot be compared: their kinds are {first.kind} and {other.kind}.")
        both = ((first, other), (other, first))
        lacking = [(one, [id for id in two.rows if id not in one.rows]) for one, two in both]
        texts = [f"{run.folder} lacks {len(ids)} ({', '.join(ids[:NAMED])}, …)" for run, ids in lacking if ids]
        if texts:
            raise InputError(f"{pair} have different questions: {', '.join(texts)}. --common leaves them out.")
        for name in ("question", "answer" if first.kind == MEDDQA else "reference"):
            changed = [id for id, row in first.rows.items() if row.get(name) != other.rows[id].get(name)]
            if changed:
                raise InputError(
                    f"{pair} differ in the {name} of {len(changed)} questions ({', '.join(changed[:NAMED])}, …)."
                )
        settings = [_scored_with(run.results) for run in (first, other)]
        clinical = [_clinical_settings(run) for run in (first, other)]
        if all(clinical):
            settings = [{**one, **more} for one, more in zip(settings, clinical, strict=True)]
        differing = [name for name in settings[0] if settings[0][name] != settings[1].get(name)]
        if differing:
            texts = [f"{name} {settings[0][name]!r} and {settings[1].get(name)!r}" for name in differing]
            raise InputError(f"{pair} are scored differently: {', '.join(texts)}. Evaluate one of them again.")


def _scored_with(results: Mapping[str, Any]) -> dict[str, Any]:
    if results["kind"] == MEDDQA:
        return {name: results["scores"].get(name) for name in ("profile", "units")}
    described = results["scored_with"]
    return {name: described.get(name) for name in SETTINGS}


def get_unit(row: Mapping[str, Any]) -> Any:
    """The unit of the bootstrap: the study, or the image."""
    return row["study_id"] if "study_id" in row else row["img_path"]


def sum_rows(run: Run, metric: Metric) -> dict[str, Sequence[float]]:
    """The sums of each row that counts, by question id."""
    return {id: sums for id, row in run.rows.items() if (sums := metric.sums(row)) is not None}


def sum_units(
    counted: Sequence[Mapping[str, Sequence[float]]], run: Run, places: Mapping[Any, int]
) -> list[np.ndarray]:
    """(units, k) sums of each of `counted`, the rows of several runs. `run` is one of them and has the units."""
    width = max((len(sums) for rows in counted for sums in rows.values()), default=2)
    made = []
    for rows in counted:
        totals = np.zeros((len(places), width))
        for id, sums in rows.items():
            totals[places[get_unit(run.rows[id])]] += sums
        made.append(totals)
    return made


def list_metrics(runs: Sequence[Run]) -> list[Metric]:
    """The metrics in the rows of the runs."""
    if runs[0].kind == MEDDQA:
        return [Metric(f"{column} {name}", mean_score, _sum_column(column, name)) for column, name in TABLE_5]
    rows = [row for run in runs for row in run.rows.values()]
    made = [Metric(name, _bleu(n), _bleu_sums) for n, name in enumerate(BLEU) if _has_values(rows, name)]
    values = [name for name in METRICS if name not in BLEU and _has_values(rows, name)]
    made += [Metric(name, mean_score, _sum_text_score(name)) for name in (*values, *_list_clinical(runs))]
    if any(row.get("label_value") in SCORED_LABELS for row in rows):
        made.append(Metric("finding accuracy", mean_score, _finding))
    if any("closed_accuracy" in row for row in rows):
        made += [
            Metric(name.replace("_", " "), mean_score, _sum_short_answers(name, only)) for name, only in SHORT.items()
        ]
    return made


def _list_clinical(runs: Sequence[Run]) -> list[str]:
    """Clinical scores, and the challenge's, that all runs have."""
    found = [["challenge_score"] * ("challenge" in run.results) + _clinical(run).get("by_row", []) for run in runs]
    return [name for name in found[0] if all(name in names for names in found)]


def _clinical(run: Run) -> Mapping[str, Any]:
    return run.results.get("clinical", {})


def _clinical_settings(run: Run) -> dict[str, Any]:
    """How clinical scores were computed. Empty without such scores."""
    if "clinical" not in run.results:
        return {}
    chosen = run.results.get("challenge", {}).get("chosen_here")
    return {"RadEval": _clinical(run)["scored_with"]["RadEval"], "challenge": chosen}


def _has_values(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(row.get(name) is not None for row in rows)


def _has_reference(row: Mapping[str, Any]) -> bool:
    return bool((row.get("reference") or "").strip())


def _sum_text_score(name: str) -> Any:
    def sums(row: Mapping[str, Any]) -> tuple[float, float] | None:
        if row.get(name) is None:
            return (0.0, 1.0) if row["answer"] is None and _has_reference(row) else None
        return row[name], 1.0

    return sums


def _sum_column(column: str, name: str) -> Any:
    """Rows of a column of Table 5. The score of an empty answer is None."""

    def sums(row: Mapping[str, Any]) -> tuple[float, float] | None:
        counts = find_column(row["task"], row["answer_type"]) == column and row[name] is not None
        return (row[name], 1.0) if counts else None

    return sums


def _sum_short_answers(name: str, only: str | None) -> Any:
    """A measure of the rows of one answer type, or of all rows."""
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
        return combine_counts(sums[:ORDER].tolist(), sums[ORDER : 2 * ORDER].tolist(), sums[-2], sums[-1])[n]

    return score
