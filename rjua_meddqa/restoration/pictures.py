"""Pictures on a page (a scan, an ultrasound image): text that lies on one was burned into it, and is none of the page.

A picture is a large dark area within the paper. Dark areas that reach the border of the image are what the paper lies
on; dark bars as low as a line or two of text are headings of tables.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rjua_meddqa.restoration.outline import load_cv2
from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

SIDE = 800  # pixels of the longer side that pictures are searched at
DARK = 0.62  # of the paper's brightness; paper in a shadow is brighter
LEAST_HEIGHT = 4  # times that of the text
CLOSING = 1.2  # heights of text: lighter spots as small as this do not part a picture
FULL = 0.6  # share of its frame that a picture fills; the outline of a stamp does not


def boxes_on_pictures(image: "Image.Image", boxes: Sequence[Box]) -> list[int]:
    """Numbers of the boxes whose middle lies on a picture.

    Args:
        image: RGB. boxes: what was read in it, in its pixels.
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
    # first away with what is thinner than a picture (letters, lines), then the light spots in it closed
    dark = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones((max(3, round(text / 2)),) * 2, np.uint8))
    dark = cv2.morphologyEx(dark, cv2.MORPH_CLOSE, np.ones((max(3, round(CLOSING * text)),) * 2, np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(dark)
    pictures = set()
    for number in range(1, count):
        left, top, width, height, area = stats[number]
        is_inside = left > 0 and top > 0 and left + width < size[0] and top + height < size[1]
        if is_inside and min(width, height) >= LEAST_HEIGHT * text and area >= FULL * width * height:
            pictures.add(number)
    found = []
    for number, box in enumerate(boxes):
        x, y = (box.left + box.right) / 2 / scale, (box.top + box.bottom) / 2 / scale
        at = labels[min(max(int(y), 0), size[1] - 1), min(max(int(x), 0), size[0] - 1)]
        if at in pictures:
            found.append(number)
    return found
