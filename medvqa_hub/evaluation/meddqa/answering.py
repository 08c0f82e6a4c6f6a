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
from typing import TYPE_CHECKING

from medvqa_core.digests import digest_files
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.asking import ask_all
from medvqa_core.runs.predictions import Prediction, PredictionStore
from rjua_meddqa.answering.engines import DocumentEngine, DocumentRequest
from rjua_meddqa.answering.questions import DocumentQuestion, by_image

if TYPE_CHECKING:
    from rjua_meddqa.restoration.pages import Page

NO_IMAGE = "the image is not there"


@dataclass(frozen=True)
class ImageSet:
    """What is known of the images before anything is asked.

    Attributes:
        pages: restored text by file, where the engine reads text.
        unreadable: why a file cannot be read.
    """

    pages: Mapping[Path, "Page"] = field(default_factory=dict)
    unreadable: Mapping[Path, str] = field(default_factory=dict)

    def problem(self, image: Path | None) -> str | None:
        """Why nothing can be asked about `image`; None where it can."""
        return NO_IMAGE if image is None else self.unreadable.get(image)


def answer_questions(
    engine: DocumentEngine,
    asked: Sequence[DocumentQuestion],
    images: ImageSet,
    path: Path,
    governance: Governance,
    retry_failed: bool = False,
) -> tuple[list[Prediction], int]:
    """A prediction per row of `asked`, in its order, and how many requests were made now.

    Args:
        path: of the predictions; each image's replies are synced there before they count.
        retry_failed: make requests again that failed.

    Raises:
        ConfigError: the predictions there were made with other settings.
        GovernanceError: they are of a stricter class.
        InputError: an image file vanished, or a recorded line is broken.
        OutputError: they cannot be written.
    """
    readable = [row.image for row in asked if images.problem(row.image) is None]
    digests = digest_files(readable, "Reading images' content")
    with PredictionStore(path, governance, engine.settings) as store:
        keys = {row.id: _key(store, row, digests, images) for row in asked}
        groups = by_image(asked).values()
        new = ask_all(
            # by key: the same question twice is asked once
            ({keys[row.id]: _request(row, images) for row in rows} for rows in groups),
            partial(_answer, engine, images),
            store,
            in_flight=engine.in_flight,
            description="Answering, image by image",
            total=len(groups),
            retry_failed=retry_failed,
        )
        return [replace(store.find(keys[row.id]), id=row.id) for row in asked], new


def _key(store: PredictionStore, row: DocumentQuestion, digests: Mapping[Path, str], images: ImageSet) -> str:
    """Depends on all that the answer depends on; a missing image that turns up makes a new request."""
    page = images.pages.get(row.image)
    return store.key(
        image=digests.get(row.image),
        problem=images.problem(row.image),
        text=None if page is None else page.restored.text,
        question=row.question,
        task=row.task,
        answer_type=row.answer_type,
        context=row.context,
    )


async def _answer(engine: DocumentEngine, images: ImageSet, requests: Sequence[DocumentRequest]) -> list[Reply]:
    """The engine's replies about one image. Raises InputError, which fails them all, where the image has a problem."""
    problem = images.problem(requests[0].image)
    if problem is not None:
        raise InputError(problem)
    return await engine.answer(requests)


def _request(row: DocumentQuestion, images: ImageSet) -> DocumentRequest:
    page = images.pages.get(row.image)
    return DocumentRequest(row.id, row.image, row.question, row.task, row.answer_type, row.context, page)
