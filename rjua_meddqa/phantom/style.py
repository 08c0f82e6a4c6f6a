"""The look of a synthetic page: width, character size, columns, and how its table wraps."""

import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from rjua_meddqa.phantom.difficulties import Difficulty
from rjua_meddqa.phantom.report import Report

TWO_BLOCKS_FROM = 8  # rows


@dataclass(frozen=True)
class TableStyle:
    """Widths are in Chinese characters. None does not limit a column."""

    name_width: int | None = None
    range_width: int | None = None
    centred: bool = False  # short cells are centred vertically in their row
    unit_last: bool = False  # units to the right of the ranges
    apart: bool = False  # the rows of two blocks are not aligned


@dataclass(frozen=True)
class Style:
    """`size` is the height of a character in pixels."""

    width: int
    size: int
    header_columns: int
    blocks: int
    lined: bool
    unit_column: bool
    marks: bool  # arrows after results out of range
    colon: str
    table: TableStyle = field(default_factory=TableStyle)


def draw_style(draw: random.Random, report: Report, narrow: bool) -> Style:
    """Draw a style that fits the report. `narrow` is the width of a phone screen."""
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
    """Apply the difficulties that change the columns of the table or of the header."""
    table = TableStyle(
        name_width=draw.randint(5, 7) if Difficulty.WRAPPED_NAMES in flags else None,
        range_width=draw.randint(4, 6) if Difficulty.WRAPPED_RANGES in flags else None,
        centred=draw.random() < 0.5,
        unit_last=draw.random() < 0.5,
        apart=Difficulty.SIDE_BY_SIDE in flags,
    )
    style = replace(style, table=table)
    if Difficulty.UNIT_COLUMN in flags or Difficulty.WRAPPED_RANGES in flags:
        style = replace(style, unit_column=True)
    if Difficulty.SIDE_BY_SIDE in flags:
        style = replace(style, blocks=2, width=1600)
    elif Difficulty.GROUPS in flags:  # long ranges leave no room for a second block
        style = replace(style, blocks=1)
    return replace(style, header_columns=min(style.header_columns, 3)) if Difficulty.NO_COLON in flags else style
