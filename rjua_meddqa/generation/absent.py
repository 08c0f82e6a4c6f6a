"""Keys and items that a report does not hold, for unanswerable questions (answer 无), which measure hallucination.

The nearest come first: a page with 总胆红素 is asked for 直接胆红素, not for 睾酮. A candidate is rejected if it, a
synonym, or a part of it (a name with its abbreviation in brackets) occurs in a key, value or item of the annotation,
or the other way round.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence

from rjua_meddqa.annotation.items import item_score
from rjua_meddqa.generation.templates import Templates
from rjua_meddqa.schema import Annotation
from rjua_meddqa.terms import KEYS, Terms, fold

NAMES_COMPARED = 40
_BRACKETS = re.compile(r"[()\[\]]")


class AbsentTerms:
    """Possible keys and items of reports: the terms' keys, the templates' items, and those of `corpus`."""

    def __init__(self, templates: Templates, terms: Terms, corpus: Sequence[Annotation]) -> None:
        keys = [*terms.groups[KEYS], *(key.strip() for a in corpus for key, _ in a.key_values)]
        items = [*templates.absent_items, *(row.item.strip() for a in corpus for row in a.table)]
        self._keys = {key: _parts(terms.synonyms(KEYS, key)) for key in dict.fromkeys(filter(None, keys))}
        self._items = {item: _parts([item]) for item in dict.fromkeys(filter(None, items))}

    def keys(self, annotation: Annotation, draw: random.Random) -> Iterator[str]:
        """Keys that the report does not have under any name, those nearest to its own first."""
        return _absent(self._keys, annotation, [key for key, _ in annotation.key_values], draw)

    def items(self, annotation: Annotation, draw: random.Random) -> Iterator[str]:
        """Table items that the report does not hold, those nearest to its own first."""
        return _absent(self._items, annotation, [row.item for row in annotation.table], draw)


def _absent(
    candidates: dict[str, frozenset[str]], annotation: Annotation, near: Sequence[str], draw: random.Random
) -> Iterator[str]:
    """Yields lazily, because checking thousands of candidates for every image would take minutes."""
    names = _parts([key for key, _ in annotation.key_values] + [row.item for row in annotation.table])
    text = "\n".join(fold(value) for _, value in annotation.key_values)
    for candidate in _nearest_first(candidates, near, draw):
        parts = candidates[candidate]
        if any(item_score(candidate, name) for name in near):
            continue  # another spelling of a name on the page
        if not any(part in text or any(part in name or name in part for name in names) for part in parts):
            yield candidate


def _nearest_first(candidates: Iterable[str], near: Sequence[str], draw: random.Random) -> list[str]:
    """Sort candidates by their share of common characters with the nearest of `near`. Ties are in random order.

    Long reports are compared by a sample of their names, to save time.
    """
    letters = [frozenset(fold(name)) for name in draw.sample(list(near), min(len(near), NAMES_COMPARED))]

    def nearness(candidate: str) -> float:
        own = frozenset(fold(candidate))
        return max((len(own & other) / len(own | other) for other in letters if other), default=0.0)

    drawn = draw.sample(list(candidates), len(list(candidates)))
    return sorted(drawn, key=lambda candidate: -nearness(candidate))


def _parts(names: Sequence[str]) -> frozenset[str]:
    """Folded names, whole and split at brackets, without single Latin letters."""
    folded = [fold(name) for name in names]
    parts = {part for name in folded for part in _BRACKETS.split(name) if len(part) > 1 or part > "\u4e00"}
    return frozenset(parts.union(filter(None, folded)))
