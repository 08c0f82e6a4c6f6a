"""Compares an annotation with its page: texts that differ from the page, and lines of the page that are missing.

Each annotated value is compared with the draft's value of its key and with the text behind its key on the page. A
difference is reported only if both contain one, so that a mistake of the draft alone (a cell in the wrong column, two
fields read as one) is not reported. `text_differences` decides which differences matter.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rjua_meddqa.annotation.drafts import Draft, draft
from rjua_meddqa.annotation.items import find_row, item_score
from rjua_meddqa.annotation.ranges import parse_range
from rjua_meddqa.annotation.report_words import fold, is_known_key
from rjua_meddqa.annotation.text_differences import Difference, count_errors, find_differences, letters
from rjua_meddqa.answers import is_missing
from rjua_meddqa.schema import RestoredText, TableRow

Problem = tuple[str, str, str]  # kind, where, message
SHOWN = 3  # differences in one message
WINDOW = 60  # characters behind a key that may belong to other fields
ABSENT = 0.4  # share of errors from which a text is not contained in another
SENTENCE = 4  # characters of the shortest sentence that may be missing
_SENTENCES = re.compile(r"[。；;\n]")
_NOT_UNIT = re.compile(r"[\d.<>≤≥=\-+]")


@dataclass(frozen=True)
class PageText:
    """The content of a page: its draft, and its lines, with spaces between boxes."""

    draft: Draft
    lines: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """The compared characters of all lines, with spaces between pieces."""
        return " ".join(letters(piece) for line in self.lines for piece in line.split())

    @cached_property
    def solid(self) -> str:
        return self.text.replace(" ", "")


def page_text(restored: RestoredText) -> PageText:
    """Return the content of a restored page."""
    return PageText(draft(restored), tuple(" ".join(box.text for box in line) for line in restored.lines))


def check_page(key_values: Sequence[tuple[str, str]], table: Sequence[TableRow], page: PageText) -> list[Problem]:
    """Report annotated texts that differ from the page, and rows and sentences of the page that are missing."""
    found: list[Problem] = []
    checked = set()
    for number, (key, value) in enumerate(key_values, start=1):
        if message := _check_value(key, value, page):
            found.append(("not_on_page", f"kv {number}", message))
        if message or is_missing(value):
            checked.add(fold(key))
    items = [row.item for row in (*table, *page.draft.table)]
    for number, row in enumerate(table, start=1):
        found += [("not_on_page", f"table row {number}", message) for message in _check_row(row, items, page)]
    return found + _missing_rows(table, page) + _missing_lines(key_values, table, checked, page)


def _check_value(key: str, value: str, page: PageText) -> str:
    drafted = [other for name, other in page.draft.key_values if fold(name) == fold(key)]
    if is_missing(value):
        printed = [other for other in drafted if not is_missing(other)]
        sure = len(printed) == len(drafted) > 0 and letters(key) + letters(printed[0]) in page.solid
        return f"{key!r} has no value; the page seems to have {printed[0]!r}" if sure else ""
    wanted = letters(value)
    candidates = [find_differences(wanted, letters(other)) for other in drafted if not is_missing(other)]
    candidates += [find_differences(wanted, rest[: len(wanted) + WINDOW], "start") for rest in _behind(key, page)]
    if not candidates:
        candidates = [find_differences(wanted, page.text, "inside")]
    differences = min(candidates, key=lambda found: sum(len(d.written) + len(d.printed) for d in found))
    differences = [one for one in differences if not one.context or one.context not in page.solid]
    return f"{key!r}: {value!r} is not on the page{_describe(differences)}" if differences else ""


def _describe(differences: Sequence[Difference]) -> str:
    shown = [
        f"the page has {one.printed!r} for {one.written!r}"
        if one.printed and one.written
        else f"the page {'also has' if one.printed else 'lacks'} {one.printed or one.written!r}"
        for one in differences[:SHOWN]
    ]
    return ": " + ", ".join(shown)


def _behind(text: str, page: PageText) -> list[str]:
    """Return the texts of the page behind each place of `text`."""
    wanted = " ?".join(map(re.escape, letters(text)))
    return [page.text[match.end() :] for match in re.finditer(wanted, page.text)] if wanted else []


def _check_row(row: TableRow, items: Iterable[str], page: PageText) -> list[str]:
    drafted = find_row(row.item, page.draft.table)
    rests = [_until_item(rest, row.item, items) for rest in _behind(row.item, page)]
    if not rests and drafted is None:
        return [f"{row.item!r}: the item is not on the page"]
    about = f"{row.item!r}: the page does not have"
    found = []
    if not rests and drafted is not None and find_differences(letters(row.item), letters(drafted.item)):
        found.append(f"{row.item!r} is not on the page; it seems to have {drafted.item!r}")
    wanted = letters(row.result)
    has_result = drafted is not None and not find_differences(wanted, letters(drafted.result))
    if not is_missing(row.result) and not has_result and not any(_follows(wanted, rest) for rest in rests):
        seen = f"; it seems to have {drafted.result!r}" if drafted is not None else ""
        found.append(f"{about} the result {row.result!r} beside it{seen}")
    has_range = drafted is not None and _same_range(row.range, drafted.range)
    if not is_missing(row.range) and not has_range:
        wanted = letters(row.range)
        if not any(not find_differences(wanted, rest, "inside") for rest in rests):
            seen = f"; it seems to have {drafted.range!r}" if drafted is not None else ""
            found.append(f"{about} the range {row.range!r} beside it{seen}")
    return found


def _until_item(rest: str, item: str, items: Iterable[str]) -> str:
    """Cut the text behind an item before the next item."""
    others = {letters(other) for other in items if fold(other) != fold(item)} - {""}
    places = [match.start() for other in others if (match := re.search(" ?".join(map(re.escape, other)), rest))]
    return rest[: min(places, default=len(rest))]


def _follows(result: str, rest: str) -> bool:
    """Whether `result` directly follows an item. A code or an arrow may be between them."""
    return (
        re.match(r"\D{0,12}?" + re.escape(result) + (r"(?!\.?\d)" if result[-1:].isdigit() else ""), rest) is not None
    )


def _same_range(one: str, other: str) -> bool:
    """Whether two ranges have the same bounds, and the same unit if both have one."""
    if not find_differences(letters(one), letters(other)):
        return True
    bounds = [
        sorted((e.label, e.interval.low, e.interval.high) for e in parse_range(text).intervals) for text in (one, other)
    ]
    units = [_NOT_UNIT.sub("", letters(text)) for text in (one, other)]
    return bool(bounds[0]) and bounds[0] == bounds[1] and (not all(units) or not find_differences(units[0], units[1]))


def _missing_rows(table: Sequence[TableRow], page: PageText) -> list[Problem]:
    """Report drafted rows with result and range that match no annotated row."""
    found: list[Problem] = []
    for row in page.draft.table:
        is_sure = not is_missing(row.result) and bool(parse_range(row.range).intervals)
        is_there = any(
            item_score(row.item, other.item)
            or (letters(row.result) == letters(other.result) and _same_range(row.range, other.range))
            for other in table
        )
        if is_sure and not is_there:
            found.append(("missing_row", "table", f"the page seems to have {row.item!r} {row.result!r}"))
    return found


def _missing_lines(
    key_values: Sequence[tuple[str, str]], table: Sequence[TableRow], checked: set[str], page: PageText
) -> list[Problem]:
    """Report drafted keys and sentences that the annotation lacks, unless their keys are `checked`."""
    cells = [cell for row in table for cell in (row.item, row.result, row.range)]
    written = " ".join(map(letters, [text for pair in key_values for text in pair] + cells))
    keys = {fold(key) for key, _ in key_values}
    found: list[Problem] = []
    for key, value in page.draft.key_values:
        if is_missing(value) or fold(key) in checked or not (fold(key) in keys or is_known_key(key)):
            continue
        for sentence in map(letters, _SENTENCES.split(value)):
            is_short = len(sentence) < SENTENCE
            if (is_short and fold(key) in keys) or (not is_short and count_errors(sentence, written) < ABSENT):
                continue
            found.append(("missing_line", "kv", f"the page seems to have {sentence!r} at {key!r}"))
    return found
