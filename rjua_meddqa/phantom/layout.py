"""Lays out a report on a sheet: title, fields, table, sections and the extras of hard pages."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from rjua_meddqa.phantom.difficulties import Difficulty
from rjua_meddqa.phantom.disturbances import put_margin_text, put_scan, put_stamp
from rjua_meddqa.phantom.report import Report
from rjua_meddqa.phantom.sheet import LEADING, MARGIN, Sheet
from rjua_meddqa.phantom.style import Style
from rjua_meddqa.phantom.table_layout import put_table, table_width
from rjua_meddqa.schema import MISSING, Box

SCAN_SHARE = 0.36  # of the page's width


@dataclass(frozen=True)
class PageLayout:
    """A grey image, the box of every printed text, and the texts of each line in reading order.

    Text on stamps is left out, because annotators do not write it down.
    """

    image: Image.Image
    boxes: list[Box]
    lines: tuple[tuple[str, ...], ...]


def lay_out(report: Report, style: Style, font: Path, flags: Collection[Difficulty] = (), seed: int = 0) -> PageLayout:
    """Lay out a page, wider than its style if the table needs it. `seed` places the extras of hard pages."""
    if report.table:
        style = replace(style, width=max(style.width, table_width(report, style, font)))
    draw = random.Random(f"meddqa {seed} disturbances")
    sheet = Sheet(style.width, font)
    sheet.y = MARGIN
    sheet.centred(report.hospital, style.size + 14)
    sheet.y += round((style.size + 14) * LEADING)
    header = report.header
    if Difficulty.EMPTY_NAME in flags:  # beside the title
        header = tuple(pair for pair in header if pair[0] != "姓名")
        left = (style.width - sheet.measure(report.title, style.size + 6)) / 2 - sheet.measure("姓名：", style.size)
        sheet.text(left - style.size * draw.uniform(1.0, 5.0), f"姓名{style.colon}", style.size, dy=3)
    sheet.centred(report.title, style.size + 6)
    sheet.y += round((style.size + 6) * LEADING)
    _fields(sheet, header, style, style.header_columns, colon=Difficulty.NO_COLON not in flags)
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
            sheet.y = max(sheet.y, sheet.lowest_picture() + style.size)
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


def _fields(sheet: Sheet, pairs: Sequence[tuple[str, str]], style: Style, columns: int, colon: bool = True) -> None:
    """Key-value pairs in columns. Without a colon, keys and values have a left edge each.

    A pair that is wider than its column starts a new row.
    """
    column_width = (style.width - 2 * MARGIN) / columns
    indent = 0 if colon else max(sheet.measure(key, style.size) for key, _ in pairs) + style.size
    column = 0
    for key, value in pairs:
        shown = "" if value == MISSING else value
        text = f"{key}{style.colon}{shown}" if colon else shown
        wide = indent + sheet.measure(text, style.size) > column_width - style.size
        if column == columns or (wide and column):
            sheet.y += round(style.size * LEADING)
            column = 0
        x = MARGIN + column * column_width
        if not colon:
            sheet.text(x, key, style.size)
        if text:
            sheet.text(x + indent, text, style.size)
        column = columns if wide else column + 1
    sheet.y += round(style.size * LEADING)


def _section(sheet: Sheet, heading: str, text: str, style: Style, beside: float = 0) -> None:
    """A heading and its paragraphs. `beside` is the width in pixels that stays free on the right."""
    sheet.text(MARGIN, f"{heading}{style.colon}", style.size + 2)
    sheet.y += round((style.size + 2) * LEADING)
    indent = MARGIN + style.size
    for paragraph in text.split("\n"):
        for line in sheet.wrap(paragraph, style.size, style.width - MARGIN - indent - beside):
            sheet.text(indent, line, style.size)
            sheet.y += round(style.size * LEADING)
    sheet.y += style.size // 2
