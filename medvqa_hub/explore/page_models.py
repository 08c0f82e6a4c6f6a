"""The models of a page, the one behind `--engine` or a checkpoint of ours (`--model FOLDER`), and what each may see.

What the page shows has a class, and a model is connected for it. An image that a person brings says nothing of itself:
it counts as credentialed, unless `--image-class` says otherwise, and as no less than the page. A model that was
connected for less is connected again for that class, by the same rules; where they refuse it, it is not offered for
such images.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import GovernanceError, InputError, one_line
from medvqa_core.governance import Governance, strictest
from medvqa_core.llm.chat_model import ChatModel
from medvqa_hub.evaluation.cxr.engine_inference import StudyReply, StudyRequest
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings, StudyAnswerer, UnusableStudyError
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.families.registry import find_family

Connect = Callable[[Governance], ChatModel]


class CheckpointReader:
    """A checkpoint of ours that answers about studies, loaded as `evaluate cxr --model` does, from this machine alone.

    Attributes:
        name: its family and folder.
        governance: of what it was trained on: the page's is at least that.

    Raises:
        InputError: there is no such folder, or no whole checkpoint of ours in it.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.expanduser().is_dir():
            raise InputError(f"--model {folder}: no such folder; the explorer fetches nothing: name a checkpoint's")
        checkpoint = open_checkpoint(str(folder))
        self.name = f"{find_family(checkpoint.kind).title} ({folder.expanduser().absolute().name})"
        self.governance = checkpoint.governance
        self._answerer = StudyAnswerer(checkpoint, GenerationSettings())

    async def answer(self, requests: Sequence[StudyRequest]) -> list[StudyReply]:
        """Replies to questions about one study; an image that cannot be used fails them all."""
        return await asyncio.to_thread(self._answer, requests)

    def _answer(self, requests: Sequence[StudyRequest]) -> list[StudyReply]:
        try:
            images = self._answerer.prepare_images([requests[0].study])
        except UnusableStudyError as error:
            return [StudyReply(None, str(error)) for _ in requests]
        questions = [request.row["question"] for request in requests]
        answers = self._answerer.answer(images, questions, [0] * len(questions))
        return [StudyReply(answer.text, None, {"truncated": answer.truncated}) for answer in answers]


@dataclass(frozen=True)
class PageModels:
    """Attributes:
    chat: asked about what the page shows; None: no model was named.
    own: a checkpoint of ours; it answers about radiographs.
    image_class: of images that people bring.
    chat_for_images: asked about those; None: there is none, or it may not see them, and `refusal` says why.
    """

    chat: ChatModel | None = None
    own: CheckpointReader | None = None
    image_class: Governance = Governance.CREDENTIALED
    chat_for_images: ChatModel | None = None
    refusal: str | None = None

    @property
    def governance(self) -> Governance:
        """What the models put on the page: what was learned may stand in the answers."""
        return self.own.governance if self.own is not None else Governance.OPEN


def open_models(
    page: Governance,
    connect: Connect | None = None,
    checkpoint: Path | None = None,
    image_class: Governance = Governance.CREDENTIALED,
) -> PageModels:
    """The models of a page of class `page`.

    Args:
        connect: makes the model behind `--engine`, for a class.
        checkpoint: folder of a checkpoint of ours.

    Raises:
        InputError: the checkpoint cannot be loaded.
        GovernanceError, ConfigError, ServerError: as `connect`, for what the page shows.
    """
    own = CheckpointReader(checkpoint) if checkpoint is not None else None
    image_class = strictest([page, image_class])
    if connect is None:
        return PageModels(None, own, image_class)
    chat = connect(page)
    if chat.endpoint is None or image_class == page:  # in this process, or met for that class already
        return PageModels(chat, own, image_class, chat)
    try:
        return PageModels(chat, own, image_class, connect(image_class))
    except GovernanceError as error:
        return PageModels(chat, own, image_class, refusal=one_line(error))
