"""Differences between an annotated text and a printed one that a clinician would not accept.

Both texts are aligned character by character. A difference matters if it changes a number, a unit or another Latin
word, a side, a negation, a polarity or a drug's name, whatever the length of the text. Other differences matter from a
few characters on, since OCR misreads single ones. White space, stops and look-alike characters never matter.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from rjua_meddqa.annotation.items import LOOK_ALIKE
from rjua_meddqa.vocabulary import VOCABULARY

FEWEST_REPLACED, FEWEST_LOST = 2, 3  # other characters: the smallest difference that matters
SHORT = 4  # times its length: a text in which a difference matters whatever its length
ALIKE, REPLACED, SPACE = 0.2, 1.5, 0.05  # costs. A character that one of the texts lacks costs 1
CONTEXT = 4  # characters on each side of a difference
_DASHES = str.maketrans({dash: "-" for dash in "~—–～―−‐‑至"})
_STOPS = re.compile(r"[\s,，;；、·。:：'\"“”‘’*|_]|(?<!\d)\.|\.(?!\d)")
_NUMBERING = re.compile(r"(?:^|(?<=[\n。；;，,：:]))\s*[(（]?\d{1,2}(?:[、)）]|\.(?!\d))")
_STAMP = re.compile(r"(?:检验|诊断|报告|病理|影像|放射|超声)科?专用章?|专?用章")
_SIGNS = frozenset("0123456789.<>≤≥=+-±%‰↑↓^")
_LATIN = re.compile(r"[a-zα-ωμµ]")
_TELLING = frozenset("".join(VOCABULARY["telling_characters"].split()))
_DRUG = re.compile("|".join(VOCABULARY["drugs"].split()))
_ALIKE = LOOK_ALIKE | str.maketrans("bszgq", "65299")  # letters that OCR reads for digits
Part = Literal["", "start", "inside"]
Step = tuple[int, int, int, int, bool]  # start and end in both texts, and whether their characters are equal


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: the annotated and the printed characters.

    `context` is the annotated text with CONTEXT characters on both sides, "" near its ends.
    """

    written: str
    printed: str
    context: str


def letters(text: str) -> str:
    """Return the characters that are compared: one width, lower case, without stops, stamps and paragraph numbers."""
    text = unicodedata.normalize("NFKC", _NUMBERING.sub("", text)).translate(_DASHES).casefold()
    return _STAMP.sub("", _STOPS.sub("", text))


def find_differences(written: str, printed: str, part: Part = "") -> list[Difference]:
    """Return the differences that matter between two texts, as returned by `letters`.

    `printed` may have spaces between boxes.

    Args:
        part: "" compares the whole texts. "start": `printed` may continue behind `written`. "inside": it may also begin
            before it. Neither may cut a number or a Latin word.
    """
    found = []
    steps, _ = align(written, printed, part)
    for is_equal, run in groupby(steps, key=lambda step: step[4]):
        if is_equal:
            continue
        spans = list(run)
        start, other_start, end, other_end = spans[0][0], spans[0][2], spans[-1][1], spans[-1][3]
        difference = Difference(
            written[start:end],
            printed[other_start:other_end],
            written[start - CONTEXT : end + CONTEXT] if start >= CONTEXT and end + CONTEXT <= len(written) else "",
        )
        near = written[max(0, start - CONTEXT) : end + CONTEXT]
        around = printed[max(0, other_start - CONTEXT) : other_end + CONTEXT]
        if _matters(difference, near + "|" + around, len(written)):
            found.append(difference)
    return found


def count_errors(written: str, printed: str) -> float:
    """Return the share of the characters of `written` that its best place in `printed` lacks, as a cost."""
    return align(written, printed, "inside")[1] / max(len(written), 1)


def align(written: str, printed: str, part: Part) -> tuple[list[Step], float]:
    """Return the steps of the cheapest alignment, and its cost."""
    other, folded = _codes(printed), _codes(printed.translate(_ALIKE))
    ends = np.array([_is_end(printed, place) for place in range(len(printed) + 1)])
    gaps = np.concatenate([[0.0], np.cumsum(np.where(other == ord(" "), SPACE, 1.0))])
    costs = np.empty((len(written) + 1, len(printed) + 1))
    costs[0] = gaps
    if part == "inside":
        costs[0] = np.where(ends, 0.0, gaps + 1)
        costs[0] = np.minimum.accumulate(costs[0] - gaps) + gaps
    for row, character in enumerate(written, start=1):
        alike = np.where(folded == ord(character.translate(_ALIKE)), ALIKE, REPLACED)
        swap = np.where(other == ord(character), 0.0, alike)
        best = costs[row - 1] + 1.0
        best[1:] = np.minimum(best[1:], costs[row - 1][:-1] + swap)
        costs[row] = np.minimum.accumulate(best - gaps) + gaps
    last = np.where(ends, costs[-1], np.inf) if part else costs[-1]
    place = int(last.argmin()) if part else len(printed)
    return list(_steps(costs, written, printed, place))[::-1], float(last[place])


def _steps(costs: np.ndarray, one: str, other: str, place: int) -> Iterator[Step]:
    """Walk back from the end of an alignment."""
    row = len(one)
    while row or costs[0, place] > 0:
        cost, end, other_end = costs[row, place], row, place
        swap = _swap(one[row - 1], other[place - 1]) if row and place else 0.0
        if row and place and abs(costs[row - 1, place - 1] + swap - cost) < 1e-6:
            row, place = row - 1, place - 1
        elif row and abs(costs[row - 1, place] + 1.0 - cost) < 1e-6:
            row -= 1
        else:
            place -= 1
        yield row, end, place, other_end, row < end and place < other_end and swap < REPLACED


def _swap(one: str, other: str) -> float:
    """The cost of one character for another."""
    if one == other:
        return 0.0
    return ALIKE if one.translate(_ALIKE) == other.translate(_ALIKE) else REPLACED


def _codes(text: str) -> np.ndarray:
    return np.fromiter(map(ord, text), dtype=np.int64, count=len(text))


def _is_end(text: str, place: int) -> bool:
    """Whether no number or Latin word continues over `place`."""
    pair = text[max(0, place - 1) : place + 1]
    return len(pair) < 2 or place == 0 or not re.fullmatch(r"[\d.]{2}|[a-zα-ωμ]{2}", pair)


def _matters(difference: Difference, around: str, length: int) -> bool:
    """Whether a difference matters in a text of `length` characters. `around` is the text around it."""
    one, other = difference.written, difference.printed.replace(" ", "")
    both = one + other
    if not both:
        return False
    if any(character in _SIGNS for character in both) or _LATIN.search(both) or _DRUG.search(around):
        return True
    if sorted(_TELLING & set(one)) != sorted(_TELLING & set(other)):
        return True
    smallest = FEWEST_REPLACED if one and other else FEWEST_LOST
    return max(len(one), len(other)) >= min(smallest, length / SHORT)
