"""Named difficulties of real reports that plain synthetic pages lack.

A hard page has one to three difficulties that fit its kind of report. Its number and seed determine which.
"""

import random
from enum import StrEnum


class Difficulty(StrEnum):
    UNIT_COLUMN = "unit column"  # with powers of ten in all spellings
    WRAPPED_NAMES = "wrapped names"
    WRAPPED_RANGES = "wrapped ranges"
    GROUPS = "groups"  # ranges by age, sex, phase
    SIDE_BY_SIDE = "side by side"  # two tables whose rows are not aligned
    SIMILAR_ITEMS = "similar items"
    MARGIN_TEXT = "margin text"  # rotated by 90 degrees
    STAMP = "stamp"  # over text
    SCAN = "scan"  # a picture with letters burned in
    NO_COLON = "no colon"  # keys and values in columns, with unusual keys
    EMPTY_NAME = "empty name"  # beside the title
    PARAGRAPHS = "paragraphs"  # numbered, with decimals and brackets
    FONT = "font"  # another font


_ANY = (Difficulty.MARGIN_TEXT, Difficulty.STAMP, Difficulty.NO_COLON, Difficulty.EMPTY_NAME, Difficulty.FONT)
LABORATORY_ONLY = (
    Difficulty.UNIT_COLUMN,
    Difficulty.WRAPPED_NAMES,
    Difficulty.WRAPPED_RANGES,
    Difficulty.GROUPS,
    Difficulty.SIDE_BY_SIDE,
    Difficulty.SIMILAR_ITEMS,
)
CLINICAL_ONLY = (Difficulty.SCAN, Difficulty.PARAGRAPHS)
MOST = 3  # per page


def draw_difficulties(draw: random.Random, number: int) -> frozenset[Difficulty]:
    """The difficulties of page `number`: one after the other, with up to two more that fit its kind of report."""
    first = list(Difficulty)[number % len(Difficulty)]
    others = CLINICAL_ONLY if first in CLINICAL_ONLY else LABORATORY_ONLY
    fitting = [other for other in (*_ANY, *others) if other is not first]
    return frozenset((first, *draw.sample(fitting, draw.randrange(MOST))))
