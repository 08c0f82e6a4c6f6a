"""Columns of printed tables: header words, the tables that they belong to, and the cells of each column.

Boxes are assigned to the table whose header is above them and nearest to them from left to right. Columns are bands
of boxes with white space between them. A band gets the role of its header word, or else that of its content.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, is_arrow, overlap, part, rows, tokens
from rjua_meddqa.annotation.draft_headerless import FEWEST_ROWS
from rjua_meddqa.annotation.ranges import parse_number, parse_range
from rjua_meddqa.annotation.word_results import polarity

BELOW_HEADER = 0.5  # heights of a header word from its middle to the first cell
HEADER_LINES = 2  # heights between the lines of one header word
Header = list[tuple[str, Cell]]  # (role, cell) from left to right
_UNIT = re.compile(r"[A-Za-zμ%‰]{1,6}|.{0,8}/\s*\w+|[×xX*]?10[\^*]\d+.*|秒")


@dataclass
class Column:
    """One column of a table: its role and the cell of its header."""

    role: str
    header: Cell


@dataclass
class Group:
    """One table: its columns and their cells by role."""

    columns: list[Column]
    cells: dict[str, list[Cell]] = field(default_factory=dict)

    def of(self, role: str) -> list[Cell]:
        return self.cells.setdefault(role, [])

    @property
    def left(self) -> float:
        return min(column.header.left for column in self.columns)

    @property
    def right(self) -> float:
        return max(column.header.right for column in self.columns)

    def is_above(self, cell: Cell) -> bool:
        """Whether `cell` is below the nearest word of the header, which may be crooked."""
        nearest = max((column.header for column in self.columns), key=lambda head: overlap(cell, head))
        return cell.y > nearest.y + BELOW_HEADER * nearest.height

    def distance(self, cell: Cell) -> float:
        """Return the horizontal distance of `cell` from the nearest word of the header, or minus their overlap."""
        return min(-overlap(cell, column.header) for column in self.columns)


def find_headers(cells: Sequence[Cell]) -> list[Header]:
    """Return the header rows of a page from top to bottom, each as (role, cell) from left to right.

    A header row has a word for results and one for items or ranges, or words for items and ranges.
    """
    heads: dict[Cell, str] = {}
    for cell in [*cells, *_wrapped_headers(cells)]:
        if cell.text.rstrip().endswith((":", "：")):
            continue  # a key, as 检验项目：
        for start, end, role in _spans(cell.text, words.header_roles(cell.text) or []):
            heads[part(cell, start, end)] = role
    found = []
    for row in rows(heads):
        roles = {heads[cell] for cell in row}
        if (words.RESULT in roles and roles & {words.ITEM, words.RANGE}) or {words.ITEM, words.RANGE} <= roles:
            found.append([(heads[cell], cell) for cell in row])
    return found


def _wrapped_headers(cells: Sequence[Cell]) -> list[Cell]:
    """Return header words that are printed in two lines (参考范, 围), each as one cell."""
    parts = [cell for cell in cells if len(cell.text) < 5 and not words.header_roles(cell.text)]
    found = []
    for upper in parts:
        for lower in parts:
            is_below = 0 < lower.y - upper.y < HEADER_LINES * upper.height and overlap(upper, lower) > 0
            if is_below and words.fold(upper.text + lower.text) in words.HEADER_WORDS:
                left, right = min(upper.left, lower.left), max(upper.right, lower.right)
                y, height = (upper.y + lower.y) / 2, lower.bottom - upper.top
                found.append(Cell(upper.text + lower.text, left, right, y, height))
    return found


def _spans(text: str, roles: list[tuple[str, str]]) -> list[tuple[int, int, str]]:
    """Return (start, end, role) of each header word in `text`. Spaces within words are skipped."""
    spans, position = [], 0
    places = [place for place, character in enumerate(text) if not character.isspace()]
    for number, (word, role) in enumerate(roles):
        is_last = number == len(roles) - 1
        taken = places[position:] if is_last else places[position : position + len(word)]
        if taken:
            spans.append((taken[0], taken[-1] + 1, role))
        position += len(word)
    return spans


def split_groups(header: Header) -> list[Group]:
    """Split a header into tables side by side. A new one begins when a role repeats."""
    groups: list[Group] = []
    for role, cell in header:
        repeats = not groups or (role != words.OTHER and any(column.role == role for column in groups[-1].columns))
        if repeats:
            groups.append(Group([]))
        groups[-1].columns.append(Column(role, cell))
    return groups


def holds(cell: Cell, head: Cell) -> bool:
    return cell == head or (cell.y == head.y and cell.left <= head.left and head.right <= cell.right)


def _is_part(cell: Cell, head: Cell) -> bool:
    """Whether `cell` is one of the two lines of a header word."""
    return cell.text in head.text and overlap(cell, head) > 0 and abs(cell.y - head.y) < head.height


def share_cells(cells: Sequence[Cell], groups: Sequence[Group]) -> list[list[Cell]]:
    """Return the cells of each table, from its header to a lower header or to a field such as 检验者：."""
    heads = [column.header for group in groups for column in group.columns]
    shares: list[list[Cell]] = [[] for _ in groups]
    for cell in cells:
        if any(holds(cell, head) or _is_part(cell, head) for head in heads):
            continue
        above = [number for number, group in enumerate(groups) if group.is_above(cell)]
        above = [n for n in above if not any(_covers(groups[m], groups[n]) for m in above)]
        if above:
            shares[min(above, key=lambda number: groups[number].distance(cell))].append(cell)
    for share in shares:
        ends = [cell.top for cell in share if _is_footer(cell.text)]
        share[:] = [cell for cell in share if not ends or cell.y < min(ends)]
    return shares


def _covers(lower: Group, upper: Group) -> bool:
    """Whether a table begins below the header of another and ends it."""
    is_lower = lower.columns[0].header.top > upper.columns[0].header.bottom
    return is_lower and min(lower.right, upper.right) > max(lower.left, upper.left)


def _is_footer(text: str) -> bool:
    """Whether `text` begins with a report field. `年龄：<40` is a range by age, 采样：2023-04-13 is a field."""
    match = re.match(r"\s*([^:：]{2,10})[:：](.*)", text, re.DOTALL)
    if match and words.is_known_key(match[1]):
        return not parse_range(match[2]).intervals
    if words.fold(text) in words.known_keys() - words.HEADER_WORDS.keys():
        return True
    return bool(words.BOILERPLATE.search(text)) or bool(re.match(r"\s*(?:备注|注|说明)\s*[:：]", text))


def fill(group: Group, cells: Sequence[Cell]) -> list[Cell]:
    """Put the cells into the columns of their bands. Returns the cells that belong to the table."""
    bands = _find_bands(group, cells)
    left, right = group.left, group.right
    for band in sorted(bands, key=lambda band: max(left - band.right, band.left - right)):
        _label_band(group, band)
    used = []
    for cell in cells:
        columns = next((band.columns for band in bands if cell in band.cells), group.columns)
        if columns or is_arrow(cell.text):
            used.append(cell)
            for column, piece in _place(cell, columns or group.columns):
                group.of(words.FLAG if is_arrow(piece.text) else column.role).append(piece)
    return used


@dataclass
class _Band:
    left: float
    right: float
    cells: list[Cell]
    columns: list[Column]


def _find_bands(group: Group, cells: Sequence[Cell]) -> list[_Band]:
    """Return bands of boxes with white space between them. Boxes below two headers belong to no band."""
    heads = [column.header for column in group.columns]
    single = [cell for cell in cells if sum(overlap(cell, head) > 0 for head in heads) < 2]
    bands: list[_Band] = []
    for piece in sorted([*heads, *single], key=lambda cell: cell.left):
        if not bands or piece.left > bands[-1].right:
            bands.append(_Band(piece.left, piece.right, [], []))
        band = bands[-1]
        band.right = max(band.right, piece.right)
        if piece in heads:
            band.columns += [column for column in group.columns if column.header == piece]
        else:
            band.cells.append(piece)
    _adopt(bands)
    return bands


def _adopt(bands: list[_Band]) -> None:
    """Give the cells beside a header without cells, such as right-aligned numbers, to that header."""
    for number, band in enumerate(bands):
        beside = [bands[n] for n in (number + 1, number - 1) if 0 <= n < len(bands)]
        beside = [other for other in beside if other.cells and not other.columns]
        if band.columns and not band.cells and beside:
            beside[0].columns, band.columns = band.columns, []


def _label_band(group: Group, band: _Band) -> None:
    """Label a band without a header by its content if the table lacks such a column."""
    if band.columns or len(band.cells) < FEWEST_ROWS:
        return
    roles = {column.role: column.header for column in group.columns}
    items = roles.get(words.ITEM)
    is_right = items is None or band.left > items.left
    tests: tuple[tuple[str, bool, Callable[[str], bool]], ...] = (
        (words.RANGE, True, lambda text: bool(parse_range(text).intervals)),
        (words.RESULT, is_right, lambda text: parse_number(text) is not None or bool(polarity(text))),
        (words.UNIT, is_right, lambda text: _UNIT.fullmatch(text.strip()) is not None),
        (words.ITEM, band.left < group.right, lambda text: bool(re.search(r"[\u4e00-\u9fffA-Za-z]", text))),
    )
    for role, is_possible, fits in tests:
        if role not in roles and is_possible and sum(fits(cell.text) for cell in band.cells) >= FEWEST_ROWS:
            head = group.columns[0].header
            column = Column(role, Cell("", band.left, band.right, head.y, head.height))
            band.columns.append(column)
            group.columns.append(column)
            return


def _place(cell: Cell, columns: Sequence[Column]) -> list[tuple[Column, Cell]]:
    """Return (column, piece) pairs of a cell. One that spans several columns is split between words."""
    under = [column for column in columns if overlap(cell, column.header) > 0]
    pieces = tokens(cell) if len(under) > 1 or any(map(is_arrow, cell.text)) else [cell]
    placed = []
    for piece in pieces:
        is_number = piece.text.strip(".、)").isdigit()
        fitting = [column for column in columns if is_number or column.role != words.INDEX] or columns
        placed.append((max(fitting, key=lambda column: overlap(piece, column.header)), piece))
    return placed
