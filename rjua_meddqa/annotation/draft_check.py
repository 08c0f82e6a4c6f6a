"""Compares drafts with an annotation: how much of the annotated content was drafted.

A key-value counts if the annotation has a value. It is found if the draft has the same normalised key with a value of
similarity ALIKE_VALUE, which tolerates missing line breaks and stops and single misread characters. A row is found if
an item of similarity ALIKE_ITEM has the same normalised result. Each drafted entry matches one annotated entry.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.answers import is_missing
from rjua_meddqa.schema import Annotation

ALIKE_VALUE, ALIKE_ITEM = 0.9, 0.8
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class DraftCheck:
    """Numbers of annotated entries and of those that were drafted. `exact`: equal texts, `verdict`: equal is_normal."""

    key_values: int = 0
    key_values_found: int = 0
    key_values_exact: int = 0
    rows: int = 0
    rows_found: int = 0
    rows_with_range: int = 0
    rows_with_verdict: int = 0
    drafted_rows: int = 0

    def __add__(self, other: "DraftCheck") -> "DraftCheck":
        return DraftCheck(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def check_draft(drafted: Draft, annotation: Annotation) -> DraftCheck:
    """Compare the draft of a page with its annotation."""
    filled = list(dict.fromkeys((key, value) for key, value in annotation.key_values if not is_missing(value)))
    values = _match(
        filled,
        list(drafted.key_values),
        lambda one, other: fold(one[0]) == fold(other[0]) and _alike(one[1], other[1]) >= ALIKE_VALUE,
        lambda one, other: _alike(one[1], other[1]),
    )
    rows = _match(
        annotation.table,
        list(drafted.table),
        lambda row, other: fold(row.result) == fold(other.result) and _alike(row.item, other.item) >= ALIKE_ITEM,
        lambda row, other: _alike(row.item, other.item),
    )
    return DraftCheck(
        key_values=len(filled),
        key_values_found=len(values),
        key_values_exact=sum(one[1] == other[1] for one, other in values),
        rows=len(annotation.table),
        rows_found=len(rows),
        rows_with_range=sum(fold(row.range) == fold(other.range) for row, other in rows),
        rows_with_verdict=sum(row.is_normal == other.is_normal for row, other in rows),
        drafted_rows=len(drafted.table),
    )


def _match(
    wanted: Iterable[Entry],
    drafted: list[Entry],
    fits: Callable[[Entry, Entry], bool],
    score: Callable[[Entry, Entry], float],
) -> list[tuple[Entry, Entry]]:
    """Return pairs of an annotated entry and the best drafted entry that fits it. Each drafted entry is used once."""
    pairs = []
    for entry in wanted:
        fitting = [other for other in drafted if fits(entry, other)]
        if fitting:
            best = max(fitting, key=lambda other: score(entry, other))
            drafted.remove(best)
            pairs.append((entry, best))
    return pairs


def _alike(one: str, other: str) -> float:
    return similarity(fold(one), fold(other))
