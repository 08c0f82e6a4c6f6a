"""Answers of runs beside the reference answers, compared by polarity.

A run is the output folder of `medvqa-hub evaluate cxr` or its `predictions.jsonl`. Two answers differ if one affirms
a finding that the other denies or calls uncertain (`answer_polarity`), whatever the wording. Undecided answers are not
compared. A failed answer is a difference of its own.
"""

from collections.abc import Iterable
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore
from medvqa_hub.evaluation.run_class import stated_class
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.schema import HEART

DIFFERENCES = {
    "from reference": "a run contradicts the reference",
    "from label": "a run contradicts the label",
    "between runs": "two runs contradict each other",
    "failed": "a run has no answer",
}
FAILED, ABSENT = "failed", "absent"  # besides the polarities: no answer, or never asked


class Run:
    """The predictions of one run.

    A file may hold several answers to a question: about the study's own images, another patient's, or none
    (`--shuffle-images`, `--blank-images`). Its content key, which needs the images, identifies the first one.

    Attributes:
        name: name of the folder or file.
        governance: class of the predictions.

    Raises:
        InputError: the file does not exist or does not hold predictions.
    """

    def __init__(self, path: Path) -> None:
        file = path / FILE if path.is_dir() else path
        self.name = path.name if path.is_dir() else path.stem
        self.governance = read_store_class(file)
        self._store = PredictionStore(file, self.governance, read_only=True)
        self._found: dict[str, list[Prediction]] = {}
        for prediction in self._store.predictions():
            self._found.setdefault(prediction.id, []).append(prediction)

    def __len__(self) -> int:
        return len(self._found)

    def find(
        self, qa_id: str, images: Iterable[str] | None, views: Iterable[str | None], question: str
    ) -> Prediction | None:
        """The answer to a question about a study's own images. None without an answer, or if it is ambiguous.

        Args:
            images: digests of the study's images. None if they cannot be read.
        """
        found = self._found.get(qa_id, [])
        if len(found) < 2:
            return found[0] if found else None
        if images is None:
            return None
        key = self._store.key(images=list(images), views=list(views), question=question)
        return next((prediction for prediction in found if prediction.key == key), None)

    def has(self, qa_id: str) -> bool:
        """Whether the run holds an answer to the question."""
        return qa_id in self._found

    def is_ambiguous(self, qa_id: str) -> bool:
        """Whether there are several answers to a question."""
        return len(self._found.get(qa_id, [])) > 1


def open_runs(paths: Iterable[Path]) -> tuple[Run, ...]:
    """Open runs and give them different names. Raises InputError if one cannot be read."""
    runs = tuple(Run(path) for path in paths)
    for number, run in enumerate(runs, start=1):
        if run.name in {other.name for other in runs[: number - 1]}:
            run.name = f"{run.name} ({number})"
    return runs


def classify(prediction: Prediction | None, category: str) -> str:
    """The polarity of an answer, FAILED or ABSENT."""
    if prediction is None:
        return ABSENT
    return FAILED if prediction.answer is None else get_polarity(prediction.answer, category)


def get_polarity(answer: str | None, category: str) -> str:
    """The polarity of an answer. Always `undecided` for Heart, whose label does not name a finding."""
    return UNDECIDED if category == HEART or answer is None else answer_polarity(answer, category)


def differs(difference: str, polarities: Iterable[str], reference: str, label: str) -> bool:
    """Whether the answers of runs to a question differ in a way (one of DIFFERENCES)."""
    polarities = list(polarities)
    if difference == "failed":
        return FAILED in polarities
    decided = {value for value in polarities if value not in (FAILED, ABSENT, UNDECIDED)}
    if difference == "between runs":
        return len(decided) > 1
    other = reference if difference == "from reference" else label
    return other not in (UNDECIDED, "not_mentioned") and bool(decided - {other})


def read_store_class(file: Path) -> Governance:
    """The class in the header of a store."""
    if (found := stated_class(file)) is not None:
        return found
    raise InputError(f"{file} does not hold predictions. Pass the output folder of medvqa-hub evaluate cxr.")
