"""Answers by a language or vision-language model. An image's questions share one session.

The model gets the image, its restored text, or both (INPUTS). Each image is encoded once. Images of few-shot examples
are kept for the run, others until their questions are answered. A reply without an answer is asked for once more, with
the reason.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medvqa_core.llm.chat import ChatReply, ChatRequest, Image, Message
from medvqa_core.llm.chat_model import ChatModel, ModelEngine
from medvqa_core.llm.engines import Reply, reply_listener
from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.inference.prompts import OUR_PROMPT, DocumentPrompt
from rjua_meddqa.inference.replies import READER, take_answer
from rjua_meddqa.inference.reply_schemas import reply_schema
from rjua_meddqa.schema import CONTENT_TASKS, REASONING_TASKS

IMAGE, ESRA, BOTH = INPUTS = ("image", "esra", "image+esra")
MAX_TOKENS = 1024
ASKING = "schema-1"  # version of the schemas and of the second try. Replies to earlier versions are asked for again.
WHOLE = "whole"  # replies to bare prompts are not read
AGAIN = "这个回答不能使用（{}）。请重新作答，只写答案。"


@dataclass
class DocumentModel(ModelEngine):
    """Sends questions to `model`. For the attributes see `medvqa_core.llm.engines.Engine` and `DocumentEngine`.

    Args:
        input: one of INPUTS.
        with_context: whether clinical-reasoning questions include their passage.
        max_tokens: of a reply, including its reasoning.
    """

    model: ChatModel
    prompt: DocumentPrompt = OUR_PROMPT
    input: str = IMAGE
    with_context: bool = True
    images: ImageRule = field(default_factory=ImageRule)
    max_tokens: int = MAX_TOKENS
    temperature: float = 0.0
    seed: int = 0
    tasks: frozenset[str] = frozenset((*CONTENT_TASKS, *REASONING_TASKS))
    _kept: dict[Path, Image] = field(default_factory=dict, init=False)  # images of examples

    @property
    def settings(self) -> dict[str, Any]:
        """Model and sampling settings, written to the header of its predictions. The server has to be connected."""
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
        """Further settings for the run's results."""
        return {
            "input": self.input,
            "context": self.with_context,
            "prompt_version": self.prompt.version,
            **({"images": str(self.images)} if self.sees_images else {}),
            "answers": WHOLE if self.prompt.is_bare else READER,
        }

    def asked_as(self, request: DocumentRequest) -> dict[str, Any]:
        """Return settings that the answer to `request` depends on. They are part of its content key."""
        return {
            "prompt": self.prompt.version_of(request.task, request.answer_type),
            "input": self.input,
            **({} if self.prompt.is_bare else {"asking": ASKING}),
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
        """Return replies to an image's questions, in order. Questions of a kind are sent in a row, to use caches.

        Raises:
            InputError: the image cannot be read.
            ServerError: the server stopped answering.
        """
        own = (await asyncio.to_thread(self._encode, requests[0].image),) if self.sees_images else ()
        order = sorted(range(len(requests)), key=lambda place: (requests[place].task, requests[place].answer_type))
        replies: dict[int, Reply] = {}
        async with self.model.session() as session:
            for place in order:
                request = requests[place]
                chat = self._chat_request(request, own)
                reply = await session.chat(chat)
                read = self._read(reply, request)
                if read.answer is None and reply.text is not None:
                    again = Message("user", AGAIN.format(read.error))
                    chat = replace(chat, messages=(*chat.messages, Message("assistant", reply.text), again))
                    second = self._read(await session.chat(chat), request)
                    read = replace(second, details={**second.details, "first": reply.text})
                replies[place] = read
                reply_listener.get()(request, read)
        return [replies[place] for place in range(len(requests))]

    def _chat_request(self, request: DocumentRequest, own: tuple[Image, ...]) -> ChatRequest:
        messages = [Message("system", self.prompt.system)] if self.prompt.system else []
        for shot in request.shots:
            images = (self._encode(shot.request.image),) if self.sees_images else ()
            messages.append(Message("user", self.prompt.user_text(shot.request), images))
            messages.append(Message("assistant", shot.answer))
        messages.append(Message("user", self.prompt.user_text(request), own))
        schema = None if self.prompt.is_bare else reply_schema(request.question, request.answer_type)
        return ChatRequest(tuple(messages), schema, self.max_tokens, self.temperature, self.seed)

    def keep(self, path: Path) -> None:
        """Encode the image of an example for the whole run. Raises InputError if it cannot be read."""
        if self.sees_images and path not in self._kept:
            self._kept[path] = self._encode(path)

    def _encode(self, path: Path) -> Image:
        if path in self._kept:
            return self._kept[path]
        return self.images.encode(path)

    def _read(self, reply: ChatReply, request: DocumentRequest) -> Reply:
        counts = {"prompt": reply.usage.prompt, "cached": reply.usage.cached, "completion": reply.usage.completion}
        details: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
        if reply.reasoning:
            details["reasoning"] = reply.reasoning
        if reply.text is None:
            return Reply(None, reply.error, details, model=reply.model)
        if self.prompt.is_bare:
            return Reply(reply.text, None, details, model=reply.model)
        try:
            answer = take_answer(reply.text, request.question, request.answer_type)
        except ReplyError as error:
            return Reply(None, str(error), details | {"said": reply.text}, model=reply.model)
        whole = {} if answer == reply.text else {"said": reply.text}
        return Reply(answer, None, details | whole, model=reply.model)
