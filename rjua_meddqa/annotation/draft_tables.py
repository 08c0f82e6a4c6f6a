"""Laboratory tables out of placed text: header words give the columns, results give the rows.

Several tables may stand side by side (the header repeats) or below each other; cells may wrap, pages may still be a
little crooked. What is read is what is printed: nothing is filled in.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import (
    Cell,
    in_row,
    is_arrow,
    join_cells,
    overlap,
    part,
    rows,
    tokens,
    width,
)
from rjua_meddqa.annotation.draft_headerless import FEWEST_ROWS, read_headerless
from rjua_meddqa.annotation.normality import is_blank, judge, split_arrow
from rjua_meddqa.annotation.ranges import parse_number, parse_range
from rjua_meddqa.schema import MISSING, TableRow

_DATE = re.compile(r"\d{4}\s*[-/.年]?\s*\d{1,2}|\d{1,2}:\d{2}")
_MISREAD_UNIT = re.compile(r"(?<=mo)[1I|](?=/)")  # mmo1/L


@dataclass
class Column:
    """One column of a table: its role and where its header stands; `last` is the cell that was put there last."""

    role: str
    header: Cell
    last: Cell | None = None


@dataclass
class Group:
    """One of the tables that stand side by side: its columns and the cells put into them."""

    columns: list[Column]
    cells: dict[str, list[Cell]] = field(default_factory=dict)

    def of(self, role: str) -> list[Cell]:
        return self.cells.setdefault(role, [])


@dataclass
class _Row:
    anchor: Cell  # the result, or the range where no result is printed
    cells: dict[str, list[Cell]]

    def bottom(self) -> float:
        return max(cell.bottom for cells in ([self.anchor], *self.cells.values()) for cell in cells)


def read_tables(cells: Sequence[Cell]) -> tuple[list[TableRow], set[Cell]]:
    """Rows of all tables of a page, in reading order, and the cells that belong to tables (headers included)."""
    headers = find_headers(cells)
    if not headers:
        return read_headerless(cells)
    found: list[TableRow] = []
    used: set[Cell] = set()
    for number, header in enumerate(headers):
        below = headers[number + 1] if number + 1 < len(headers) else None
        inside = _inside(cells, header, below)
        used.update(cell for cell in cells if any(_holds(cell, head) for _, head in header))
        groups = _groups(header)
        for group in groups:
            _add_unread_headers(group, inside)
        _fill(groups, inside)
        tables = [_rows_of(group) for group in groups]
        end = max((row.bottom() for table in tables for row in table), default=0.0)
        used.update(cell for cell in inside if cell.y <= end)  # what stands below the last row is no table
        for group, table in zip(groups, tables, strict=True):
            found += _read_group(group, table)
    return found, used


def find_headers(cells: Sequence[Cell]) -> list[list[tuple[str, Cell]]]:
    """Header rows of a page from top to bottom: (role, cell) from left to right.

    A row counts with a word for results and one for items or ranges, or with items and ranges.
    """
    heads: dict[Cell, str] = {}
    for cell in cells:
        if cell.text.rstrip().endswith((":", "：")):
            continue  # a key, as 检验项目：
        roles = words.header_roles(cell.text)
        for start, end, role in _spans(cell.text, roles or []):
            heads[part(cell, start, end)] = role
    found = []
    for row in rows(heads):
        roles = {heads[cell] for cell in row}
        if (words.RESULT in roles and roles & {words.ITEM, words.RANGE}) or {words.ITEM, words.RANGE} <= roles:
            found.append([(heads[cell], cell) for cell in row])
    return found


def _spans(text: str, roles: list[tuple[str, str]]) -> list[tuple[int, int, str]]:
    """Where each header word stands in `text` (start, end, role); spaces within words are passed over."""
    spans, position = [], 0
    places = [place for place, character in enumerate(text) if not character.isspace()]
    for number, (word, role) in enumerate(roles):
        is_last = number == len(roles) - 1
        taken = places[position:] if is_last else places[position : position + len(word)]
        if taken:
            spans.append((taken[0], taken[-1] + 1, role))
        position += len(word)
    return spans


def _inside(cells: Sequence[Cell], header: list[tuple[str, Cell]], below: list[tuple[str, Cell]] | None) -> list[Cell]:
    """The cells between a header and whatever ends its table: the next header, or a field such as 检验者：."""
    heads = [head for _, head in header]
    body = [cell for cell in cells if _is_under(cell, heads) and not any(_holds(cell, head) for head in heads)]
    if below is not None:
        nexts = [head for _, head in below]
        body = [cell for cell in body if not _is_under(cell, nexts) and not any(_holds(cell, head) for head in nexts)]
    ends = [cell.top for cell in body if _is_footer(cell.text)]
    return [cell for cell in body if cell.y < min(ends)] if ends else body


def _is_under(cell: Cell, heads: list[Cell]) -> bool:
    """Whether `cell` lies below a header row, which may be crooked: its height is taken where the cell stands."""
    middle = (cell.left + cell.right) / 2
    left = max((head for head in heads if head.left <= middle), key=lambda head: head.left, default=None)
    right = min((head for head in heads if head.left > middle), key=lambda head: head.left, default=None)
    if left is None or right is None:
        y = (left or right).y
    else:
        share = (middle - left.left) / (right.left - left.left)
        y = left.y + share * (right.y - left.y)
    return cell.y > y + 0.5 * max(head.height for head in heads)


def _holds(cell: Cell, head: Cell) -> bool:
    return cell == head or (cell.y == head.y and cell.left <= head.left and head.right <= cell.right)


def _is_footer(text: str) -> bool:
    """Whether `text` begins with a report's field. `年龄：<40` is a range by age, 采样：2023-04-13 a field."""
    match = re.match(r"\s*([^:：]{2,10})[:：](.*)", text, re.DOTALL)
    if match and words.is_known_key(match[1]):
        return bool(_DATE.search(match[2])) or not parse_range(match[2]).intervals
    if words.fold(text) in words.known_keys() - words.HEADER_WORDS.keys():
        return True
    return bool(words.BOILERPLATE.search(text)) or bool(re.match(r"\s*(?:备注|注|说明)\s*[:：]", text))


def _groups(header: list[tuple[str, Cell]]) -> list[Group]:
    """Tables side by side: a new one begins where a role repeats."""
    groups: list[Group] = []
    for role, cell in header:
        repeats = not groups or (role != words.OTHER and any(column.role == role for column in groups[-1].columns))
        if repeats:
            groups.append(Group([]))
        groups[-1].columns.append(Column(role, cell))
    for group in groups:
        roles = [column.role for column in group.columns]
        if words.ITEM not in roles and len(roles) > 1:  # the names stand left of the first header
            group.columns.insert(0, Column(words.ITEM, _left_of(group.columns[0].header)))
    return groups


def _add_unread_headers(group: Group, cells: Sequence[Cell]) -> None:
    """Columns of results or ranges whose header was not read: numbers, or ranges, below each other in its place."""
    heads = {column.role: column.header for column in group.columns}
    right = max(head.right for head in heads.values())
    spaces = (
        (words.RESULT, heads.get(words.ITEM), heads.get(words.RANGE), lambda text: parse_number(text) is not None),
        (words.RANGE, heads.get(words.RESULT), None, lambda text: bool(parse_range(text).intervals)),
    )
    for role, before, after, fits in spaces:
        if role in heads or before is None or (role == words.RESULT and after is None):
            continue
        end = after.left if after is not None else right + 12 * before.height
        found = [c for c in cells if before.right < c.left and c.right < end and fits(split_arrow(c.text)[0])]
        if len(found) >= FEWEST_ROWS:
            left, right_edge = median(cell.left for cell in found), median(cell.right for cell in found)
            header = Cell("", left, right_edge, before.y, before.height)
            group.columns.append(Column(role, header))
            group.columns.sort(key=lambda column: column.header.left)


def _left_of(head: Cell) -> Cell:
    return Cell("", head.left - 4 * head.height, head.left - head.height, head.y, head.height)


def _fill(groups: list[Group], cells: Sequence[Cell]) -> None:
    """Put every cell into the column it stands under; a cell over several columns is cut between its words."""
    columns = [(group, column) for group in groups for column in group.columns]
    for row in rows(cells):
        for cell in row:
            under = [column for _, column in columns if overlap(cell, column.header) > 0]
            pieces = tokens(cell) if len(under) > 1 or any(map(is_arrow, cell.text)) else [cell]
            for group, column, piece in _place(cell, pieces, columns):
                if is_arrow(piece.text):
                    group.of(words.FLAG).append(piece)
                    continue
                group.of(column.role).append(piece)
                column.last = piece


def _place(cell: Cell, pieces: list[Cell], columns: list[tuple[Group, Column]]) -> list[tuple[Group, Column, Cell]]:
    """(group, column, piece) for the words of a cell; neighbours in the same column become one piece again."""
    placed: list[tuple[Group, Column, Cell]] = []
    for piece in pieces:
        if is_arrow(piece.text):
            candidates = [entry for entry in columns if entry[1].role in (words.RESULT, words.FLAG)] or columns
        else:
            is_number = piece.text.strip(".、)").isdigit()
            candidates = [entry for entry in columns if is_number or entry[1].role != words.INDEX]
        group, column = min(candidates, key=lambda entry: _distance(piece, entry[1]))
        if placed and placed[-1][1] is column and not is_arrow(piece.text) and not is_arrow(placed[-1][2].text):
            before = placed.pop()[2]
            text = cell.text[cell.text.index(before.text) :]
            text = text[: text.index(piece.text, len(before.text)) + len(piece.text)]
            piece = Cell(text, before.left, piece.right, cell.y, cell.height)
        placed.append((group, column, piece))
    return placed


def _distance(cell: Cell, column: Column) -> float:
    """How far `cell` is from standing under a header: below 0 where it does; else the gap, also to the cell above."""
    shared = overlap(cell, column.header)
    if shared > 0:
        return -shared / min(width(cell), width(column.header))
    gaps = [-shared]
    if column.last is not None:
        gaps.append(max(-overlap(cell, column.last), 0.0))
    return min(gaps)


def _read_group(group: Group, table: list[_Row]) -> list[TableRow]:
    """The quadruplets of one table."""
    numbering = _numbering([join_cells(row.cells[words.ITEM]) for row in table], group)
    unit_case = _unit_spelling([join_cells(row.cells.get(words.UNIT, [])) for row in table])
    found = []
    for row, number in zip(table, numbering, strict=True):
        item = join_cells(row.cells[words.ITEM])[len(number) :].strip(" *★☆▲.、")
        result = join_cells(row.cells.get(words.RESULT, []))
        reference = join_cells(row.cells.get(words.RANGE, []))
        flags = "".join(cell.text for cell in row.cells.get(words.FLAG, []))
        unit = join_cells(row.cells.get(words.UNIT, [])).rstrip(".")
        found.append(table_row(item, result, reference, unit_case.get(unit.lower(), unit), flags))
    return found


def table_row(item: str, result: str, reference: str, unit: str, flags: str) -> TableRow:
    """A quadruplet of printed texts: the unit follows its range as in the annotation, empty cells say 无."""
    reference, unit = (_MISREAD_UNIT.sub("l", text) for text in (reference, unit))
    if is_blank(reference):
        reference = ""
    if unit and reference[-1:].isdigit() and not reference.lower().endswith(unit.lower()):
        reference += unit
    verdict = judge(result + flags, reference).verdict
    return TableRow(item or MISSING, result or MISSING, reference or MISSING, verdict)


def _rows_of(group: Group) -> list[_Row]:
    """Rows around results; then what wraps goes to the row it belongs to."""
    anchors = [_merge(cells) for cells in _lines(group.of(words.RESULT))]
    names = group.of(words.ITEM)
    for cell in group.of(words.RANGE):  # a row whose result is not printed
        if not any(in_row(cell, anchor, 0.8) for anchor in anchors) and any(in_row(cell, name) for name in names):
            has_row_above = any(0 < cell.y - anchor.y < 1.6 * cell.height for anchor in anchors)
            named = [name for name in names if in_row(cell, name)]
            if not has_row_above or not any(in_row(name, anchor, 0.8) for name in named for anchor in anchors):
                anchors.append(cell)
    table = [_Row(anchor, {}) for anchor in sorted(anchors, key=lambda anchor: anchor.y)]
    for row in table:
        is_result = any(overlap(row.anchor, cell) > 0 and cell.y == row.anchor.y for cell in group.of(words.RESULT))
        row.cells[words.RESULT] = [row.anchor] if is_result else []
    for role in (words.ITEM, words.RANGE, words.UNIT, words.FLAG):
        _share_out(group.of(role), role, table)
    return [row for row in table if row.cells.get(words.ITEM)]


def _lines(cells: list[Cell]) -> list[list[Cell]]:
    return rows(cells)


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
