"""Asking an engine about report images: an image's questions together, every reply recorded, resumable at any moment.

What becomes of a request, by whose fault it is:

    the image is missing or cannot be read, or the engine raises InputError   all its questions fail, with the reason
    a reply says why it has no answer                                        this question fails, with that reason
    the engine raises anything else (no server, a defect)                     the run stops; what is recorded is kept

A failure is a record without an answer, scores 0, and is asked again with `retry_failed` or when the image changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa_core.digests import digest_files
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import Prediction, PredictionStore
from rjua_meddqa.inference.engines import DocumentEngine, DocumentRequest, Shot
from rjua_meddqa.inference.language_model import record_details
from rjua_meddqa.inference.questions import DocumentQuestion, by_image

if TYPE_CHECKING:
    from rjua_meddqa.restoration.pages import Page

GROUPS_A_SYNC = 16  # under way for each that a sync waits for: a sync holds all of them up
NO_IMAGE = "the image is not there"


@dataclass(frozen=True)
class ImageSet:
    """What is known of the images before anything is asked.

    Attributes:
        pages: restored text by file, where the engine reads text.
        unreadable: why a file cannot be read.
        needed: whether answers are made from the images at all; those of a file are there without.
    """

    pages: Mapping[Path, "Page"] = field(default_factory=dict)
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    needed: bool = True

    def problem(self, image: Path | None) -> str | None:
        """Why nothing can be asked about `image`; None where it can."""
        if not self.needed:
            return None
        return NO_IMAGE if image is None else self.unreadable.get(image)


def answer_questions(
    engine: DocumentEngine,
    asked: Sequence[DocumentQuestion],
    images: ImageSet,
    path: Path,
    governance: Governance,
    retry_failed: bool = False,
    shots: Mapping[str, Sequence[DocumentQuestion]] | None = None,
) -> tuple[list[Prediction], int]:
    """A prediction per row of `asked`, in its order, and how many requests were made now.

    Args:
        path: of the predictions; each image's replies are synced there before they count.
        retry_failed: make requests again that failed.
        shots: examples that stand before a row's question, by its id.

    Raises:
        ConfigError: the predictions there were made with other settings.
        GovernanceError: they are of a stricter class.
        InputError: an image file vanished, or a recorded line is broken.
        OutputError: they cannot be written.
    """
    digests = digest_readable(asked, images)
    examples = shots or {}
    with PredictionStore(path, governance, engine.settings) as store:
        keys = {row.id: _key(store, engine, row, digests, images, examples.get(row.id, ())) for row in asked}
        groups = by_image(asked).values()
        new = ask_all(
            # by key: the same question twice is asked once
            ({keys[row.id]: _request(row, images, examples.get(row.id, ())) for row in rows} for rows in groups),
            partial(_answer, engine, images),
            store,
            in_flight=engine.in_flight,
            description="Answering, image by image",
            total=len(groups),
            groups_per_sync=max(1, engine.in_flight // GROUPS_A_SYNC),
            retry_failed=retry_failed,
            review=record_details,
            session=engine,
        )
        return [replace(store.find(keys[row.id]), id=row.id) for row in asked], new


def digest_readable(rows: Sequence[DocumentQuestion], images: ImageSet) -> dict[Path, str]:
    """Digests of the images that can be read, as far as is known. Raises InputError where a file vanished."""
    return digest_files(
        [row.image for row in rows if row.image is not None and images.problem(row.image) is None],
        "Reading images' content",
    )


def _key(
    store: PredictionStore,
    engine: DocumentEngine,
    row: DocumentQuestion,
    digests: Mapping[Path, str],
    images: ImageSet,
    shots: Sequence[DocumentQuestion],
) -> str:
    """Depends on all that the answer depends on; a missing image that turns up makes a new request."""
    shown = [_content(shot, digests, images) | {"answer": shot.answer} for shot in shots]
    return store.key(
        **_content(row, digests, images),
        problem=images.problem(row.image),
        task=row.task,
        answer_type=row.answer_type,
        **engine.asked_as(_request(row, images, ())),
        **({"shots": shown} if shown else {}),
    )


def _content(row: DocumentQuestion, digests: Mapping[Path, str], images: ImageSet) -> dict[str, Any]:
    page = images.pages.get(row.image)
    return {
        "image": digests.get(row.image),
        "text": None if page is None else page.restored.text,
        "question": row.question,
        "context": row.context,
    }


async def _answer(engine: DocumentEngine, images: ImageSet, requests: Sequence[DocumentRequest]) -> list[Reply]:
    """The engine's replies about one image. Raises InputError, which fails them all, where the image has a problem."""
    problem = images.problem(requests[0].image)
    if problem is not None:
        raise InputError(problem)
    return await engine.answer(requests)


def _request(row: DocumentQuestion, images: ImageSet, shots: Sequence[DocumentQuestion]) -> DocumentRequest:
    page = images.pages.get(row.image)
    examples = tuple(Shot(_request(shot, images, ()), shot.answer) for shot in shots)
    return DocumentRequest(row.id, row.image, row.question, row.task, row.answer_type, row.context, page, examples)
