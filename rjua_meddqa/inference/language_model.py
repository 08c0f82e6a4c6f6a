"""Answers by a language or image-text model: an image's questions on one session, one after another, replies read.

A model sees the report's image, its restored text, or both (INPUTS). The image is encoded once however many questions
are asked about it; images of shots are kept for the run, the others only as long as their questions take.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_core.llm.chat import ChatReply, ChatRequest, Image, Message
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError
from medvqa_core.llm.model_engine import ModelEngine
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.inference.prompts import DocumentPrompt
from rjua_meddqa.inference.replies import WHOLE, take_answer
from rjua_meddqa.schema import CONTENT_TASKS, REASONING_TASKS

IMAGE, ESRA, BOTH = INPUTS = ("image", "esra", "image+esra")
MAX_TOKENS = 1024


@dataclass(frozen=True)
class ModelReply(Reply):
    """A reply with what the model said besides: its whole text, its thoughts, how the answer stood in it, tokens."""

    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class DocumentModel(ModelEngine):
    """Asks `model`; see `medvqa_core.llm.engines.Engine` and `DocumentEngine` for what the attributes are.

    Args:
        input: one of INPUTS.
        with_context: whether clinical-reasoning questions come with their passage.
        max_tokens: of a reply, thoughts included.
    """

    model: ChatModel
    prompt: DocumentPrompt = field(default_factory=DocumentPrompt)
    input: str = IMAGE
    with_context: bool = True
    images: ImageRule = field(default_factory=ImageRule)
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    tasks: frozenset[str] = frozenset((*CONTENT_TASKS, *REASONING_TASKS))
    encodes: int = field(default=0, init=False)
    _kept: dict[Path, Image] = field(default_factory=dict, init=False)  # of shots: the same few for many questions

    @property
    def settings(self) -> dict[str, Any]:
        """Which model answers, and how it is sampled: the header of its predictions. A server has to be met before."""
        return {
            "engine": self.name,
            "model": self.model.model,
            "revision": self.model.revision,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }

    @property
    def asking(self) -> dict[str, Any]:
        """What else the run's answers depend on, for its results; single questions have it in their keys."""
        return {
            "input": self.input,
            "context": self.with_context,
            "prompt_version": self.prompt.version,
            **({"images": str(self.images)} if self.sees_images else {}),
            "answers": WHOLE if self.prompt.is_bare else "taken out of sentences",
        }

    def asked_as(self, request: DocumentRequest) -> dict[str, Any]:
        """What a request's answer depends on besides what it holds: part of its content key."""
        return {
            "prompt": self.prompt.version_of(request.task, request.answer_type),
            "input": self.input,
            **({"images": str(self.images)} if self.sees_images else {}),
        }

    @property
    def sees_images(self) -> bool:
        """Whether requests carry the image."""
        return self.input != ESRA

    @property
    def reads_pages(self) -> bool:
        """Whether requests carry the restored page."""
        return self.input != IMAGE

    async def answer(self, requests: Sequence[DocumentRequest]) -> list[Reply]:
        """Replies to an image's questions, in their order; those of a kind are asked in a row, for the server's caches.

        Raises:
            InputError: the image cannot be read.
            ServerError: the model is gone.
        """
        own = (await asyncio.to_thread(self._encode, requests[0].image),) if self.sees_images else ()
        order = sorted(range(len(requests)), key=lambda place: (requests[place].task, requests[place].answer_type))
        replies: dict[int, Reply] = {}
        async with self.model.session() as session:
            for place in order:
                request = requests[place]
                said = await session.chat(self._chat_request(request, own))
                replies[place] = self._read(said, request)
        return [replies[place] for place in range(len(requests))]

    def _chat_request(self, request: DocumentRequest, own: tuple[Image, ...]) -> ChatRequest:
        messages = [Message("system", self.prompt.system)] if self.prompt.system else []
        for shot in request.shots:
            images = (self._encode(shot.request.image),) if self.sees_images else ()
            messages.append(Message("user", self.prompt.user_text(shot.request), images))
            messages.append(Message("assistant", shot.answer))
        messages.append(Message("user", self.prompt.user_text(request), own))
        return ChatRequest(tuple(messages), None, self.max_tokens, self.temperature, self.seed)

    def keep(self, path: Path) -> None:
        """Encode the image of an example, for the whole run. Raises InputError where it cannot be read."""
        if self.sees_images and path not in self._kept:
            self._kept[path] = self._encode(path)

    def _encode(self, path: Path) -> Image:
        if path in self._kept:
            return self._kept[path]
        self.encodes += 1
        return self.images.encode(path)

    def _read(self, said: ChatReply, request: DocumentRequest) -> Reply:
        counts = {"prompt": said.usage.prompt, "cached": said.usage.cached, "completion": said.usage.completion}
        details: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
        if said.reasoning:
            details["reasoning"] = said.reasoning
        if said.text is None:
            return ModelReply(None, said.error, details)
        if self.prompt.is_bare:
            return ModelReply(said.text, None, details | {"taken": WHOLE})
        try:
            taken = take_answer(said.text, request.question, request.answer_type)
        except ReplyError as error:
            return ModelReply(None, str(error), details | {"said": said.text})
        whole = {} if taken.answer == said.text else {"said": said.text}
        return ModelReply(taken.answer, None, details | {"taken": taken.how} | whole)


def record_details(request: DocumentRequest, reply: Reply, attempt: int) -> tuple[Mapping[str, Any], None]:
    """What the record of a reply keeps besides the answer; the reply stands (`runs.asking.Review`)."""
    return getattr(reply, "details", {}), None
