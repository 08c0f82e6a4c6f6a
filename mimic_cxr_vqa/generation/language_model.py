"""The engine for language models (`--engine server:URL` and others): ask, read the replies and match them to questions.

The paper asks one question per request. Several questions per request save prompt tokens. Questions without exactly one
readable answer in such a reply are asked again alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.chat_model import ChatModel, ModelEngine, Session
from medvqa_core.llm.engines import Reply, reply_listener
from medvqa_core.llm.json_reply import ReplyError, is_refusal, parse_object, read_text
from medvqa_core.llm.throughput import Throughput
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.prompts import MANY_SCHEMA, ONE_SCHEMA, Prompt
from mimic_cxr_vqa.generation.retries import retry_note

TOKENS_AN_ANSWER = 256
ALL = 0  # `questions_per_request` for all questions of a study
_EMPTY = ("", "na", "null", "error")  # compared without punctuation: "...", "N/A"; the authors' data use "error"


@dataclass
class LanguageModel(ModelEngine):
    """Asks `model`. See `medvqa_core.llm.engines.Backend` for the attributes.

    Args:
        questions_per_request: a number, or ALL.
    """

    model: ChatModel
    prompt: Prompt = field(default_factory=Prompt)
    questions_per_request: int = 1
    temperature: float = 0.0
    seed: int = 0
    counts: Throughput = field(default_factory=Throughput)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the answers depend on, for the rows' provenance. Connect to a server first."""
        sampling = {"temperature": self.temperature, "seed": self.seed}
        model = self.model
        return answer_settings(
            self.name, model.model, model.revision, self.prompt, self.questions_per_request, **sampling
        )

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[Reply]:
        """Reply to the questions of one study, in their order and within one session."""
        replies: dict[str, Reply] = {}
        size = self.questions_per_request or len(requests)
        async with self.model.session() as session:
            for start in range(0, len(requests), size):
                group = requests[start : start + size]
                if len(group) > 1 and group[0].attempt == 1:
                    reply = await self.counts.chat(session, self.compose(group))
                    found = read_many(reply, [request.qa_id for request in group])
                    replies |= {qa_id: replace(one, model=reply.model) for qa_id, one in found.items()}
                for request in group:
                    if request.qa_id not in replies:
                        replies[request.qa_id] = await self._ask_one(session, request)
                    reply_listener.get()(request, replies[request.qa_id])
        return [replies[request.qa_id] for request in requests]

    async def _ask_one(self, session: Session, request: AnswerRequest) -> Reply:
        reply = await self.counts.chat(session, self.compose([request]))
        return replace(read_one(reply, request.question), model=reply.model)

    def compose(self, requests: Sequence[AnswerRequest]) -> ChatRequest:
        """The chat request for `requests`, which belong to one study."""
        return compose(self.prompt, requests, self.temperature, self.seed)


def answer_settings(
    engine: str, model: str, revision: str, prompt: Prompt, questions_per_request: int = 1, **sampling: float
) -> dict[str, Any]:
    """The settings that a language model's answers depend on (`answer_request.SETTINGS`)."""
    version = f"{prompt.version}, questions per request: {questions_per_request or 'all'}"
    settings = {"engine": engine, "model": model, "revision": revision, "prompt_version": version}
    return {**settings, "temperature": 0.0, "seed": 0, **sampling}


def compose(prompt: Prompt, requests: Sequence[AnswerRequest], temperature: float = 0.0, seed: int = 0) -> ChatRequest:
    """The chat request for one question (with the reason for a retry) or for several questions of a study."""
    first, alone = requests[0], len(requests) == 1
    questions = [request.question for request in requests]
    user = prompt.fill(first.indication, first.findings, questions, retry_note(first) if alone else "")
    return ChatRequest(
        (Message("system", prompt.system if alone else prompt.system_many), Message("user", user)),
        ONE_SCHEMA if alone else MANY_SCHEMA,
        max_tokens=TOKENS_AN_ANSWER * len(requests),
        temperature=temperature,
        seed=seed,
    )


def read_one(reply: ChatReply, question: str) -> Reply:
    """The answer in a reply to one question, or the reason why it cannot be used."""
    if reply.text is None:
        return Reply(None, reply.error)
    try:
        return Reply(read_answer(reply.text, question))
    except ReplyError as error:
        return Reply(None, str(error))


def read_many(reply: ChatReply, qa_ids: Sequence[str]) -> dict[str, Reply]:
    """The answers, by qa_id, that a reply to several questions contains exactly once."""
    if reply.text is None:
        return {}
    try:
        found = parse_object(reply.text)
    except ReplyError:
        return {}
    return {qa_ids[n - 1]: Reply(text) for n, text in read_answers(found, len(qa_ids)).items()}


def parse_question_count(text: str) -> int:
    """`--questions-per-request` as a number. "all" is ALL. Raises ConfigError."""
    if text == "all":
        return ALL
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"--questions-per-request {text!r} is invalid. Expected 1, a larger number, or all.")
    return int(text)


def read_answer(text: str, question: str) -> str:
    """The answer in the text of a reply to `question`.

    Raises:
        ReplyError: the reply does not contain a JSON object with an answer, refuses, or answers another question.
    """
    found = parse_object(text)
    answer = read_text(found, "answer")
    if not answer:
        raise ReplyError("the answer is empty")
    echoed = found.get("question")
    if isinstance(echoed, str) and echoed.strip() not in ("", question) and _words(echoed) != _words(question):
        raise ReplyError("the reply answers another question")
    if _words(answer) == _words(question):
        raise ReplyError("the answer is empty: it repeats the question")
    if problem := _find_problem(answer):
        raise ReplyError(problem)
    return answer


def _find_problem(answer: str) -> str | None:
    """Why a text is not an answer, in the words of `retries.UNREAD`, or None."""
    if is_refusal(answer):
        return "the model refused"
    is_placeholder = answer.startswith("<") and answer.endswith(">")  # copied from the prompt
    return "the answer is empty" if is_placeholder or "".join(_words(answer)) in _EMPTY else None


def read_answers(found: dict[str, Any], questions: int) -> dict[int, str]:
    """{number: answer} of the entries with a number from 1 to `questions` that occurs exactly once."""
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
        if number in texts or number in doubled or not isinstance(answer, str) or _find_problem(answer.strip()):
            doubled.add(number)
            texts.pop(number, None)
        else:
            texts[number] = answer.strip()
    return texts


def _words(text: str) -> list[str]:
    return "".join(character.lower() if character.isalnum() else " " for character in text).split()
