"""The known section names of radiology reports with their kinds, and how misspellings are recognised.

The kind `exam` is for the technique of the examination and `closing` for text after the reading.
"""

import re
from functools import lru_cache

# Section kind -> patterns of heading names, in capitals. A name precedes its own prefixes.
NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "findings and impression",
        (
            r"FINDINGS?\s{0,3}(?:AND|&|/)\s{0,3}IMPRESSIONS?",
            r"IMPRESSIONS?\s{0,3}(?:AND|&|/)\s{0,3}FINDINGS?",
        ),
    ),
    ("other findings", (r"(?:OTHER|ADDITIONAL|INCIDENTAL|ASSOCIATED|MISCELLANEOUS|FURTHER) FINDINGS?",)),
    ("findings", (r"(?:PERTINENT |SIGNIFICANT |CHEST |LUNG |CARDIOPULMONARY |RADIOGRAPHIC )?FINDINGS?",)),
    ("impression", (r"(?:FINAL )?IMPRESSIONS?", r"CONCLUSIONS?", r"OPINION", r"SUMMARY")),
    ("clinical information", (r"CLINICAL INFORMATION",)),
    ("clinical history", (r"CLINICAL HISTORY",)),
    ("reason for examination", (r"REASON FOR (?:THE )?EXAMINATION",)),
    ("reason for exam", (r"REASON FOR EXAM", r"REASON FOR (?:THIS )?STUDY")),
    ("reason for the exam", (r"REASON FOR THE EXAM",)),
    ("indication", (r"(?:CLINICAL )?INDICATIONS?",)),
    ("history", (r"(?:PATIENT |MEDICAL )?HISTORY",)),
    ("wet read", (r"(?:PRELIMINARY )?WET READ",)),
    ("addendum", (r"(?:FINAL )?ADDENDUM",)),
    ("final report", (r"(?:FINAL|PRELIMINARY) REPORT",)),
    (
        "closing",
        (r"NOTIFICATIONS?(?:\(S\))?", r"RECOMMENDATIONS?(?:\(S\))?", r"COMMUNICATIONS?", r"(?:SIGNED|DICTATED) BY"),
    ),
    (
        "exam",
        (
            r"COMPARISONS?(?: EXAMS?| FILMS?| STUDY| STUDIES)?",
            r"TECHNIQUE",
            r"(?:TYPE OF )?EXAMINATION",
            r"(?:TYPE OF )?EXAM",
            r"REFERENCE EXAM",
            r"STUDY",
            r"PROCEDURE",
            r"VIEWS?",
            r"COMMENTS?",
            r"DATE(?: OF EXAM| OF SERVICE)?",
            r"DOSE",
        ),
    ),
)
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

_COMPILED = tuple(
    (kind, re.compile("|".join(name.replace(" ", r"[ \t]+") for name in names), re.IGNORECASE)) for kind, names in NAMES
)


def alternatives(in_line: bool = False) -> str:
    """An alternation of all names, or with `in_line` of those that are headings anywhere in a line."""
    names = [name for _, names in NAMES for name in names if not (in_line and _COMMON.search(name))]
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
