"""The way between the pixels of an image as it was given and those of its rectified page: one 3 x 3 homography."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rjua_meddqa.schema import Box, Point

if TYPE_CHECKING:
    from PIL import Image

Rows = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Transform:
    """Maps (x, y) of the original to (x, y) of the rectified page, whose size in pixels is `width` x `height`."""

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
        """Points of the original on the rectified page."""
        return _map(self.rows, points)

    def inverse(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """Points of the rectified page on the original: `inverse(forward(p))` is p."""
        return _map(invert(self.rows), points)

    def move(self, box: Box) -> Box:
        """A box of the original on the rectified page."""
        return replace(box, points=self.forward(box.points))

    def move_back(self, box: Box) -> Box:
        """A box of the rectified page on the original."""
        return replace(box, points=self.inverse(box.points))

    def then(self, following: "Transform") -> "Transform":
        """This transform and after it `following`."""
        return Transform(multiply(following.rows, self.rows), following.width, following.height)

    def warp(self, image: "Image.Image") -> "Image.Image":
        """The rectified page of `image`; white where the image has nothing."""
        from PIL import Image

        if self.is_identity and image.size == (self.width, self.height):
            return image
        back = invert(self.rows)
        scale = back[2][2]  # Pillow wants the last coefficient to be 1
        coefficients = [value / scale for row in back for value in row][:8]
        return image.transform(
            (self.width, self.height),
            Image.Transform.PERSPECTIVE,
            coefficients,
            Image.Resampling.BICUBIC,
            fillcolor=(255, 255, 255),
        )


def multiply(a: Rows, b: Rows) -> Rows:
    """The matrix product a b."""
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)) for i in range(3))


def invert(rows: Rows) -> Rows:
    """The inverse of a 3 x 3 matrix, by its adjugate."""
    (a, b, c), (d, e, f), (g, h, i) = rows
    adjugate = (
        (e * i - f * h, c * h - b * i, b * f - c * e),
        (f * g - d * i, a * i - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, a * e - b * d),
    )
    determinant = a * adjugate[0][0] + b * adjugate[1][0] + c * adjugate[2][0]
    return tuple(tuple(value / determinant for value in row) for row in adjugate)


def _map(rows: Rows, points: Iterable[Point]) -> tuple[Point, ...]:
    (a, b, c), (d, e, f), (g, h, i) = rows
    mapped = []
    for x, y in points:
        w = g * x + h * y + i
        mapped.append(((a * x + b * y + c) / w, (d * x + e * y + f) / w))
    return tuple(mapped)
