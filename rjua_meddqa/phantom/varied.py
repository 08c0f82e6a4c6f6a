"""Laboratory pages with difficulties of continuous strength, to measure accuracy as a function of each.

Every page has one difficulty of a random level, while the others are neutral, except that pages of WRAPPED difficulties
also wrap cells. Pages of the difficulty `all` draw levels for about half of the difficulties.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rjua_meddqa.phantom.contents import CONTENTS
from rjua_meddqa.phantom.page import SyntheticReport
from rjua_meddqa.phantom.panels import PANELS, draw_rows
from rjua_meddqa.phantom.photo import draw_effects, photograph
from rjua_meddqa.phantom.report import Report, draw_laboratory
from rjua_meddqa.phantom.sheet import LEADING, MARGIN, Sheet
from rjua_meddqa.schema import HIGH, LOW, MISSING, Annotation, TableRow

ALL = "all"
ITEM, RESULT, UNIT, RANGE = "item", "result", "unit", "range"
TITLES = {ITEM: "项目名称", RESULT: "结果", UNIT: "单位", RANGE: "参考范围"}


@dataclass(frozen=True)
class Variation:
    """Levels of difficulty. The defaults are neutral.

    Attributes:
        spacing: distance of rows, in default row heights.
        wrapping: share of their width that the columns of items and ranges lack. Text breaks at any character.
        sizes: largest relative change of the character size between the columns of a row.
        tables: number of tables below or beside each other.
        narrative: characters of text beside the tables.
        reports: number of reports beside each other on the photo.
        disorder: chance that a column is not in its usual place.
        headless: chance that a header cell is missing.
    """

    spacing: float = 1.0
    wrapping: float = 0.0
    sizes: float = 0.0
    tables: float = 1
    narrative: float = 0
    reports: float = 1
    disorder: float = 0.0
    headless: float = 0.0


RANGES = {
    "spacing": (0.6, 2.2),
    "wrapping": (0.0, 0.65),
    "sizes": (0.0, 0.3),
    "tables": (2, 4),
    "narrative": (20, 200),
    "reports": (2, 2),
    "disorder": (0.0, 1.0),
    "headless": (0.0, 1.0),
}
DIFFICULTIES = (*RANGES, ALL)
WRAPPED = ("spacing", "sizes")  # difficulties that show in wrapped cells only
WRAPPING = 0.3


def draw_variation(draw: random.Random, number: int) -> tuple[str, Variation]:
    """The difficulty of page `number`, and its levels."""
    difficulty = DIFFICULTIES[number % len(DIFFICULTIES)]
    chosen = RANGES if difficulty == ALL else (difficulty,)
    levels = {"wrapping": WRAPPING} if difficulty in WRAPPED else {}
    for name in chosen:
        low, high = RANGES[name]
        whole = isinstance(low, int) and isinstance(high, int)
        level = draw.randint(int(low), int(high)) if whole else round(draw.uniform(low, high), 3)
        if difficulty != ALL or draw.random() < 0.5:
            levels[name] = level
    return difficulty, replace(Variation(), **levels)


def draw_varied_page(seed: int, number: int, fonts: Sequence[Path]) -> tuple[SyntheticReport, dict[str, float | str]]:
    """Draw page `number` (from 1) of `seed`. Returns it with its difficulty and levels."""
    draw = random.Random(f"meddqa {seed} {number} varied")
    difficulty, variation = draw_variation(draw, number)
    sheet = Sheet(0, fonts[0])
    reports: list[Any] = []
    tables: list[Any] = []
    left: float = MARGIN
    bottom: float = 0
    for _ in range(int(variation.reports)):
        sheet.y = MARGIN
        report, right = _put_report(sheet, left, variation, draw, tables)
        reports.append(report)
        left, bottom = right + 3 * MARGIN // 2, max(bottom, sheet.y)
    sheet.width = round(left - MARGIN // 2)
    image, boxes = sheet.draw(round(bottom) + MARGIN)
    quality, image_type = "high", "pdf"
    if variation.reports > 1 or draw.random() < 0.3:
        effects = replace(draw_effects(draw), pinch=draw.uniform(0, 0.1), cut=False, turn=0)
        image, boxes, quality = photograph(image, boxes, effects, draw.randrange(2**32))
        image_type = "photo"
    whole = replace(
        reports[0],
        header=tuple(pair for report in reports for pair in report.header),
        footer=tuple(pair for report in reports for pair in report.footer),
        table=tuple(row for report in reports for row in report.table),
        findings=(),
    )
    name = f"report{number:04}.{'jpg' if image_type == 'photo' else 'png'}"
    annotation = Annotation(str(number), name, whole.key_values, whole.table, whole.report_type, image_type, quality)
    page = SyntheticReport(image, boxes, annotation, whole, sheet.reading_order(), tables=tuple(tables))
    return page, {"difficulty": difficulty, **asdict(variation)}


def _put_report(
    sheet: Sheet, left: float, variation: Variation, draw: random.Random, tables: list
) -> tuple[Report, float]:
    """Put a report with its upper left corner at (`left`, y). Returns it and its right edge."""
    size = draw.choice((24, 26))
    report = draw_laboratory(draw)
    sheet.text(left + 8 * size, report.title, size + 8)
    sheet.y += round((size + 8) * LEADING)
    fields = [f"{key}：{'' if value == MISSING else value}" for key, value in report.header]
    right = _put_fields(sheet, left, fields, size)
    sheet.y += size
    rows: list[TableRow] = []
    panels = draw.sample(sorted(PANELS), int(variation.tables))
    beside = len(panels) > 1 and draw.random() < 0.5
    x, top, lowest, first, edges = left, sheet.y, sheet.y, sheet.y, []
    for number, name in enumerate(panels):
        items = PANELS[name]
        start = draw.randrange(max(1, len(items) - 5))
        table = [
            (row, item.unit if row.range not in (MISSING, item.expected) else "")
            for item, row in zip(items, draw_rows(items, draw), strict=True)
        ][start : start + draw.randint(4, 9)]
        rows += [row for row, _ in table]
        if beside:
            x, sheet.y = (x, top) if number % 2 else (left, lowest)
            top = sheet.y
        edge, printed = _put_table(sheet, x, table, variation, draw, size)
        tables.append(printed)
        edges.append(edge)
        lowest = max(lowest, sheet.y)
        x = edge + 2 * size if beside and not number % 2 else left
        sheet.y += size
    if variation.narrative:
        text = "".join(draw.sample(CONTENTS["paragraphs"], 4))[: int(variation.narrative)]
        x, sheet.y = max(edges) + 2 * size, first
        for line in sheet.wrap(text, size, 11 * size):
            sheet.text(x, line, size)
            sheet.y += round(size * LEADING)
        edges.append(x + 12 * size)
    sheet.y = max(lowest, sheet.y) + size
    fields = [f"{key}：{'' if value == MISSING else value}" for key, value in report.footer]
    right = max(right, _put_fields(sheet, left, fields, size), *edges)
    return replace(report, table=tuple(rows), units=(), sections=()), right


def _put_fields(sheet: Sheet, left: float, fields: Sequence[str], size: int) -> float:
    """Put fields in three columns. Returns the right edge."""
    widths = [max((sheet.measure(text, size) for text in fields[n::3]), default=0) + 2 * size for n in range(3)]
    for number, text in enumerate(fields):
        sheet.text(left + sum(widths[: number % 3]), text, size)
        if number % 3 == 2 or number == len(fields) - 1:
            sheet.y += round(size * LEADING)
    return left + sum(widths)


def _put_table(
    sheet: Sheet,
    left: float,
    table: Sequence[tuple[TableRow, str]],
    variation: Variation,
    draw: random.Random,
    size: int,
) -> tuple[float, tuple[tuple[str, ...], ...]]:
    """Put a table at (`left`, y). Returns its right edge and its printed cells."""
    columns = [ITEM, RESULT, *draw.choice(((UNIT, RANGE), (RANGE, UNIT), (RANGE,)))]
    for place in range(len(columns) - 1):
        if draw.random() < variation.disorder:
            other = draw.randrange(len(columns))
            columns[place], columns[other] = columns[other], columns[place]
    marks, align = draw.random() < 0.5, draw.choice((0.0, 0.5, 1.0))
    sizes = {name: round(size * draw.uniform(1 - variation.sizes, 1 + variation.sizes)) for name in columns}
    heads = {name: TITLES[name] if draw.random() >= variation.headless else "" for name in columns}
    rows = [heads, *(_cells(row, unit, UNIT in columns, marks) for row, unit in table)]
    wrapped: list[dict[str, list[str]]] = [{} for _ in rows]
    widths = []
    for name in columns:
        natural = max(sheet.measure(row[name], sizes[name]) for row in rows)
        limit = natural * (1 - variation.wrapping) if name in (ITEM, RANGE) else natural
        limit = max(limit, 3 * sizes[name])
        for row, lines in zip(rows, wrapped, strict=True):
            lines[name] = sheet.wrap(row[name], sizes[name], limit) or [""]
        widths.append(min(limit, natural) + draw.uniform(1.0, 3.0) * size)
    pitch = LEADING * variation.spacing * max(sizes.values())
    inner = draw.uniform(1.0, max(1.0, min(1.4, pitch / max(sizes.values())))) * max(sizes.values())
    for number, lines in enumerate(wrapped):
        most = max(map(len, lines.values()))
        x: float = left
        for name, width in zip(columns, widths, strict=True):
            down = (most - len(lines[name])) * inner * align + (max(sizes.values()) - sizes[name]) / 2
            for place, line in enumerate(lines[name]):
                if line:
                    sheet.text(x, line, sizes[name], dy=down + place * inner, row=f"{left} {sheet.y} {place}")
            x += width
        sheet.y += pitch + (most - 1) * inner + (4 if number == 0 else 0)
    return left + sum(widths), tuple(tuple(row[name] for name in columns) for row in rows)


def _cells(row: TableRow, unit: str, unit_column: bool, marks: bool) -> dict[str, str]:
    limits = "" if row.range == MISSING else row.range
    mark = {HIGH: "↑", LOW: "↓"}.get(row.is_normal, "") if marks else ""
    if unit_column and unit:
        limits = limits.removesuffix(unit).rstrip()
    return {ITEM: row.item, RESULT: row.result + mark, UNIT: unit, RANGE: limits}
