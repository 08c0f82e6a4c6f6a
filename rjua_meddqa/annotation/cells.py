"""Pieces of recognised text with their place on the page (cells), and operations on cells and rows of cells."""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rjua_meddqa.schema import Box

LONG_BOX = 3  # times its height, the smallest width of a box whose slope is measured
FEWEST_LONG_BOXES = 5
SAME_ROW = 0.5  # of the height, the largest distance between the middles of two cells of a row
_CJK = re.compile(r"[\u4e00-\u9fff]")
_ARROWS = "↑↓⬆⬇"


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text. `y` is its middle and `height` that of its letters, which is less than that of a tilted box.

    `box` is the number of the box that the piece belongs to.
    """

    text: str
    left: float
    right: float
    y: float
    height: float
    box: int = -1

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


def make_cell(box: Box, number: int = -1) -> Cell:
    corners = box.points
    height = (math.dist(corners[0], corners[3]) + math.dist(corners[1], corners[2])) / 2
    return Cell(box.text.strip(), box.left, box.right, sum(y for _, y in corners) / 4, max(height, 1.0), number)


def make_cells(boxes: Sequence[Box]) -> list[Cell]:
    """Return the cell of every box with text, corrected for the remaining tilt of the page."""
    return level([make_cell(box, number) for number, box in enumerate(boxes) if box.text.strip()], boxes)


def level(cells: Sequence[Cell], boxes: Sequence[Box]) -> list[Cell]:
    """Correct cells for the remaining tilt of a page, measured as the median slope of its long boxes."""
    slopes = [
        (box.points[1][1] - box.points[0][1]) / (box.points[1][0] - box.points[0][0])
        for box in boxes
        if box.points[1][0] - box.points[0][0] > LONG_BOX * box.height
    ]
    slope = median(slopes) if len(slopes) >= FEWEST_LONG_BOXES else 0.0
    return [replace(cell, y=cell.y - slope * (cell.left + cell.right) / 2) for cell in cells]


def _widths(text: str) -> list[int]:
    """Widths of characters. A Chinese character is as wide as two letters."""
    return [2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text]


def letter_width(cell: Cell) -> float:
    """Return half the width of a Chinese character in `cell`, in pixels."""
    return (cell.right - cell.left) / max(sum(_widths(cell.text)), 1)


def part(cell: Cell, start: int, end: int) -> Cell:
    """Return characters `start` to `end` of `cell`, placed by their widths."""
    widths = _widths(cell.text)
    scale = (cell.right - cell.left) / max(sum(widths), 1)
    left = cell.left + sum(widths[:start]) * scale
    return Cell(cell.text[start:end], left, left + sum(widths[start:end]) * scale, cell.y, cell.height, cell.box)


def tokens(cell: Cell) -> list[Cell]:
    """Split `cell` at white space and around arrows."""
    return [part(cell, *match.span()) for match in re.finditer(rf"[{_ARROWS}]+|[^\s{_ARROWS}]+", cell.text)]


def is_arrow(text: str) -> bool:
    return bool(text) and all(character in _ARROWS for character in text)


def overlap(one: Cell, other: Cell) -> float:
    """Return the horizontal overlap of two cells in pixels. A negative value is the gap between them."""
    return min(one.right, other.right) - max(one.left, other.left)


def in_row(one: Cell, other: Cell, times: float = 1.0) -> bool:
    return abs(one.y - other.y) <= times * SAME_ROW * max(one.height, other.height)


def rows(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Group cells into rows from top to bottom. A cell joins the row if it is level with its neighbour in that row."""
    found: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: (cell.y, cell.left)):
        for row in reversed(found[-3:]):
            nearest = min(row, key=lambda other: max(other.left - cell.right, cell.left - other.right))
            if in_row(cell, nearest):
                row.append(cell)
                break
        else:
            found.append([cell])
    return [sorted(row, key=lambda cell: cell.left) for row in found]


def join_cells(cells: Sequence[Cell]) -> str:
    """Return the text of a table cell with one or several lines, joined like wrapped text."""
    text = ""
    for row in rows(cells):
        for cell in row:
            text = join_wrapped(text, cell.text)
    return text


def join_wrapped(before: str, after: str, is_running: bool = False) -> str:
    """Join two pieces of one text: without a space inside a Chinese word, with one between words or numbers.

    Args:
        is_running: whether the pieces are lines of running text. Then only Latin words keep their space.
    """
    before, after = before.rstrip(), after.lstrip()
    is_in_brackets = before.count("(") > before.count(")") and before[-1:].isalpha()
    if is_in_brackets or not before or not after or not (before[-1].isalnum() and after[0].isalnum()):
        return before + after
    cut = [bool(_CJK.match(character)) for character in (before[-1], after[0])]
    return before + ("" if (any(cut) if is_running else all(cut)) else " ") + after
