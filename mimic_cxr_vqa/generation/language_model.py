"""Answers by a language model: a study's questions to one server, one after another, replies read, matched, counted.

The engine of the answering stage behind `--engine server:URL` and its like. One question a request is the paper's way;
several a request cut the tokens that are read by about as many times, and every answer that is missing or doubled there
is asked again alone; so is what is asked again with a reason (`reasking`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message
from medvqa_core.llm.chat_model import ChatModel, Session
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError, is_refusal, read_object, read_text
from medvqa_core.llm.model_engine import ModelEngine
from medvqa_core.llm.throughput import Throughput, metered_session
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.prompts import MANY_SCHEMA, ONE_SCHEMA, Prompt
from mimic_cxr_vqa.generation.reasking import say_again

TOKENS_AN_ANSWER = 256
_NOTHING = ("", "na", "null", "error")  # without signs: "...", "N/A"; "error" is what the authors' data hold for none
ALL = 0  # `questions_per_request`: all of a study's in one


@dataclass
class LanguageModel(ModelEngine):
    """Asks `model`; see `medvqa_core.llm.engines.Engine` for what the attributes are.

    Args:
        questions_per_request: 1, more, or ALL.
    """

    model: ChatModel
    prompt: Prompt = field(default_factory=Prompt)
    questions_per_request: int = 1
    temperature: float = 0.0
    seed: int = 0
    counts: Throughput = field(default_factory=Throughput)

    @property
    def settings(self) -> dict[str, Any]:
        """What the answers depend on, as the rows' provenance keeps it. A server has to be met before."""
        model = self.model
        return answer_settings(
            self.name, model.model, model.revision, self.prompt, self.questions_per_request, self.temperature, self.seed
        )

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[Reply]:
        """Replies to a study's questions, in their order; the study keeps one session all the while."""
        replies: dict[str, Reply] = {}
        size = self.questions_per_request or len(requests)
        async with metered_session(self.model, self.counts) as session:
            for start in range(0, len(requests), size):
                group = requests[start : start + size]
                if len(group) > 1 and group[0].attempt == 1:
                    replies |= await self._ask_many(session, group)
                for request in group:
                    if request.qa_id not in replies:
                        replies[request.qa_id] = await self._ask_one(session, request)
        return [replies[request.qa_id] for request in requests]

    async def _ask_one(self, session: Session, request: AnswerRequest) -> Reply:
        return read_one(await session.chat(self.compose([request])), request.question)

    async def _ask_many(self, session: Session, requests: Sequence[AnswerRequest]) -> dict[str, Reply]:
        """The answers that came once and whole; the others are asked alone."""
        return read_many(await session.chat(self.compose(requests)), [request.qa_id for request in requests])

    def compose(self, requests: Sequence[AnswerRequest]) -> ChatRequest:
        """The request that asks about `requests`, which are one study's."""
        return compose(self.prompt, requests, self.temperature, self.seed)


def answer_settings(
    engine: str,
    model: str,
    revision: str,
    prompt: Prompt,
    questions_per_request: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
) -> dict[str, Any]:
    """What answers of a language model depend on besides the question (`engines.SETTINGS`), as rows keep it."""
    return {
        "engine": engine,
        "model": model,
        "revision": revision,
        "prompt_version": f"{prompt.version}, questions per request: {questions_per_request or 'all'}",
        "temperature": temperature,
        "seed": seed,
    }


def compose(prompt: Prompt, requests: Sequence[AnswerRequest], temperature: float = 0.0, seed: int = 0) -> ChatRequest:
    """One chat request for one question, with what was wrong with an earlier reply, or for several of a study."""
    first, alone = requests[0], len(requests) == 1
    questions = [request.question for request in requests]
    user = prompt.fill(first.indication, first.findings, questions, say_again(first) if alone else "")
    return ChatRequest(
        (Message("system", prompt.system if alone else prompt.system_many), Message("user", user)),
        ONE_SCHEMA if alone else MANY_SCHEMA,
        max_tokens=TOKENS_AN_ANSWER * len(requests),
        temperature=temperature,
        seed=seed,
    )


def read_one(reply: ChatReply, question: str) -> Reply:
    """What a reply to one question says, or why it says nothing."""
    if reply.text is None:
        return Reply(None, reply.error)
    try:
        return Reply(read_answer(reply.text, question))
    except ReplyError as error:
        return Reply(None, str(error))


def read_many(reply: ChatReply, qa_ids: Sequence[str]) -> dict[str, Reply]:
    """By qa_id, the answers that stand once and whole in a reply to several questions, in the order they were put."""
    if reply.text is None:
        return {}
    try:
        found = read_object(reply.text)
    except ReplyError:
        return {}
    return {qa_ids[n - 1]: Reply(text) for n, text in read_answers(found, len(qa_ids)).items()}


def parse_question_count(text: str) -> int:
    """`--questions-per-request` as a number: "all" is ALL. Raises ConfigError."""
    if text == "all":
        return ALL
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"--questions-per-request {text!r}: allowed are 1, more, or all")
    return int(text)


def read_answer(text: str, question: str) -> str:
    """The answer to `question` in a reply to it alone.

    Raises:
        ReplyError: no object, no text in it, one that says nothing, a refusal, or the answer to another question.
    """
    found = read_object(text)
    answer = read_text(found, "answer")
    if not answer:
        raise ReplyError("the answer is empty")
    echoed = found.get("question")
    if isinstance(echoed, str) and echoed.strip() not in ("", question) and _words(echoed) != _words(question):
        raise ReplyError("the reply answers another question")
    if _words(answer) == _words(question):
        raise ReplyError("the answer is empty: it repeats the question")
    if why := _why_none(answer):
        raise ReplyError(why)
    return answer


def _why_none(answer: str) -> str | None:
    """Why a text says nothing of the image, as `reasking.UNREAD` words it; None where it may."""
    if is_refusal(answer):
        return "the model refused"
    is_placeholder = answer.startswith("<") and answer.endswith(">")  # of the form that the prompt shows
    return "the answer is empty: it says nothing" if is_placeholder or "".join(_words(answer)) in _NOTHING else None


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
        if number in texts or number in doubled or not isinstance(answer, str) or _why_none(answer.strip()):
            doubled.add(number)
            texts.pop(number, None)
        else:
            texts[number] = answer.strip()
    return texts


def _words(text: str) -> list[str]:
    return "".join(character.lower() if character.isalnum() else " " for character in text).split()
