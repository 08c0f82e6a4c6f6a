"""Answers by a language model: a study's questions to one server, one after another, replies read, matched, counted.

The engine of the answering stage behind `--engine server:URL`. One question a request is the paper's way; several a
request cut the tokens that are read by about as many times, and every answer that is missing or doubled there is asked
again alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance, refuse_remote
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError, read_object, read_text
from medvqa_core.llm.server import ChatServer
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.prompts import MANY_SCHEMA, ONE_SCHEMA, Prompt

TOKENS_AN_ANSWER = 256
ALL = 0  # `questions_per_request`: all of a study's in one
CLOUD_SUFFIXES = ("-cloud", ":cloud")  # how Ollama names the models that it forwards


@dataclass
class LanguageModel:
    """Asks `server`; see `medvqa_core.llm.engines.Engine` for what the attributes are.

    Args:
        questions_per_request: 1, more, or ALL.
    """

    server: ChatServer
    prompt: Prompt = field(default_factory=Prompt)
    questions_per_request: int = 1
    temperature: float = 0.0
    seed: int = 0
    name: str = "server"

    @property
    def settings(self) -> dict[str, Any]:
        """What the answers depend on, as the rows' provenance keeps it. The server has to be met before."""
        per_request = self.questions_per_request or "all"
        schema = self.server.description["schema"]
        return {
            "engine": self.name,
            "model": self.server.model,
            "revision": f"{self.server.description['served_by']}, schema {schema}",
            "prompt_version": f"{self.prompt.version}, questions per request: {per_request}",
            "temperature": self.temperature,
            "seed": self.seed,
        }

    @property
    def endpoint(self) -> str:
        """Where the texts go."""
        return self.server.endpoint

    @property
    def in_flight(self) -> int:
        """Studies under way: enough that one that takes long keeps no slot of the server empty."""
        return 4 * self.server.slots

    async def __aenter__(self) -> "LanguageModel":
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.server.__aexit__(*problem)

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[Reply]:
        """Replies to a study's questions, in their order; the study keeps one slot of the server all the while."""
        replies: dict[str, Reply] = {}
        size = self.questions_per_request or len(requests)
        async with self.server.free.one():
            for start in range(0, len(requests), size):
                group = requests[start : start + size]
                if len(group) > 1:
                    replies |= await self._ask_many(group)
                for request in group:
                    if request.qa_id not in replies:
                        replies[request.qa_id] = await self._ask_one(request)
        return [replies[request.qa_id] for request in requests]

    async def _ask_one(self, request: AnswerRequest) -> Reply:
        reply = await self._chat(self.prompt.system, [request], ONE_SCHEMA)
        if reply.text is None:
            return Reply(None, reply.error)
        try:
            return Reply(read_answer(reply.text, request.question))
        except ReplyError as error:
            return Reply(None, str(error))

    async def _ask_many(self, requests: Sequence[AnswerRequest]) -> dict[str, Reply]:
        """The answers that came once and whole; the others are asked alone."""
        reply = await self._chat(self.prompt.system_many, requests, MANY_SCHEMA)
        if reply.text is None:
            return {}
        try:
            found = read_object(reply.text)
        except ReplyError:
            return {}
        return {requests[n - 1].qa_id: Reply(text) for n, text in read_answers(found, len(requests)).items()}

    async def _chat(self, system: str, requests: Sequence[AnswerRequest], schema: dict[str, Any]) -> ChatReply:
        first = requests[0]
        violations = tuple(dict.fromkeys(rule for request in requests for rule in request.violations))
        user = self.prompt.fill(
            first.indication, first.findings, [request.question for request in requests], violations
        )
        return await self.server.chat(
            ChatRequest(
                (Message("system", system), Message("user", user)),
                schema,
                max_tokens=TOKENS_AN_ANSWER * len(requests),
                temperature=self.temperature,
                seed=self.seed,
            )
        )


def connect(
    endpoint: str,
    governance: Governance,
    model: str | None = None,
    prompt: Prompt | None = None,
    questions_per_request: int = 1,
    slots: int = 64,
    wait: float = 600.0,
    own_server: bool = False,
) -> LanguageModel:
    """The language model at `endpoint`, met and ready for texts of a class.

    Args:
        own_server: the user's word that the server runs the model itself, on this machine; needed for credentialed
            texts, since a program on this machine could hand them on.

    Raises:
        GovernanceError: credentialed texts would leave this machine, or could.
        ConfigError, ServerError: as `ChatServer`.
    """
    credentialed = governance is Governance.CREDENTIALED
    refuse_remote(governance, endpoint, "engine server")
    server = ChatServer(endpoint, model, slots=slots, wait=wait, loopback_only=credentialed)
    if credentialed and not own_server:
        raise GovernanceError(
            f"these texts are credentialed, and a server at {endpoint} could hand them on: if it is yours and runs the "
            "model on this machine, say so with --i-run-this-server"
        )
    server.meet()
    if credentialed and (server.model or "").lower().endswith(CLOUD_SUFFIXES):
        raise GovernanceError(f"model {server.model!r} is one that its server forwards to a cloud; choose another")
    return LanguageModel(server, prompt or Prompt(), questions_per_request)


def count_of(text: str) -> int:
    """`--questions-per-request` as a number: "all" is ALL. Raises ConfigError."""
    if text == "all":
        return ALL
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"--questions-per-request {text!r}: allowed are 1, more, or all")
    return int(text)


def read_answer(text: str, question: str) -> str:
    """The answer to `question` in a reply to it alone.

    Raises:
        ReplyError: no object, no text in it, an empty one, or the answer to another question.
    """
    found = read_object(text)
    answer = read_text(found, "answer")
    if not answer:
        raise ReplyError("the answer is empty")
    echoed = found.get("question")
    if isinstance(echoed, str) and echoed.strip() and _words(echoed) != _words(question):
        raise ReplyError("the reply answers another question")
    return answer


def read_answers(found: dict[str, Any], questions: int) -> dict[int, str]:
    """{number: answer} of the entries that stand there exactly once, with a number of 1 … `questions` and a text."""
    entries = found.get("answers")
    if not isinstance(entries, list):
        return {}
    texts: dict[int, str] = {}
    doubled: set[int] = set()
    for entry in entries:
        number = entry.get("number") if isinstance(entry, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= questions:
            continue
        answer = entry.get("answer")
        if number in texts or number in doubled or not isinstance(answer, str) or not answer.strip():
            doubled.add(number)
            texts.pop(number, None)
        else:
            texts[number] = answer.strip()
    return texts


def _words(text: str) -> list[str]:
    return "".join(character.lower() if character.isalnum() else " " for character in text).split()
