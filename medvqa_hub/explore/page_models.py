"""The models of a page: the one behind `--engine`, or a checkpoint (`--model FOLDER`).

A model is connected for the class of the data on the page. Uploaded images have the class of `--image-class`
(credentialed by default), or that of the page if it is stricter. For them the model is connected again. If the
governance rules refuse that, the model is not offered for uploaded images.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import GovernanceError, InputError, one_line
from medvqa_core.governance import Governance, strictest
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_hub.evaluation.cxr.engine_inference import StudyRequest
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer, UnusableStudyError
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.families.registry import find_family

Connect = Callable[[Governance], ChatModel]


class CheckpointReader:
    """A local checkpoint that answers questions about studies, loaded as by `evaluate cxr --model`.

    Attributes:
        name: its family and folder.
        governance: class of its training data.

    Raises:
        InputError: the folder does not exist or does not hold a complete checkpoint of one of our families.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.expanduser().is_dir():
            raise InputError(f"--model {folder} is not a folder. The explorer only loads local checkpoints.")
        checkpoint = open_checkpoint(str(folder))
        self.name = f"{find_family(checkpoint.kind).title} ({folder.expanduser().absolute().name})"
        self.governance = checkpoint.governance
        self._answerer = StudyAnswerer(checkpoint, GenerationSettings())

    async def answer(self, requests: Sequence[StudyRequest]) -> list[Reply]:
        """Reply to questions about one study. An unusable image fails all of them."""
        return await asyncio.to_thread(self._answer, requests)

    def _answer(self, requests: Sequence[StudyRequest]) -> list[Reply]:
        try:
            images = self._answerer.prepare_images([requests[0].study])
        except UnusableStudyError as error:
            return [Reply(None, str(error)) for _ in requests]
        questions = [request.row["question"] for request in requests]
        answers = self._answerer.answer(images, questions, [0] * len(questions))
        return [Reply(answer.text, None, {"truncated": answer.truncated}) for answer in answers]


@dataclass(frozen=True)
class PageModels:
    """Attributes:
    chat: answers about data on the page.
    own: a checkpoint that answers about radiographs.
    image_class: class of uploaded images.
    chat_for_images: answers about uploaded images. None if the model is missing or may not see them.
    refusal: why the model may not see uploaded images.
    """

    chat: ChatModel | None = None
    own: CheckpointReader | None = None
    image_class: Governance = Governance.CREDENTIALED
    chat_for_images: ChatModel | None = None
    refusal: str | None = None

    @property
    def governance(self) -> Governance:
        """The class of the answers: a model may repeat its training data."""
        return self.own.governance if self.own is not None else Governance.OPEN


def open_models(
    page: Governance,
    connect: Connect | None = None,
    checkpoint: Path | None = None,
    image_class: Governance = Governance.CREDENTIALED,
) -> PageModels:
    """Open the models of a page of class `page`.

    Args:
        connect: connects the model behind `--engine` for a class.
        checkpoint: folder of a checkpoint.

    Raises:
        InputError: the checkpoint cannot be loaded.
        GovernanceError, ConfigError, ServerError: from `connect`, for data on the page.
    """
    own = CheckpointReader(checkpoint) if checkpoint is not None else None
    image_class = strictest([page, image_class])
    if connect is None:
        return PageModels(None, own, image_class)
    chat = connect(page)
    if chat.endpoint is None or image_class == page:  # in this process, or connected for that class already
        return PageModels(chat, own, image_class, chat)
    try:
        return PageModels(chat, own, image_class, connect(image_class))
    except GovernanceError as error:
        return PageModels(chat, own, image_class, refusal=one_line(error))
