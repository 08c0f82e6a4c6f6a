"""Puts a report on a sheet: title, fields in columns, table, sections, and what a hard page has besides."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from PIL import Image

from rjua_meddqa.phantom.difficulties import Difficulty
from rjua_meddqa.phantom.disturbances import put_margin_text, put_scan, put_stamp
from rjua_meddqa.phantom.report import Report
from rjua_meddqa.phantom.sheet import LEADING, MARGIN, Sheet
from rjua_meddqa.phantom.table import TableStyle, draw_table_style, put_table, table_width
from rjua_meddqa.schema import MISSING, Box

TWO_BLOCKS_FROM = 8  # rows
SCAN_SHARE = 0.36  # of the width between the margins


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
    table: TableStyle = field(default_factory=TableStyle)


@dataclass(frozen=True)
class PageLayout:
    """A page that was laid out: grey image, box of every printed piece, and the texts of each line in reading order.

    Words of stamps are not in it: nobody would write them down.
    """

    image: Image.Image
    boxes: list[Box]
    lines: tuple[tuple[str, ...], ...]


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


def harden(style: Style, draw: random.Random, flags: Collection[Difficulty]) -> Style:
    """`style` with those of `flags` that are about a table's columns."""
    wraps = Difficulty.WRAPPED_NAMES in flags, Difficulty.WRAPPED_RANGES in flags
    style = replace(style, table=draw_table_style(draw, *wraps, apart=Difficulty.SIDE_BY_SIDE in flags))
    if Difficulty.UNIT_COLUMN in flags or Difficulty.WRAPPED_RANGES in flags:
        style = replace(style, unit_column=True)
    if Difficulty.SIDE_BY_SIDE in flags:
        style = replace(style, blocks=2, width=1600)
    elif Difficulty.GROUPS in flags:  # long ranges leave no room for a second block
        style = replace(style, blocks=1)
    return replace(style, header_columns=min(style.header_columns, 3)) if Difficulty.NO_COLON in flags else style


def lay_out(report: Report, style: Style, font: Path, flags: Collection[Difficulty] = (), seed: int = 0) -> PageLayout:
    """The page with `flags`; long items make it wider. `seed` places what hard pages have besides."""
    if report.table:
        style = replace(style, width=max(style.width, table_width(report, style, font)))
    draw = random.Random(f"meddqa {seed} disturbances")
    sheet = Sheet(style.width, font)
    sheet.y = MARGIN
    sheet.centred(report.hospital, style.size + 14)
    sheet.y += round((style.size + 14) * LEADING)
    header = report.header
    if Difficulty.EMPTY_NAME in flags:  # on the line of the title, near it
        header = tuple(pair for pair in header if pair[0] != "姓名")
        left = (style.width - sheet.measure(report.title, style.size + 6)) / 2 - sheet.measure("姓名：", style.size)
        sheet.text(left - style.size * draw.uniform(1.0, 5.0), f"姓名{style.colon}", style.size, dy=3)
    sheet.centred(report.title, style.size + 6)
    sheet.y += round((style.size + 6) * LEADING)
    if Difficulty.NO_COLON in flags:
        _bare_fields(sheet, header, style)
    else:
        _fields(sheet, header, style, style.header_columns)
    sheet.rule(MARGIN, style.width - MARGIN)
    sheet.y += style.size // 2
    body = sheet.y
    if report.table:
        put_table(sheet, report, style)
    scan = [] if Difficulty.SCAN not in flags else put_scan(sheet, round(style.width * SCAN_SHARE), style.size, draw)
    for number, (heading, text) in enumerate(report.sections):
        _section(sheet, heading, text, style, style.width * SCAN_SHARE + style.size if scan and not number else 0)
        if scan and not number:
            for x, y, word, size in scan:
                sheet.text(x, word, size, dy=y - sheet.y, row=f"scan {y}")
            sheet.y = max(sheet.y, sheet.bottom_of_pictures() + style.size)
    sheet.y += style.size // 2
    sheet.rule(MARGIN, style.width - MARGIN)
    sheet.y += style.size // 2
    _fields(sheet, report.footer, style, min(3, style.header_columns))
    if Difficulty.MARGIN_TEXT in flags:
        put_margin_text(sheet, style.size - 4, draw)
    if Difficulty.STAMP in flags:
        put_stamp(sheet, body, style.size, draw)
    image, boxes = sheet.draw(sheet.y + MARGIN)
    return PageLayout(image, boxes, sheet.reading_order())


def _fields(sheet: Sheet, pairs: Sequence[tuple[str, str]], style: Style, columns: int) -> None:
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


def _bare_fields(sheet: Sheet, pairs: Sequence[tuple[str, str]], style: Style) -> None:
    """Keys without a colon, each column of keys and of values with its left edge."""
    columns = style.header_columns
    column_width = (style.width - 2 * MARGIN) / columns
    indent = max(sheet.measure(key, style.size) for key, _ in pairs) + style.size
    column = 0
    for key, value in pairs:
        shown = "" if value == MISSING else value
        wide = indent + sheet.measure(shown, style.size) > column_width - style.size
        if column == columns or (wide and column):
            sheet.y += round(style.size * LEADING)
            column = 0
        x = MARGIN + column * column_width
        sheet.text(x, key, style.size)
        if shown:
            sheet.text(x + indent, shown, style.size)
        column = columns if wide else column + 1
    sheet.y += round(style.size * LEADING)


def _section(sheet: Sheet, heading: str, text: str, style: Style, beside: float = 0) -> None:
    """A heading, and below it the text in lines, paragraph by paragraph; `beside` pixels on the right stay free."""
    sheet.text(MARGIN, f"{heading}{style.colon}", style.size + 2)
    sheet.y += round((style.size + 2) * LEADING)
    indent = MARGIN + style.size
    for paragraph in text.split("\n"):
        for line in sheet.wrap(paragraph, style.size, style.width - MARGIN - indent - beside):
            sheet.text(indent, line, style.size)
            sheet.y += round(style.size * LEADING)
    sheet.y += style.size // 2
