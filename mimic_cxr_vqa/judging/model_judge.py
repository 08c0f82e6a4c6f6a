"""A language model as judge, as in the paper: one request per pair, a JSON verdict, the reasoning kept apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.chat_model import ChatModel, ModelEngine
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError
from mimic_cxr_vqa.judging.base import verdict_reply
from mimic_cxr_vqa.judging.judge_prompt import prompt_version, read_reply, schema, system_prompt, user_prompt
from mimic_cxr_vqa.judging.pairs import Pair

MAX_TOKENS = 4096  # of a reply, with its reasoning; a reply that is cut off fails


@dataclass
class ModelJudge(ModelEngine):
    """Asks `model`. See `medvqa_core.llm.engines.Backend` for the attributes."""

    model: ChatModel
    max_tokens: int = MAX_TOKENS
    seed: int = 0

    @property
    def name(self) -> str:
        """The model's name as a folder name."""
        return folder_name(self.model.model)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the verdicts depend on. Connect to a server first."""
        return {
            "judge": self.model.kind,
            "model": self.model.model,
            "revision": self.model.revision,
            "prompt_version": prompt_version(),
            "max_tokens": self.max_tokens,
            "temperature": 0.0,
            "seed": self.seed,
        }

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Reply]:
        """Judge the pairs of one study within one session, so that a server reads the report once."""
        async with self.model.session() as session:
            return [_read(await session.chat(compose(pair, reverse, self.max_tokens, self.seed))) for pair in pairs]


def compose(pair: Pair, reverse: bool = False, max_tokens: int = MAX_TOKENS, seed: int = 0) -> ChatRequest:
    """The chat request about one pair."""
    messages = (Message("system", system_prompt(reverse)), Message("user", user_prompt(pair)))
    return ChatRequest(messages, schema(reverse), max_tokens=max_tokens, temperature=0.0, seed=seed)


def folder_name(model: str) -> str:
    """`org/Model:8b` -> `model-8b`."""
    return re.sub(r"[^a-z0-9.]+", "-", model.rstrip("/").rpartition("/")[2].lower()).strip("-.") or "model"


def _read(reply: ChatReply) -> Reply:
    found = {"reasoning": reply.reasoning, "reply_model": reply.model}
    details = {name: value for name, value in found.items() if value}
    if reply.text is None:
        return Reply(None, reply.error, details)
    try:
        return verdict_reply(read_reply(reply.text), details)
    except ReplyError as error:
        return Reply(None, str(error), details)
