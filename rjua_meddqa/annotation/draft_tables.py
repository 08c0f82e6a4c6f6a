"""Reads laboratory tables from placed text: header words define the columns, results define the rows.

Several tables may be side by side (the header repeats) or below each other. Cells may wrap.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, in_row, join_cells, join_wrapped, rows
from rjua_meddqa.annotation.draft_columns import Group, fill, find_headers, holds, share_cells, split_groups
from rjua_meddqa.annotation.draft_headerless import read_headerless
from rjua_meddqa.annotation.draft_row_blocks import assign_lines, is_wrapped
from rjua_meddqa.annotation.draft_rows import printed_row
from rjua_meddqa.annotation.ranges import parse_range
from rjua_meddqa.schema import PrintedRow

_NUMBER_AND_UNIT = re.compile(r"([<>≤≥]?\s*\d+(?:\.\d+)?)\s+(\D\S*)")  # read as one box
_OPEN_NUMBER = re.compile(r"(?:[-~—～<>≤≥]\s*\d*|\d)\.?$")
_REST_OF_NUMBER = re.compile(r"\.?\d+(?:\.\d+)?(?![\d.]*\s*[-~—～])")


@dataclass
class _Row:
    anchor: Cell  # the result, or the range if no result is printed
    cells: dict[str, list[Cell]]

    def bottom(self) -> float:
        return max(cell.bottom for cells in ([self.anchor], *self.cells.values()) for cell in cells)


@dataclass(frozen=True)
class Tables:
    """All tables of a page.

    Attributes:
        rows: in reading order.
        places: number of the table of each row, and the pieces of its cells by role, from left to right. Empty when the
            header is not on the page.
        used: cells that belong to tables, including headers.
    """

    rows: list[PrintedRow]
    places: list[tuple[int, dict[str, list[Cell]]]]
    used: set[Cell]


def read_tables(cells: Sequence[Cell], without_header: bool = True) -> Tables:
    """Read the tables of a page. `without_header` includes one whose header is not on the picture."""
    headers = find_headers(cells)
    if not headers and not without_header:
        return Tables([], [], set())
    if not headers:
        rows_found, taken = read_headerless(cells)
        return Tables(rows_found, [], taken)
    found: list[PrintedRow] = []
    places: list[tuple[int, dict[str, list[Cell]]]] = []
    used = {cell for cell in cells for header in headers for _, head in header if holds(cell, head)}
    groups = [group for header in headers for group in split_groups(header)]
    for count, (group, inside) in enumerate(zip(groups, share_cells(cells, groups), strict=True)):
        kept = fill(group, inside)
        table = _build_rows(group)
        end = max((row.bottom() for row in table), default=0.0)
        used.update(cell for cell in kept if cell.y <= end)  # cells below the last row are not in the table
        found += _read_group(group, table)
        roles = [column.role for column in sorted(group.columns, key=lambda column: column.header.left)]
        places += [(count, {role: row.cells[role] for role in roles if row.cells.get(role)}) for row in table]
    return Tables(found, places, used)


def _read_group(group: Group, table: list[_Row]) -> list[PrintedRow]:
    """Return the printed rows of one table."""
    numbering = _numbering([join_cells(row.cells[words.ITEM]) for row in table], group)
    has_units = any(column.role == words.UNIT for column in group.columns)
    unit_case = _unit_case([join_cells(row.cells.get(words.UNIT, [])) for row in table])
    found = []
    for row, numbered in zip(table, numbering, strict=True):
        item = join_cells(row.cells[words.ITEM])[len(numbered) :].strip(" *★☆▲.、")
        result = join_cells(row.cells.get(words.RESULT, []))
        reference, is_cut = _join_range(row.cells.get(words.RANGE, []))
        flags = "".join(cell.text for cell in row.cells.get(words.FLAG, []))
        unit = join_cells(row.cells.get(words.UNIT, [])).rstrip(".")
        unit = re.sub(r"[^/]+$", lambda ending: unit_case.get(ending[0].lower(), ending[0]), unit)
        if has_units and not unit and (number := _NUMBER_AND_UNIT.fullmatch(result)):
            result, unit = number.groups()
        ranges = row.cells.get(words.RANGE, [])
        is_one_line = any(in_row(cell, row.anchor) for cell in ranges) or _encloses(ranges, row.anchor)
        found.append(printed_row(item, result, reference, unit, flags, is_one_line and not is_cut))
    return found


def _unit_case(units: list[str]) -> dict[str, str]:
    """Return {lower case: spelling} of what units end with. The usual spelling of a column counts, or capitals.

    OCR engines confuse mL and ml, and annotators copy the page.
    """
    endings = Counter(unit.rstrip(".").rpartition("/")[2] for unit in units)
    return {
        ending.lower(): ending
        for ending in sorted(endings, key=lambda ending: (endings[ending], sum(map(str.isupper, ending))))
    }


def _join_range(cells: list[Cell]) -> tuple[str, bool]:
    """Return the text of a range cell, and whether a line ends within a number, so that it may be another number."""
    text, is_cut = "", False
    for row in rows(cells):
        line = join_cells(row)
        is_inside = bool(_OPEN_NUMBER.search(text)) and bool(_REST_OF_NUMBER.match(line))
        is_cut |= is_inside and text[-1] in "0123456789."
        text = text + line if is_inside else join_wrapped(text, line)
    return text, is_cut


def _encloses(cells: list[Cell], anchor: Cell) -> bool:
    """Whether the lines of a wrapped cell enclose the middle of a result."""
    return bool(cells) and min(cell.top for cell in cells) < anchor.y < max(cell.bottom for cell in cells)


def _build_rows(group: Group) -> list[_Row]:
    """Build rows around results, and assign the lines of the other columns to them."""
    printed = [_merge(cells) for cells in rows(group.of(words.RESULT))]
    anchors = _find_anchors(group, printed)
    if not anchors:
        return []
    table = [_Row(anchor, {words.RESULT: [anchor] if anchor in printed else []}) for anchor in anchors]
    for role in (words.ITEM, words.RANGE, words.UNIT, words.FLAG):
        lines = rows(group.of(role))
        owners = assign_lines(lines, anchors, role)
        for line, owner in zip(lines, owners, strict=True):
            if owner >= 0:
                table[owner].cells.setdefault(role, []).extend(line)
    return [row for row in table if row.cells.get(words.ITEM)]


def _find_anchors(group: Group, printed: list[Cell]) -> list[Cell]:
    """Return the results of a table, and the ranges of rows without a result."""
    items, ranges = rows(group.of(words.ITEM)), rows(group.of(words.RANGE))
    if not printed:
        return [_merge(line) for line in ranges]
    names = items[:1] + [below for above, below in pairwise(items) if not is_wrapped(above, below, items)]
    missing = []
    ends = [*(name[0].top for name in names[1:]), math.inf]
    for name, end in zip(names, ends, strict=False):
        if not any(name[0].top <= result.y < end for result in printed):
            missing += [line[0] for line in ranges if in_row(name[0], line[0])]
    return sorted([*printed, *(c for c in missing if parse_range(c.text).intervals)], key=lambda anchor: anchor.y)


def _merge(cells: list[Cell]) -> Cell:
    if len(cells) == 1:
        return cells[0]
    y, height = median(cell.y for cell in cells), max(cell.height for cell in cells)
    return Cell(" ".join(cell.text for cell in cells), cells[0].left, cells[-1].right, y, height, cells[0].box)


def _numbering(names: list[str], group: Group) -> list[str]:
    """Return the row number that each name begins with, or "".

    Numbers count if the header has a column for them, or if most names begin with consecutive numbers.
    """
    numbers = [re.match(r"\s*(\d{1,3})(?=[\s.、*]|[^\d.\-])\s*", name) for name in names]
    found = [int(match[1]) for match in numbers if match]
    steps = Counter(following - number for number, following in zip(found, found[1:], strict=False))
    has_column = any(column.role == words.INDEX for column in group.columns)
    if not has_column and not (len(found) > len(names) / 2 and steps[1] >= max(len(found) / 2, 2)):
        return [""] * len(names)
    expected = Counter(int(match[1]) - row for row, match in enumerate(numbers) if match).most_common(1)
    offset = expected[0][0] if expected else 0
    return [match[0] if match and int(match[1]) == row + offset else "" for row, match in enumerate(numbers)]
