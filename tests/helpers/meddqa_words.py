"""Pages of coloured bars and an engine that reads them: words whose place, direction and number are known exactly.

A word is a bar whose blue channel says its number, with a red square where it starts. As a real engine, this one gives
low scores to bars that stand on their head, and turns tall ones left before it reads them.
"""

from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw

from rjua_meddqa.schema import Box

TABLE_COLOUR = (90, 90, 90)
WORDS = [f"word{number:02}" for number in range(48)]
COLUMNS, ROW_HEIGHT, WORD_HEIGHT, MARGIN = 3, 44, 22, 60
SIZE = (900, 16 * ROW_HEIGHT + 2 * MARGIN)


def draw_words(rows: int = 16) -> Image.Image:
    """A white page of SIZE with `rows` rows of three words, in reading order WORDS."""
    page = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(page)
    for number in range(rows * COLUMNS):
        row, column = divmod(number, COLUMNS)
        left, top = MARGIN + 280 * column, MARGIN + ROW_HEIGHT * row
        right, bottom = left + 150 + 10 * column, top + WORD_HEIGHT
        draw.rectangle((left, top, right, bottom), fill=(10, 60, 5 * number + 5))
        draw.rectangle((left, top, left + WORD_HEIGHT, bottom), fill=(230, 10, 10))
    return page


def photograph(page: Image.Image, corners, size) -> Image.Image:
    """`page` laid on a grey table so that its corners, from the left top one clockwise, come to lie at `corners`."""
    width, height = page.size
    start = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    matrix = cv2.getPerspectiveTransform(start, np.array(corners, np.float32))
    return Image.fromarray(
        cv2.warpPerspective(np.asarray(page), matrix, size, flags=cv2.INTER_AREA, borderValue=TABLE_COLOUR)
    )


@dataclass
class WordEngine:
    """Reads `draw_words` pages. `log` gets a line per reading."""

    log: Path | None = None
    settings: dict = field(default_factory=dict)
    name: str = "words"
    version: str = "1"
    readings: int = 0

    def read(self, image: Image.Image) -> list[Box]:
        self.readings += 1
        if self.log is not None:
            with self.log.open("a") as file:
                file.write("read\n")
        red, green, blue = np.moveaxis(np.asarray(image).astype(int), 2, 0)
        start = red - green > 100
        word = (start | ((green - red > 25) & (red < 60))).astype(np.uint8)
        word = cv2.morphologyEx(word, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))  # over the seam of both colours
        count, labels, stats, _ = cv2.connectedComponentsWithStats(word)
        boxes = []
        for number in range(1, count):
            left, top, width, height, area = stats[number]
            part = np.s_[top : top + height, left : left + width]
            if area > 60:
                boxes.append(self._box(labels[part] == number, start[part], blue[part], (left, top)))
        return [box for box in boxes if box is not None]

    def _box(self, mask: np.ndarray, start: np.ndarray, blue: np.ndarray, place: tuple[int, int]) -> Box | None:
        y, x = np.nonzero(mask)
        if not (mask & start).any() or not (mask & ~start).any():
            return None
        corners = cv2.boxPoints(cv2.minAreaRect(np.stack([x, y], axis=1).astype(np.float32))) + place
        by_x = sorted(corners.tolist())
        (left_top, left_bottom), (right_top, right_bottom) = (
            sorted(p, key=lambda q: q[1]) for p in (by_x[:2], by_x[2:])
        )
        points = tuple(map(tuple, (left_top, right_top, right_bottom, left_bottom)))
        number = round((np.median(blue[mask & ~start]) - 5) / 5)
        sy, sx = np.nonzero(mask & start)
        wide = np.hypot(*np.subtract(right_top, left_top)) >= np.hypot(*np.subtract(left_bottom, left_top))
        begins = sx.mean() < x.mean() if wide else sy.mean() < y.mean()
        return Box(points, WORDS[min(max(number, 0), 47)], 0.98 if begins else 0.55)
