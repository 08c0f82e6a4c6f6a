"""Word rules for answers: the paper's Appendix B, checked on every engine's answers, and notes for the rows.

A rule is named `family:word`. The families are `prohibited` (the 17 words that imply comparison or change),
`report_reference` (an answer must speak of the image, not of the report) and `verb` ("mentioned", "described"). An
empty answer breaks `empty`. An answer that breaks a rule is asked for again.

The rules are rows of `wording.tsv`: a level (rule or warning), a name, and a pattern of whole words in any case, so
that "newborn" passes. The first 17 rows are the words of Appendix B in its order, with their inflections. Rows of the
level `omission` rewrite a quote without such words: the name is the replacement (`#` if it cannot be quoted), and
`macro` rows are their parts. The other levels are words of the extractive engine.

`find_flags` returns notes that do not cause a retry: `relative:...` for words of comparison beyond the 17 (warnings,
because "increased interstitial markings" is fine), and `label_conflict` if the answer contradicts its label.
"""

import re
from functools import lru_cache
from pathlib import Path

from mimic_cxr_vqa.labeling.answer_polarity import contradicts
from mimic_cxr_vqa.schema import LABEL_CONFLICT

EMPTY = "empty"


def read_wording(level: str) -> tuple[tuple[str, str], ...]:
    """The names and patterns of one level in `wording.tsv`."""
    lines = Path(__file__).with_name("wording.tsv").read_text(encoding="utf-8").splitlines()
    return tuple((name, pattern) for kind, name, pattern in (line.split("\t") for line in lines) if kind == level)


def read_words(level: str) -> list[str]:
    """The words of the only row of one level."""
    ((_, words),) = read_wording(level)
    return words.split()


RULES = read_wording("rule")
_MACROS = dict(read_wording("macro"))
# Replacement -> what it replaces, in their order, to write a sentence without the words of Appendix B.
OMISSIONS = tuple(
    (text, re.compile(re.sub(r"\{([a-z]+)\}", lambda name: _MACROS[name[1]], pattern), re.IGNORECASE))
    for text, pattern in read_wording("omission")
)
WARNINGS = read_wording("warning")
_COMPILED_WARNINGS = tuple((rule, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for rule, pattern in WARNINGS)
_COMPILED = tuple((rule, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for rule, pattern in RULES)
_ANY = re.compile("|".join(rf"\b(?:{pattern})\b" for _, pattern in RULES), re.IGNORECASE)


def lint(answer: str) -> list[str]:
    """The rules of Appendix B that `answer` breaks, in the order of `RULES`. A blank answer only breaks `empty`."""
    if not answer.strip():
        return [EMPTY]
    if not _ANY.search(answer):  # most answers are clean, and this is a single pass
        return []
    return [rule for rule, pattern in _COMPILED if pattern.search(answer)]


def warnings(answer: str) -> list[str]:
    """The words of comparison beyond Appendix B in `answer`, in the order of `WARNINGS`."""
    return [rule for rule, pattern in _COMPILED_WARNINGS if pattern.search(answer)]


@lru_cache(maxsize=1 << 16)  # answers repeat
def find_flags(answer: str, category: str, label_value: str) -> tuple[str, ...]:
    """The flags of one row, warnings first."""
    conflict = (LABEL_CONFLICT,) if contradicts(answer, category, label_value) else ()
    return (*warnings(answer), *conflict)
