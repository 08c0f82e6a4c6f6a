"""Rectifies a page: upright, level, seen from straight above, and cropped. Candidates are compared by their readings.

1. Direction: the page is read as it is. If the reading is poor (low scores, or vertical text), the page is turned by
   90, 180 or 270 degrees and read again.
2. Shape: a perspective from four corners of the paper, or a rotation by the median slope of the text, whichever leaves
   the text level. Then a crop to the outline of the paper, if found, and the text beside it.
3. After a large change of shape, the page is read again. The earlier reading is kept if it was better.
4. Dewarping of curled pages (module dewarping).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rjua_meddqa.restoration.dewarping import Dewarping, fit_dewarping, mean_slope, measure_slopes
from rjua_meddqa.restoration.ocr import OcrEngine
from rjua_meddqa.restoration.outline import Outline, find_outline
from rjua_meddqa.restoration.transform import Transform, homography
from rjua_meddqa.schema import Box, Point

if TYPE_CHECKING:
    from PIL import Image

RECTIFY_VERSION = 5  # part of the key of cached readings: increase it with every change of the results
SURE_SCORE = 0.85  # mean score of upright text: 0.97 or more on five real reports, 0.71 or less upside down
TURN_GAIN = 1.1  # factor of surely read characters needed to turn a page
MIN_ANGLE = 0.3  # degrees: accuracy of OCR boxes
REREAD_ANGLE = 5.0  # degrees of an edge from which a rectified image is read again
SAME_READING = 0.98  # share of the surely read characters that a second reading must keep
LEVEL_ENOUGH = math.tan(math.radians(0.3))  # mean slope that a perspective may add to that of a rotation
MAX_STRETCH = 3.0  # times the page's size: a perspective that moves a box further is wrong


@dataclass(frozen=True)
class RectifiedPage:
    """The boxes of a rectified page and the transforms applied to it.

    Attributes:
        boxes: on the rectified, dewarped page. original_boxes: the same in pixels of the given image.
        transform: from the image to the rectified page, before dewarping.
        direction: degrees clockwise by which the image was turned. angle: degrees clockwise of removed skew.
        outline: of the paper in the turned image. None if paper fills the image.
        readings: number of calls of the engine.
    """

    boxes: tuple[Box, ...]
    original_boxes: tuple[Box, ...]
    transform: Transform
    dewarping: Dewarping
    direction: int
    angle: float
    outline: Outline | None
    readings: int


def rectify(image: "Image.Image", engine: OcrEngine) -> RectifiedPage:
    """Read `image` (RGB) and rectify it. Raises the engine's errors."""
    direction, boxes, readings = find_direction(image, engine)
    turn = turning(direction, *image.size)
    turned = turn_image(image, direction)
    outline = find_outline(turned, boxes)
    shape = find_shape(turned.size, boxes, outline)
    shape = shape.then(_crop(shape, outline, boxes))
    originals = [turn.move_back(box) for box in boxes]
    if steepest_edge(shape) >= REREAD_ANGLE:
        again = engine.read(shape.warp(turned))
        readings += 1
        if strength(again) >= SAME_READING * strength(boxes):
            originals = [turn.then(shape).move_back(box) for box in again]
    transform = turn.then(shape)
    boxes = [transform.move(box) for box in originals]
    dewarping = fit_dewarping(boxes, transform.width, transform.height)
    return RectifiedPage(
        tuple(dewarping.move(box) for box in boxes),
        tuple(originals),
        transform,
        dewarping,
        direction,
        skew_angle(shape),
        outline,
        readings,
    )


def find_direction(image: "Image.Image", engine: OcrEngine) -> tuple[int, list[Box], int]:
    """Return the degrees clockwise to turn `image`, the boxes read then, and the number of readings."""
    boxes = engine.read(image)
    if is_upright(boxes):
        return 0, boxes, 1
    upright, best, best_boxes = strength(boxes), 0, boxes
    # Engines turn tall crops left before reading, so tall text with high scores means a page turned right.
    tall = sum(len(box.text) for box in boxes if is_tall(box)) * 2 > sum(len(box.text) for box in boxes)
    trials = ((270, 90, 180) if mean_score(boxes) >= SURE_SCORE else (90, 270, 180)) if tall else (180, 270, 90)
    for number, direction in enumerate(trials, start=2):
        boxes = engine.read(turn_image(image, direction))
        if is_upright(boxes) and strength(boxes) * TURN_GAIN >= upright:
            return direction, boxes, number
        if strength(boxes) > max(strength(best_boxes), TURN_GAIN * upright):
            best, best_boxes = direction, boxes
    return best, best_boxes, 1 + len(trials)


def find_shape(size: tuple[int, int], boxes: Sequence[Box], outline: Outline | None) -> Transform:
    """Return the perspective, rotation or identity for a turned page of `size` pixels with `boxes` on it."""
    flat = Transform.identity(*size)
    rotated = _level(flat, boxes)
    corners = outline.quadrangle() if outline else None
    if corners is None:
        return rotated
    seen = from_corners(corners)
    if seen is None or not _holds_together(seen, boxes):
        return rotated
    seen = _level(seen, boxes)
    after = mean_slope([seen.move(box) for box in boxes])
    return seen if after <= mean_slope([rotated.move(box) for box in boxes]) + LEVEL_ENOUGH else rotated


def _level(transform: Transform, boxes: Sequence[Box]) -> Transform:
    """Return `transform`, followed by the rotation by the median slope of the text if that makes it more level."""
    moved = [transform.move(box) for box in boxes]
    angle = text_angle(moved)
    if abs(angle) < MIN_ANGLE:
        return transform
    rotated = transform.then(rotation(-angle, transform.width, transform.height))
    return rotated if mean_slope([rotated.move(box) for box in boxes]) < mean_slope(moved) else transform


def text_angle(boxes: Sequence[Box]) -> float:
    """Return the slope of text in degrees clockwise: the length-weighted median over long boxes, or 0."""
    measured = sorted((slope, length) for _, _, slope, length in measure_slopes(boxes))
    left = sum(length for _, length in measured) / 2
    for slope, length in measured:
        left -= length
        if left <= 0:
            return math.degrees(math.atan(slope))
    return 0.0


def turning(direction: int, width: int, height: int) -> Transform:
    """Return the turn of an image of `width` x `height` pixels clockwise by 0, 90, 180 or 270 degrees."""
    if direction == 90:
        return Transform(((0.0, -1.0, float(height)), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)), height, width)
    if direction == 180:
        return Transform(((-1.0, 0.0, float(width)), (0.0, -1.0, float(height)), (0.0, 0.0, 1.0)), width, height)
    if direction == 270:
        return Transform(((0.0, 1.0, 0.0), (-1.0, 0.0, float(width)), (0.0, 0.0, 1.0)), height, width)
    return Transform.identity(width, height)


def turn_image(image: "Image.Image", direction: int) -> "Image.Image":
    """Turn `image` clockwise without loss."""
    from PIL import Image

    names = {90: Image.Transpose.ROTATE_270, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_90}
    return image.transpose(names[direction]) if direction else image


def rotation(angle: float, width: int, height: int) -> Transform:
    """Return the rotation clockwise by `angle` degrees onto a page that contains all of the image."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    xs = [c * x - s * y for x in (0, width) for y in (0, height)]
    ys = [s * x + c * y for x in (0, width) for y in (0, height)]
    rows = ((c, -s, -min(xs)), (s, c, -min(ys)), (0.0, 0.0, 1.0))
    return Transform(rows, math.ceil(max(xs) - min(xs)), math.ceil(max(ys) - min(ys)))


def from_corners(corners: Sequence[Point]) -> Transform | None:
    """Return the perspective that maps four corners (clockwise from the top left) to those of a page, or None.

    Width and height of the page are the longer of two opposite sides.
    """
    top, right, bottom, left = (math.dist(corners[i], corners[(i + 1) % 4]) for i in range(4))
    width, height = round(max(top, bottom)), round(max(left, right))
    if min(width, height) < 1:
        return None
    try:
        matrix = homography(corners, ((0, 0), (width, 0), (width, height), (0, height)))
    except np.linalg.LinAlgError:  # three corners on one line
        return None
    return Transform(tuple(map(tuple, matrix.tolist())), width, height)


def steepest_edge(transform: Transform) -> float:
    """Return the largest angle in degrees of the page's edges to the image's axes before `transform`."""
    width, height = float(transform.width), float(transform.height)
    corners = transform.inverse(((0.0, 0.0), (width, 0.0), (width, height), (0.0, height)))
    worst = 0.0
    for number, (x0, y0) in enumerate(corners):
        x1, y1 = corners[(number + 1) % 4]
        along, across = (abs(x1 - x0), abs(y1 - y0)) if number % 2 == 0 else (abs(y1 - y0), abs(x1 - x0))
        worst = max(worst, math.degrees(math.atan2(across, along)))
    return worst


def skew_angle(transform: Transform) -> float:
    """Return the slope of the page's middle line in degrees clockwise before `transform`."""
    middle = transform.height / 2
    (x0, y0), (x1, y1) = transform.inverse(((0.0, middle), (float(transform.width), middle)))
    return math.degrees(math.atan2(y1 - y0, x1 - x0)) + 0.0  # avoids -0.0


def strength(boxes: Sequence[Box]) -> float:
    """Return the number of characters read, weighted by the scores of their boxes."""
    return sum(len(box.text) * box.score for box in boxes)


def mean_score(boxes: Sequence[Box]) -> float:
    """Return the mean score of the characters, or 0."""
    characters = sum(len(box.text) for box in boxes)
    return strength(boxes) / characters if characters else 0.0


def is_tall(box: Box) -> bool:
    """Whether the text is vertical: several characters in a box that is higher than wide."""
    return len(box.text) > 1 and math.dist(box.points[1], box.points[2]) > math.dist(box.points[0], box.points[1])


def is_upright(boxes: Sequence[Box]) -> bool:
    """Whether boxes look like those of an upright page: high scores, and few tall boxes."""
    characters = sum(len(box.text) for box in boxes)
    tall = sum(len(box.text) for box in boxes if is_tall(box))
    return mean_score(boxes) >= SURE_SCORE and 2 * tall <= characters


def _holds_together(transform: Transform, boxes: Sequence[Box]) -> bool:
    """Whether all text is near the page, in front of the camera and not mirrored."""
    (_, _, _), (_, _, _), (g, h, i) = transform.rows
    width, height = MAX_STRETCH * transform.width, MAX_STRETCH * transform.height
    for box in boxes:
        if any(g * x + h * y + i <= 0 for x, y in box.points):
            return False
        if any(not (-width < x < 2 * width and -height < y < 2 * height) for x, y in transform.forward(box.points)):
            return False
    return True


def _crop(shape: Transform, outline: Outline | None, boxes: Sequence[Box]) -> Transform:
    """Return the crop of the page of `shape` to the paper and all text."""
    if outline is None:
        return Transform.identity(shape.width, shape.height)
    ends = []
    for axis, size in enumerate((shape.width, shape.height)):
        paper = [min(max(0.0, point[axis]), float(size)) for point in shape.forward(outline.points)]
        text = [point[axis] for box in boxes for point in shape.forward(box.points)]
        ends.append((math.floor(min(paper + text)), math.ceil(max(paper + text))))
    (left, right), (top, bottom) = ends
    rows = ((1.0, 0.0, -float(left)), (0.0, 1.0, -float(top)), (0.0, 0.0, 1.0))
    return Transform(rows, max(1, right - left), max(1, bottom - top))
