"""Finds pictures on a page (a scan, an ultrasound image). Text on a picture does not belong to the page's text.

A picture is a large dark area within the paper. Dark areas that touch the border of the image are background, and dark
bars as low as one or two lines of text are headings of tables.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rjua_meddqa.restoration.outline import load_cv2
from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

SIDE = 800  # pixels of the longer side of the searched image
DARK = 0.62  # of the paper's brightness. Paper in a shadow is brighter.
LEAST_HEIGHT = 4  # times that of the text
CLOSING = 1.2  # heights of text: smaller light spots do not split a picture
FULL = 0.6  # share of its frame that a picture fills, unlike the outline of a stamp


def boxes_on_pictures(image: "Image.Image", boxes: Sequence[Box]) -> list[int]:
    """Return the indices of the boxes whose middle is in the frame of a picture, which need not be dark everywhere.

    Args:
        image: RGB. boxes: read in it, in its pixels.
    """
    if not boxes:
        return []
    cv2 = load_cv2()
    scale = max(1.0, max(image.size) / SIDE)
    size = max(1, round(image.width / scale)), max(1, round(image.height / scale))
    grey = np.asarray(image.convert("L").resize(size, reducing_gap=2.0))
    heights = [min(box.height, box.width) / scale for box in boxes]
    text = max(2.0, float(np.median(heights)))
    paper = float(np.percentile(grey, 75))
    dark = (grey < DARK * paper).astype(np.uint8)
    # Remove thin structures (letters, lines), then close light spots.
    dark = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((max(3, round(text / 2)),) * 2, np.uint8))
    dark = cv2.morphologyEx(dark, cv2.MORPH_CLOSE, np.ones((max(3, round(CLOSING * text)),) * 2, np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(dark)
    frames = []
    for number in range(1, count):
        left, top, width, height, area = stats[number]
        is_inside = left > 0 and top > 0 and left + width < size[0] and top + height < size[1]
        if is_inside and min(width, height) >= LEAST_HEIGHT * text and area >= FULL * width * height:
            spots = np.argwhere(labels == number)[:, ::-1].astype(np.float32)  # (pixels, x and y)
            frames.append(cv2.boxPoints(cv2.minAreaRect(spots)))
    found = []
    for number, box in enumerate(boxes):
        x, y = (box.left + box.right) / 2 / scale, (box.top + box.bottom) / 2 / scale
        if any(cv2.pointPolygonTest(frame, (x, y), False) >= 0 for frame in frames):
            found.append(number)
    return found
