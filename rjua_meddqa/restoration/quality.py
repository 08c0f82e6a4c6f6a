"""Quality of a report photo by the two sensors of the paper's Appendix B.

Completeness: fewer than three of the paper's four corners are found. Angle: the left and right edges of the paper, or
its upper and lower ones, enclose more than 15 degrees. Scans and screenshots are of high quality by definition.

Many photos are cropped to the page before they are shared, and then show neither edges nor corners. Where paper fills
the whole image, nothing says that the page is incomplete, and the angle is taken from the text: its slope at the left
and the right border and at the upper and lower end of what was read.
"""

import math
from typing import TYPE_CHECKING, Literal

from medvqa_core.errors import ConfigError
from rjua_meddqa.restoration.outline import Outline
from rjua_meddqa.schema import IMAGE_TYPES, Point

if TYPE_CHECKING:
    from rjua_meddqa.restoration.rectify import RectifiedPage

MIN_CORNERS = 3
MAX_ANGLE = 15.0  # degrees
Judgement = tuple[Literal["high", "low"], str]


def judge_type(image_type: str) -> Judgement | None:
    """The quality that follows from the kind of image alone: None for a photo, whose sensors decide.

    Raises:
        ConfigError: `image_type` is none of pdf, photo, screenshot.
    """
    if image_type not in IMAGE_TYPES:
        raise ConfigError(f"image type {image_type!r} is unknown; allowed: {', '.join(IMAGE_TYPES)}")
    return None if image_type == "photo" else ("high", f"a {image_type}, no photo")


def judge_quality(page: "RectifiedPage") -> Judgement:
    """What the two sensors say of a photo: high or low, and the reason."""
    if not page.boxes:
        return "low", "no text was read"
    outline = page.outline
    if outline is not None:
        corners = len(outline.corners())
        if corners < MIN_CORNERS:
            return "low", f"incomplete: {corners} of 4 corners of the paper found, needed are {MIN_CORNERS}"
        angle, what = edge_angle(outline), "edges of the paper"
    else:
        angle, what = text_spread(page), "lines of text (paper fills the image)"
    if angle > MAX_ANGLE:
        return "low", f"skewed: {what} differ by {angle:.1f} degrees, allowed are {MAX_ANGLE:g}"
    return "high", f"{what} differ by {angle:.1f} degrees"


def edge_angle(outline: Outline) -> float:
    """Degrees between edges of the paper that face each other: the larger of both pairs; 0 where edges are cut."""
    directions: list[float] = []
    ends: tuple[Point, ...] = (*outline.points[1:], outline.points[0])
    for (x0, y0), (x1, y1), edge in zip(outline.points, ends, outline.edges, strict=True):
        if edge:
            directions.append(math.degrees(math.atan2(y1 - y0, x1 - x0)) % 180)
    level = [angle if angle < 90 else angle - 180 for angle in directions if not 45 <= angle < 135]
    upright = [angle for angle in directions if 45 <= angle < 135]
    return max((max(pair) - min(pair) for pair in (level, upright) if len(pair) > 1), default=0.0)


def text_spread(page: "RectifiedPage") -> float:
    """Degrees between the most different slopes that the fitted text has at the four corners of the page."""
    width, height = page.transform.width, page.transform.height
    slopes = [page.levelling.slope(x, y) for x in (0, width) for y in (0, height)]
    return math.degrees(math.atan(max(slopes)) - math.atan(min(slopes)))
