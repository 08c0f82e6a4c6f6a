"""Rectifying: the page upright, level, seen from straight above, and cropped; decided by how well it can be read.

1. Direction: the page is read as it is; only if that goes badly (few sure characters, or text that runs up and down),
   it is turned by 90, 180 or 270 degrees and read again.
2. Shape: a perspective from four corners of the paper, or a rotation by the median slope of the text, whichever leaves
   the text level; and a crop to the paper where its outline was found, text beside it included.
3. After a large change of shape the page is read again. The earlier reading stays if that was better: a page is never
   made worse.
4. Dewarping of what is curled (module dewarping).
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

RECTIFY_VERSION = 5  # part of the key of cached readings: raise it with every change of what comes out
SURE_SCORE = 0.85  # mean score of upright text; the five report images have 0.97 or more, upside down 0.71 or less
TURN_GAIN = 1.1  # times as many sure characters must be read before a page is turned
MIN_ANGLE = 0.3  # degrees; what OCR boxes are sure of
REREAD_ANGLE = 5.0  # degrees that an edge is off, from which a rectified image may be read better
SAME_READING = 0.98  # share of the sure characters that a second reading must keep
LEVEL_ENOUGH = math.tan(math.radians(0.3))  # mean slope that a perspective may add to that of a rotation
MAX_STRETCH = 3.0  # times the page's size: a box that a perspective throws further off says that it is wrong


@dataclass(frozen=True)
class RectifiedPage:
    """What was read of a page, and where.

    Attributes:
        boxes: on the rectified, levelled page. original_boxes: the same in pixels of the image that was given.
        transform: from the image to the rectified page, before dewarping.
        direction: degrees clockwise that the image was turned by. angle: degrees of skew, clockwise, taken away.
        outline: of the paper in the turned image; None where paper fills it.
        readings: how often the engine was asked.
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
    """Read `image` (RGB) and rectify it. Raises what the engine raises."""
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
        angle_of(shape),
        outline,
        readings,
    )


def find_direction(image: "Image.Image", engine: OcrEngine) -> tuple[int, list[Box], int]:
    """Degrees clockwise by which `image` has to be turned, what is read then, and how many readings it took."""
    boxes = engine.read(image)
    if is_upright(boxes):
        return 0, boxes, 1
    upright, best, best_boxes = strength(boxes), 0, boxes
    # engines turn tall crops left to read them: tall text that is read surely belongs to a page turned right
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
    """Perspective, rotation or nothing for a turned page of `size` pixels with `boxes` on it."""
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
    """`transform`, and after it the rotation by the median slope of the text where that makes it more level."""
    moved = [transform.move(box) for box in boxes]
    angle = text_angle(moved)
    if abs(angle) < MIN_ANGLE:
        return transform
    rotated = transform.then(rotation(-angle, transform.width, transform.height))
    return rotated if mean_slope([rotated.move(box) for box in boxes]) < mean_slope(moved) else transform


def text_angle(boxes: Sequence[Box]) -> float:
    """Degrees, clockwise, by which text slopes: the median over long boxes, the longer counting more; 0 without."""
    measured = sorted((slope, length) for _, _, slope, length in measure_slopes(boxes))
    left = sum(length for _, length in measured) / 2
    for slope, length in measured:
        left -= length
        if left <= 0:
            return math.degrees(math.atan(slope))
    return 0.0


def turning(direction: int, width: int, height: int) -> Transform:
    """Turning an image of `width` x `height` pixels clockwise by 0, 90, 180 or 270 degrees."""
    if direction == 90:
        return Transform(((0.0, -1.0, float(height)), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)), height, width)
    if direction == 180:
        return Transform(((-1.0, 0.0, float(width)), (0.0, -1.0, float(height)), (0.0, 0.0, 1.0)), width, height)
    if direction == 270:
        return Transform(((0.0, 1.0, 0.0), (-1.0, 0.0, float(width)), (0.0, 0.0, 1.0)), height, width)
    return Transform.identity(width, height)


def turn_image(image: "Image.Image", direction: int) -> "Image.Image":
    """`image` turned clockwise, without loss."""
    from PIL import Image

    names = {90: Image.Transpose.ROTATE_270, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_90}
    return image.transpose(names[direction]) if direction else image


def rotation(angle: float, width: int, height: int) -> Transform:
    """Rotation clockwise by `angle` degrees, onto a page that holds all of the image."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    xs = [c * x - s * y for x in (0, width) for y in (0, height)]
    ys = [s * x + c * y for x in (0, width) for y in (0, height)]
    rows = ((c, -s, -min(xs)), (s, c, -min(ys)), (0.0, 0.0, 1.0))
    return Transform(rows, math.ceil(max(xs) - min(xs)), math.ceil(max(ys) - min(ys)))


def from_corners(corners: Sequence[Point]) -> Transform | None:
    """The perspective that makes four corners (clockwise from the left top) those of a page; None if they cannot be.

    The page is as wide and as high as the longer of the two sides that face each other.
    """
    top, right, bottom, left = (math.dist(corners[i], corners[(i + 1) % 4]) for i in range(4))
    width, height = round(max(top, bottom)), round(max(left, right))
    if min(width, height) < 1:
        return None
    try:
        matrix = homography(corners, ((0, 0), (width, 0), (width, height), (0, height)))
    except np.linalg.LinAlgError:  # three corners on a line
        return None
    return Transform(tuple(map(tuple, matrix.tolist())), width, height)


def steepest_edge(transform: Transform) -> float:
    """Degrees by which the worst of the page's four edges is off level or upright before `transform`."""
    width, height = float(transform.width), float(transform.height)
    corners = transform.inverse(((0.0, 0.0), (width, 0.0), (width, height), (0.0, height)))
    worst = 0.0
    for number, (x0, y0) in enumerate(corners):
        x1, y1 = corners[(number + 1) % 4]
        along, across = (abs(x1 - x0), abs(y1 - y0)) if number % 2 == 0 else (abs(y1 - y0), abs(x1 - x0))
        worst = max(worst, math.degrees(math.atan2(across, along)))
    return worst


def angle_of(transform: Transform) -> float:
    """Degrees, clockwise, by which the middle line of the page slopes before `transform`."""
    middle = transform.height / 2
    (x0, y0), (x1, y1) = transform.inverse(((0.0, middle), (float(transform.width), middle)))
    return math.degrees(math.atan2(y1 - y0, x1 - x0)) + 0.0  # no -0.0


def strength(boxes: Sequence[Box]) -> float:
    """Characters that were read, each counted by its box's score."""
    return sum(len(box.text) * box.score for box in boxes)


def mean_score(boxes: Sequence[Box]) -> float:
    """Mean score of the characters; 0 without any."""
    characters = sum(len(box.text) for box in boxes)
    return strength(boxes) / characters if characters else 0.0


def is_tall(box: Box) -> bool:
    """Whether the text runs up or down the image: several characters in a box that is higher than wide."""
    return len(box.text) > 1 and math.dist(box.points[1], box.points[2]) > math.dist(box.points[0], box.points[1])


def is_upright(boxes: Sequence[Box]) -> bool:
    """Whether this is what an upright page gives: sure characters, most of them in boxes that are not tall."""
    characters = sum(len(box.text) for box in boxes)
    tall = sum(len(box.text) for box in boxes if is_tall(box))
    return mean_score(boxes) >= SURE_SCORE and 2 * tall <= characters


def _holds_together(transform: Transform, boxes: Sequence[Box]) -> bool:
    """Whether all text stays near the page, in front of the camera and the right way round."""
    (_, _, _), (_, _, _), (g, h, i) = transform.rows
    width, height = MAX_STRETCH * transform.width, MAX_STRETCH * transform.height
    for box in boxes:
        if any(g * x + h * y + i <= 0 for x, y in box.points):
            return False
        if any(not (-width < x < 2 * width and -height < y < 2 * height) for x, y in transform.forward(box.points)):
            return False
    return True


def _crop(shape: Transform, outline: Outline | None, boxes: Sequence[Box]) -> Transform:
    """From the page of `shape` to the part of it that holds the paper, and as much beside it as all text needs."""
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
