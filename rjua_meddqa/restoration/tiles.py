"""Reads tall strips, such as stitched screenshots, in overlapping tiles, so that their text keeps its size.

Two consecutive tiles are joined along a horizontal cut through their overlap that crosses the fewest boxes, usually
between two lines of text. Boxes above it come from the upper tile, the others from the lower one. A strip that lies on
its side is read after it is turned.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

STRIP = 3.0  # height in widths from which an image at the engine's longest side would have too small text
OVERLAP = 8  # consecutive tiles share one eighth, which is higher than any line of text
SAME_PLACE = 0.5  # of the smaller box: boxes of two tiles that share more are the same text


def is_strip(size: tuple[int, int], tile: int) -> bool:
    """Whether an image of `size` (width, height) is read in tiles of `tile` pixels' height."""
    width, height = size
    return height > tile and height > STRIP * width


def read_strip(image: "Image.Image", read: Callable[["Image.Image"], list[Box]], tile: int) -> list[Box]:
    """Return the boxes of `image` in its pixels, read in tiles of at most `tile` pixels' height."""
    boxes: list[Box] = []
    before = 0  # end of the previous tile
    for top, bottom in tile_rows(image.height, tile):
        found = [_move_down(box, top) for box in read(image.crop((0, top, image.width, bottom)))]
        boxes = join(boxes, found, top, before) if top else found
        before = bottom
    return boxes


def tile_rows(height: int, tile: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) rows of equal tiles that cover `height` and overlap by at least an eighth."""
    overlap = tile // OVERLAP
    steps = max(1, -(-(height - tile) // (tile - overlap)))
    return [(top, top + tile) for top in (round((height - tile) * i / steps) for i in range(steps + 1))]


def join(upper: Sequence[Box], lower: Sequence[Box], start: int, end: int) -> list[Box]:
    """Join the boxes of two tiles that share the rows from `start` to `end`, without duplicates or losses."""
    y = find_cut([*upper, *lower], start, end)
    kept = [box for box in upper if box.top < y]
    near = [box for box in kept if box.bottom > start]
    return kept + [box for box in lower if box.bottom > y and not any(_same_place(box, other) for other in near)]


def find_cut(boxes: Sequence[Box], start: int, end: int) -> float:
    """Return the row between `start` and `end` that crosses the fewest boxes, and of those the most central one.

    Candidates are the middle, and the middles of the gaps between the borders of boxes.
    """
    inside = {border for box in boxes for border in (box.top, box.bottom) if start < border < end}
    middle = (start + end) / 2
    rows = [(a + b) / 2 for a, b in pairwise(sorted({float(start), *inside, float(end)}))]
    return min([*rows, middle], key=lambda y: (sum(box.top < y < box.bottom for box in boxes), abs(y - middle)))


def _same_place(a: Box, b: Box) -> bool:
    across = min(a.right, b.right) - max(a.left, b.left)
    down = min(a.bottom, b.bottom) - max(a.top, b.top)
    return min(across, down) > 0 and across * down > SAME_PLACE * min(a.width * a.height, b.width * b.height)


def _move_down(box: Box, rows: int) -> Box:
    return replace(box, points=tuple((x, y + rows) for x, y in box.points))
