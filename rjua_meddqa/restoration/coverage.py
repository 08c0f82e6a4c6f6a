"""Measures how much of the visible print was read, and how much of the page is overexposed.

A spot is letter-like if it is darker than the paper around it, about as high as the letters that were read, and has
similar spots beside it. Print under moire or blur leaves spots that no box covers. Glare leaves large white areas
without text on paper that is darker elsewhere.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rjua_meddqa.restoration.outline import load_cv2
from rjua_meddqa.schema import Box

if TYPE_CHECKING:
    from PIL import Image

SIDE = 1600  # pixels of the longer side of the searched image
CONTRAST = 9  # grey levels that ink is darker than the mean around it
SMALLEST, LARGEST = 0.35, 1.6  # heights of a spot, in heights of the read text
FEWEST = 30  # spots needed for a measurement
WHITE, NOT_WHITE = 252, 246  # grey levels of an overexposed area, and of paper that is not
FADES = 1  # grey levels that the light decreases within four pixels beside glare
BRIGHT = 235  # the least grey level beside glare
WASHED_SIDE = 12  # of the shorter side: the smallest overexposed square
NEIGHBOURS = 2  # other spots within two heights in its row


def share_read(image: "Image.Image", boxes: Sequence[Box]) -> float:
    """Return the share, 0 to 1, of the letter-like spots of `image` (RGB) that are in `boxes`. 1 for too few spots."""
    if not boxes:
        return 0.0
    cv2 = load_cv2()
    scale = max(1.0, max(image.size) / SIDE)
    size = max(1, round(image.width / scale)), max(1, round(image.height / scale))
    grey = cv2.GaussianBlur(np.asarray(image.convert("L").resize(size, reducing_gap=2.0)), (3, 3), 0)
    text = max(6.0, float(np.median([min(box.height, box.width) for box in boxes])) / scale)
    around = cv2.blur(grey, (2 * round(text) + 1,) * 2)
    ink = (around.astype(int) - grey > CONTRAST).astype(np.uint8)
    _, _, stats, centres = cv2.connectedComponentsWithStats(ink)
    width, height = stats[:, 2], stats[:, 3]
    fits = (height >= SMALLEST * text) & (height <= LARGEST * text) & (width <= 2 * LARGEST * text) & (width >= 2)
    spots = centres[fits]
    spots = spots[[_has_neighbours(spot, spots, text) for spot in spots]] if len(spots) else spots
    if len(spots) < FEWEST:
        return 1.0
    covered = np.zeros(len(spots), dtype=bool)
    for box in boxes:
        left, right, top, bottom = (value / scale for value in (box.left, box.right, box.top, box.bottom))
        inside = (spots[:, 0] >= left - 2) & (spots[:, 0] <= right + 2)
        covered |= inside & (spots[:, 1] >= top - 2) & (spots[:, 1] <= bottom + 2)
    return float(covered.mean())


def share_washed_out(image: "Image.Image", boxes: Sequence[Box]) -> float:
    """Return the share of the text's rectangle in white areas of `image` (RGB) that fade and lack text.

    Only paper that is grey elsewhere is measured. White areas beside or below the text hide nothing.
    """
    if not boxes:
        return 0.0
    cv2 = load_cv2()
    scale = max(1.0, max(image.size) / (SIDE / 4))
    size = max(1, round(image.width / scale)), max(1, round(image.height / scale))
    grey = np.asarray(image.convert("L").resize(size, reducing_gap=2.0))
    side = max(3, min(size) // WASHED_SIDE)
    white = cv2.morphologyEx((grey >= WHITE).astype(np.uint8), cv2.MORPH_OPEN, np.ones((side, side), np.uint8)) > 0
    paper = grey[~white & (grey > 0.6 * grey.max())]
    middles = np.array([((b.left + b.right) / 2, (b.top + b.bottom) / 2) for b in boxes]).reshape(-1, 2) / scale
    x, y = np.clip(middles.astype(int), 0, (size[0] - 1, size[1] - 1)).T
    inside = int(white[y, x].sum())
    if not paper.size or float(np.median(paper)) > NOT_WHITE or inside > 0.1 * len(boxes):
        return 0.0
    text = np.zeros(white.shape, dtype=bool)
    text[y.min() : y.max() + 1, x.min() : x.max() + 1] = True
    count, labels = cv2.connectedComponents(white.astype(np.uint8))
    areas = [labels == number for number in range(1, count)]
    return float(sum((area & text).sum() for area in areas if _fades(grey, area)) / text.sum())


def _fades(grey: np.ndarray, area: np.ndarray) -> bool:
    """Whether the light around an area decreases gradually, as around glare. Windows and white surfaces have edges."""
    cv2 = load_cv2()
    grown = [cv2.dilate(area.astype(np.uint8), np.ones((2 * step + 1,) * 2, np.uint8)) > 0 for step in (1, 2, 5, 6)]
    near, far = (grey[grown[n + 1] & ~grown[n]] for n in (0, 2))
    if not near.size or not far.size:
        return False
    first, then = float(np.median(near)), float(np.median(far))
    return first >= BRIGHT and first - then >= FADES


def _has_neighbours(spot: np.ndarray, spots: np.ndarray, text: float) -> bool:
    near = np.abs(spots - spot)
    return int(((near[:, 0] < 2 * text) & (near[:, 1] < 0.5 * text)).sum()) > NEIGHBOURS
