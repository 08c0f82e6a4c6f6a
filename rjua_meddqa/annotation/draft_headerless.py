"""Reads tables whose header is not on the picture: several rows with a name, a number and a range."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rjua_meddqa.annotation.cells import Cell, in_row, is_arrow, rows, tokens
from rjua_meddqa.annotation.draft_rows import printed_row
from rjua_meddqa.annotation.ranges import parse_number, parse_range
from rjua_meddqa.annotation.word_results import polarity
from rjua_meddqa.schema import PrintedRow

_RANGE = 2  # place of the range in a row
FEWEST_ROWS = 3  # rows with a range: fewer are more likely measurements in a text
_NAMED_RANGE = re.compile(r"\s*(?:参考|正常|标准|生物参考)(?:值|范围|区间|值范围)?\s*[:：](.+)", re.DOTALL)
_NAME = re.compile(r"[\u4e00-\u9fffA-Za-zα-ωΑ-Ω]")


@dataclass
class _Entry:
    """A row: [item, result, range, unit, flags], its cells, and the cell of the result."""

    texts: list[str]
    cells: list[Cell]
    result: Cell
    is_one_line: bool = True

    def add(self, place: int, text: str, cell: Cell) -> None:
        self.texts[place] = text
        self.cells.append(cell)
        if place == _RANGE:
            self.is_one_line = in_row(cell, self.result)


def read_headerless(cells: Sequence[Cell]) -> tuple[list[PrintedRow], set[Cell]]:
    """Return rows that look like those of a laboratory table, and their cells. Nothing if too few have a range."""
    found: list[_Entry] = []
    places: list[int] = []  # of each name among those of its row: tables may be side by side
    above = 0  # entries of the row above
    for row in rows(cells):
        entries = _read_row(row)
        found += entries
        places += range(len(entries))
        for cell in row:
            named = _NAMED_RANGE.match(cell.text)
            if named and found and not found[-1].texts[2] and parse_range(named[1]).intervals:
                found[-1].add(_RANGE, named[1].strip(), cell)
                # below its row, as on telephones, if the row above has one entry and this row has none
                found[-1].is_one_line |= not entries and above == 1
        above = len(entries)
    if sum(bool(entry.texts[2]) for entry in found) < FEWEST_ROWS:
        return [], set()
    order = sorted(range(len(found)), key=places.__getitem__)
    table = []
    for number in order:
        item, result, reference, unit, flags = found[number].texts
        table.append(printed_row(item, result, reference, unit, flags, found[number].is_one_line))
    return table, {cell for entry in found for cell in entry.cells}


def _read_row(row: list[Cell]) -> list[_Entry]:
    """Return an entry for every name in a row of the page that a number follows."""
    found: list[_Entry] = []
    name: Cell | None = None
    for cell in row:
        pieces = tokens(cell) if any(map(is_arrow, cell.text)) or parse_number(cell.text) is None else [cell]
        if _is_name(cell.text) and not polarity(cell.text):
            name = cell
            continue
        for piece in pieces:
            if is_arrow(piece.text):
                if found:
                    found[-1].texts[4] += piece.text
            elif name is not None and _is_result(piece.text):
                found.append(_Entry([name.text, piece.text, "", "", ""], [name, cell], cell))
                name = None
            elif found and not found[-1].texts[2] and (parse_range(piece.text).intervals or polarity(piece.text)):
                found[-1].add(_RANGE, piece.text, cell)
            elif found and not found[-1].texts[3] and re.fullmatch(r"[^\u4e00-\u9fff]{1,12}", piece.text):
                found[-1].add(3, piece.text, cell)
    return found


def _is_result(text: str) -> bool:
    return parse_number(text) is not None or bool(polarity(text))


def _is_name(text: str) -> bool:
    """Whether a text can name a measurement: it has a letter and is not a range, unit or key."""
    if not _NAME.search(text) or re.search(r"[:：]", text):
        return False
    return not parse_range(text).intervals and not _is_unit(text)


def _is_unit(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-zμ%]{1,6}\s*/\s*[A-Za-zμ0-9.^²]{1,10}|[A-Za-zμ%]{1,3}|秒|×?10\^.*", text.strip()))
