"""The known section names of radiology reports with their kinds (`headings.tsv`), and how slips are recognised.

The kind `exam` is for the technique of the examination and `closing` for text after the reading.
"""

import re
from functools import lru_cache
from pathlib import Path

_LINES = Path(__file__).with_name("headings.tsv").read_text(encoding="utf-8").splitlines()[1:]
# (section kind, pattern of a heading's name, in capitals). A name precedes its own prefixes.
NAMES = tuple((kind, name) for kind, name in (line.split("\t") for line in _LINES))
# The headings of the indication, in order of preference.
INDICATION_ORDER = (
    "indication",
    "history",
    "clinical information",
    "reason for examination",
    "clinical history",
    "reason for exam",
    "reason for the exam",
)
# Names that are also common words ("LATERAL VIEW:", "BONE STUDY:"). They are only headings at the start of a line.
_COMMON = re.compile(r"STUDY|EXAM$|\)\?EXAM$|VIEWS|COMMENTS|DATE|DOSE|PROCEDURE|SUMMARY|OPINION|REPORT")
# Names whose misspellings are recognised. Shorter names have too many neighbours.
_SPELT = (
    "FINDINGS", "FINDINGS AND IMPRESSION", "IMPRESSION", "CONCLUSION", "INDICATION", "HISTORY", "CLINICAL HISTORY",
    "CLINICAL INFORMATION", "REASON FOR EXAM", "REASON FOR EXAMINATION", "COMPARISON", "TECHNIQUE", "EXAMINATION",
    "ADDENDUM", "NOTIFICATION", "RECOMMENDATION",
)  # fmt: skip
_LONG = 8  # letters of a name that may have two slips

_COMPILED = tuple((kind, re.compile(name.replace(" ", r"[ \t]+"), re.IGNORECASE)) for kind, name in NAMES)


def alternatives(in_line: bool = False) -> str:
    """An alternation of all names, or with `in_line` of those that are headings anywhere in a line."""
    names = [name for _, name in NAMES if not (in_line and _COMMON.search(name))]
    return "|".join(name.replace(" ", r"[ \t]+") for name in names)


def find_kind(name: str) -> str:
    """The kind of a name that matches `alternatives`, in any case."""
    return next(kind for kind, pattern in _COMPILED if pattern.fullmatch(name))


@lru_cache(maxsize=4096)
def find_misspelt_kind(name: str) -> str | None:
    """The kind of the known name that `name` misspells, or None.

    One slip (a letter left out, added or changed, or two swapped) is allowed, and two in a name of at least `_LONG`
    letters with the right first letter ("COMPRESSION" is two slips from "IMPRESSION").
    """
    name = " ".join(name.upper().split())
    for spelt in _SPELT:
        slips = _edit_distance(name, spelt, 2)
        if slips <= 1 or (slips == 2 and len(spelt) >= _LONG and name[:1] == spelt[:1]):
            return find_kind(spelt)
    return None


def _edit_distance(a: str, b: str, limit: int) -> int:
    """The optimal string alignment distance, or a number above `limit` if it is larger."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        two_before, before, row = before, row, [i]
        for j, other in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
    return row[-1]
