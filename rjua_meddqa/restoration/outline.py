"""Finds the sheet of paper in a photo: its outline as a polygon, and which of its corners belong to the paper.

Paper is the brightest large area in most photos of reports. The area above Otsu's threshold is closed over the print,
and the hull of its largest piece is simplified to a polygon. Edges along the border of the image do not belong to the
paper. Brightness drops sharply at an edge of paper, but slowly at a shadow. The outline is missing if paper fills the
image (scans, screenshots, photos cropped to the page).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from medvqa_core.errors import ConfigError
from medvqa_core.install_hint import install
from rjua_meddqa.schema import Box, Point

if TYPE_CHECKING:
    from PIL import Image

SIDE = 600  # pixels of the longer side of the searched image
MIN_CONTRAST = 40  # grey levels between the means of paper and background
MIN_AREA, FULL_AREA = 0.2, 0.97  # of the image: smaller areas are not a page, larger ones fill it
BORDER = 0.015  # of the longer side: points nearer to the border of the image are on it
STEP, STEP_REACH = 25, 5  # grey levels of the drop across an edge of paper, within this many pixels
SIMPLIFY = 0.02  # of the outline's length: largest deviation of the polygon
MIN_TEXT_INSIDE = 0.95  # of the characters
CORNER_ANGLES = (45, 135)  # degrees between two edges at a corner of the paper


@dataclass(frozen=True, slots=True)
class Outline:
    """Outline of the page in pixels, clockwise. `edges[i]` is whether the line from point i to the next is an edge of
    the paper, and not the border of the image."""

    points: tuple[Point, ...]
    edges: tuple[bool, ...]

    def corners(self) -> tuple[Point, ...]:
        """Return the points where two edges of the paper meet at a corner's angle."""
        found = []
        for i, point in enumerate(self.points):
            if self.edges[i - 1] and self.edges[i] and _is_corner(self.points[i - 1], point, self._next(i)):
                found.append(point)
        return tuple(found)

    def quadrangle(self) -> tuple[Point, ...] | None:
        """Return the four corners of the paper, clockwise from the top left. None unless exactly four are visible."""
        corners = self.corners()
        if len(corners) != 4 or len(self.points) != 4:
            return None
        first = min(range(4), key=lambda i: corners[i][0] + corners[i][1])
        return (*corners[first:], *corners[:first])

    def _next(self, i: int) -> Point:
        return self.points[(i + 1) % len(self.points)]


def find_outline(image: "Image.Image", boxes: Sequence[Box]) -> Outline | None:
    """Return the outline of the page in `image` (RGB), or None if paper fills the image or cannot be separated.

    Args:
        boxes: text read in `image`, which the outline must contain.
    """
    cv2 = load_cv2()
    scale = max(1.0, max(image.size) / SIDE)
    small = image.resize((max(1, round(image.width / scale)), max(1, round(image.height / scale))), reducing_gap=2.0)
    grey = cv2.GaussianBlur(np.asarray(small.convert("L")), (5, 5), 0)
    threshold, bright = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    if not (0 < bright.mean() < 255) or grey[bright > 0].mean() - grey[bright == 0].mean() < MIN_CONTRAST:
        return None
    kernel = cv2.getStructuringElement(cv2.MORPH_RECT, (15, 15))
    bright = cv2.morphologyEx(cv2.copyMakeBorder(bright, 20, 20, 20, 20, cv2.BORDER_REPLICATE), cv2.MORPH_CLOSE, kernel)
    contours, _ = cv2.findContours(bright[20:-20, 20:-20], cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    hull = cv2.convexHull(max(contours, key=cv2.contourArea))
    share = cv2.contourArea(hull) / (grey.shape[0] * grey.shape[1])
    if not MIN_AREA <= share <= FULL_AREA:
        return None
    polygon = cv2.approxPolyDP(hull, SIMPLIFY * cv2.arcLength(hull, True), True)[:, 0, :].astype(float)
    if len(polygon) < 3:
        return None
    polygon = _draw_out_corners(polygon, hull[:, 0, :].astype(float), SIMPLIFY * cv2.arcLength(hull, True))
    x, y = polygon.T
    if (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() < 0:
        polygon = polygon[::-1]  # clockwise as seen, with y down
    edges = _tell_edges(polygon, small.size)
    if not edges.any() or not all(
        _is_sharp(grey, polygon[i - 1], polygon[i]) for i in range(len(polygon)) if edges[i - 1]
    ):
        return None
    points = tuple((float((px + 0.5) * scale), float((py + 0.5) * scale)) for px, py in polygon)
    outline = Outline(points, tuple(bool(edge) for edge in edges))
    return outline if _holds_text(outline, boxes) else None


def _draw_out_corners(polygon: np.ndarray, hull: np.ndarray, reach: float) -> np.ndarray:
    """Return `polygon` (points, 2) with its corners moved to where its edges, fitted to the hull, meet.

    A simplified polygon keeps points of the hull, which at a rounded corner may be far from where the edges meet.

    Args:
        reach: pixels. Corners that would move further are kept, and so are edges with little of the hull beside them.
    """
    steps = np.linspace(0, 1, 50, endpoint=False)[:, None]
    dense = np.concatenate([a + (b - a) * steps for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True)])
    lines = []
    for start, end in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        length = max(float(np.hypot(*(end - start))), 1e-9)
        along = (end - start) / length
        across = np.array([-along[1], along[0]])
        t, off = (dense - start) @ along, (dense - start) @ across
        near = (abs(off) <= reach) & (t > 0.2 * length) & (t < 0.8 * length)
        slope, shift = np.polyfit(t[near], off[near], 1) if near.sum() >= 2 else (0.0, 0.0)
        lines.append((start + shift * across, along + slope * across))
    corners = []
    for i, corner in enumerate(polygon):
        (p, u), (q, v) = lines[i - 1], lines[i]
        cross = u[0] * v[1] - u[1] * v[0]
        met = p + u * ((q - p)[0] * v[1] - (q - p)[1] * v[0]) / cross if abs(cross) > 0.1 else corner
        corners.append(met if np.hypot(*(met - corner)) <= reach else corner)
    return np.array(corners)


def _tell_edges(polygon: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return bool (points,): whether the line to the next point is an edge of the paper."""
    near = BORDER * max(size)
    sides = np.stack(
        [
            polygon[:, 0] <= near,
            polygon[:, 1] <= near,
            polygon[:, 0] >= size[0] - 1 - near,
            polygon[:, 1] >= size[1] - 1 - near,
        ],
        axis=1,
    )
    return np.logical_not((sides & np.roll(sides, -1, axis=0)).any(axis=1))


def _is_sharp(grey: np.ndarray, start: np.ndarray, end: np.ndarray) -> bool:
    """Whether brightness drops by STEP from the inner (right) to the outer side of the line from `start` to `end`."""
    along = (end - start) / max(float(np.hypot(*(end - start))), 1e-9)
    inward = np.array([-along[1], along[0]]) * STEP_REACH
    middle = start + (end - start) * np.linspace(0.1, 0.9, 40)[:, None]
    inside, outside = (
        grey[tuple(np.rint(points).astype(int).clip(0, np.array(grey.shape[::-1]) - 1).T[::-1])].astype(int)
        for points in (middle + inward, middle - inward)
    )
    return float(np.median(inside - outside)) >= STEP


def _holds_text(outline: Outline, boxes: Sequence[Box]) -> bool:
    """Whether nearly all characters lie in the outline."""
    total = sum(len(box.text) for box in boxes)
    inside = sum(len(box.text) for box in boxes if _inside(outline.points, box))
    return inside >= MIN_TEXT_INSIDE * total


def _inside(points: Sequence[Point], box: Box) -> bool:
    """Whether the middle of `box` is in the convex polygon `points` (clockwise, y down)."""
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    ends = (*points[1:], points[0])
    return all(
        (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0 for (ax, ay), (bx, by) in zip(points, ends, strict=True)
    )


def _is_corner(before: Point, point: Point, after: Point) -> bool:
    a = math.atan2(before[1] - point[1], before[0] - point[0])
    b = math.atan2(after[1] - point[1], after[0] - point[0])
    angle = abs(math.degrees(a - b)) % 360
    return CORNER_ANGLES[0] <= min(angle, 360 - angle) <= CORNER_ANGLES[1]


def load_cv2():
    """Return the module cv2. Raises ConfigError if it cannot be loaded."""
    try:
        import cv2
    except ImportError as error:  # possibly a missing system library
        raise ConfigError(f"finding the page needs cv2, which cannot be loaded ({error}): {install('ocr')}") from None
    return cv2
