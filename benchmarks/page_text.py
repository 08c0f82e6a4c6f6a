"""How near a restored page is to the true text of a synthetic one: characters in reading order, rows split or merged.

The character error rate is the edit distance between the two texts over the length of the true one, white space left
out and in compatibility form (NFKC): a line that is moved costs its characters twice. A true row is split when its
pieces are on several restored lines, and merged when its line holds pieces of another row as well. Rows of tables side
by side may share a line.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rjua_meddqa.schema import Box

LEAST_SHARE = 0.2  # of a read box: less overlap with a true box is not a match


@dataclass(frozen=True, slots=True)
class PageText:
    """Counts of one page, or of several added up."""

    characters: int = 0
    edits: int = 0
    rows: int = 0
    split: int = 0
    merged: int = 0

    def __add__(self, other: "PageText") -> "PageText":
        return PageText(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def error_rate(self) -> float:
        return self.edits / self.characters if self.characters else 0.0


def compare_page(
    text: str,
    lines: Sequence[Sequence[Box]],
    true_lines: Sequence[Sequence[str]],
    true_boxes: Sequence[Box],
) -> PageText:
    """Compare a restored page with the true one.

    Args:
        text: restored. lines: its boxes, in pixels of the original image.
        true_lines: the printed pieces of each row in reading order.
        true_boxes: of the same pieces, one after the other.
    """
    expected = squeeze("".join(piece for line in true_lines for piece in line))
    rows = [number for number, line in enumerate(true_lines) for _ in line]
    where: dict[int, set[int]] = {}
    spans: dict[tuple[int, int], tuple[float, float]] = {}  # (line, row): from left to right
    for line, boxes in enumerate(lines):
        for box in boxes:
            row = _row_of(box, true_boxes, rows)
            if row is not None:
                where.setdefault(row, set()).add(line)
                left, right = spans.get((line, row), (box.left, box.right))
                spans[line, row] = min(left, box.left), max(right, box.right)
    merged = {
        row
        for (line, row), span in spans.items()
        for (other_line, other_row), other in spans.items()
        if line == other_line and row != other_row and min(span[1], other[1]) > max(span[0], other[0])
    }
    split = sum(len(found) > 1 for found in where.values())
    return PageText(len(expected), edits(expected, squeeze(text)), len(where), split, len(merged))


def squeeze(text: str) -> str:
    """`text` as it is compared: NFKC without white space."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def edits(a: str, b: str) -> int:
    """Edit distance of two long texts, a row of its table at a time."""
    characters = np.array([ord(character) for character in b], dtype=np.int64)
    places = np.arange(len(b) + 1)
    before = places.copy()
    for i, character in enumerate(a, start=1):
        row = np.empty_like(before)
        row[0] = i
        row[1:] = np.minimum(before[1:] + 1, before[:-1] + (characters != ord(character)))
        before = np.minimum.accumulate(row - places) + places  # insertions
    return int(before[-1])


def _row_of(box: Box, true_boxes: Sequence[Box], rows: Sequence[int]) -> int | None:
    """The row of the true box that most of `box` lies on."""
    best, row = LEAST_SHARE * box.width * box.height, None
    for true, number in zip(true_boxes, rows, strict=True):
        wide = min(box.right, true.right) - max(box.left, true.left)
        high = min(box.bottom, true.bottom) - max(box.top, true.top)
        if wide > 0 and high > 0 and wide * high > best:
            best, row = wide * high, number
    return row
