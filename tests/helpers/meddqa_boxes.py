"""Printed pages as recognised boxes, for tests: text at a place, with the widths that characters have."""

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import replace

from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.schema import Box, RestoredText

SIZE = 20  # pixels: height of a character, width of a Chinese one


def box(text: str, x: float, y: float, size: float = SIZE) -> Box:
    """`text` with its top left corner at (x, y)."""
    width = sum(size if unicodedata.east_asian_width(c) in "WF" else size / 2 for c in text)
    return Box(((x, y), (x + width, y), (x + width, y + size), (x, y + size)), text)


def right_box(text: str, x: float, y: float, size: float = SIZE) -> Box:
    """`text` that ends at x."""
    placed = box(text, 0, y, size)
    return box(text, x - placed.width, y, size)


def lines(pieces: Iterable[Iterable[tuple[float, str]]], top: float = 0, pitch: float = 30) -> list[Box]:
    """One row of (x, text) below the other; an empty text leaves a gap."""
    return [box(text, x, top + number * pitch) for number, row in enumerate(pieces) for x, text in row if text]


def turned(boxes: Iterable[Box], degrees: float) -> list[Box]:
    """Boxes turned about the origin, clockwise positive."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [replace(b, points=tuple((x * cos - y * sin, x * sin + y * cos) for x, y in b.points)) for b in boxes]


def page(boxes: Iterable[Box]) -> RestoredText:
    return restore(list(boxes))
