"""How much of what a model says stands word for word in the reports that it was trained on. Numbers only, no text.

A model's answers (a predictions file) are compared with the reports of the workspace that its data was built in:
the training split's, and the held-out ones: of other splits, of studies that the model was not asked about. Phrases of
8 words (`phrases.py`), each counted once. Everybody's phrases stand in both; what a model has memorised stands in the
training reports alone. So the check gives

- the share of the answers' phrases that stand in training reports, in as many training reports as there are held-out
  ones (drawn, seed 0), and in the held-out ones: the first is what there is, the other two can be compared;
- the share that stands in reports of one training patient and in no held-out report: the likeliest to be that person's;
- the lengths of the longest verbatim runs.

It finds what is said again word for word to the questions that were asked. It shows no more than that.
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
from medvqa_hub.publishing.results import is_of
from mimic_cxr_vqa.parquet_files import read_table
from mimic_cxr_vqa.workspace import Workspace

RUNS_SHOWN = 5
TRAIN = "train"
SECTIONS = ("indication", "findings", "impression")


@dataclass(frozen=True)
class Reports:
    """Reports of one side.

    Attributes:
        texts: one for each report.
        patients: whose they are.
    """

    texts: Sequence[str]
    patients: Sequence[int]


@dataclass(frozen=True)
class Memorisation:
    """The result of `check`; shares are of the answers' distinct phrases.

    Attributes:
        asked: questions that the answers are to, and `cut` of their answers at the limit of tokens; 0: not told.
        longest: words in the longest verbatim runs of answers in training reports, longest first; 0: below 8.
        longest_held_out: the same in held-out reports.
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
        InputError: there are no answers of 8 words, or no reports on one of the sides: nothing can be compared.
    """
    distinct = sorted(set(answers))
    said = Phrases(distinct)
    wanted = said.distinct()
    if not len(wanted) or not training.texts or not held_out.texts:
        raise InputError(
            f"memorisation cannot be checked: {len(distinct)} different answers with {len(wanted)} phrases of {PHRASE} "
            f"words, {len(training.texts)} training reports, {len(held_out.texts)} held-out reports; answer the test "
            "split's questions (medvqa-hub evaluate cxr) and name the workspace that the training data was built in"
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
        of_one_patient=_share(np.isin(wanted, _of_one_patient(train, training.patients, wanted)) & ~in_held_out),
        longest=_longest(longest_runs(said, train, len(distinct))),
        longest_held_out=_longest(longest_runs(said, held, len(distinct))),
    )


def _share(found: np.ndarray) -> float:
    return round(float(found.mean()), 4)


def _longest(lengths: np.ndarray) -> tuple[int, ...]:
    return tuple(int(length) for length in sorted(lengths, reverse=True)[:RUNS_SHOWN])


def _of_one_patient(train: Phrases, patients: Sequence[int], wanted: np.ndarray) -> np.ndarray:
    """Those of `wanted` that stand in reports of exactly one patient."""
    starts = train.starts()
    hashes = train.hashes(starts)
    kept = np.isin(hashes, wanted)
    owners = np.asarray(patients, np.int64)[train.text[starts[kept]]]
    pairs = np.unique(np.stack([hashes[kept], owners.astype(np.uint64)]), axis=1)
    phrases, counts = np.unique(pairs[0], return_counts=True)
    return phrases[counts == 1]


def check_predictions(predictions: Path, workspace: Path, fingerprint: str, governance: Governance) -> Memorisation:
    """`check` for a predictions file of `evaluate cxr` and the workspace that the training data was built in.

    Args:
        fingerprint: of the model that the predictions have to be of.
        governance: class of that model.

    Raises:
        InputError: a file is missing or cannot be read, the predictions are of another model, or there is nothing to
            compare, or most questions have no answer.
        GovernanceError: the workspace's class is below its floor.
    """
    governance = strictest([governance, Workspace(workspace).governance()])
    with PredictionStore(predictions, governance, read_only=True) as store:
        said = store.settings.get("revision") or store.settings.get("model")  # of an engine, of a checkpoint of ours
        if not is_of(said, fingerprint):
            raise InputError(
                f"{predictions} holds the answers of another model (fingerprint {said}, this "
                f"one's is {fingerprint}): run medvqa-hub evaluate cxr with this one"
            )
        made = list(store.predictions())
    spoken = [(prediction.id, prediction.answer) for prediction in made if prediction.answer]
    if 2 * len(spoken) < len(made):
        raise InputError(
            f"{predictions} has answers to {len(spoken)} of {len(made)} questions: too few to tell what the model "
            "remembers; run medvqa-hub evaluate cxr again with --retry-failed"
        )
    asked = {_study_of(id, predictions) for id, _ in spoken}
    rows = _read_reports(workspace)
    training = [row for row in rows if row["split"] == TRAIN]
    held_out = [row for row in rows if row["split"] != TRAIN and row["study_id"] not in asked]
    found = check([answer for _, answer in spoken], _side(training), _side(held_out))
    return replace(found, asked=len(made), cut=sum(bool(prediction.details.get("truncated")) for prediction in made))


def report_phrases(workspace: Path) -> Phrases:
    """The phrases of every report of a workspace, for the scan of what is to be pushed."""
    return Phrases(_text_of(row) for row in _read_reports(workspace))


def _read_reports(workspace: Path) -> list[dict[str, Any]]:
    table = read_table(Workspace(workspace).questions / "studies.parquet")
    return table.select(["subject_id", "study_id", "split", *SECTIONS]).to_pylist()


def _side(rows: list[dict[str, Any]]) -> Reports:
    return Reports([_text_of(row) for row in rows], [row["subject_id"] for row in rows])


def _text_of(row: dict[str, Any]) -> str:
    """The sections of a report that a study row has, one after the other."""
    return "\n".join(row[name] for name in SECTIONS if row[name])


def _study_of(id: str, path: Path) -> int:
    study = id.removeprefix("s").partition("-")[0]
    if not study.isdigit():
        raise InputError(f"{path}: {id!r} is no question's id; name the predictions of medvqa-hub evaluate cxr")
    return int(study)
