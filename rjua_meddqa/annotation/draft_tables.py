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
from rjua_meddqa.annotation.cells import Cell, in_row, join_cells, rows
from rjua_meddqa.annotation.draft_columns import (
    Group,
    add_unread_headers,
    cells_of_table,
    fill,
    find_headers,
    holds,
    split_groups,
)
from rjua_meddqa.annotation.draft_headerless import read_headerless
from rjua_meddqa.annotation.draft_rows import printed_row
from rjua_meddqa.schema import PrintedRow

_NUMBER_AND_UNIT = re.compile(r"([<>≤≥]?\s*\d+(?:\.\d+)?)\s+(\D\S*)")  # read as one box
CLOSE_PITCH = 0.87  # of the smallest distance of two results: closer lines belong to one cell
LOOSE = 1.2  # times the distance of the nearest two lines: the largest distance of lines of one cell
FARTHEST_LINE = 2.3  # heights between the middles of two lines of one cell
FARTHEST_REST = 1.3  # heights between a range and its continuation if a line between them was not read


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
        rows_found, used = read_headerless(cells)
        return Tables(rows_found, [], used)
    found: list[PrintedRow] = []
    places: list[tuple[int, dict[str, list[Cell]]]] = []
    used: set[Cell] = set()
    count = 0
    for number, header in enumerate(headers):
        below = headers[number + 1] if number + 1 < len(headers) else None
        inside = cells_of_table(cells, header, below)
        used.update(cell for cell in cells if any(holds(cell, head) for _, head in header))
        groups = split_groups(header)
        for group in groups:
            add_unread_headers(group, inside)
        fill(groups, inside)
        tables = [_build_rows(group) for group in groups]
        end = max((row.bottom() for table in tables for row in table), default=0.0)
        used.update(cell for cell in inside if cell.y <= end)  # cells below the last row are not in the table
        for group, table in zip(groups, tables, strict=True):
            found += _read_group(group, table)
            roles = [column.role for column in sorted(group.columns, key=lambda column: column.header.left)]
            places += [(count, {role: row.cells[role] for role in roles if row.cells.get(role)}) for row in table]
            count += 1
    return Tables(found, places, used)


def _read_group(group: Group, table: list[_Row]) -> list[PrintedRow]:
    """Return the printed rows of one table."""
    numbering = _numbering([join_cells(row.cells[words.ITEM]) for row in table], group)
    unit_case = _unit_spelling([join_cells(row.cells.get(words.UNIT, [])) for row in table])
    has_units = any(column.role == words.UNIT for column in group.columns)
    found = []
    for row, numbered in zip(table, numbering, strict=True):
        item = join_cells(row.cells[words.ITEM])[len(numbered) :].strip(" *★☆▲.、")
        result = join_cells(row.cells.get(words.RESULT, []))
        reference = join_cells(row.cells.get(words.RANGE, []))
        flags = "".join(cell.text for cell in row.cells.get(words.FLAG, []))
        unit = join_cells(row.cells.get(words.UNIT, [])).rstrip(".")
        if has_units and not unit and (number := _NUMBER_AND_UNIT.fullmatch(result)):
            result, unit = number.groups()
        ranges = row.cells.get(words.RANGE, [])
        is_one_line = any(in_row(cell, row.anchor) for cell in ranges) or _encloses(ranges, row.anchor)
        found.append(printed_row(item, result, reference, unit_case.get(unit.lower(), unit), flags, is_one_line))
    return found


def _encloses(cells: list[Cell], anchor: Cell) -> bool:
    """Whether the lines of a wrapped cell enclose the middle of a result."""
    return bool(cells) and min(cell.top for cell in cells) < anchor.y < max(cell.bottom for cell in cells)


def _build_rows(group: Group) -> list[_Row]:
    """Build rows around results, then assign wrapped cells to them."""
    printed = [_merge(cells) for cells in rows(group.of(words.RESULT))]
    anchors = list(printed)
    for run in _runs(group.of(words.RANGE), anchors):  # a range beside a name, without a result
        is_named = any(in_row(run[0], name) for name in group.of(words.ITEM))
        # The lines of a cell begin beside its result. Lines that end there begin with another row's range.
        results = [anchor for anchor in anchors if in_row(run[0], anchor, 0.8)]
        if is_named and all(in_row(run[-1], result) and not in_row(run[0], result, 0.8) for result in results):
            anchors.append(run[0])
    table = [_Row(anchor, {}) for anchor in sorted(anchors, key=lambda anchor: anchor.y)]
    for row in table:
        row.cells[words.RESULT] = [row.anchor] if row.anchor in printed else []
    for role in (words.ITEM, words.RANGE, words.UNIT, words.FLAG):
        _share_out(group.of(role), role, table)
    return [row for row in table if row.cells.get(words.ITEM)]


def _merge(cells: list[Cell]) -> Cell:
    if len(cells) == 1:
        return cells[0]
    y, height = median(cell.y for cell in cells), max(cell.height for cell in cells)
    return Cell(" ".join(cell.text for cell in cells), cells[0].left, cells[-1].right, y, height, cells[0].box)


def _share_out(cells: list[Cell], role: str, table: list[_Row]) -> None:
    """Assign the cells of a column to rows. A run of close lines beside one row is one wrapped cell of that row.

    In a run beside several rows, each line belongs to its own row or to that of the line above.
    """
    last: _Row | None = None  # row of the previous run
    for run in _runs(cells, [row.anchor for row in table]):
        beside = [row for row in table if run[0].top < row.anchor.y < run[-1].bottom]
        if not beside and role == words.RANGE and last is not None:  # a line between was not read
            above = max(last.cells[role], key=lambda cell: cell.y)
            beside = [last] if run[0].top - above.bottom < FARTHEST_REST * run[0].height else []
        last = beside[0] if len(beside) == 1 else None
        if last is not None:
            last.cells.setdefault(role, []).extend(run)
            continue
        owner = None
        for cell in run:
            own = [row for row in beside if in_row(cell, row.anchor, 0.6)]
            if own:
                owner = own[0]
            elif role == words.ITEM:
                owner = None  # a name without a result, such as the title of a panel
            if owner is not None:
                owner.cells.setdefault(role, []).append(cell)


def _runs(cells: list[Cell], anchors: list[Cell]) -> list[list[Cell]]:
    """Split a column's cells at large vertical distances.

    The column has wrapped cells if its nearest two lines are closer than any two results.
    """
    ordered = sorted(cells, key=lambda cell: (cell.y, cell.left))
    steps = [below.y - above.y for above, below in pairwise(ordered) if not in_row(above, below)]
    least = min(steps, default=0.0)
    results = sorted(anchor.y for anchor in anchors)
    is_wrapped = least < CLOSE_PITCH * min((b - a for a, b in pairwise(results)), default=math.inf)
    found: list[list[Cell]] = []
    for cell in ordered:
        last = found[-1][-1] if found else None
        if last is not None and (
            in_row(cell, last)
            or (is_wrapped and cell.y - last.y < min(LOOSE * least, FARTHEST_LINE * max(cell.height, last.height)))
        ):
            found[-1].append(cell)
        else:
            found.append([cell])
    return found


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


def _unit_spelling(units: list[str]) -> dict[str, str]:
    """Return {lower case: spelling} of units that differ in case. The spelling with more support in the column wins.

    ng/mL and pg/ml support mL and ml. On a draw, the capital L of the SI wins.
    """
    endings = Counter(unit.rstrip(".").rpartition("/")[2] for unit in units if "/" in unit)
    best: dict[str, str] = {}
    for ending in sorted(endings, key=lambda ending: (endings[ending], sum(map(str.isupper, ending)))):
        best[ending.lower()] = ending
    spelled = {}
    for unit in units:
        head, slash, ending = unit.rstrip(".").rpartition("/")
        spelled[unit.rstrip(".").lower()] = head + slash + best.get(ending.lower(), ending)
    return spelled
