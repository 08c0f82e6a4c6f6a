"""Replies of models in tests/strangers, and what becomes of them on the way of a run: cut, thoughts apart, read.

Right is what is expected. Abstained (unreadable) is a refusal to read, or an answer that is more than what was expected
but holds it and no trap. Everything else is wrong: an answer where there is none, another one, a trap.
"""

import json
import unicodedata
from collections.abc import Callable

from strangers import ABSTAINED, FOLDER, RIGHT, WRONG, Outcome

from medvqa_core.llm.chat import ChatReply, Usage
from medvqa_core.llm.completions import as_reply
from medvqa_core.llm.json_reply import ReplyError
from mimic_cxr_vqa.generation.language_model import read_one
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.judge_prompt import read_reply
from rjua_meddqa.inference.replies import take_answer
from rjua_meddqa.inference.reply_schemas import read_options

UNREADABLE, OR = "!", " || "
_CODES = {"correctness": "IC", "consistency": "IPF", "completeness": "IPC", "relevance": "MNE"}  # worst first


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def _questions() -> dict[str, tuple[str, str]]:
    return {name: (kind, json.loads(text)) for name, kind, text in _rows("reply_questions.tsv")}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("\\n", "\n")).strip()


def _result(got: str | None, expected: str, traps: str = "-", *, exact: bool = False) -> str:
    allowed = [_plain(text) for text in expected.split(OR)]
    if got is None:
        return RIGHT if UNREADABLE in allowed else ABSTAINED
    if _plain(got) in allowed:
        return RIGHT
    trapped = traps != "-" and any(trap in got for trap in traps.split(OR))
    held = any(all(part in _plain(got) for part in text.split(";")) for text in allowed if text != UNREADABLE)
    return ABSTAINED if held and not trapped and not exact else WRONG


def _take(reply: ChatReply, question: str, kind: str) -> tuple[str | None, str]:
    """The answer that counts, options as their letters; or None and the reason."""
    if reply.text is None:
        return None, str(reply.error)
    try:
        taken = take_answer(reply.text, question, kind)
    except ReplyError as error:
        return None, str(error)
    if kind != "MC":
        return taken, "read"
    options = read_options(question)
    chosen = [letter for letter, text in options.items() if f"{letter}.{text}" in taken.split(";")]
    return "".join(chosen) or taken, "read"


def _said(text: str) -> ChatReply:
    return as_reply(json.loads(text), "stop", Usage())


def read_meddqa() -> list[Outcome]:
    """One outcome for each reply to a question about a Chinese report."""
    found, questions = [], _questions()
    for half, number, name, expected, traps, text in _rows("meddqa_replies.tsv"):
        kind, question = questions[name]
        got, how = _take(_said(text), question, kind)
        result = _result(got, expected, traps, exact=kind == "MC")
        found.append(Outcome(half, int(number), result, f"{name} {text}: {got!r} ({how}) for {expected}"))
    return found


def read_judges() -> list[Outcome]:
    """One outcome for each reply of a judge."""
    found = []
    for half, number, expected, text in _rows("judge_replies.tsv"):
        said = _said(text)
        try:
            verdict = read_reply(said.text) if said.text is not None else None
            why = str(said.error)
        except ReplyError as error:
            verdict, why = None, str(error)
        got = verdict and "".join(
            _CODES[name][dimension.categories.index(verdict[name])] for name, dimension in DIMENSIONS.items()
        )
        result = _result(got, expected, exact=True)
        found.append(Outcome(half, int(number), result, f"{text}: {got} ({why}) for {expected}"))
    return found


def read_answers() -> list[Outcome]:
    """One outcome for each reply of a model that writes answers."""
    found, questions = [], _questions()
    for half, number, name, expected, traps, text in _rows("answer_replies.tsv"):
        reply = read_one(_said(text), questions[name][1])
        result = _result(reply.answer, expected, traps)
        found.append(Outcome(half, int(number), result, f"{text}: {reply.answer!r} ({reply.error}) for {expected}"))
    return found


REPLIES: dict[str, Callable[[], list[Outcome]]] = {
    "meddqa": read_meddqa,
    "judges": read_judges,
    "answers": read_answers,
}
