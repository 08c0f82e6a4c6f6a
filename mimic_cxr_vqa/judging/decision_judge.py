"""A judge that asks a server for typed decisions: the four dimensions as `choice` questions to `/v1/systemone`.

transformers, vLLM and SGLang serve this since 2026. The server returns a probability for each category, which is
recorded with the verdict. `model_judge` is the paper's method.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.completions import read_model
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.server import ChatServer
from mimic_cxr_vqa.judging.base import verdict_reply
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.judge_prompt import PREAMBLE, prompt_version, user_prompt
from mimic_cxr_vqa.judging.model_judge import ModelJudge
from mimic_cxr_vqa.judging.pairs import Pair

PATH = "/systemone"
_TOLERANCE = 0.01  # of the sum of a question's probabilities


class DecisionJudge(ModelJudge):
    """Asks one server.

    Raises:
        ConfigError: the model is not served by a single server.
    """

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatServer):
            raise ConfigError("--judge-protocol systemone needs exactly one server. Use one --engine server:URL.")
        super().__init__(model)
        self._server = model

    @property
    def name(self) -> str:
        """The model's name with the protocol appended."""
        return f"{super().name}-systemone"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the verdicts depend on."""
        kept = {name: value for name, value in super().settings.items() if name in ("judge", "model", "revision")}
        return {**kept, "protocol": "systemone", "prompt_version": prompt_version()}

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Reply]:
        """Judge the pairs of one study, with one request per pair."""
        async with self._server.session():
            return [await self._decide(pair, reverse) for pair in pairs]

    async def _decide(self, pair: Pair, reverse: bool) -> Reply:
        body = {
            "model": self._server.model,
            "state": f"{PREAMBLE}\n\n{user_prompt(pair)}",
            "questions": questions(reverse),
        }
        reply = await self._server.ask(PATH, body, _as_reply)
        if reply.text is None:
            return Reply(None, reply.error)
        found = read_decisions(json.loads(reply.text))
        return replace(found, details={**found.details, "reply_model": reply.model}) if reply.model else found


def questions(reverse: bool = False) -> dict[str, dict[str, Any]]:
    """The four dimensions as typed questions, with the best category first or, with `reverse`, last."""
    asked = {}
    for name, dimension in DIMENSIONS.items():
        order = dimension.categories if reverse else dimension.categories[::-1]
        criteria = {category: dimension.meanings[category] for category in order}
        asked[name] = {"type": "choice", "instructions": dimension.asks, "criteria": criteria}
    return asked


def read_decisions(answers: Mapping[str, Any]) -> Reply:
    """The verdict and its probabilities. An answer that is missing or malformed is a failure."""
    verdict: Verdict = {}
    probabilities: dict[str, dict[str, float]] = {}
    for name, dimension in DIMENSIONS.items():
        answer = answers.get(name)
        answer = answer if isinstance(answer, dict) else {}
        shares = answer.get("probabilities")
        if not isinstance(shares, dict) or set(shares) != set(dimension.categories):
            return Reply(None, f"{name}: the probabilities of its categories are missing")
        values = list(shares.values())
        numbers = all(type(value) in (float, int) and value >= 0 for value in values)
        if not numbers or not abs(sum(values) - 1) <= _TOLERANCE:
            return Reply(None, f"{name}: its probabilities do not add up to 1")
        if answer.get("choice") not in dimension.categories:
            return Reply(None, f"{name}: the choice is not one of its categories")
        verdict[name] = answer["choice"]
        probabilities[name] = {category: float(shares[category]) for category in dimension.categories}
    return verdict_reply(verdict, {"probabilities": probabilities})


def _as_reply(body: Any) -> ChatReply:
    answers = body.get("answers") if isinstance(body, dict) else None
    if not isinstance(answers, dict):
        return ChatReply(None, "the server's reply does not contain decisions")
    return ChatReply(json.dumps(answers), model=read_model(body))
