"""Dewarping a curled page: shifts boxes up or down until the lines of text are level.

No rotation or perspective makes all lines of a bent page level at once. The slope of the text, dy/dx, is measured on
every long box and fitted by a smooth field

    s(x, y) = a0 + a1 x + a2 y + a3 x^2 + a4 x y,

with x and y from the middle of the page in units of its width. Along a line of text, the shift from the middle to x is
g(x, y), the integral of s over x. Dewarping is y' = y - g(x, y).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rjua_meddqa.schema import Box, Point

LONG = 3.0  # times its height: the shortest box whose slope is measured
MIN_BOXES = 12  # of that length, for five coefficients
MIN_GAIN = 0.2  # share of the mean slope that dewarping must remove
MIN_SLOPE = math.tan(math.radians(0.4))  # mean slope of text below which a page is level enough
MAX_SQUEEZE = 0.4  # |dg/dy|. From 1 on, lines would change places.
INVERSE_ROUNDS = 60  # each reduces the error by the factor MAX_SQUEEZE


@dataclass(frozen=True, slots=True)
class Dewarping:
    """y' = y - g(x, y) on a page of `width` x `height` pixels. All coefficients 0 is the identity."""

    width: float
    height: float
    coefficients: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)

    def forward(self, points: Iterable[Point]) -> tuple[Point, ...]:
        return tuple((x, y - self._shift(x, y)) for x, y in points)

    def inverse(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """`inverse(forward(p))` is p."""
        return tuple((x, self._unlevel(x, y)) for x, y in points)

    def move(self, box: Box) -> Box:
        """Move a box of the rectified page to the level page."""
        return replace(box, points=self.forward(box.points))

    def slope(self, x: float, y: float) -> float:
        """dy/dx of the text at (x, y) before dewarping."""
        a0, a1, a2, a3, a4 = self.coefficients
        u, v = self._units(x, y)
        return a0 + a1 * u + a2 * v + a3 * u * u + a4 * u * v

    def squeeze(self) -> float:
        """The largest |dg/dy| on the page."""
        _, _, a2, _, a4 = self.coefficients
        return max(abs(a2 * u + a4 * u * u / 2) for u in (-0.5, 0.5))

    def _units(self, x: float, y: float) -> Point:
        return (x - self.width / 2) / self.width, (y - self.height / 2) / self.width

    def _shift(self, x: float, y: float) -> float:
        a0, a1, a2, a3, a4 = self.coefficients
        u, v = self._units(x, y)
        return self.width * u * (a0 + a2 * v + u * (a1 + a4 * v) / 2 + u * u * a3 / 3)

    def _unlevel(self, x: float, level: float) -> float:
        y = level
        for _ in range(INVERSE_ROUNDS):
            y = level + self._shift(x, y)
        return y


def measure_slopes(boxes: Sequence[Box]) -> list[tuple[float, float, float, float]]:
    """Return (x, y, slope, length) of the middle line of every box that is LONG times as long as high."""
    measured = []
    for box in boxes:
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = box.points
        dx, dy = (x1 - x0 + x2 - x3) / 2, (y1 - y0 + y2 - y3) / 2
        high = math.hypot(x3 - x0 + x2 - x1, y3 - y0 + y2 - y1) / 2
        if dx > 0 and math.hypot(dx, dy) >= LONG * high:
            measured.append(((x0 + x1 + x2 + x3) / 4, (y0 + y1 + y2 + y3) / 4, dy / dx, math.hypot(dx, dy)))
    return measured


def mean_slope(boxes: Sequence[Box]) -> float:
    """Return the mean |dy/dx| of the text, weighted by length. 0 for a level page."""
    measured = measure_slopes(boxes)
    total = sum(length for *_, length in measured)
    return sum(abs(slope) * length for _, _, slope, length in measured) / total if total else 0.0


def fit_dewarping(boxes: Sequence[Box], width: int, height: int) -> Dewarping:
    """Fit the dewarping of a page. The identity for a level page, too little text or too small a gain."""
    none = Dewarping(width, height)
    measured = measure_slopes(boxes)
    before = mean_slope(boxes)
    if len(measured) < MIN_BOXES or before < MIN_SLOPE:
        return none
    x, y, slope, length = np.array(measured).T
    u, v = (x - width / 2) / width, (y - height / 2) / width
    terms = np.stack([np.ones_like(u), u, v, u * u, u * v], axis=1)
    weights = length
    for _ in range(8):  # iteratively reweighted, so that outliers count less
        root = np.sqrt(weights)[:, None]
        penalty = np.diag([0, 1e-2, 1e-2, 1e-2, 1e-2]) * np.sqrt(weights.mean())
        found, *_ = np.linalg.lstsq(
            np.vstack([terms * root, penalty]), np.concatenate([slope * root[:, 0], np.zeros(5)]), rcond=None
        )
        residual = np.abs(terms @ found - slope)
        weights = length / np.maximum(residual, 0.005)
    dewarping = Dewarping(width, height, tuple(float(value) for value in found))
    after = mean_slope([dewarping.move(box) for box in boxes])
    good = after <= (1 - MIN_GAIN) * before and dewarping.squeeze() <= MAX_SQUEEZE
    return dewarping if good else none
