"""Predictions of runs beside the reference answers: found by the question's id, compared by what they say.

A run is the folder of `medvqa-hub evaluate cxr`, or its `predictions.jsonl`. Two answers differ where one affirms what
the other denies or doubts (`answer_polarity`); wording is no difference, and where either says neither, nothing is
said. A failed answer is a difference of its own, never an answer.
"""

from collections.abc import Iterable
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore, stated_class
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.schema import HEART

DIFFERENCES = {
    "from reference": "a run says another thing than the reference",
    "from label": "a run says another thing than the label",
    "between runs": "two runs say different things",
    "failed": "a run has no answer",
}
FAILED, ABSENT = "failed", "absent"  # what a run says of a row besides the polarities: no answer, or never asked


class Run:
    """The predictions of one run, read when they are looked at.

    One file may hold several answers to a question: to the study's own images, to another patient's, to none
    (`--shuffle-images`, `--blank-images`). The own one is known by its content key, which needs the images.

    Attributes:
        name: the folder's name, or the file's.
        governance: class of the predictions.

    Raises:
        InputError: there is no such file, or it holds no predictions.
    """

    def __init__(self, path: Path) -> None:
        file = path / FILE if path.is_dir() else path
        self.name = path.name if path.is_dir() else path.stem
        self.governance = class_of_store(file)
        self._store = PredictionStore(file, self.governance, read_only=True)
        self._found: dict[str, list[Prediction]] = {}
        for prediction in self._store.predictions():
            self._found.setdefault(prediction.id, []).append(prediction)

    def __len__(self) -> int:
        return len(self._found)

    def find(
        self, qa_id: str, images: Iterable[str] | None, views: Iterable[str | None], question: str
    ) -> Prediction | None:
        """The answer to a question about a study's own images; None where there is none, or it is not known which.

        Args:
            images: digests of the study's images; None where they cannot be read.
        """
        found = self._found.get(qa_id, [])
        if len(found) < 2:
            return found[0] if found else None
        if images is None:
            return None
        key = self._store.key(images=list(images), views=list(views), question=question)
        return next((prediction for prediction in found if prediction.key == key), None)

    def has(self, qa_id: str) -> bool:
        """Whether the run was asked that question."""
        return qa_id in self._found

    def is_ambiguous(self, qa_id: str) -> bool:
        """Whether there are several answers to a question."""
        return len(self._found.get(qa_id, [])) > 1


def open_runs(paths: Iterable[Path]) -> tuple[Run, ...]:
    """The runs at `paths`, with different names. Raises InputError."""
    runs = tuple(Run(path) for path in paths)
    for number, run in enumerate(runs, start=1):
        if run.name in {other.name for other in runs[: number - 1]}:
            run.name = f"{run.name} ({number})"
    return runs


def says(prediction: Prediction | None, category: str) -> str:
    """What a run says of a row: a polarity, FAILED or ABSENT."""
    if prediction is None:
        return ABSENT
    return FAILED if prediction.answer is None else polarity_of(prediction.answer, category)


def polarity_of(answer: str | None, category: str) -> str:
    """What an answer says of its category; `undecided` of Heart, whose label speaks of no finding."""
    return UNDECIDED if category == HEART or answer is None else answer_polarity(answer, category)


def differs(difference: str, said: Iterable[str], reference: str, label: str) -> bool:
    """Whether runs that say `said` of a row differ in that way (one of DIFFERENCES)."""
    said = list(said)
    if difference == "failed":
        return FAILED in said
    decided = {value for value in said if value not in (FAILED, ABSENT, UNDECIDED)}
    if difference == "between runs":
        return len(decided) > 1
    other = reference if difference == "from reference" else label
    return other not in (UNDECIDED, "not_mentioned") and bool(decided - {other})


def class_of_store(file: Path) -> Governance:
    """The class in a store's first line."""
    if (found := stated_class(file)) is not None:
        return found
    raise InputError(f"{file}: no predictions there; name the folder of medvqa-hub evaluate cxr --out")
