"""Compares an annotation with its page: values and numbers that are not on the page, and rows that are missing.

An annotated value is reported only if both the draft of the page and its restored text contradict it, so that a mistake
of the draft alone (a cell in the wrong column, two fields read as one) is not reported. Digits have to be equal. Words
may contain a few misread characters.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rjua_meddqa.annotation.drafts import Draft, draft
from rjua_meddqa.annotation.ranges import parse_range
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.answers import is_missing
from rjua_meddqa.schema import RestoredText, TableRow

Problem = tuple[str, str, str]  # kind, where, message
ALIKE_WORDS, ALIKE_ITEM = 0.75, 0.8
LONG = 12  # characters: longer values are compared piece by piece
PIECE = 4  # characters
PIECES_HELD = 0.8  # share of a long value's pieces that the page must contain
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_LOOSE = str.maketrans({"：": ":", "，": ",", "；": ";", "。": ".", "、": ",", "~": "-", "—": "-", "–": "-", "～": "-"})


@dataclass(frozen=True)
class PageText:
    """The content of a page: its draft, and its normalised lines, with spaces between boxes."""

    draft: Draft
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All lines without white space."""
        return "".join(self.lines).replace(" ", "")


def page_text(restored: RestoredText) -> PageText:
    """Return the content of a restored page."""
    return PageText(draft(restored), tuple(" ".join(squeeze(box.text) for box in line) for line in restored.lines))


def squeeze(text: str) -> str:
    """Normalise `text` for comparison: NFKC, lower case, one spelling of stops and dashes, no white space."""
    return "".join(unicodedata.normalize("NFKC", text.translate(_LOOSE)).translate(_LOOSE).casefold().split())


def check_page(key_values: Sequence[tuple[str, str]], table: Sequence[TableRow], page: PageText) -> list[Problem]:
    """Report annotated texts that are not on the page and rows of the page that the annotation lacks."""
    found: list[Problem] = []
    for number, (key, value) in enumerate(key_values, start=1):
        if message := _check_value(key, value, page):
            found.append(("not_on_page", f"kv {number}", message))
    for number, row in enumerate(table, start=1):
        found += [(kind, f"table row {number}", message) for kind, message in _check_row(row, page)]
    return found + _missing_rows(table, page)


def _check_value(key: str, value: str, page: PageText) -> str:
    drafted = [other for name, other in page.draft.key_values if fold(name) == fold(key)]
    if is_missing(value):
        printed = [other for other in drafted if not is_missing(other)]
        sure = len(printed) == len(drafted) > 0 and len(printed[0]) <= LONG and _is_beside(key, printed[0], page)
        return f"{key!r} has no value; the page seems to have {printed[0]!r}" if sure else ""
    if any(_agrees(value, other) for other in drafted) or _is_beside(key, value, page):
        return ""
    if (not drafted or len(squeeze(value)) > LONG) and _holds(value, page):
        return ""
    return f"{key!r}: {value!r} is not on the page" + (f"; it seems to have {drafted[0]!r}" if drafted else "")


def _agrees(value: str, drafted: str) -> bool:
    """Whether two readings may be of one value: equal digits and similar words."""
    one, other = squeeze(value), squeeze(drafted)
    if one == other:
        return True
    return len(one) >= PIECE and _digits(one) == _digits(other) and similarity(one, other) >= ALIKE_WORDS


def _digits(text: str) -> list[str]:
    return _DIGITS.findall(text)


def _is_beside(key: str, value: str, page: PageText) -> bool:
    """Whether a line has `value` directly behind `key`, ignoring stops."""
    followed = re.compile(rf"{_spaced(key)} ?[:;.,]? ?{_spaced(value)}")
    return any(followed.search(line) for line in page.lines)


def _spaced(text: str) -> str:
    """Return a pattern for normalised `text` with optional spaces that does not match within a longer number."""
    wanted = squeeze(text)
    before = r"(?<![\d.])" if wanted[:1].isdigit() else ""
    after = r"(?!\.?\d)" if wanted[-1:].isdigit() else ""
    return before + " ?".join(map(re.escape, wanted)) + after


def _holds(value: str, page: PageText) -> bool:
    """Whether a page contains `value`. For a long one: all its numbers and most of its pieces."""
    wanted = squeeze(value)
    if len(wanted) <= LONG:
        return any(re.search(_spaced(value), line) for line in page.lines)
    text = page.text
    numbers = set(_digits(text))
    pieces = [wanted[i : i + PIECE] for i in range(len(wanted) - PIECE + 1)]
    held = sum(piece in text for piece in pieces) >= PIECES_HELD * len(pieces)
    return held and all(number in numbers for number in _digits(wanted))


def _check_row(row: TableRow, page: PageText) -> list[tuple[str, str]]:
    line = _text_behind(row.item, page)
    drafted = _drafted_row(row, page)
    if line is None and drafted is None:
        return [("not_on_page", f"{row.item!r}: the item is not on the page")]
    about = f"{row.item!r}: the page does not have"
    found = []
    if not is_missing(row.result) and not (
        (drafted is not None and squeeze(drafted.result) == squeeze(row.result))
        or (line is not None and _follows(row.result, line))
    ):
        seen = f"; it seems to have {drafted.result!r}" if drafted is not None else ""
        found.append(("not_on_page", f"{about} the result {row.result!r} beside it{seen}"))
    if not is_missing(row.range) and not (
        (drafted is not None and _same_range(row.range, drafted.range))
        or (line is not None and _holds_range(row, line))
    ):
        seen = f"; it seems to have {drafted.range!r}" if drafted is not None else ""
        found.append(("not_on_page", f"{about} the range {row.range!r} beside it{seen}"))
    return found


def _drafted_row(row: TableRow, page: PageText) -> TableRow | None:
    """Return the drafted row with the most similar item. Of several, one with the same result."""
    alike = [
        (similarity(fold(row.item), fold(other.item)), squeeze(other.result) == squeeze(row.result), number)
        for number, other in enumerate(page.draft.table)
    ]
    best = max(alike, default=None)
    return page.draft.table[best[2]] if best is not None and best[0] >= ALIKE_ITEM else None


def _text_behind(item: str, page: PageText) -> str | None:
    """Return the rest of the line that contains `item`, from its end."""
    wanted = re.compile(_spaced(item))
    return next((line[match.end() :] for line in page.lines if (match := wanted.search(line))), None)


def _follows(result: str, rest: str) -> bool:
    """Whether `result` directly follows an item. A code or an arrow may be between them."""
    return re.match(r"\D{0,12}?" + _spaced(result), rest) is not None


def _same_range(one: str, other: str) -> bool:
    if squeeze(one) == squeeze(other):
        return True
    bounds = [
        sorted((e.label, e.interval.low, e.interval.high) for e in parse_range(text).intervals) for text in (one, other)
    ]
    if bounds[0] and bounds[0] == bounds[1]:
        return True
    return _digits(squeeze(one)) == _digits(squeeze(other)) and similarity(squeeze(one), squeeze(other)) >= ALIKE_WORDS


def _holds_range(row: TableRow, rest: str) -> bool:
    """Whether a line contains the range, or a single range without its unit."""
    if re.search(_spaced(row.range), rest):
        return True
    limits = re.match(r"[<>≤≥]?[\d.]+(?:-+[\d.]+)?", squeeze(row.range))
    is_single = len(parse_range(row.range).intervals) == 1
    return is_single and limits is not None and re.search(_spaced(limits[0]), rest) is not None


def _missing_rows(table: Sequence[TableRow], page: PageText) -> list[Problem]:
    """Report drafted rows with result and range that match no annotated row by item, result or range."""
    found: list[Problem] = []
    names = [fold(row.item) for row in table]
    for row in page.draft.table:
        is_sure = not is_missing(row.result) and bool(parse_range(row.range).intervals)
        alike = [other for other in table if similarity(fold(row.item), fold(other.item)) >= ALIKE_ITEM]
        is_there = fold(row.item) in names or any(
            squeeze(row.result) == squeeze(other.result) or _same_range(row.range, other.range) for other in alike
        )
        if is_sure and not is_there:
            found.append(("missing_row", "table", f"the page seems to have {row.item!r} {row.result!r}"))
    return found
