"""What makes a page hard to read: named difficulties, and which of them a synthetic page has.

Each is something that real reports have and that the plain synthetic pages lack. A hard page has one to three that fit
its kind of report; which ones follows from the page's number and its seed, so that every difficulty has its pages.
"""

import random
from enum import StrEnum


class Difficulty(StrEnum):
    UNIT_COLUMN = "unit column"  # powers of ten in all spellings, beside ranges that end in a digit
    WRAPPED_NAMES = "wrapped names"
    WRAPPED_RANGES = "wrapped ranges"
    GROUPS = "groups"  # ranges by age, sex, phase
    SIDE_BY_SIDE = "side by side"  # two tables whose rows do not line up
    SIMILAR_ITEMS = "similar items"
    MARGIN_TEXT = "margin text"  # runs up the page
    STAMP = "stamp"  # over text
    SCAN = "scan"  # a picture on the page, with letters burned in
    NO_COLON = "no colon"  # keys and values in columns, some keys in no list
    EMPTY_NAME = "empty name"  # beside the page's title
    PARAGRAPHS = "paragraphs"  # numbered, with decimal points and brackets
    FONT = "font"  # not the usual one


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
MOST = 3  # of a page


def draw_difficulties(draw: random.Random, number: int) -> frozenset[Difficulty]:
    """Difficulties of page `number`: each of them in turn, and up to two more that its kind of report can have."""
    first = list(Difficulty)[number % len(Difficulty)]
    others = CLINICAL_ONLY if first in CLINICAL_ONLY else LABORATORY_ONLY
    fitting = [other for other in (*_ANY, *others) if other is not first]
    return frozenset((first, *draw.sample(fitting, draw.randrange(MOST))))
