"""Puts a report's table on a sheet: one or two blocks side by side, cells that wrap, with or without lines."""

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rjua_meddqa.phantom.report import Report
from rjua_meddqa.phantom.sheet import LEADING, MARGIN, Sheet
from rjua_meddqa.schema import HIGH, LOW, MISSING, TableRow

if TYPE_CHECKING:
    from pathlib import Path

    from rjua_meddqa.phantom.layout import Style

WRAP_LEADING = 1.2  # of the lines within a cell, in character heights
Cell = tuple[str, ...]  # its lines


@dataclass(frozen=True)
class TableStyle:
    """How a table wraps: Chinese characters that fit into the column of names and of ranges, None for any number."""

    name_width: int | None = None
    range_width: int | None = None
    centred: bool = False  # cells of fewer lines stand in the middle of their row, not at its top
    unit_last: bool = False  # the column of units stands right of the ranges
    apart: bool = False  # rows of two blocks do not line up


def draw_table_style(draw: random.Random, wraps_names: bool, wraps_ranges: bool, apart: bool) -> TableStyle:
    return TableStyle(
        name_width=draw.randint(5, 7) if wraps_names else None,
        range_width=draw.randint(4, 6) if wraps_ranges else None,
        centred=draw.random() < 0.5,
        unit_last=draw.random() < 0.5,
        apart=apart,
    )


def put_table(sheet: Sheet, report: Report, style: "Style") -> None:
    """The rows in blocks side by side, each with its own heading."""
    cells = _all_cells(sheet, report, style)
    # Columns share the room that their longest cells leave, so that no cell runs into the next.
    needed = _needed_widths(sheet, cells, style)
    spare = (style.width - 2 * MARGIN) / style.blocks - sum(needed)
    widths = [width + spare / len(needed) for width in needed]
    per_block = -(-len(report.table) // style.blocks)
    blocks = [
        [0, *range(start + 1, min(start + per_block, len(report.table)) + 1)]
        for start in range(0, len(report.table), per_block)
    ]
    top = sheet.y
    tops = _tops(blocks, cells, style, top)
    places = [
        (line, block) for line in range(per_block + 1) for block in range(len(blocks)) if line < len(blocks[block])
    ]
    for line, block in sorted(places, key=lambda place: tops[place[1]][place[0]]):  # from the top down
        x = MARGIN + block * sum(widths)
        room = tops[block][line + 1] - tops[block][line] - _extra(line, style)
        sheet.y = tops[block][line]
        _put_row(sheet, cells[blocks[block][line]], x, widths, style)
        if style.lined or line == 0:
            sheet.rule(x, x + sum(widths), 1)
        if line == 0 and not style.lined:
            sheet.y += round(room)
            sheet.rule(x, x + sum(widths), 1)
    sheet.y = max(column[-1] for column in tops)
    sheet.rule(MARGIN, style.width - MARGIN, 1)
    if style.lined:
        _column_rules(sheet, style, widths, top)
    sheet.y += 4


def table_width(report: Report, style: "Style", font: "Path") -> int:
    """The page's width that its table needs."""
    sheet = Sheet(style.width, font)
    needed = _needed_widths(sheet, _all_cells(sheet, report, style), style)
    return math.ceil(2 * MARGIN + style.blocks * sum(needed))


def _put_row(sheet: Sheet, row: tuple[Cell, ...], x: float, widths: list[float], style: "Style") -> None:
    leading, size = round(style.size * WRAP_LEADING), style.size
    most = max(map(len, row))
    for width, cell in zip(widths, row, strict=True):
        down = (most - len(cell)) * leading / 2 if style.table.centred else 0
        for number, line in enumerate(cell):
            if line:
                sheet.text(x + size * 0.3, line, size, dy=size * 0.15 + down + number * leading)
        x += width


def _extra(line: int, style: "Style") -> int:
    """Pixels below the heading of a table without lines."""
    return 4 if line == 0 and not style.lined else 0


def _tops(blocks: list[list[int]], cells: list[tuple[Cell, ...]], style: "Style", top: int) -> list[list[int]]:
    """Per block, where each of its rows begins, and where the last one ends."""
    height, leading = round(style.size * (LEADING + 0.2 * style.lined)), round(style.size * WRAP_LEADING)
    heights = [[height + (max(map(len, cells[n])) - 1) * leading for n in numbers] for numbers in blocks]
    if style.table.apart:  # a block with rows of its own height
        heights = [[h + (5 * block if n else 0) for n, h in enumerate(column)] for block, column in enumerate(heights)]
    else:
        for line in range(len(heights[0])):
            highest = max(column[line] for column in heights if line < len(column))
            for column in heights:
                column[line : line + 1] = [highest] if line < len(column) else []
    return [
        [top + sum(column[:line]) + (_extra(0, style) if line else 0) for line in range(len(column) + 1)]
        for column in heights
    ]


def _needed_widths(sheet: Sheet, cells: list[tuple[Cell, ...]], style: "Style") -> list[float]:
    """Width of each column's longest line and the gap behind it."""
    columns = zip(*cells, strict=True)
    return [max(sheet.measure(line, style.size) for cell in column for line in cell) + style.size for column in columns]


def _all_cells(sheet: Sheet, report: Report, style: "Style") -> list[tuple[Cell, ...]]:
    """The heading's cells, then those of every row."""
    item, result, limits = report.words
    heads = _order((item, result, "单位", limits), style)
    rows = [_cells(row, unit, style) for row, unit in zip(report.table, report.units, strict=True)]
    names, ranges = style.table.name_width, style.table.range_width
    wide = {0: names, (2 if style.unit_column and style.table.unit_last else len(heads) - 1): ranges}
    return [
        tuple(_wrap(sheet, text, wide.get(place), style.size) for place, text in enumerate(texts))
        for texts in (heads, *rows)
    ]


def _wrap(sheet: Sheet, text: str, characters: int | None, size: int) -> Cell:
    return tuple(sheet.wrap_cell(text, size, characters * size)) or ("",) if characters else (text,)


def _order(texts: tuple[str, str, str, str], style: "Style") -> tuple[str, ...]:
    """Item, result, unit and range as the columns have them."""
    item, result, unit, limits = texts
    if not style.unit_column:
        return item, result, limits
    return (item, result, limits, unit) if style.table.unit_last else (item, result, unit, limits)


def _cells(row: TableRow, unit: str, style: "Style") -> tuple[str, ...]:
    """What stands in the columns. A range that is not there is left blank."""
    mark = {HIGH: "↑", LOW: "↓"}.get(row.is_normal, "") if style.marks else ""
    limits = "" if row.range == MISSING else row.range
    if style.unit_column and unit:
        limits = limits.removesuffix(unit).rstrip()
    return _order((row.item, row.result + mark, unit, limits), style)


def _column_rules(sheet: Sheet, style: "Style", widths: list[float], top: float) -> None:
    for block in range(style.blocks):
        x = MARGIN + block * sum(widths)
        for width in widths:
            sheet.column_rule(x, top, sheet.y)
            x += width
    sheet.column_rule(style.width - MARGIN, top, sheet.y)
