"""The homography between the pixels of an original image and those of its rectified page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rjua_meddqa.schema import Box, Point

if TYPE_CHECKING:
    from PIL import Image

Rows = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Transform:
    """Maps (x, y) of the original to (x, y) of the rectified page of `width` x `height` pixels."""

    rows: Rows
    width: int
    height: int

    @classmethod
    def identity(cls, width: int, height: int) -> "Transform":
        return cls(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), width, height)

    @property
    def is_identity(self) -> bool:
        return self.rows == Transform.identity(0, 0).rows

    def forward(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """Map points of the original to the rectified page."""
        return _map(np.array(self.rows), points)

    def inverse(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """Map points of the rectified page to the original. The inverse of `forward`."""
        return _map(np.linalg.inv(self.rows), points)

    def move(self, box: Box) -> Box:
        """Move a box of the original to the rectified page."""
        return replace(box, points=self.forward(box.points))

    def move_back(self, box: Box) -> Box:
        """Move a box of the rectified page to the original."""
        return replace(box, points=self.inverse(box.points))

    def then(self, following: "Transform") -> "Transform":
        """Return this transform followed by `following`."""
        return Transform(_rows(np.array(following.rows) @ np.array(self.rows)), following.width, following.height)

    def warp(self, image: "Image.Image") -> "Image.Image":
        """Return the rectified page of `image`, with white where the image has nothing."""
        from PIL import Image

        if self.is_identity and image.size == (self.width, self.height):
            return image
        back = np.linalg.inv(self.rows)
        coefficients = (back / back[2, 2]).reshape(-1)[:8].tolist()  # Pillow expects the last one to be 1
        return image.transform(
            (self.width, self.height),
            Image.Transform.PERSPECTIVE,
            coefficients,
            Image.Resampling.BICUBIC,
            fillcolor=(255, 255, 255),
        )


def homography(source: Sequence[Point], target: Sequence[Point]) -> np.ndarray:
    """Return the (3, 3) matrix that maps four `source` points to four `target` points.

    Raises numpy's LinAlgError if three of them are on one line.
    """
    rows = []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    values = np.linalg.solve(np.array(rows, dtype=float), np.array(target, dtype=float).reshape(-1))
    return np.append(values, 1.0).reshape(3, 3)


def _rows(matrix: np.ndarray) -> Rows:
    return tuple(tuple(row) for row in matrix.tolist())


def _map(matrix: np.ndarray, points: Iterable[Point]) -> tuple[Point, ...]:
    homogeneous = np.array([(x, y, 1.0) for x, y in points]).reshape(-1, 3) @ matrix.T
    return tuple(map(tuple, (homogeneous[:, :2] / homogeneous[:, 2:]).tolist()))
