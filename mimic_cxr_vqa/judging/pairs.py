"""The question-answer pairs of a build, grouped by study, each with the text that it was answered from."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from medvqa_core.digests import digest
from medvqa_core.errors import InputError
from mimic_cxr_vqa.generation.answer_keys import answer_keys, iterate_keyed, iterate_rows, open_answers
from mimic_cxr_vqa.generation.answer_request import AS_CONTEXT, IMPRESSION, AnswerRequest
from mimic_cxr_vqa.workspace import Workspace


@dataclass(frozen=True)
class Pair:
    """A question and its answer.

    Attributes:
        request: the question with its report. The impression is only set if the engine knew it.
        label_value: the label of the question's category (`schema.LABEL_VALUES`).
        images: paths relative to the image root.
    """

    request: AnswerRequest
    answer: str
    label_value: str
    images: tuple[str, ...]

    @property
    def id(self) -> str:
        """The qa_id."""
        return self.request.qa_id


def iterate_pairs(workspace: Workspace, studies: Collection[int] | None = None) -> Iterator[list[Pair]]:
    """Yield the answered questions of one study after another.

    Args:
        studies: ids of the studies to include. Defaults to all.

    Raises:
        InputError: answers are missing, or the files cannot be read.
    """
    with open_answers(workspace, workspace.governance()) as store:
        knows_impression = store.settings.get(IMPRESSION) == AS_CONTEXT
        keys = answer_keys(workspace, store.settings, save=False)
        columns = iterate_rows(workspace, "questions", "label_value", "images")
        for requests in iterate_keyed(workspace, store.settings, keys):
            rows = [next(columns) for _ in requests]
            if studies is not None and next(iter(requests.values())).study_id not in studies:
                continue
            study = []
            for (key, request), (label_value, images) in zip(requests.items(), rows, strict=True):
                found = store.find(key)
                if found is not None and found.answer is not None:
                    known = request if knows_impression else replace(request, impression=None)
                    study.append(Pair(known, found.answer, label_value, tuple(images)))
            if study:
                yield study


def sample_studies(workspace: Workspace, reports: int, seed: int) -> list[int]:
    """The sorted ids of `reports` random studies with questions, or of all if there are fewer.

    A larger sample with the same seed contains the smaller one, so that existing verdicts are reused.
    """
    ids = {study_id for (study_id,) in iterate_rows(workspace, "questions", "study_id")}
    drawn = sorted(ids, key=lambda study_id: digest(f"{seed}/{study_id}"))[:reports]
    return sorted(drawn)


def writer_settings(workspace: Workspace) -> dict:
    """The settings of the engine that wrote the answers. Raises InputError if answers are missing."""
    with open_answers(workspace, workspace.governance()) as store:
        return dict(store.settings)


def require_pairs(pairs: list[Pair], workspace: Workspace) -> list[Pair]:
    """Return `pairs`. Raises InputError if there are none."""
    if not pairs:
        raise InputError(
            f"{workspace.root}: none of the selected studies has an answer. Run: medvqa-hub cxr answer --out "
            f"{workspace.root}"
        )
    return pairs
