"""Photographs of a sheet on a table: tilted, unevenly lit, out of focus, perhaps cut off.

One homography moves pixels and boxes, so that the boxes stay exact. Quality follows Appendix B of the paper: it is low
with fewer than three corners in the picture, or with more than 15 degrees between opposite edges.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from rjua_meddqa.phantom.sheet import MARGIN
from rjua_meddqa.restoration.transform import Transform, homography
from rjua_meddqa.schema import Box, Point

STEEPEST = 15.0  # degrees between opposite edges of a page of high quality
FEWEST_CORNERS = 3
TURNS = {0: None, 90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


@dataclass(frozen=True)
class Effects:
    """Effects of a photo. Angles are in degrees, `blur` in pixels, `shadow` and `noise` in grey levels."""

    tilt: float
    pinch: float  # share by which the upper edge is shorter than the lower one
    cut: bool  # the lower margin and two corners are outside the picture
    turn: int  # of the picture, counter-clockwise: 0, 90, 180, 270
    blur: float
    shadow: float
    noise: float


def draw_effects(draw: random.Random) -> Effects:
    """Draw mild effects. A quarter of the photos are cut off or pinched beyond the limit."""
    bad = draw.random()
    cut = 0.1 <= bad < 0.25
    return Effects(
        tilt=draw.uniform(-1, 1) if cut else draw.uniform(-5, 5),  # the cut must not reach the text
        pinch=draw.uniform(0.34, 0.42) if bad < 0.1 else draw.uniform(0, 0.1),
        cut=cut,
        turn=draw.choices((0, 90, 180, 270), (0.85, 0.05, 0.05, 0.05))[0],
        blur=draw.uniform(0.2, 0.7),
        shadow=draw.uniform(10, 70),
        noise=draw.uniform(1, 5),
    )


def photograph(
    sheet: Image.Image, boxes: Sequence[Box], effects: Effects, seed: int
) -> tuple[Image.Image, list[Box], str]:
    """Photograph a grey sheet. Returns the image, the boxes in its pixels and the quality, `high` or `low`."""
    width, height = sheet.size
    corners = _corners(width, height, effects)
    canvas = _canvas(corners, effects.cut)
    corners = [(x - canvas[0], y - canvas[1]) for x, y in corners]
    size = round(canvas[2] - canvas[0]), round(canvas[3] - canvas[1])
    forward = homography([(0, 0), (width, 0), (width, height), (0, height)], corners)
    image = _warp(sheet, forward, size, seed)
    image = _light(image, effects, seed)
    moving = Transform(tuple(map(tuple, forward.tolist())), *size)
    moved = [moving.move(box) for box in boxes]
    quality = judge_corners(corners, size)
    return *turn(image, moved, effects.turn), quality


def judge_corners(corners: Sequence[Point], size: tuple[int, int]) -> str:
    """`high` or `low` by Appendix B, from the page's corners in a picture of `size` (width, height)."""
    visible = sum(0 <= x <= size[0] and 0 <= y <= size[1] for x, y in corners)
    top_left, top_right, bottom_right, bottom_left = corners
    angles = [
        _angle_between(top_left, bottom_left, top_right, bottom_right),
        _angle_between(top_left, top_right, bottom_left, bottom_right),
    ]
    return "low" if visible < FEWEST_CORNERS or max(angles) > STEEPEST else "high"


def turn(image: Image.Image, boxes: Sequence[Box], degrees: int) -> tuple[Image.Image, list[Box]]:
    """Turn an image and its boxes counter-clockwise by 0, 90, 180 or 270 degrees."""
    if degrees == 0:
        return image, list(boxes)
    width, height = image.size
    move = {
        90: lambda x, y: (y, width - x),
        180: lambda x, y: (width - x, height - y),
        270: lambda x, y: (height - y, x),
    }[degrees]
    turned = [Box(tuple(move(x, y) for x, y in box.points), box.text, box.score) for box in boxes]
    turn = TURNS[degrees]
    assert turn is not None
    return image.transpose(turn), turned


def _corners(width: int, height: int, effects: Effects) -> list[Point]:
    """The moved corners of the sheet: the upper edge is pinched, then all are rotated around the centre."""
    pinch = width * effects.pinch / 2
    points = [(pinch, 0), (width - pinch, 0), (width, height), (0, height)]
    angle, x0, y0 = math.radians(effects.tilt), width / 2, height / 2
    cosine, sine = math.cos(angle), math.sin(angle)
    return [(x0 + (x - x0) * cosine - (y - y0) * sine, y0 + (x - x0) * sine + (y - y0) * cosine) for x, y in points]


def _canvas(corners: Sequence[Point], cut: bool) -> tuple[float, float, float, float]:
    """The visible part of the table (left, top, right, bottom)."""
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    border = MARGIN / 2
    bottom = min(corners[2][1], corners[3][1]) - MARGIN / 3 if cut else max(ys) + border
    return min(xs) - border, min(ys) - border, max(xs) + border, bottom


def _warp(sheet: Image.Image, forward: np.ndarray, size: tuple[int, int], seed: int) -> Image.Image:
    """Put the sheet on a wooden table."""
    rng = np.random.default_rng(seed)
    grain = rng.normal(0, 6, (size[1] // 3 + 1, 1)) + rng.normal(0, 3, (size[1] // 3 + 1, size[0] // 24 + 1))
    table = Image.fromarray(np.clip(110 + grain, 0, 255).astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)
    inverse = np.linalg.inv(forward)
    coefficients = (inverse / inverse[2, 2]).reshape(-1)[:8].tolist()
    warped = sheet.transform(size, Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BICUBIC, fillcolor=0)
    whole = Image.new("L", sheet.size, 255)
    mask = whole.transform(size, Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR, fillcolor=0)
    table.paste(warped, mask=mask)
    return table


def _light(image: Image.Image, effects: Effects, seed: int) -> Image.Image:
    """Add blur, a shadow that varies across the picture, and sensor noise."""
    rng = np.random.default_rng((seed, 1))
    pixels: Any = np.asarray(image.filter(ImageFilter.GaussianBlur(effects.blur)), dtype=np.float32)
    angle = rng.uniform(0, 2 * math.pi)
    ys, xs = np.linspace(-1, 1, pixels.shape[0])[:, None], np.linspace(-1, 1, pixels.shape[1])[None, :]
    slope = (xs * math.cos(angle) + ys * math.sin(angle) + math.sqrt(2)) / (2 * math.sqrt(2))
    pixels = pixels - effects.shadow * slope + rng.normal(0, effects.noise, pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _angle_between(start: Point, end: Point, other_start: Point, other_end: Point) -> float:
    """Degrees between two edges."""
    one = math.atan2(end[1] - start[1], end[0] - start[0])
    other = math.atan2(other_end[1] - other_start[1], other_end[0] - other_start[0])
    return abs(math.degrees((one - other + math.pi) % (2 * math.pi) - math.pi))
