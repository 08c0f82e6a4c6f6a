"""Checking a restored page against the annotated table: are item and result of each row on one line?

Spelling is forgiven where the engine or the annotator slipped, by this rule. Both sides are compared without white
space, in compatibility form (NFKC, so that full-width signs are plain) and small letters. An item is on a line when a
stretch of the line's text is within an edit distance of 30% of the item's length, the item as a whole or without its
part in brackets. The result stands right of it: the same, no part of a longer number, or a word that is one edit apart,
where it has at least four characters.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rjua_meddqa.schema import Box, TableRow

MAX_ITEM_ERROR = 0.3  # edits per character of the item
MIN_SLIP_LENGTH = 4  # characters of a result in which one may be wrong
_BRACKETS = re.compile(r"\([^()]*\)+$")


@dataclass(frozen=True, slots=True)
class RowCheck:
    """`found` is "exact", "slip" (one character of the result differs) or None; `reason` tells where or what fails."""

    row: TableRow
    found: Literal["exact", "slip"] | None
    reason: str


def check_rows(lines: Sequence[Sequence[Box]], rows: Iterable[TableRow]) -> list[RowCheck]:
    """One check per row of the annotated table against the lines of a page."""
    texts = [plain(" ".join(box.text for box in line)) for line in lines]
    return [_check_row(texts, row) for row in rows]


def plain(text: str) -> str:
    """NFKC, small letters, single spaces between what is apart."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _check_row(texts: Sequence[str], row: TableRow) -> RowCheck:
    item, result = plain(row.item).replace(" ", ""), plain(row.result).replace(" ", "")
    names = {item, _BRACKETS.sub("", item)} - {""}
    ends = {number: end for number, text in enumerate(texts) if (end := _end_of_best(names, text)) is not None}
    slip = None
    for number, end in ends.items():
        right = texts[number][end:]
        if _holds(right, result):
            return RowCheck(row, "exact", f"line {number + 1}")
        for value in right.split():
            if len(result) >= MIN_SLIP_LENGTH and edit_distance(result, value)[0] == 1:
                slip = slip or RowCheck(row, "slip", f"line {number + 1} has {value}")
    if slip:
        return slip
    if not ends:
        return RowCheck(row, None, "the item was not read")
    if any(_holds(text, result) for text in texts):
        return RowCheck(row, None, "the result is on another line")
    return RowCheck(row, None, "the result was not read")


def _holds(text: str, result: str) -> bool:
    """Whether `result` is in `text`, spaces within it aside, and not as a part of a longer number."""
    spaced = r" ?".join(map(re.escape, result))
    before = r"(?<![\d.])" if result[:1].isdigit() else ""
    after = r"(?!\.?\d)" if result[-1:].isdigit() else ""
    return re.search(before + spaced + after, text) is not None


def _end_of_best(names: Iterable[str], text: str) -> int | None:
    """Where in `text` the best match of a name ends; None where none is near enough."""
    packed = [i for i, character in enumerate(text) if character != " "]
    squeezed = text.replace(" ", "")
    best = None
    for name in names:
        distance, end = edit_distance(name, squeezed, anywhere=True)
        if distance <= MAX_ITEM_ERROR * len(name) and (best is None or distance / len(name) < best[0]):
            best = (distance / len(name), packed[end - 1] + 1 if end else 0)
    return best[1] if best else None


def edit_distance(a: str, b: str, anywhere: bool = False) -> tuple[int, int]:
    """Edits from `a` to `b`, or to the nearest stretch of `b`; and where in `b` that stretch ends (the first such)."""
    before = [0] * (len(b) + 1) if anywhere else list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    if not anywhere:
        return before[-1], len(b)
    best = min(before)
    return best, before.index(best)
