"""Lays out a report's table: one or two blocks side by side, with or without rules, with wrapped cells."""

import math
from pathlib import Path

from rjua_meddqa.phantom.report import Report
from rjua_meddqa.phantom.sheet import LEADING, MARGIN, Sheet
from rjua_meddqa.phantom.style import Style
from rjua_meddqa.schema import HIGH, LOW, MISSING, TableRow

WRAP_LEADING = 1.2  # line height within a cell, in character heights
Cell = tuple[str, ...]  # the lines of a cell


def put_table(sheet: Sheet, report: Report, style: Style) -> None:
    """Put the rows in blocks side by side, each with a header."""
    cells = _all_cells(sheet, report, style)
    # Distribute the remaining width evenly over the columns.
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
    for line, block in sorted(places, key=lambda place: tops[place[1]][place[0]]):
        x = MARGIN + block * sum(widths)
        room = tops[block][line + 1] - tops[block][line] - _space_below(line, style)
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
        for block in range(style.blocks):
            for column in range(len(widths)):
                sheet.column_rule(MARGIN + block * sum(widths) + sum(widths[:column]), top, sheet.y)
        sheet.column_rule(style.width - MARGIN, top, sheet.y)
    sheet.y += 4


def table_width(report: Report, style: Style, font: Path) -> int:
    """The page width that the table needs."""
    sheet = Sheet(style.width, font)
    needed = _needed_widths(sheet, _all_cells(sheet, report, style), style)
    return math.ceil(2 * MARGIN + style.blocks * sum(needed))


def _put_row(sheet: Sheet, row: tuple[Cell, ...], x: float, widths: list[float], style: Style) -> None:
    leading, size = round(style.size * WRAP_LEADING), style.size
    most = max(map(len, row))
    for width, cell in zip(widths, row, strict=True):
        down = (most - len(cell)) * leading / 2 if style.table.centred else 0
        for number, line in enumerate(cell):
            if line:
                sheet.text(x + size * 0.3, line, size, dy=size * 0.15 + down + number * leading)
        x += width


def _space_below(line: int, style: Style) -> int:
    """Pixels below the header of a table without rules."""
    return 4 if line == 0 and not style.lined else 0


def _tops(blocks: list[list[int]], cells: list[tuple[Cell, ...]], style: Style, top: float) -> list[list[float]]:
    """The top of every row of each block, then the bottom of its last row."""
    height, leading = round(style.size * (LEADING + 0.2 * style.lined)), round(style.size * WRAP_LEADING)
    heights = [[height + (max(map(len, cells[n])) - 1) * leading for n in numbers] for numbers in blocks]
    if style.table.apart:  # the rows of the second block are higher
        heights = [[h + (5 * block if n else 0) for n, h in enumerate(column)] for block, column in enumerate(heights)]
    else:
        for line in range(len(heights[0])):
            highest = max(column[line] for column in heights if line < len(column))
            for column in heights:
                column[line : line + 1] = [highest] if line < len(column) else []
    return [
        [top + sum(column[:line]) + (_space_below(0, style) if line else 0) for line in range(len(column) + 1)]
        for column in heights
    ]


def _needed_widths(sheet: Sheet, cells: list[tuple[Cell, ...]], style: Style) -> list[float]:
    """The width of each column's longest line, with a gap after it."""
    columns = zip(*cells, strict=True)
    return [max(sheet.measure(line, style.size) for cell in column for line in cell) + style.size for column in columns]


def _all_cells(sheet: Sheet, report: Report, style: Style) -> list[tuple[Cell, ...]]:
    """The header's cells, then those of every row."""
    item, result, limits = report.words
    heads = _order((item, result, "单位", limits), style)
    rows = [_cells(row, unit, style) for row, unit in zip(report.table, report.units, strict=True)]
    range_column = 2 if style.unit_column and style.table.unit_last else len(heads) - 1
    characters = {0: style.table.name_width, range_column: style.table.range_width}
    return [
        tuple(_wrap(sheet, text, characters.get(column), style.size) for column, text in enumerate(texts))
        for texts in (heads, *rows)
    ]


def _wrap(sheet: Sheet, text: str, characters: int | None, size: int) -> Cell:
    return tuple(sheet.wrap_cell(text, size, characters * size)) or ("",) if characters else (text,)


def _order(texts: tuple[str, str, str, str], style: Style) -> tuple[str, ...]:
    """Item, result, unit and range in the order of the columns."""
    item, result, unit, limits = texts
    if not style.unit_column:
        return item, result, limits
    return (item, result, limits, unit) if style.table.unit_last else (item, result, unit, limits)


def _cells(row: TableRow, unit: str, style: Style) -> tuple[str, ...]:
    """The printed texts of a row. A missing range is left blank."""
    mark = {HIGH: "↑", LOW: "↓"}.get(row.is_normal, "") if style.marks else ""
    limits = "" if row.range == MISSING else row.range
    if style.unit_column and unit:
        limits = limits.removesuffix(unit).rstrip()
    return _order((row.item, row.result + mark, unit, limits), style)
