"""Inference about report images, image by image, with every reply recorded.

If an image is missing or cannot be read, or the engine raises InputError, all questions about it fail. A reply with an
error fails its question. Any other error of the engine ends the run, and recorded answers are kept.

A failure is a record without an answer. It scores 0, and is asked again with `retry_failed` or when the image changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from medvqa_core.digests import blake2b_files
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.inference import ask_all
from medvqa_core.runs.predictions import Prediction, PredictionStore
from rjua_meddqa.inference.engines import DocumentEngine, DocumentRequest, Shot
from rjua_meddqa.inference.questions import DocumentQuestion, by_image
from rjua_meddqa.restoration.pages import Page

GROUPS_PER_SYNC = 16  # images in flight per image that is synced at once
NO_IMAGE = "the image is not there"
NOWHERE = Path()  # of a request without an image, which fails


@dataclass(frozen=True)
class ImageSet:
    """The images of the questions.

    Attributes:
        pages: restored text by file, if the engine reads text.
        unreadable: the reason for each file that cannot be read.
        needed: False for a file of answers, which does not need images.
    """

    pages: Mapping[Path, Page] = field(default_factory=dict)
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    needed: bool = True

    def page(self, image: Path | None) -> Page | None:
        """The restored page of `image`, if there is one."""
        return None if image is None else self.pages.get(image)

    def problem(self, image: Path | None) -> str | None:
        """The reason why `image` cannot be used, or None."""
        if not self.needed:
            return None
        return NO_IMAGE if image in (None, NOWHERE) else self.unreadable.get(image)


def answer_questions(
    engine: DocumentEngine,
    asked: Sequence[DocumentQuestion],
    images: ImageSet,
    path: Path,
    governance: Governance,
    retry_failed: bool = False,
    shots: Mapping[str, Sequence[DocumentQuestion]] | None = None,
) -> tuple[list[Prediction], int]:
    """Return a prediction for every row of `asked`, and the number of requests of this run.

    Args:
        path: file of the predictions.
        retry_failed: repeat failed requests.
        shots: examples before a row's question, by its id.

    Raises:
        ConfigError: the predictions in `path` were generated with other settings.
        GovernanceError: they are of a stricter class.
        InputError: an image file is missing, or a recorded line is broken.
        OutputError: the predictions cannot be written.
    """
    digests = digest_readable(asked, images)
    examples = shots or {}
    with PredictionStore(path, governance, engine.settings) as store:
        keys = {row.id: _key(store, engine, row, digests, images, examples.get(row.id, ())) for row in asked}
        groups = by_image(asked).values()
        new = ask_all(
            # by key, so that equal questions are asked once
            ({keys[row.id]: _request(row, images, examples.get(row.id, ())) for row in rows} for rows in groups),
            partial(_answer, engine, images),
            store,
            in_flight=engine.in_flight,
            description="Answering, image by image",
            total=len(groups),
            groups_per_sync=max(1, engine.in_flight // GROUPS_PER_SYNC),
            retry_failed=retry_failed,
            session=engine,
        )
        return [replace(store.read(keys[row.id]), id=row.id) for row in asked], new


def digest_readable(rows: Sequence[DocumentQuestion], images: ImageSet) -> dict[Path, str]:
    """Digests of the images that can be read. Raises InputError if a file is missing."""
    return blake2b_files(
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
    """The key of a request. It changes when a missing image becomes available."""
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
    page = images.page(row.image)
    return {
        "image": None if row.image is None else digests.get(row.image),
        "text": None if page is None else page.restored.text,
        "question": row.question,
        "context": row.context,
    }


async def _answer(engine: DocumentEngine, images: ImageSet, requests: Sequence[DocumentRequest]) -> Sequence[Reply]:
    """The engine's replies about one image. Raises InputError if the image cannot be used."""
    problem = images.problem(requests[0].image)
    if problem is not None:
        raise InputError(problem)
    return await engine.answer(requests)


def _request(row: DocumentQuestion, images: ImageSet, shots: Sequence[DocumentQuestion]) -> DocumentRequest:
    page = images.page(row.image)
    examples = tuple(Shot(_request(shot, images, ()), shot.answer) for shot in shots)
    image = row.image or NOWHERE
    return DocumentRequest(row.id, image, row.question, row.task, row.answer_type, row.context, page, examples)
