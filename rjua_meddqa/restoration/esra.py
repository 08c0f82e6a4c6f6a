"""ESRA: converts recognised boxes to text that looks like the page (paper, Section 4.1, equations 3 to 6, Appendix C).

A pure function of the boxes. Step 1 sorts them from top to bottom, step 2 splits the sequence into lines, step 3
measures the width of a character, step 4 turns gaps into spaces. The text contains every character of every box.

Two places of the paper are interpreted. Equation 3 prints (y1 - y0) / 2, a height, where it compares positions. We use
the middle of the box, (y1 + y0) / 2, since with the height no two boxes below the top of a page share a line. H of step
3 is taken over all lines, as c* in equation 5 lacks a line index.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa.annotation.cells import join_wrapped
from rjua_meddqa.schema import Box, RestoredText

LINE_DISCOUNT = 0.15  # r* (Appendix C)
SPACE_FACTOR = 0.7  # l* (Appendix C)
FARTHEST = 1_000_000  # pixels from the origin: a box beyond would put millions of spaces into a line
HEIGHT_CLUSTERS = 3  # k of step 3, which the paper leaves open: headings, body, small print
Layout = Literal["paper", "absolute"]


def restore(
    boxes: Sequence[Box],
    *,
    r: float = LINE_DISCOUNT,
    l: float = SPACE_FACTOR,  # noqa: E741 - the paper's name
    layout: Layout = "paper",
) -> RestoredText:
    """Return the lines and the text of a page.

    Args:
        boxes: in pixels of an upright page, in any order.
        r: how far a box must reach into its neighbour's rows to share its line, 0 to 1. Higher values make more lines.
        l: spaces per character width of gap, 0 to 1 (`layout="paper"`).
        layout: "paper" puts max(gap / c* x l, 1) spaces between neighbours (equation 6). "absolute" pads every line to
            the boxes' place on the page as the released code does, so that columns of a table are aligned. The width
            of a character is that of the line with most characters.

    Raises:
        InputError: a box lacks height or width, or a coordinate that is not finite or beyond FARTHEST.
        ConfigError: `r`, `l` or `layout` is out of range.

    Examples:
        >>> left = Box(((0, 0), (40, 0), (40, 20), (0, 20)), "WBC")
        >>> right = Box(((100, 2), (140, 2), (140, 22), (100, 22)), "5.2")
        >>> restore([right, left]).text
        'WBC   5.2'
    """
    check_parameters(boxes, r, l, layout)
    lines = split_lines(boxes, r)
    return RestoredText(lines, write_text(lines, l, layout))


def check_parameters(boxes: Sequence[Box], r: float, l: float, layout: Layout) -> None:  # noqa: E741
    """Raise what `restore` raises."""
    if not (0 <= r <= 1 and 0 <= l <= 1):
        raise ConfigError(f"ESRA: r = {r}, l = {l}. Both must be between 0 and 1 (the paper uses 0.15 and 0.7)")
    if layout not in ("paper", "absolute"):
        raise ConfigError(f"ESRA: layout {layout!r} is unknown. Allowed: paper, absolute")
    for number, box in enumerate(boxes):
        check_box(box, f"box {number}")


def write_text(
    lines: Sequence[Sequence[Box]],
    l: float = SPACE_FACTOR,  # noqa: E741
    layout: Layout = "paper",
    join_wraps: bool = False,
) -> str:
    """Steps 3 and 4: return the text of `lines`. `join_wraps` joins the lines of a wrapped cell without a gap."""
    return "\n".join(map(_Joiner(lines, l, join_wraps) if layout == "paper" else _Padder(lines, join_wraps), lines))


def check_box(box: Box, where: str) -> None:
    """Raise InputError for a box without height or width, or with a coordinate that is not finite or too large."""
    if not all(math.isfinite(value) for point in box.points for value in point):
        raise InputError(f"{where}: coordinates {box.points} are not all finite. Remove the box")
    if any(abs(value) > FARTHEST for point in box.points for value in point):
        raise InputError(f"{where}: coordinates {box.points}. The limit is {FARTHEST:,} pixels. Remove the box")
    if box.height <= 0 or box.width <= 0:
        raise InputError(f"{where}: width {box.width:g}, height {box.height:g}. Both must be above 0. Remove the box")


def split_lines(boxes: Sequence[Box], r: float = LINE_DISCOUNT) -> tuple[tuple[Box, ...], ...]:
    """Steps 1 and 2: sort the boxes, and split them wherever equation 3 is false for two consecutive boxes."""
    ordered = sorted(boxes, key=lambda box: (box.top, box.left, box.points, box.text))
    lines: list[list[Box]] = []
    for box in ordered:
        if lines and same_line(lines[-1][-1], box, r):
            lines[-1].append(box)
        else:
            lines.append([box])
    return tuple(tuple(sorted(line, key=lambda box: (box.left, box.top, box.points, box.text))) for line in lines)


def same_line(box: Box, following: Box, r: float = LINE_DISCOUNT) -> bool:
    """Equation 3 for two consecutive boxes from top to bottom."""
    e1, e2 = r * box.height, r * following.height
    middle, middle_of_following = (box.top + box.bottom) / 2, (following.top + following.bottom) / 2
    return following.top + e1 < middle or box.top + e2 < middle_of_following < box.bottom - e2


def character_width(lines: Sequence[Sequence[Box]]) -> float:
    """Step 3 and equation 5: c*, pixels per character of the height cluster with most characters."""
    boxes = sorted((box for line in lines for box in line if box.text), key=lambda box: box.height)
    if not boxes:
        return 1.0
    starts = cluster_starts([box.height for box in boxes], HEIGHT_CLUSTERS)
    clusters = [boxes[start:end] for start, end in pairwise([*starts, len(boxes)])]
    largest = max(clusters, key=lambda cluster: sum(len(box.text) for box in cluster))
    return sum(box.width for box in largest) / sum(len(box.text) for box in largest)


def cluster_starts(values: Sequence[float], k: int) -> list[int]:
    """Return the starts of the k-means clusters in sorted `values`.

    In one dimension, clusters are runs of the sorted values, and a round moves their borders to the middles between the
    means. The result is deterministic. There are fewer than k clusters if there are fewer distinct values.
    """
    k = min(k, len({*values}))
    sums = [0.0, *accumulate(values)]
    starts = sorted({len(values) * i // k for i in range(k)})
    while True:
        means = [(sums[end] - sums[start]) / (end - start) for start, end in pairwise([*starts, len(values)])]
        moved = sorted({0, *(bisect_left(values, (a + b) / 2) for a, b in pairwise(means))})
        if moved == starts:
            return starts
        starts = moved


class _Joiner:
    """Step 4: joins the boxes of a line, with spaces in proportion to the gaps (equation 6)."""

    def __init__(self, lines: Sequence[Sequence[Box]], factor: float, join_wraps: bool) -> None:
        self.join_wraps = join_wraps
        self.spaces_per_pixel = factor / character_width(lines)

    def __call__(self, line: Sequence[Box]) -> str:
        text, right = line[0].text, line[0].right
        for before, box in pairwise(line):
            if self.join_wraps and goes_on(before, box):
                text, right = join_wrapped(text, box.text), max(right, box.right)
            else:
                text += " " * max(round((box.left - right) * self.spaces_per_pixel), 1) + box.text
                right = box.right
        return text


def goes_on(box: Box, following: Box) -> bool:
    """Whether `following` is a line below `box` in one wrapped cell, although both share a line of the page."""
    return following.left < box.right and (following.top + following.bottom) / 2 > box.bottom


class _Padder:
    """The released code's spacing: each box starts at the column of its place on the page, or one space further."""

    def __init__(self, lines: Sequence[Sequence[Box]], join_wraps: bool) -> None:
        self.join_wraps = join_wraps
        longest = max(lines, key=lambda line: sum(len(box.text) for box in line), default=())
        characters = sum(len(box.text) for box in longest)
        self.width = sum(box.width for box in longest) / characters if characters else 1.0
        self.left = min((box.left for line in lines for box in line), default=0.0)

    def __call__(self, line: Sequence[Box]) -> str:
        text, before = "", None
        for box in line:
            column = round((box.left - self.left) / self.width)
            if self.join_wraps and before is not None and goes_on(before, box):
                text = join_wrapped(text, box.text)
            else:
                text += " " * max(column - len(text), 1 if text else 0) + box.text
            before = box
        return text
