"""Checking a restored page against the annotated table: are item and result of each row on one line of their own?

Spelling is forgiven where the engine or the annotator slipped, by this rule. Both sides are compared without white
space, in compatibility form (NFKC, so that full-width signs are plain) and small letters. An item is on a line when a
stretch of the line's text is within an edit distance of 30% of the item's length, the item as a whole or without its
part in brackets. The result is right of it: the same, no part of a longer number, or a word that is one edit apart,
where it has at least four characters.

The line is the row's own unless it holds another row: no second item in the column of its item, and no second result in
the column of its result. Tables side by side share their lines, in separate columns. A line made of two
rows of one table, or of a whole page, counts for none of them.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rjua_meddqa.schema import Box, TableRow

MAX_ITEM_ERROR = 0.3  # edits per character of the item
MIN_SLIP_LENGTH = 4  # characters of a result in which one may be wrong
SAME_COLUMN = 0.3  # of the narrower of two pieces: how much of it lies above or below the other
_BRACKETS = re.compile(r"\([^()]*\)+$")


@dataclass(frozen=True, slots=True)
class RowCheck:
    """`found` is "exact", "slip" (one character of the result differs) or None. `reason` explains the failure."""

    row: TableRow
    found: Literal["exact", "slip"] | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Span:
    """Characters `start` to `end` of a line's text, and their position on the page."""

    start: int
    end: int
    left: float
    right: float

    def shares_column(self, other: "_Span") -> bool:
        shared = min(self.right, other.right) - max(self.left, other.left)
        return shared > SAME_COLUMN * min(self.right - self.left, other.right - other.left)

    def shares_text(self, other: "_Span") -> bool:
        return self.start < other.end and other.start < self.end


class _Line:
    """The text of a line as it is compared, with the place of every character."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.text, self._places = "", []
        for box in boxes:
            text = (" " if self.text else "") + plain(box.text)
            step = box.width / max(len(text), 1)
            self._places += [(box.left + step * i, box.left + step * (i + 1)) for i in range(len(text))]
            self.text += text
        self._packed = [i for i, character in enumerate(self.text) if character != " "]
        self._squeezed = self.text.replace(" ", "")

    def span(self, start: int, end: int) -> _Span:
        places = self._places[start:end]
        return _Span(start, end, min(left for left, _ in places), max(right for _, right in places))

    def items(self, row: TableRow) -> list[tuple[float, _Span]]:
        """(edits per character, place) of every stretch that can be the item of `row`, the best first."""
        item = _squeeze(row.item)
        found: list[tuple[float, _Span]] = []
        for name in sorted({item, _BRACKETS.sub("", item)} - {""}, key=len, reverse=True):
            for distance, start, end in _stretches(name, self._squeezed):
                if distance <= MAX_ITEM_ERROR * len(name):
                    span = self.span(self._packed[start], self._packed[end - 1] + 1)
                    found.append((distance / len(name), span))
        return sorted(found, key=lambda entry: entry[0])

    def results(self, result: str) -> list[_Span]:
        """Position of `result`, ignoring its inner spaces, and not as a part of a longer number."""
        spaced = r" ?".join(map(re.escape, result))
        before = r"(?<![\d.])" if result[:1].isdigit() else ""
        after = r"(?!\.?\d)" if result[-1:].isdigit() else ""
        return [self.span(*match.span()) for match in re.finditer(before + spaced + after, self.text) if match[0]]

    def slips(self, result: str) -> list[_Span]:
        """Words that are one edit from `result`."""
        words = re.finditer(r"\S+", self.text)
        return [
            self.span(*match.span())
            for match in words
            if len(result) >= MIN_SLIP_LENGTH and edit_distance(result, match[0]) == 1
        ]


def check_rows(lines: Sequence[Sequence[Box]], rows: Iterable[TableRow]) -> list[RowCheck]:
    """One check per row of the annotated table against the lines of a page."""
    rows = list(rows)
    read = [_Line(line) for line in lines if line]
    items = [[line.items(row) for row in rows] for line in read]
    return [_check_row(read, items, rows, number) for number in range(len(rows))]


def count_read(lines: Sequence[Sequence[Box]], rows: Iterable[TableRow]) -> int:
    """Rows whose item and whose result are anywhere on the page: what reading leaves for the layout to find."""
    read = [_Line(line) for line in lines if line]
    return sum(
        any(line.items(row) for line in read)
        and any(line.results(_squeeze(row.result)) or line.slips(_squeeze(row.result)) for line in read)
        for row in rows
    )


def plain(text: str) -> str:
    """NFKC, small letters, single spaces between what is apart."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _squeeze(text: str) -> str:
    return plain(text).replace(" ", "")


def _check_row(
    lines: list[_Line], items: list[list[list[tuple[float, _Span]]]], rows: list[TableRow], number: int
) -> RowCheck:
    row, result = rows[number], _squeeze(rows[number].result)
    slip, reason = None, ""
    for place, line in enumerate(lines):
        for edits, item in items[place][number]:
            if _is_nearer_to_another(edits, item, items[place]):
                continue
            exact = [("exact", span) for span in line.results(result)]
            for found, span in exact or [("slip", span) for span in line.slips(result)]:
                if span.start < item.end or (found == "slip" and slip is not None):
                    continue
                other = _other_row(line, items[place], rows, number, item, span)
                if other is not None:
                    reason = f"line {place + 1} holds {other.item!r} as well"
                elif found == "exact":
                    return RowCheck(row, "exact", f"line {place + 1}")
                else:
                    slip = RowCheck(row, "slip", f"line {place + 1} has {line.text[span.start : span.end]}")
    if slip or reason:
        return slip or RowCheck(row, None, reason)
    if not any(of_line[number] for of_line in items):
        return RowCheck(row, None, "the item was not read")
    if any(line.results(result) for line in lines):
        return RowCheck(row, None, "the result is on another line")
    return RowCheck(row, None, "the result was not read")


def _is_nearer_to_another(edits: float, item: _Span, items: list[list[tuple[float, _Span]]]) -> bool:
    """Whether a stretch of a line is rather another row's item: 直接胆红素 is near 总胆红素, and nearer to itself."""
    return any(other < edits and span.shares_text(item) for found in items for other, span in found)


def _other_row(
    line: _Line, items: list[list[tuple[float, _Span]]], rows: list[TableRow], number: int, item: _Span, result: _Span
) -> TableRow | None:
    """Another row that the line holds: its item in the column of this one's, or its result in that of this one's."""
    for other, row in enumerate(rows):
        names = (span for _, span in items[other])
        if other != number and (
            any(span.shares_column(item) and not span.shares_text(item) for span in names)
            or any(
                span.shares_column(result) and not span.shares_text(result)
                for span in line.results(_squeeze(row.result))
            )
        ):
            return row
    return None


def _stretches(name: str, text: str) -> list[tuple[int, int, int]]:
    """(edits, start, end) of the stretches of `text` nearest to `name`, none within another."""
    ends = _edits_by_end(name, text)
    found: list[tuple[int, int, int]] = []
    for distance, end in sorted((distance, end) for end, distance in enumerate(ends) if end):
        if distance > MAX_ITEM_ERROR * len(name):
            break
        backwards = _edits_by_end(name[::-1], text[:end][::-1])
        start = end - min(range(1, len(backwards)), key=lambda length: (backwards[length], abs(length - len(name))))
        if not any(start < other_end and other_start < end for _, other_start, other_end in found):
            found.append((distance, start, end))
    return found


def _edits_by_end(a: str, b: str) -> list[int]:
    """Edits from `a` to the nearest stretch of `b` that ends at each place of it."""
    before = [0] * (len(b) + 1)
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before


def edit_distance(a: str, b: str) -> int:
    """Edits (insert, delete, replace one character) from `a` to `b`."""
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1]
