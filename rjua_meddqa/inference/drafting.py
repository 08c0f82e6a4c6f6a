"""Pre-annotation by a language model, which copies key-values and rows from a page's numbered boxes.

Models that see images get the page's image before its text. Boxes are named by number in both cases.

A text counts only if the boxes that the model names for it contain it, and if these boxes are in its place: a value
beside or below its key, the cells of a row nearest to its item and in the columns of the other rows (`box_places.py`).
Entries that are not are dropped and counted, and ranges that are not are removed. The model's verdicts are not used:
`judge_row` computes them from result and range, unless the two are on different lines of the page.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.errors import InputError
from medvqa_core.llm.chat import ChatReply, ChatRequest, Message, object_schema
from medvqa_core.llm.chat_model import ChatModel
from medvqa_core.llm.engines import Reply, reply_listener
from medvqa_core.llm.json_reply import ReplyError, parse_object
from rjua_meddqa.annotation.draft_rows import judge_row, printed_row, quadruplet
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.report_words import fold
from rjua_meddqa.answers import is_missing
from rjua_meddqa.inference.box_places import are_level, find_misplaced, is_beside
from rjua_meddqa.inference.page_images import ImageRule
from rjua_meddqa.schema import MISSING, Box, Page, PrintedRow

MAX_TOKENS = 4096
SYSTEM = """\
你把一份医学报告的文字整理成结构。用户给出按版面还原的文字，每块文字前的方括号内是它的编号。
回答一个JSON对象，除此之外什么也不写：
{"fields": [{"key": "…", "key_boxes": [0], "value": "…", "value_boxes": [1]}], \
"rows": [{"item": "…", "item_boxes": [2], "result": "…", \
"result_boxes": [3], "range": "…", "range_boxes": [4], "unit": "…", "unit_boxes": [5]}]}
fields：表格以外的每一个栏目和它的内容，内容跨行时写全；栏目后没有内容的，value写“无”，value_boxes写[]。
rows：检验表格的每一行，依次是项目、结果、参考范围、单位；没有的一格写“”和[]。没有表格时rows为[]。
…_boxes：这段文字所在的各块的编号，按阅读顺序。
所有文字照抄原文，不改写，不补充，不判断正常与否。"""
USER = "报告文字（按版面还原）：\n{}"
SEES = "图片是这份报告的原图，用来辨认版面和文字所属的行列；编号和文字以下文为准。\n"
FIELD, ROW = ("key", "value"), ("item", "result", "range", "unit")
_TEXT, _NUMBERS = {"type": "string"}, {"type": "array", "items": {"type": "integer"}}


def _entry_schema(names: Sequence[str]) -> dict[str, Any]:
    properties = {key: kind for name in names for key, kind in ((name, _TEXT), (f"{name}_boxes", _NUMBERS))}
    return {"type": "array", "items": object_schema(**properties)}


SCHEMA = object_schema(fields=_entry_schema(FIELD), rows=_entry_schema(ROW))
PROMPT_VERSION, SEEING_VERSION = (f"draft-{digest(SYSTEM + user)[:12]}" for user in (USER, SEES + USER))
DROPPED = ("fields_not_on_page", "rows_not_on_page", "ranges_not_on_page", "rows_misplaced", "ranges_misplaced")


@dataclass(frozen=True)
class DraftRequest:
    """A page to draft. `id` is the name of its image, and `image` its file for models that see images."""

    id: str
    page: Page
    image: Path | None = None


@dataclass
class DraftingModel:
    """Requests drafts from `model`. For the attributes see `medvqa_core.llm.engines.Engine`.

    Args:
        images: how images are encoded, for models that see them. None: requests have the text alone.
    """

    model: ChatModel
    images: ImageRule | None = None
    settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        model = {"model": self.model.model, "revision": self.model.revision}
        seen = {"images": str(self.images), "prompt": SEEING_VERSION} if self.images else {"prompt": PROMPT_VERSION}
        self.settings = {"engine": self.model.kind, **model, **seen, "max_tokens": MAX_TOKENS}

    async def answer(self, requests: Sequence[DraftRequest]) -> list[Reply]:
        """Return the model's objects as text. An unreadable object or image is a failure."""
        replies = []
        async with self.model.session() as session:
            for request in requests:
                try:
                    message = await asyncio.to_thread(self._message, request)
                except InputError as error:
                    replies.append(Reply(None, str(error)))
                    continue
                reply = await session.chat(ChatRequest((Message("system", SYSTEM), message), SCHEMA, MAX_TOKENS))
                replies.append(_check(reply, request.page))
                reply_listener.get()(request, replies[-1])
        return replies

    def _message(self, request: DraftRequest) -> Message:
        text = USER.format(number_boxes(request.page))
        if self.images is None or request.image is None:
            return Message("user", text)
        return Message("user", SEES + text, (self.images.encode(request.image),))


def number_boxes(page: Page) -> str:
    """Return the lines of a page with the number of each box before its text."""
    numbers = {id(box): number for number, box in enumerate(page.boxes)}
    lines = (" ".join(f"[{numbers[id(box)]}]{box.text}" for box in line) for line in page.restored.lines)
    return "\n".join(lines)


def _check(reply: ChatReply, page: Page) -> Reply:
    if reply.text is None:
        return Reply(None, reply.error)
    try:
        _entries(parse_object(reply.text), page)
    except ReplyError as problem:
        return Reply(None, str(problem))
    return Reply(reply.text)


@dataclass(frozen=True)
class _Entry:
    """The texts of an entry by name, and the boxes that the model names for them."""

    texts: dict[str, str]
    boxes: dict[str, list[Box]]

    def is_in_boxes(self, name: str) -> bool:
        """Whether the boxes that are named for a text contain it."""
        return is_printed(self.texts[name], "\n".join(box.text for box in self.boxes[name]))


def _entries(found: dict[str, Any], page: Page) -> tuple[list[_Entry], list[_Entry]]:
    """Return the fields and rows of a reply. Raises ReplyError if it has another shape."""
    lists = []
    for name, keys in (("fields", FIELD), ("rows", ROW)):
        entries = found.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ReplyError(f"{name!r} is not a list of objects")
        for entry in entries:
            if not all(isinstance(entry.get(key), str) for key in keys[:2]):
                raise ReplyError(f"an entry of {name!r} lacks a text under {' or '.join(keys[:2])}")
        lists.append([_Entry(_texts(e, keys), {key: _boxes(e, key, page) for key in keys}) for e in entries])
    return lists[0], lists[1]


def _texts(entry: dict[str, Any], keys: Sequence[str]) -> dict[str, str]:
    texts = {key: str(entry.get(key) or "").strip() for key in keys}
    return {key: "" if key not in ("key", "item") and is_missing(text) else text for key, text in texts.items()}


def _boxes(entry: dict[str, Any], key: str, page: Page) -> list[Box]:
    numbers = entry.get(f"{key}_boxes") or []
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ReplyError(f"{key}_boxes is not a list of box numbers")
    return [page.boxes[number] for number in numbers if 0 <= number < len(page.boxes)]


def draft_from_reply(text: str, page: Page) -> tuple[Draft, Counter[str]]:
    """Return the entries of a reply that are on `page` in their place, with verdicts by rule, and counts of the others.

    Raises:
        ReplyError: the reply is not an object of this shape.
    """
    fields, rows = _entries(parse_object(text), page)
    dropped = Counter(dict.fromkeys(DROPPED, 0))
    key_values = _keep_fields(fields, dropped)
    patient = read_patient(key_values)
    judged = tuple(judge_row(row, patient) for row in _keep_rows(rows, dropped))
    return Draft(key_values, tuple(map(quadruplet, judged)), judged), dropped


def _keep_fields(fields: Sequence[_Entry], dropped: Counter[str]) -> tuple[tuple[str, str], ...]:
    """The key-values whose boxes contain them side by side, without repetitions."""
    kept: list[tuple[str, str]] = []
    for entry in fields:
        key, value = entry.texts["key"], entry.texts["value"] or MISSING
        is_there = entry.is_in_boxes("key") and (value == MISSING or entry.is_in_boxes("value"))
        if not is_there or (value != MISSING and not is_beside(entry.boxes["key"], entry.boxes["value"])):
            dropped["fields_not_on_page"] += 1
        elif (key, value) not in kept:
            kept.append((key, value))
    return tuple(kept)


def _keep_rows(rows: Sequence[_Entry], dropped: Counter[str]) -> Iterator[PrintedRow]:
    """The rows whose boxes contain item and result in the row and column of their item."""
    kept = []
    for entry in rows:
        if entry.is_in_boxes("item") and (not entry.texts["result"] or entry.is_in_boxes("result")):
            kept.append(entry)
        else:
            dropped["rows_not_on_page"] += 1
    cells = [{name: boxes for name, boxes in entry.boxes.items() if boxes} for entry in kept]
    for entry, misplaced in zip(kept, find_misplaced(cells), strict=True):
        if misplaced & {"item", "result"}:
            dropped["rows_misplaced"] += 1
            continue
        texts = dict(entry.texts)
        for name in ("range", "unit"):
            is_there = entry.is_in_boxes(name)
            if texts[name] and (not is_there or name in misplaced):
                texts[name] = ""
                if name == "range":
                    dropped["ranges_misplaced" if is_there else "ranges_not_on_page"] += 1
        is_one_line = are_level(entry.boxes["result"], entry.boxes["range"])
        yield printed_row(texts["item"], texts["result"], texts["range"], texts["unit"], is_one_line=is_one_line)


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
