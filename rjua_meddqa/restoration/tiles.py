"""Reading tall strips, such as stitched screenshots, in tiles that overlap, so that their text keeps its size.

Two tiles that follow each other are joined along a level cut through what both show, where it meets the fewest boxes:
between two lines of text, as a rule none. What lies above it is taken from the upper tile, the rest from the lower one.
Only height is cut: across the strip, lines of text would be. A strip that lies on its side is read once it is turned.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

STRIP = 3.0  # times as high as wide; shrunk to an engine's longest side, the text of such an image becomes too small
OVERLAP = 8  # the part of a tile that it shares with the next is one eighth: higher than any line of text
SAME_PLACE = 0.5  # of the smaller box: two tiles' boxes that share more are the same text


def is_strip(size: tuple[int, int], tile: int) -> bool:
    """Whether an image of `size` (width, height) is to be read in tiles of `tile` pixels' height."""
    width, height = size
    return height > tile and height > STRIP * width


def read_strip(image: "Image.Image", read: Callable[["Image.Image"], list[Box]], tile: int) -> list[Box]:
    """Boxes of `image` in its pixels, one tile of at most `tile` pixels' height read at a time."""
    boxes: list[Box] = []
    before = 0  # where the tile before ends
    for top, bottom in tile_rows(image.height, tile):
        found = [_move_down(box, top) for box in read(image.crop((0, top, image.width, bottom)))]
        boxes = join(boxes, found, top, before) if top else found
        before = bottom
    return boxes


def tile_rows(height: int, tile: int) -> list[tuple[int, int]]:
    """First row, and row after the last, of equal tiles that overlap by at least an eighth and cover `height`."""
    overlap = tile // OVERLAP
    steps = max(1, -(-(height - tile) // (tile - overlap)))
    return [(top, top + tile) for top in (round((height - tile) * i / steps) for i in range(steps + 1))]


def join(upper: Sequence[Box], lower: Sequence[Box], start: int, end: int) -> list[Box]:
    """Boxes of two tiles that both show the rows from `start` to `end`: nothing is twice, nothing is lost."""
    y = find_cut([*upper, *lower], start, end)
    kept = [box for box in upper if box.top < y]
    near = [box for box in kept if box.bottom > start]
    return kept + [box for box in lower if box.bottom > y and not any(_same_place(box, other) for other in near)]


def find_cut(boxes: Sequence[Box], start: int, end: int) -> float:
    """The row between `start` and `end` that meets the fewest boxes; of those, the one nearest to the middle.

    Rows are tried in the middle of each gap between the borders of boxes, and half-way.
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
