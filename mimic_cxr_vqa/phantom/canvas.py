"""The canvas of synthetic radiographs: a posed coordinate grid and shapes on it.

An image is a sum of attenuations that is converted to grey at the end. Shapes have chest coordinates, with x (to the
right) and y (down) from 0 to 1 over the unposed image. The canvas maps them to pixels with a small rotation, scaling
and shift. Masks are float32 arrays (size, size), mostly in 0..1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

_OVERSAMPLING = 2  # PIL draws lines without smoothing, so they are drawn larger and averaged
_TABLE = 1024  # entries of an outline's lookup table

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Pose:
    """Position of the chest in the image: degrees, factor, and shift in image widths."""

    angle: float = 0.0
    scale: float = 1.0
    dx: float = 0.0
    dy: float = 0.0


class Canvas:
    """A square of `size` pixels. `x` and `y` are the chest coordinates of every pixel."""

    def __init__(self, size: int, pose: Pose) -> None:
        self.size = size
        angle = np.deg2rad(pose.angle)
        self._matrix = pose.scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        self._offset = np.array([0.5 + pose.dx, 0.5 + pose.dy])
        steps = (np.arange(size, dtype=np.float32) + 0.5) / size
        inverse = np.linalg.inv(self._matrix).astype(np.float32)
        px, py = steps[None, :] - np.float32(self._offset[0]), steps[:, None] - np.float32(self._offset[1])
        self.x = inverse[0, 0] * px + inverse[0, 1] * py + np.float32(0.5)
        self.y = inverse[1, 0] * px + inverse[1, 1] * py + np.float32(0.5)

    def strokes(self, lines: Sequence[tuple[Points, float, float]]) -> np.ndarray:
        """Draw lines (points, width, strength 0..1). Later lines cover earlier ones."""
        board, draw = self._board()
        for points, width, strength in lines:
            wanted = width * self.size * _OVERSAMPLING
            pixels = max(1, round(wanted))
            shade = round(255 * strength * min(1.0, wanted / pixels))
            draw.line(self._to_pixels(points), fill=shade, width=pixels, joint="curve")
        return self._mask(board)

    def polygons(self, shapes: Sequence[tuple[Points, float]]) -> np.ndarray:
        """Fill closed shapes (corner points, strength 0..1)."""
        board, draw = self._board()
        for points, strength in shapes:
            draw.polygon(self._to_pixels(points), fill=round(255 * strength))
        return self._mask(board)

    def ellipse(self, cx: float, cy: float, rx: float, ry: float, tilt: float = 0.0) -> np.ndarray:
        """Return the elliptic radius of every pixel: 0 in the centre, 1 on the outline. `tilt` is in degrees."""
        c, s = np.float32(np.cos(np.deg2rad(tilt))), np.float32(np.sin(np.deg2rad(tilt)))
        x, y = self.x - np.float32(cx), self.y - np.float32(cy)
        return np.hypot((c * x + s * y) / np.float32(rx), (c * y - s * x) / np.float32(ry))

    def disc(self, cx: float, cy: float, rx: float, ry: float, softness: float = 0.01, tilt: float = 0.0) -> np.ndarray:
        """Return a filled ellipse with an edge of width `softness`."""
        return ramp((self.ellipse(cx, cy, rx, ry, tilt) - 1) * min(rx, ry), softness)

    def haze(self, cx: float, cy: float, rx: float, ry: float, tilt: float = 0.0) -> np.ndarray:
        """Return a Gaussian with standard deviations `rx` and `ry`."""
        return np.exp(np.float32(-0.5) * self.ellipse(cx, cy, rx, ry, tilt) ** 2)

    def _board(self) -> tuple[Image.Image, ImageDraw.ImageDraw]:
        board = Image.new("L", (self.size * _OVERSAMPLING,) * 2)
        return board, ImageDraw.Draw(board)

    def _mask(self, board: Image.Image) -> np.ndarray:
        return np.asarray(board.reduce(_OVERSAMPLING), dtype=np.float32) / 255

    def _to_pixels(self, points: Points) -> list[tuple[float, float]]:
        posed = (np.asarray(points) - 0.5) @ self._matrix.T + self._offset
        return [tuple(p) for p in (posed * self.size * _OVERSAMPLING - 0.5).tolist()]


def ramp(distance: np.ndarray, softness: float) -> np.ndarray:
    """Return 1 where `distance` is negative, 0 where it is positive, with a slope of width `softness` between."""
    return np.clip(np.float32(0.5) - distance / np.float32(softness), 0, 1)


def band(distance: np.ndarray, width: float, softness: float) -> np.ndarray:
    """Return 1 within `width` / 2 of the line where `distance` is 0."""
    return ramp(np.abs(distance) - np.float32(width / 2), softness)


def outline(at: np.ndarray, knots: Sequence[tuple[float, float]], smoothing: int = 40) -> np.ndarray:
    """Return the values at `at` of a smooth curve near `knots` (position, value)."""
    positions, values = zip(*knots, strict=True)
    table = np.interp(np.linspace(-0.5, 1.5, _TABLE * 2), positions, values)
    kernel = np.hanning(smoothing + 2)[1:-1]
    padded = np.pad(table, smoothing, mode="edge")
    table = np.convolve(padded, kernel / kernel.sum(), mode="same")[smoothing:-smoothing].astype(np.float32)
    index = np.clip((at + np.float32(0.5)) * _TABLE, 0, 2 * _TABLE - 1).astype(np.intp)
    return table[index]


def mottle(size: int, cells: int, rng: np.random.Generator) -> np.ndarray:
    """Return a smooth random texture of about `cells` patches per side, mean 0, standard deviation about 0.5."""
    grid = Image.fromarray(rng.standard_normal((cells, cells)).astype(np.float32))
    return np.asarray(grid.resize((size, size), Image.Resampling.BICUBIC)) * np.float32(0.75)
