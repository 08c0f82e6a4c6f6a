"""Laboratory tables out of placed text: header words give the columns, results give the rows.

Several tables may stand side by side (the header repeats) or below each other; cells may wrap, pages may still be a
little crooked. What is read is what is printed: nothing is filled in.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, in_row, join_cells, overlap, rows, width
from rjua_meddqa.annotation.draft_columns import (
    Group,
    add_unread_headers,
    cells_of_table,
    fill,
    find_headers,
    groups_of,
    holds,
)
from rjua_meddqa.annotation.draft_headerless import read_headerless
from rjua_meddqa.annotation.draft_rows import printed_row
from rjua_meddqa.schema import PrintedRow

_NUMBER_AND_UNIT = re.compile(r"([<>≤≥]?\s*\d+(?:\.\d+)?)\s+(\D\S*)")  # read as one box
CLOSE_LINES = 1.3  # heights: lines within a cell are set closer than rows


@dataclass
class _Row:
    anchor: Cell  # the result, or the range where no result is printed
    cells: dict[str, list[Cell]]

    def bottom(self) -> float:
        return max(cell.bottom for cells in ([self.anchor], *self.cells.values()) for cell in cells)


def read_tables(cells: Sequence[Cell]) -> tuple[list[PrintedRow], set[Cell]]:
    """Rows of all tables of a page, in reading order, and the cells that belong to tables (headers included)."""
    headers = find_headers(cells)
    if not headers:
        return read_headerless(cells)
    found: list[PrintedRow] = []
    used: set[Cell] = set()
    for number, header in enumerate(headers):
        below = headers[number + 1] if number + 1 < len(headers) else None
        inside = cells_of_table(cells, header, below)
        used.update(cell for cell in cells if any(holds(cell, head) for _, head in header))
        groups = groups_of(header)
        for group in groups:
            add_unread_headers(group, inside)
        fill(groups, inside)
        tables = [_rows_of(group) for group in groups]
        end = max((row.bottom() for table in tables for row in table), default=0.0)
        used.update(cell for cell in inside if cell.y <= end)  # what stands below the last row is no table
        for group, table in zip(groups, tables, strict=True):
            found += _read_group(group, table)
    return found, used


def _read_group(group: Group, table: list[_Row]) -> list[PrintedRow]:
    """The quadruplets of one table."""
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
        is_one_line = any(in_row(cell, row.anchor) for cell in row.cells.get(words.RANGE, []))
        found.append(printed_row(item, result, reference, unit_case.get(unit.lower(), unit), flags, is_one_line))
    return found


def _rows_of(group: Group) -> list[_Row]:
    """Rows around results; then what wraps goes to the row it belongs to."""
    anchors = [_merge(cells) for cells in rows(group.of(words.RESULT))]
    named = [cell for cell in group.of(words.RANGE) if any(in_row(cell, name) for name in group.of(words.ITEM))]
    anchors += [cell for cell in named if not any(_is_beside_or_close(cell, anchor) for anchor in anchors)]
    table = [_Row(anchor, {}) for anchor in sorted(anchors, key=lambda anchor: anchor.y)]
    for row in table:
        is_result = any(overlap(row.anchor, cell) > 0 and cell.y == row.anchor.y for cell in group.of(words.RESULT))
        row.cells[words.RESULT] = [row.anchor] if is_result else []
    for role in (words.ITEM, words.RANGE, words.UNIT, words.FLAG):
        _share_out(group.of(role), role, table)
    return [row for row in table if row.cells.get(words.ITEM)]


def _is_beside_or_close(cell: Cell, anchor: Cell) -> bool:
    """Whether a range belongs to the row of a result: beside it, or a line of a wrapped cell below it."""
    return in_row(cell, anchor, 0.8) or 0 < cell.y - anchor.y < CLOSE_LINES * cell.height


def _merge(cells: list[Cell]) -> Cell:
    if len(cells) == 1:
        return cells[0]
    y, height = median(cell.y for cell in cells), max(cell.height for cell in cells)
    return Cell(" ".join(cell.text for cell in cells), cells[0].left, cells[-1].right, y, height)


def _share_out(cells: list[Cell], role: str, table: list[_Row]) -> None:
    """Give the cells of a column to rows: those beside an anchor, then the lines that wrapped cells go on with."""
    left: list[Cell] = []
    for cell in cells:
        row = min(table, key=lambda row: abs(row.anchor.y - cell.y), default=None)
        if row is not None and in_row(cell, row.anchor, 0.6):
            row.cells.setdefault(role, []).append(cell)
        else:
            left.append(cell)
    for cell in sorted(left, key=lambda cell: cell.y):
        row = _row_of_wrapped(cell, role, table)
        if row is not None:
            row.cells.setdefault(role, []).append(cell)


def _row_of_wrapped(cell: Cell, role: str, table: list[_Row]) -> _Row | None:
    """The row that a line between two results goes on with, or None for text that belongs to no row.

    Where the row below has a cell of its own beside its result, cells begin at the top and the line belongs to the row
    above; where it has none, cells are centred and the nearer row gets it.
    """
    above = max((row for row in table if row.anchor.y <= cell.y), key=lambda row: row.anchor.y, default=None)
    below = min((row for row in table if row.anchor.y > cell.y), key=lambda row: row.anchor.y, default=None)
    is_nearer_below = below is not None and (above is None or below.anchor.y - cell.y < cell.y - above.anchor.y)
    if is_nearer_below and not _has_own(below, role):
        return below if below.anchor.y - cell.y < 2.5 * cell.height else None
    if above is None:
        return None
    lines = above.cells.get(role, [])
    if not lines:
        return above if cell.y - above.anchor.y < 1.6 * cell.height else None
    last = max(lines, key=lambda line: line.y)
    if cell.top - last.bottom > 0.9 * cell.height:
        return None
    return above if role != words.ITEM or _goes_on(last, cell, table) else None


def _has_own(row: _Row, role: str) -> bool:
    return any(in_row(cell, row.anchor, 0.6) for cell in row.cells.get(role, []))


def _goes_on(line: Cell, following: Cell, table: list[_Row]) -> bool:
    """Whether a name goes on below; else the text is a name without a result, such as the title of a panel.

    It goes on where a bracket is open or begins, or where its line is full: as wide as names get, and either reaching
    the next column or set closer than rows are.
    """
    opens = sum(map(line.text.count, "(（")) > sum(map(line.text.count, ")）"))
    if opens or following.text.lstrip().startswith(("(", "（")):
        return True
    names = [cell for row in table for cell in row.cells.get(words.ITEM, [])]
    if line.right < max(cell.right for cell in names) - 2 * line.height or width(following) >= width(line):
        return False
    next_column = min(row.anchor.left for row in table)
    pitches = [below.anchor.y - above.anchor.y for above, below in pairwise(table)]
    is_close = bool(pitches) and following.y - line.y < 0.9 * min(pitches)
    return is_close or next_column - line.right < 2.5 * line.height


def _numbering(names: list[str], group: Group) -> list[str]:
    """The row number that each name begins with, "" where none does.

    Numbers count as such where the header has a column for them, or most names begin with numbers that go up by one.
    """
    numbers = [re.match(r"\s*(\d{1,3})(?=[\s.、*]|[^\d.\-])\s*", name) for name in names]
    found = [int(match[1]) for match in numbers if match]
    steps = Counter(following - number for number, following in zip(found, found[1:], strict=False))
    has_column = any(column.role == words.INDEX for column in group.columns)
    if not has_column and not (len(found) > len(names) / 2 and steps[1] >= max(len(found) / 2, 2)):
        return [""] * len(names)
    expected = Counter(int(match[1]) - row for row, match in enumerate(numbers) if match).most_common(1)
    offset = expected[0][0] if expected else 0
    return [
        match[0] if match and (int(match[1]) == row + offset or match[0][-1].isspace()) else ""
        for row, match in enumerate(numbers)
    ]


def _unit_spelling(units: list[str]) -> dict[str, str]:
    """Units that differ only in capitals are one unit: {lower case: the spelling with more support in this column}.

    ng/mL and pg/ml speak for mL and ml; where they draw, the capital L of the SI wins.
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
