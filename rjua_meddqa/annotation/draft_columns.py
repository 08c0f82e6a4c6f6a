"""Columns of printed tables: header words, groups of columns side by side, and the cells below them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median

from rjua_meddqa.annotation import report_words as words
from rjua_meddqa.annotation.cells import Cell, is_arrow, overlap, part, rows, tokens
from rjua_meddqa.annotation.draft_headerless import FEWEST_ROWS
from rjua_meddqa.annotation.ranges import parse_number, parse_range

# end of a unit, or of a number before a name
_END_OF_CELL = re.compile(r"/(?:mL|ml|dL|dl|L|l|h|HP|LP)|%|(?<=\d)(?=[\u4e00-\u9fff])")
_UNIT = r"(?:[×xX*]?10[\^*]\d{1,2})?[A-Za-zμ%/]+"
# patterns of two cells that were read as one, by the roles of their columns
_JOINT = {
    (words.ITEM, words.RESULT): re.compile(r"(.*[\u4e00-\u9fff)）])([<>≤≥＜＞]?\d+(?:\.\d+)?|阴性|阳性|弱阳性|未检出)"),
    (words.RESULT, words.UNIT): re.compile(rf"([<>≤≥＜＞]?\d+?(?:\.\d+?)?)({_UNIT})"),
    (words.UNIT, words.RANGE): re.compile(rf"({_UNIT})([<>≤≥＜＞]?\d.*)"),
}
Header = list[tuple[str, Cell]]  # (role, cell) from left to right


@dataclass
class Column:
    """One column of a table: its role and the cell of its header."""

    role: str
    header: Cell


@dataclass
class Group:
    """One of several tables side by side: its columns and their cells."""

    columns: list[Column]
    cells: dict[str, list[Cell]] = field(default_factory=dict)

    def of(self, role: str) -> list[Cell]:
        return self.cells.setdefault(role, [])


def find_headers(cells: Sequence[Cell]) -> list[Header]:
    """Return the header rows of a page from top to bottom, each as (role, cell) from left to right.

    A header row has a word for results and one for items or ranges, or words for items and ranges.
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


def cells_of_table(
    cells: Sequence[Cell], header: list[tuple[str, Cell]], below: list[tuple[str, Cell]] | None
) -> list[Cell]:
    """Return the cells between a header and the end of its table: the next header, or a field such as 检验者：."""
    heads = [head for _, head in header]
    body = [cell for cell in cells if _is_under(cell, heads) and not any(holds(cell, head) for head in heads)]
    if below is not None:
        nexts = [head for _, head in below]
        body = [cell for cell in body if not _is_under(cell, nexts) and not any(holds(cell, head) for head in nexts)]
    ends = [cell.top for cell in body if _is_footer(cell.text)]
    return [cell for cell in body if cell.y < min(ends)] if ends else body


def _is_under(cell: Cell, heads: list[Cell]) -> bool:
    """Whether `cell` is below the nearest word of a header row, which may be crooked."""
    nearest = max(heads, key=lambda head: overlap(cell, head))
    return cell.y > nearest.y + 0.5 * max(head.height for head in heads)


def holds(cell: Cell, head: Cell) -> bool:
    return cell == head or (cell.y == head.y and cell.left <= head.left and head.right <= cell.right)


def _is_footer(text: str) -> bool:
    """Whether `text` begins with a report field. `年龄：<40` is a range by age, 采样：2023-04-13 is a field."""
    match = re.match(r"\s*([^:：]{2,10})[:：](.*)", text, re.DOTALL)
    if match and words.is_known_key(match[1]):
        return not parse_range(match[2]).intervals
    if words.fold(text) in words.known_keys() - words.HEADER_WORDS.keys():
        return True
    return bool(words.BOILERPLATE.search(text)) or bool(re.match(r"\s*(?:备注|注|说明)\s*[:：]", text))


def split_groups(header: Header) -> list[Group]:
    """Split a header into tables side by side. A new one begins when a role repeats."""
    groups: list[Group] = []
    for role, cell in header:
        repeats = not groups or (role != words.OTHER and any(column.role == role for column in groups[-1].columns))
        if repeats:
            groups.append(Group([]))
        groups[-1].columns.append(Column(role, cell))
    for group in groups:
        roles = [column.role for column in group.columns]
        if words.ITEM not in roles and len(roles) > 1:  # the names are left of the first header
            group.columns.insert(0, Column(words.ITEM, _name_column(group.columns[0].header)))
    return groups


def add_unread_headers(group: Group, cells: Sequence[Cell]) -> None:
    """Add columns of results or ranges whose header was not read, if numbers or ranges are aligned in their place."""
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
        found = [c for c in cells if before.right < c.left and c.right < end and fits(c.text)]
        if len(found) >= FEWEST_ROWS:
            left, right_edge = median(cell.left for cell in found), median(cell.right for cell in found)
            header = Cell("", left, right_edge, before.y, before.height)
            group.columns.append(Column(role, header))
            group.columns.sort(key=lambda column: column.header.left)


def _name_column(head: Cell) -> Cell:
    return Cell("", head.left - 4 * head.height, head.left - head.height, head.y, head.height)


def fill(groups: list[Group], cells: Sequence[Cell]) -> None:
    """Put every cell into the column below whose header it is. A cell over several columns is split between words."""
    columns = [(group, column) for group in groups for column in group.columns]
    for row in rows(cells):
        for cell in row:
            under = [column for _, column in columns if overlap(cell, column.header) > 0]
            pieces = tokens(cell) if len(under) > 1 or any(map(is_arrow, cell.text)) else [cell]
            pieces = [half for piece in pieces for half in _cut_at_border(piece, groups)]
            others = [other for other in row if other is not cell]
            taken = [min((column for _, column in columns), key=partial(_distance, other)) for other in others]
            pieces = [half for piece in pieces for half in _cut_between_columns(piece, groups, taken)]
            for group, column, piece in _place(cell, pieces, columns):
                if is_arrow(piece.text):
                    group.of(words.FLAG).append(piece)
                    continue
                group.of(column.role).append(piece)


def _cut_at_border(piece: Cell, groups: list[Group]) -> list[Cell]:
    """Split a piece that spans two tables (`45-125U/L肌酐`) where a cell can end."""
    for group, following in pairwise(groups):
        border = following.columns[0].header
        before = group.columns[-1].header
        if not (overlap(piece, before) > 0 and piece.right > border.left + border.height):
            continue
        ends = [match.end() for match in _END_OF_CELL.finditer(piece.text) if 0 < match.end() < len(piece.text)]
        cut = min(ends, key=lambda end: abs(part(piece, 0, end).right - border.left), default=None)
        if cut is not None and abs(part(piece, 0, cut).right - border.left) < 2 * border.height:
            return [part(piece, 0, cut), part(piece, cut, len(piece.text))]
    return [piece]


def _cut_between_columns(piece: Cell, groups: list[Group], taken: list[Column]) -> list[Cell]:
    """Split a piece over two columns that was read without a space (`血小板210`).

    The second column must not be `taken` by another cell of the row, since a name may end in a number.
    """
    for group in groups:
        for before, after in pairwise(group.columns):
            match = (
                _JOINT[before.role, after.role].fullmatch(piece.text) if (before.role, after.role) in _JOINT else None
            )
            if match is None or any(column is after for column in taken):
                continue
            halves = [part(piece, *match.span(1)), part(piece, *match.span(2))]
            if overlap(halves[0], before.header) > 0 and overlap(halves[1], after.header) > 0:
                return halves
    return [piece]


def _place(cell: Cell, pieces: list[Cell], columns: list[tuple[Group, Column]]) -> list[tuple[Group, Column, Cell]]:
    """Return (group, column, piece) for the words of a cell. Neighbours in one column are joined again."""
    placed: list[tuple[Group, Column, Cell]] = []
    for piece in pieces:
        is_number = piece.text.strip(".、)").isdigit()
        candidates = [entry for entry in columns if is_number or entry[1].role != words.INDEX]
        group, column = min(candidates, key=lambda entry: _distance(piece, entry[1]))
        if placed and placed[-1][1] is column and not is_arrow(piece.text) and not is_arrow(placed[-1][2].text):
            before = placed.pop()[2]
            text = cell.text[cell.text.index(before.text) :]
            text = text[: text.index(piece.text, len(before.text)) + len(piece.text)]
            piece = Cell(text, before.left, piece.right, cell.y, cell.height, cell.box)
        placed.append((group, column, piece))
    return placed


def _distance(cell: Cell, column: Column) -> float:
    """Return the horizontal distance of `cell` from a header. Below 0 if they overlap."""
    return -overlap(cell, column.header)
