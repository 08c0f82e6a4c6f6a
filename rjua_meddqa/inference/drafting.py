"""Pre-annotation by a language model, which copies key-values and rows from a page's restored text.

A key, value, item or result counts only if it occurs in the restored text, ignoring white space and full-width forms.
Entries that do not are dropped and counted, and ranges that do not are removed. The model's verdicts are not used:
`judge_row` computes them from result and range, unless the two are on different lines of the page.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.llm.chat import ChatRequest, Message
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.json_reply import ReplyError, read_object
from rjua_meddqa.annotation.draft_rows import judge_row, printed_row, quadruplet
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.answers import is_missing
from rjua_meddqa.schema import MISSING, Page

MAX_TOKENS = 4096
SYSTEM = """\
你把一份医学报告的文字整理成结构。用户给出按版面还原的文字。
回答一个JSON对象，除此之外什么也不写：
{"fields": [{"key": "…", "value": "…"}], "rows": [{"item": "…", "result": "…", "range": "…", "unit": "…"}]}
fields：表格以外的每一个栏目和它的内容，内容跨行时写全；栏目后没有内容的，value写“无”。
rows：检验表格的每一行，依次是项目、结果、参考范围、单位；没有的一格写“”。没有表格时rows为[]。
所有文字照抄原文，不改写，不补充，不判断正常与否。"""
USER = "报告文字（按版面还原）：\n{}"
_TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"key": _TEXT, "value": _TEXT},
                "required": ["key", "value"],
                "additionalProperties": False,
            },
        },
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"item": _TEXT, "result": _TEXT, "range": _TEXT, "unit": _TEXT},
                "required": ["item", "result", "range", "unit"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["fields", "rows"],
    "additionalProperties": False,
}
PROMPT_VERSION = f"draft-{digest(SYSTEM + USER)[:12]}"
DROPPED = ("fields_not_on_page", "rows_not_on_page", "ranges_not_on_page")


@dataclass(frozen=True)
class DraftRequest:
    """A page to draft. `id` is the name of its image."""

    id: str
    page: Page


@dataclass
class DraftingModel:
    """Requests drafts from `model`. For the attributes see `medvqa_core.llm.engines.Engine`."""

    model: ChatModel
    settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        model = {"model": self.model.model, "revision": self.model.revision}
        self.settings = {"engine": self.model.kind, **model, "prompt": PROMPT_VERSION, "max_tokens": MAX_TOKENS}

    async def answer(self, requests: Sequence[DraftRequest]) -> list[Reply]:
        """Return the model's objects as text. An unreadable object is a failure."""
        replies = []
        async with self.model.session() as session:
            for request in requests:
                messages = (Message("system", SYSTEM), Message("user", USER.format(request.page.restored.text)))
                reply = await session.chat(ChatRequest(messages, SCHEMA, MAX_TOKENS))
                replies.append(_check(reply.text, reply.error))
        return replies


def _check(text: str | None, error: str | None) -> Reply:
    if text is None:
        return Reply(None, error)
    try:
        _entries(read_object(text))
    except ReplyError as problem:
        return Reply(None, str(problem))
    return Reply(text)


def _entries(found: dict[str, Any]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the fields and rows of a reply. Raises ReplyError if it has another shape."""
    lists = []
    for name, needed, optional in (("fields", ("key", "value"), ()), ("rows", ("item", "result"), ("range", "unit"))):
        entries = found.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ReplyError(f"{name!r} is not a list of objects")
        for entry in entries:
            if not all(isinstance(entry.get(key), str) for key in needed):
                raise ReplyError(f"an entry of {name!r} lacks a text under {' or '.join(needed)}")
        lists.append([{key: str(entry.get(key) or "") for key in (*needed, *optional)} for entry in entries])
    return lists[0], lists[1]


def draft_from_reply(text: str, page: Page) -> tuple[Draft, Counter[str]]:
    """Return the entries of a reply that are on `page`, with verdicts by rule, and the number of dropped entries.

    Raises:
        ReplyError: the reply is not an object of this shape.
    """
    fields, rows = _entries(read_object(text))
    printed_text, dropped = page.restored.text, Counter(dict.fromkeys(DROPPED, 0))
    key_values = []
    for entry in fields:
        value = MISSING if is_missing(entry["value"]) else entry["value"].strip()
        if not is_printed(entry["key"], printed_text) or (value != MISSING and not is_printed(value, printed_text)):
            dropped["fields_not_on_page"] += 1
        elif (entry["key"].strip(), value) not in key_values:
            key_values.append((entry["key"].strip(), value))
    patient, judged = read_patient(tuple(key_values)), []
    for entry in rows:
        result = "" if is_missing(entry["result"]) else entry["result"].strip()
        if not is_printed(entry["item"], printed_text) or (result and not is_printed(result, printed_text)):
            dropped["rows_not_on_page"] += 1
            continue
        reference, unit = ("" if is_missing(entry[name]) else entry[name].strip() for name in ("range", "unit"))
        if reference and not is_printed(reference, printed_text):
            dropped["ranges_not_on_page"] += 1
            reference = ""
        unit = unit if is_printed(unit, printed_text) else ""
        together = any(is_printed(result, line) and is_printed(reference, line) for line in printed_text.split("\n"))
        printed = printed_row(entry["item"].strip(), result, reference, unit, is_one_line=together)
        judged.append(judge_row(printed, patient))
    return Draft(tuple(key_values), tuple(map(quadruplet, judged)), tuple(judged)), dropped


def is_printed(text: str, page: str) -> bool:
    """Whether a page's text contains `text`, but not as part of a longer number."""
    wanted = fold(text)
    if not wanted:
        return False
    before = r"(?<![\d.])" if wanted[0].isdigit() else ""
    after = r"(?!\.?\d)" if wanted[-1].isdigit() else ""
    # White space separates numbers (3.1  3.5-5.3). In words it is ignored.
    pattern = r"\s*".join(map(re.escape, wanted))
    return re.search(before + pattern + after, _folded(page)) is not None


@lru_cache(maxsize=256)
def _folded(page: str) -> str:
    """Return `page` as `fold` does, but with its white space."""
    return "".join(character if character.isspace() else fold(character) or character for character in page)
