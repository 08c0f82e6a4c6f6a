"""A typed-decision judge: the four dimensions as `choice` questions to `/v1/systemone`, answered with probabilities.

Served by transformers, vLLM and SGLang (2026); no text is generated, so nothing has to be read out of one: the model's
probabilities of the categories are kept beside the verdict. The paper's way is the chat (`model_judge.py`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.server import ChatServer
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.judge_prompt import PREAMBLE, prompt_version, user_prompt
from mimic_cxr_vqa.judging.judges import Judged
from mimic_cxr_vqa.judging.model_judge import ModelJudge
from mimic_cxr_vqa.judging.pairs import Pair

PATH = "/systemone"
_TOLERANCE = 0.01  # of the sum of a question's probabilities


class DecisionJudge(ModelJudge):
    """Asks one server; otherwise as `ModelJudge`.

    Raises:
        ConfigError: the model is none behind a single server.
    """

    def __init__(self, model: ChatModel) -> None:
        if not isinstance(model, ChatServer):
            raise ConfigError("--judge-protocol systemone asks one server; name it with one --engine server:URL")
        super().__init__(model)
        self._server = model

    @property
    def name(self) -> str:
        """The model's name with the protocol's behind it: its verdicts are another judge's."""
        return f"{super().name}-systemone"

    @property
    def settings(self) -> dict[str, Any]:
        """What the verdicts depend on."""
        kept = {name: value for name, value in super().settings.items() if name in ("judge", "model", "revision")}
        return {**kept, "protocol": "systemone", "prompt_version": prompt_version()}

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Judged]:
        """Verdicts on a study's pairs, one request each."""
        async with self._server.session():
            return [await self._decide(pair, reverse) for pair in pairs]

    async def _decide(self, pair: Pair, reverse: bool) -> Judged:
        body = {
            "model": self._server.model,
            "state": f"{PREAMBLE}\n\n{user_prompt(pair)}",
            "questions": questions(reverse),
        }
        reply = await self._server.ask(PATH, body, _as_reply)
        if reply.text is None:
            return Judged(None, reply.error)
        return read_decisions(json.loads(reply.text))


def questions(reverse: bool = False) -> dict[str, dict[str, Any]]:
    """The four dimensions as typed questions; categories from the best to the worst, or the other way round."""
    asked = {}
    for name, dimension in DIMENSIONS.items():
        order = dimension.categories if reverse else dimension.categories[::-1]
        criteria = {category: dimension.meanings[category] for category in order}
        asked[name] = {"type": "choice", "instructions": dimension.asks, "criteria": criteria}
    return asked


def read_decisions(answers: Mapping[str, Any]) -> Judged:
    """The verdict and its probabilities; a failure where a question is unanswered or its answer is not whole."""
    verdict: Verdict = {}
    probabilities: dict[str, dict[str, float]] = {}
    for name, dimension in DIMENSIONS.items():
        answer = answers.get(name)
        shares = answer.get("probabilities") if isinstance(answer, dict) else None
        if not isinstance(shares, dict) or set(shares) != set(dimension.categories):
            return Judged(None, f"{name}: no probabilities of its categories")
        values = list(shares.values())
        if (
            not all(type(value) in (float, int) and value >= 0 for value in values)
            or not abs(sum(values) - 1) <= _TOLERANCE
        ):
            return Judged(None, f"{name}: its probabilities do not add up to 1")
        if answer.get("choice") not in dimension.categories:
            return Judged(None, f"{name}: the choice is none of its categories")
        verdict[name] = answer["choice"]
        probabilities[name] = {category: float(shares[category]) for category in dimension.categories}
    return Judged(verdict, None, {"probabilities": probabilities})


def _as_reply(body: Any) -> ChatReply:
    answers = body.get("answers") if isinstance(body, dict) else None
    if not isinstance(answers, dict):
        return ChatReply(None, "the server's reply holds no decisions")
    return ChatReply(json.dumps(answers))
