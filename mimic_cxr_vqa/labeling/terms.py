"""The terms of the lexicon in a clause, and the values that mentions share."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mimic_cxr_vqa.labeling.lexicon import Patterns
from mimic_cxr_vqa.schema import LABEL_VALUES

POSITIVE, NEGATIVE, UNCERTAIN, NOT_MENTIONED = (LABEL_VALUES[value] for value in (1, 0, -1, None))
OTHER_ABNORMALITY = "Other"  # abnormalities outside the 14 labels, which only No Finding asks for
THIS_STUDY, EARLIER_STUDY, OTHER_MODALITY = "this", "earlier", "other"
DEVICES = "Support Devices"


class FoundTerm(NamedTuple):
    """A match of the lexicon: its span, and the part of it that a cue must reach."""

    category: str
    is_sign: bool
    span: tuple[int, int]
    reach: tuple[int, int]


def find_terms(table: Patterns, is_sign: bool, text: str) -> Iterator[FoundTerm]:
    for category, patterns in table.items():
        for pattern in patterns:
            for match in pattern.finditer(text):
                yield FoundTerm(category, is_sign, match.span(), match.span(match.lastindex or 0))


def find_limits(text: str, others: Iterable[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """The end of the span before `start` and the beginning of the one after `end`."""
    others = list(others)
    first = max((stop for _, stop in others if stop <= start), default=0)
    return first, min((begin for begin, _ in others if begin >= end), default=len(text))
