"""Measure how much of a model's answers occurs verbatim in its training reports. Reports numbers, not text.

The distinct 8-word phrases of the answers (`phrases.py`) are looked up in the reports of the training split and in
held-out reports (other splits, without the studies of the questions). Common phrases occur in both, memorised ones only
in training reports. The check measures

- the share of phrases in all training reports, in a random sample of them as large as the held-out set, and in
  held-out reports;
- the share in the reports of exactly one training patient and in no held-out report;
- the lengths of the longest verbatim runs.

It only finds verbatim text in the answers to the given questions.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_core.runs.predictions import PredictionStore
from medvqa_hub.publishing.phrases import PHRASE, Phrases, longest_runs
from medvqa_hub.publishing.results import names_model
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.workspace import Workspace

RUNS_SHOWN = 5
TRAIN = "train"
SECTIONS = ("indication", "findings", "impression")


@dataclass(frozen=True)
class Reports:
    """Texts of reports, with the patient of each."""

    texts: Sequence[str]
    patients: Sequence[int]


@dataclass(frozen=True)
class Memorisation:
    """The result of `check`. Shares refer to the distinct phrases of the answers.

    Attributes:
        longest: words in the longest verbatim runs in training reports, in descending order. 0 means fewer than 8.
        longest_held_out: the same for held-out reports.
        asked: number of questions.
        cut: number of answers that reached the token limit.
    """

    answers: int
    phrases: int
    training_reports: int
    held_out_reports: int
    in_training: float
    in_training_at_equal_size: float
    in_held_out: float
    of_one_patient: float
    longest: tuple[int, ...]
    longest_held_out: tuple[int, ...]
    asked: int = 0
    cut: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check(answers: Sequence[str], training: Reports, held_out: Reports, seed: int = 0) -> Memorisation:
    """Compare answers with reports.

    Raises:
        InputError: answers of 8 words, training reports or held-out reports are missing.
    """
    distinct = sorted(set(answers))
    own = Phrases(distinct)
    wanted = own.distinct()
    if not len(wanted) or not training.texts or not held_out.texts:
        raise InputError(
            f"memorisation cannot be checked with {len(distinct)} different answers ({len(wanted)} phrases of {PHRASE} "
            f"words), {len(training.texts)} training reports and {len(held_out.texts)} held-out reports. Evaluate the "
            "test split (medvqa-hub evaluate cxr) and pass the workspace of the training data."
        )
    train, held = Phrases(training.texts), Phrases(held_out.texts)
    size = min(len(training.texts), len(held_out.texts))
    drawn = np.random.default_rng(seed).choice(len(training.texts), size, replace=False)
    in_held_out = np.isin(wanted, held.distinct())
    return Memorisation(
        answers=len(distinct),
        phrases=len(wanted),
        training_reports=len(training.texts),
        held_out_reports=len(held_out.texts),
        in_training=_share(np.isin(wanted, train.distinct())),
        in_training_at_equal_size=_share(np.isin(wanted, Phrases(training.texts[i] for i in sorted(drawn)).distinct())),
        in_held_out=_share(in_held_out),
        of_one_patient=_share(np.isin(wanted, _from_one_patient(train, training.patients, wanted)) & ~in_held_out),
        longest=_longest(longest_runs(own, train, len(distinct))),
        longest_held_out=_longest(longest_runs(own, held, len(distinct))),
    )


def _share(found: np.ndarray) -> float:
    return round(float(found.mean()), 4)


def _longest(lengths: np.ndarray) -> tuple[int, ...]:
    return tuple(int(length) for length in sorted(lengths, reverse=True)[:RUNS_SHOWN])


def _from_one_patient(train: Phrases, patients: Sequence[int], wanted: np.ndarray) -> np.ndarray:
    """The phrases in `wanted` that occur in the reports of exactly one patient."""
    starts = train.starts()
    hashes = train.hashes(starts)
    kept = np.isin(hashes, wanted)
    owners = np.asarray(patients, np.int64)[train.text[starts[kept]]]
    pairs = np.unique(np.stack([hashes[kept], owners.astype(np.uint64)]), axis=1)
    phrases, counts = np.unique(pairs[0], return_counts=True)
    return phrases[counts == 1]


def check_predictions(predictions: Path, workspace: Path, fingerprint: str, governance: Governance) -> Memorisation:
    """Run `check` on a predictions file of `evaluate cxr` and the workspace of the training data.

    Args:
        fingerprint: fingerprint of the model that must have made the predictions.
        governance: class of that model.

    Raises:
        InputError: a file cannot be read, the predictions are from another model, or too few questions have answers.
        GovernanceError: the class of the workspace is below its minimum.
    """
    governance = strictest([governance, Workspace(workspace).governance()])
    with PredictionStore(predictions, governance, read_only=True) as store:
        model = store.settings.get("revision") or store.settings.get("model")  # engine, or one of our checkpoints
        if not names_model(model, fingerprint):
            raise InputError(
                f"{predictions} holds the answers of another model ({model}, expected {fingerprint}). Run medvqa-hub "
                "evaluate cxr with the model that is pushed."
            )
        made = list(store.predictions())
    answered = [(prediction.id, prediction.answer) for prediction in made if prediction.answer]
    if 2 * len(answered) < len(made):
        raise InputError(
            f"{predictions} has answers to {len(answered)} of {len(made)} questions, which is too few. Run medvqa-hub "
            "evaluate cxr again with --retry-failed."
        )
    asked = {_read_study_id(id, predictions) for id, _ in answered}
    rows = _read_reports(workspace)
    training = [row for row in rows if row["split"] == TRAIN]
    held_out = [row for row in rows if row["split"] != TRAIN and row["study_id"] not in asked]
    found = check([answer for _, answer in answered], _side(training), _side(held_out))
    return replace(found, asked=len(made), cut=sum(bool(prediction.details.get("truncated")) for prediction in made))


def report_phrases(workspace: Path) -> Phrases:
    """The phrases of all reports of a workspace, for the scan before a push."""
    return Phrases(_join_sections(row) for row in _read_reports(workspace))


def _read_reports(workspace: Path) -> list[dict[str, Any]]:
    table = read_table(Workspace(workspace).questions / "studies.parquet")
    return table.select(["subject_id", "study_id", "split", *SECTIONS]).to_pylist()


def _side(rows: list[dict[str, Any]]) -> Reports:
    return Reports([_join_sections(row) for row in rows], [row["subject_id"] for row in rows])


def _join_sections(row: dict[str, Any]) -> str:
    """The sections of a report."""
    return "\n".join(row[name] for name in SECTIONS if row[name])


def _read_study_id(id: str, path: Path) -> int:
    study = id.removeprefix("s").partition("-")[0]
    if not study.isdigit():
        raise InputError(f"{path}: {id!r} is not a question id. Pass the predictions of medvqa-hub evaluate cxr.")
    return int(study)
