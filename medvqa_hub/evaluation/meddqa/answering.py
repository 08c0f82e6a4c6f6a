"""Asking an engine about report images: an image's questions together, every reply recorded, resumable at any moment.

What becomes of a request, by whose fault it is:

    the image is missing or cannot be read, or the engine raises InputError   all its questions fail, with the reason
    a reply says why it has no answer                                        this question fails, with that reason
    the engine raises anything else (no server, a defect)                     the run stops; what is recorded is kept

A failure is a record without an answer, scores 0, and is asked again with `retry_failed` or when the image changes.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.errors import InputError, one_line
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_hub.evaluation.predictions import Prediction, PredictionStore, digest_files
from rjua_meddqa.answering.engines import DocumentEngine, DocumentReply, DocumentRequest
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
        new = 0

        def open_rows() -> Iterator[dict[str, DocumentQuestion]]:
            """By key: the same question twice is asked once."""
            nonlocal new
            for rows in track(groups, "Answering, image by image", total=len(groups)):
                todo = {keys[row.id]: row for row in rows if store.is_open(keys[row.id], retry_failed)}
                if todo:
                    new += len(todo)
                    yield todo

        asyncio.run(_ask_all(open_rows(), engine, images, store))
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


async def _ask_all(
    groups: Iterator[dict[str, DocumentQuestion]], engine: DocumentEngine, images: ImageSet, store: PredictionStore
) -> None:
    """Keep the engine's number of images under way; append finished ones in order, whatever finishes first."""
    under_way: deque[asyncio.Task[list[Prediction]]] = deque()

    async def finish_first() -> None:
        predictions = await under_way[0]
        under_way.popleft()
        store.append(predictions)

    try:
        for rows in groups:
            under_way.append(asyncio.create_task(_ask(engine, rows, images)))
            if len(under_way) >= engine.images_at_once:
                await finish_first()
        while under_way:
            await finish_first()
    finally:  # also on Ctrl-C and on errors: what is finished counts, even ahead of its turn
        for task in under_way:
            task.cancel()
        for outcome in await asyncio.gather(*under_way, return_exceptions=True):
            if not isinstance(outcome, BaseException):
                store.append(outcome)


async def _ask(engine: DocumentEngine, rows: Mapping[str, DocumentQuestion], images: ImageSet) -> list[Prediction]:
    """Predictions for the questions about one image, by key and in their order."""
    image = next(iter(rows.values())).image
    problem = images.problem(image)
    if problem is None:
        page = images.pages.get(image)
        requests = [
            DocumentRequest(row.id, image, row.question, row.task, row.answer_type, row.context, page)
            for row in rows.values()
        ]
        try:
            replies = await engine.answer(requests)
        except InputError as error:
            problem = one_line(error)
    if problem is not None:
        replies = [DocumentReply(None, problem)] * len(rows)
    if len(replies) != len(rows):
        raise RuntimeError(f"engine {engine.name} returned {len(replies)} replies to {len(rows)} requests")
    pairs = zip(rows.items(), replies, strict=True)
    return [Prediction(key, row.id, reply.answer, reply.error) for (key, row), reply in pairs]
