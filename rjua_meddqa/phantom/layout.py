"""Puts a report on a sheet: title, fields in columns, table with or without lines in one or two blocks, sections."""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from rjua_meddqa.phantom.report import Report
from rjua_meddqa.phantom.sheet import Sheet
from rjua_meddqa.schema import HIGH, LOW, MISSING, Box, TableRow

MARGIN = 70  # pixels; what a cropped photo may lose
LEADING = 1.65  # row height in character heights
TWO_BLOCKS_FROM = 8  # rows


@dataclass(frozen=True)
class Style:
    """How a page looks. `size` is the height of a character in pixels."""

    width: int
    size: int
    header_columns: int
    blocks: int
    lined: bool
    unit_column: bool
    marks: bool  # arrows behind results out of range
    colon: str


def draw_style(draw: random.Random, report: Report, narrow: bool) -> Style:
    """A style that fits the report; `narrow` is a telephone's screen."""
    unit_column = draw.random() < 0.5
    blocks = 2 if len(report.table) >= TWO_BLOCKS_FROM and not narrow and draw.random() < 0.4 else 1
    return Style(
        width=760 if narrow else 1500 if blocks == 2 else 1180,
        size=draw.choice((22, 24)) if narrow else draw.choice((24, 26)),
        header_columns=2 if narrow else draw.choice((3, 4)),
        blocks=blocks,
        lined=draw.random() < 0.5,
        unit_column=unit_column,
        marks=draw.random() < 0.5,
        colon=draw.choice("：:"),
    )


def lay_out(report: Report, style: Style, font: Path) -> tuple[Image.Image, list[Box]]:
    """The page as a grey image, and the box of every printed piece in its pixels. Long items make the page wider."""
    if report.table:
        style = replace(style, width=max(style.width, _table_width(report, style, font)))
    sheet = Sheet(style.width, font)
    sheet.y = MARGIN
    sheet.centred(report.hospital, style.size + 14)
    sheet.y += round((style.size + 14) * LEADING)
    sheet.centred(report.title, style.size + 6)
    sheet.y += round((style.size + 6) * LEADING)
    _fields(sheet, report.header, style, style.header_columns)
    sheet.rule(MARGIN, style.width - MARGIN)
    sheet.y += style.size // 2
    if report.table:
        _table(sheet, report, style)
    for heading, text in report.sections:
        _section(sheet, heading, text, style)
    sheet.y += style.size // 2
    sheet.rule(MARGIN, style.width - MARGIN)
    sheet.y += style.size // 2
    _fields(sheet, report.footer, style, min(3, style.header_columns))
    return sheet.draw(sheet.y + MARGIN)


def _fields(sheet: Sheet, pairs: tuple[tuple[str, str], ...], style: Style, columns: int) -> None:
    """Key-value pairs in columns; one that does not fit into its column starts a row of its own."""
    column_width = (style.width - 2 * MARGIN) / columns
    column = 0
    for key, value in pairs:
        text = f"{key}{style.colon}{'' if value == MISSING else value}"
        wide = sheet.measure(text, style.size) > column_width - style.size
        if column == columns or (wide and column):
            sheet.y += round(style.size * LEADING)
            column = 0
        sheet.text(MARGIN + column * column_width, text, style.size)
        column = columns if wide else column + 1
    sheet.y += round(style.size * LEADING)


def _table(sheet: Sheet, report: Report, style: Style) -> None:
    """The rows in blocks side by side, each with its own heading."""
    per_block = -(-len(report.table) // style.blocks)
    cells = _all_cells(report, style)
    # Columns share the room that their longest cells leave, so that no cell runs into the next.
    needed = _needed_widths(sheet, cells, style)
    spare = (style.width - 2 * MARGIN) / style.blocks - sum(needed)
    widths = [width + spare / len(needed) for width in needed]
    top, height = sheet.y, round(style.size * (LEADING + 0.2 * style.lined))
    for line in range(per_block + 1):
        for block in range(style.blocks):
            number = block * per_block + line
            if line and number > len(report.table):
                continue
            x = MARGIN + block * sum(widths)
            for width, cell in zip(widths, cells[number if line else 0], strict=True):
                if cell:
                    sheet.text(x + style.size * 0.3, cell, style.size, dy=style.size * 0.15)
                x += width
        if style.lined or line == 0:
            sheet.rule(MARGIN, style.width - MARGIN, 1)
        sheet.y += height
        if line == 0 and not style.lined:
            sheet.rule(MARGIN, style.width - MARGIN, 1)
            sheet.y += 4
    sheet.rule(MARGIN, style.width - MARGIN, 1)
    if style.lined:
        _column_rules(sheet, style, widths, top)
    sheet.y += 4


def _table_width(report: Report, style: Style, font: Path) -> int:
    """The page's width that its table needs."""
    needed = _needed_widths(Sheet(style.width, font), _all_cells(report, style), style)
    return math.ceil(2 * MARGIN + style.blocks * sum(needed))


def _needed_widths(sheet: Sheet, cells: list[tuple[str, ...]], style: Style) -> list[float]:
    """Width of each column's longest cell and the gap behind it."""
    columns = zip(*cells, strict=True)
    return [max(sheet.measure(cell, style.size) for cell in column) + style.size for column in columns]


def _all_cells(report: Report, style: Style) -> list[tuple[str, ...]]:
    """The heading's cells, then those of every row."""
    item, result, limits = report.words
    heads = (item, result, "单位", limits) if style.unit_column else (item, result, limits)
    return [heads, *(_cells(row, unit, style) for row, unit in zip(report.table, report.units, strict=True))]


def _column_rules(sheet: Sheet, style: Style, widths: list[float], top: float) -> None:
    for block in range(style.blocks):
        x = MARGIN + block * sum(widths)
        for width in widths:
            sheet.column_rule(x, top, sheet.y)
            x += width
    sheet.column_rule(style.width - MARGIN, top, sheet.y)


def _cells(row: TableRow, unit: str, style: Style) -> tuple[str, ...]:
    """What stands in the columns. A range that is not there is left blank."""
    mark = {HIGH: "↑", LOW: "↓"}.get(row.is_normal, "") if style.marks else ""
    limits = "" if row.range == MISSING else row.range
    if style.unit_column:
        return row.item, row.result + mark, unit, limits.removesuffix(unit) if unit else limits
    return row.item, row.result + mark, limits


def _section(sheet: Sheet, heading: str, text: str, style: Style) -> None:
    """A heading, and below it the text in lines."""
    sheet.text(MARGIN, f"{heading}{style.colon}", style.size + 2)
    sheet.y += round((style.size + 2) * LEADING)
    indent = MARGIN + style.size
    for line in sheet.wrap(text, style.size, style.width - MARGIN - indent):
        sheet.text(indent, line, style.size)
        sheet.y += round(style.size * LEADING)
    sheet.y += style.size // 2
