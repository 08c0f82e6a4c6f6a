"""Pre-annotation by a language model: it copies key-values and rows from a page's restored text; rules check and judge.

What a model says counts only where the page says it: a key, a value, an item, a result has to stand in the restored
text (white space and signs' widths aside, a number not within a longer one), else its entry is dropped and counted; a
range that does not stand there is taken for none. Verdicts are never the model's: `judge_row` computes them from result
and range, and gives none where the two stand on different lines of the page.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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
from rjua_meddqa.schema import MISSING

if TYPE_CHECKING:
    from rjua_meddqa.restoration.pages import Page

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
    """A page to draft; `id` is its image's name."""

    id: str
    page: "Page"


@dataclass
class DraftingModel:
    """Asks `model` for drafts; see `medvqa_core.llm.engines.Engine` for what the attributes are. Replies stay texts."""

    model: ChatModel
    settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        said = {"model": self.model.model, "revision": self.model.revision}
        self.settings = {"engine": self.model.kind, **said, "prompt": PROMPT_VERSION, "max_tokens": MAX_TOKENS}

    async def answer(self, requests: Sequence[DraftRequest]) -> list[Reply]:
        """The model's objects as text; one that cannot be read as one is a failure."""
        replies = []
        async with self.model.session() as session:
            for request in requests:
                messages = (Message("system", SYSTEM), Message("user", USER.format(request.page.restored.text)))
                said = await session.chat(ChatRequest(messages, SCHEMA, MAX_TOKENS))
                replies.append(_check(said.text, said.error))
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
    """Fields and rows of a reply. Raises ReplyError where it is not of this shape."""
    lists = []
    for name, needed, optional in (("fields", ("key", "value"), ()), ("rows", ("item", "result"), ("range", "unit"))):
        entries = found.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ReplyError(f"{name!r} is no list of objects")
        for entry in entries:
            if not all(isinstance(entry.get(key), str) for key in needed):
                raise ReplyError(f"an entry of {name!r} lacks a text under {' or '.join(needed)}")
        lists.append([{key: str(entry.get(key) or "") for key in (*needed, *optional)} for entry in entries])
    return lists[0], lists[1]


def draft_from_reply(text: str, page: "Page") -> tuple[Draft, Counter[str]]:
    """What of a reply stands on `page`, as a draft with verdicts by rule, and how often each of DROPPED was dropped.

    Raises:
        ReplyError: the reply is no object of this shape.
    """
    fields, rows = _entries(read_object(text))
    said, dropped = page.restored.text, Counter(dict.fromkeys(DROPPED, 0))
    key_values = []
    for entry in fields:
        value = MISSING if is_missing(entry["value"]) else entry["value"].strip()
        if not stands_on(entry["key"], said) or (value != MISSING and not stands_on(value, said)):
            dropped["fields_not_on_page"] += 1
        elif (entry["key"].strip(), value) not in key_values:
            key_values.append((entry["key"].strip(), value))
    patient, judged = read_patient(tuple(key_values)), []
    for entry in rows:
        result = "" if is_missing(entry["result"]) else entry["result"].strip()
        if not stands_on(entry["item"], said) or (result and not stands_on(result, said)):
            dropped["rows_not_on_page"] += 1
            continue
        reference, unit = ("" if is_missing(entry[name]) else entry[name].strip() for name in ("range", "unit"))
        if reference and not stands_on(reference, said):
            dropped["ranges_not_on_page"] += 1
            reference = ""
        unit = unit if stands_on(unit, said) else ""
        together = any(stands_on(result, line) and stands_on(reference, line) for line in said.split("\n"))
        printed = printed_row(entry["item"].strip(), result, reference, unit, is_one_line=together)
        judged.append(judge_row(printed, patient))
    return Draft(tuple(key_values), tuple(map(quadruplet, judged)), tuple(judged)), dropped


def stands_on(text: str, page: str) -> bool:
    """Whether a page's text holds `text`; a number within a longer one is another number."""
    wanted = fold(text)
    if not wanted:
        return False
    before = r"(?<![\d.])" if wanted[0].isdigit() else ""
    after = r"(?!\.?\d)" if wanted[-1].isdigit() else ""
    # white space parts numbers (3.1  3.5-5.3), and means nothing in words
    pattern = r"\s*".join(map(re.escape, wanted))
    return re.search(before + pattern + after, _folded(page)) is not None


@lru_cache(maxsize=256)
def _folded(page: str) -> str:
    """`page` in the forms that `fold` gives, white space kept."""
    return "".join(character if character.isspace() else fold(character) or character for character in page)
