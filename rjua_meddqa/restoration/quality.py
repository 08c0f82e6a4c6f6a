"""Quality of a report photo by the two criteria of the paper's Appendix B.

Completeness: fewer than three of the paper's four corners are found. Angle: opposite edges of the paper enclose more
than 15 degrees. Scans and screenshots are of high quality by definition. Many photos are cropped to the page and show
neither edges nor corners. For these, the angle is taken from the slopes of the text at the borders of the page.

Both criteria look at the sheet and accept mirrored, blurred or glaring print. Any image is unreadable if the OCR scores
are low, if print is not covered by boxes of text, or if large areas are blown out. The thresholds have a wide margin:
readable pages (39 synthetic and 5 real ones) have a score of at least 0.97, 98% of the print in boxes and 1% blown out.
"""

import math
from typing import TYPE_CHECKING

from medvqa_core.errors import ConfigError
from rjua_meddqa.restoration.coverage import share_read, share_washed_out
from rjua_meddqa.restoration.outline import Outline
from rjua_meddqa.schema import IMAGE_TYPES, Box, Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

    from rjua_meddqa.restoration.rectify import RectifiedPage

MIN_CORNERS = 3
MAX_ANGLE = 15.0  # degrees
LEAST_SCORE = 0.85  # mean score of a character
LEAST_READ = 0.8  # of the print
MOST_WASHED_OUT = 0.2  # of the text's rectangle
UNREADABLE = "unreadable"
FLAT, LEVEL = 0.5, 0.3  # share of pixels of one grey, and slope in degrees, of an image that is not a photo
NARROW = 1000  # pixels: the largest width of a telephone's screen
Judgement = tuple[str, str]  # high, low or unreadable, and the reason


def judge_type(image_type: str) -> Judgement | None:
    """Return the quality implied by the type of image alone, or None for a photo.

    Raises:
        ConfigError: `image_type` is not one of pdf, photo, screenshot.
    """
    if image_type not in IMAGE_TYPES:
        raise ConfigError(f"image type {image_type!r} is unknown. Allowed: {', '.join(IMAGE_TYPES)}")
    return None if image_type == "photo" else ("high", f"a {image_type}, no photo")


def find_type(image: "Image.Image", slope: float) -> str:
    """Estimate the type of an image (RGB): pdf | photo | screenshot.

    A rendered image has one colour of paper and level lines. A screenshot is as narrow as a telephone and not wider
    than high. A photo that was levelled and whitened is taken for a pdf.

    Args:
        slope: mean slope of the text, dy/dx.
    """
    counts = image.convert("L").histogram()
    if max(counts) < FLAT * sum(counts) or math.degrees(math.atan(slope)) > LEVEL:
        return "photo"
    return "screenshot" if image.width < NARROW and image.height >= 0.9 * image.width else "pdf"


def judge_readable(image: "Image.Image", boxes: "Sequence[Box]") -> Judgement | None:
    """Return unreadable with the reason, or None for a readable page.

    Args:
        image: RGB. boxes: read in it, in its pixels.
    """
    if not boxes:
        return UNREADABLE, "no text was read"
    characters = sum(len(box.text) for box in boxes)
    score = sum(len(box.text) * box.score for box in boxes) / max(characters, 1)
    if score < LEAST_SCORE:
        return UNREADABLE, f"read with a confidence of {score:.2f} (mirrored, blurred, or no print?)"
    read = share_read(image, boxes)
    if read < LEAST_READ:
        return UNREADABLE, f"only {read:.0%} of the print was read (moire, covered text?)"
    washed_out = share_washed_out(image, boxes)
    if washed_out > MOST_WASHED_OUT:
        return UNREADABLE, f"{washed_out:.0%} of the text is blown out (glare)"
    return None


def judge_quality(page: "RectifiedPage") -> Judgement:
    """Return high or low by the two criteria for photos, with the reason."""
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
    """Return the largest angle in degrees between opposite edges of the paper, or 0 if edges are cut off."""
    directions: list[float] = []
    ends: tuple[Point, ...] = (*outline.points[1:], outline.points[0])
    for (x0, y0), (x1, y1), edge in zip(outline.points, ends, outline.edges, strict=True):
        if edge:
            directions.append(math.degrees(math.atan2(y1 - y0, x1 - x0)) % 180)
    level = [angle if angle < 90 else angle - 180 for angle in directions if not 45 <= angle < 135]
    upright = [angle for angle in directions if 45 <= angle < 135]
    return max((max(pair) - min(pair) for pair in (level, upright) if len(pair) > 1), default=0.0)


def text_spread(page: "RectifiedPage") -> float:
    """Return the largest difference in degrees between the fitted text slopes at the page's four corners."""
    width, height = page.transform.width, page.transform.height
    slopes = [page.dewarping.slope(x, y) for x in (0, width) for y in (0, height)]
    return math.degrees(math.atan(max(slopes)) - math.atan(min(slopes)))
