"""A clause of a report -> a statement about one radiograph: without comparison, without reference to the report.

Appendix B of the paper: the answer describes the image as if it were seen for the first time. Words of comparison are
taken out where the clause stands without them ("stable left effusion" -> "left effusion"), replaced where they are
its verb ("remains enlarged" -> "is enlarged"), and a clause that says nothing else is given up ("the heart is
unchanged"). A clause that does not read as a statement afterwards is given up too: the caller has its own sentence
for that. The tables of what is replaced by what are in `rewriting_rules`; this file applies them. Nothing is added to
what was said.
"""

import re
from functools import lru_cache

from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.generation.rewriting_rules import (
    ADVICE,
    BLANKS,
    COMPARISONS,
    DANGLING,
    HISTORY,
    LOST_NOUN,
    MENDED_BLANKS,
    MISSING_WORD,
    NEUTRAL_WORDS,
    TELEGRAM,
    TIDY,
    Rules,
)
from mimic_cxr_vqa.labeling.sentences import LONGEST

_PROPER_NAMES = frozenset({"Kerley", "Harrington", "Dobbhoff", "Hickman", "Bochdalek", "Morgagni", "Foley", "Doppler"})
_UNDERSCORES = re.compile(r"_{2,}")
_WORD = re.compile(r"[a-z]+")


@lru_cache(maxsize=4096)  # a study's questions quote the same clauses, and radiologists repeat themselves
def rewrite(clause: str) -> str | None:
    """The statement that `clause` makes of the image alone: no final stop, no capital in front unless it belongs.

    Returns:
        None where nothing is left, where it does not read as a statement, or where it still breaks the lint.
    """
    clause = " ".join(clause.split())
    if len(clause) > LONGEST or ADVICE.search(clause) or HISTORY.search(clause):
        return None
    text = _apply(COMPARISONS, _UNDERSCORES.sub("XXXX", _untitle(clause)))
    text = _apply(MENDED_BLANKS, text)
    if LOST_NOUN.search(text):
        return None
    text = _apply(TIDY, _apply(BLANKS, text))
    text = _apply(TELEGRAM, uncapitalise(text.strip()))
    text = _apply(TIDY, text).strip()
    if len(text) < 4 or DANGLING.search(text) or MISSING_WORD.search(text) or _says_nothing(text):
        return None
    return None if lint(text) else text


def uncapitalise(text: str) -> str:
    """`text` with a small letter in front, unless it begins with a name or abbreviation ("PICC", "T-spine", "L1")."""
    word = re.split(r"[\s,;:]", text, maxsplit=1)[0]
    shouted = word.isalpha() and word.isupper() and len(word) > 4
    if word in _PROPER_NAMES or word[1:2] == "-" or not (word == "A" or word[1:].replace("-", "").islower() or shouted):
        return text
    return word.lower() + text[len(word) :]


def capitalise(text: str) -> str:
    """`text` with a capital in front."""
    return text[:1].upper() + text[1:]


def _apply(rules: Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _untitle(clause: str) -> str:
    """A Clause Typed Like This in small letters; any other as it is."""
    words = [word for word in clause.split() if word.isalpha()]
    return clause.lower() if len(words) > 3 and all(word.istitle() for word in words) else clause


def _says_nothing(text: str) -> bool:
    """Whether only organs and "is seen" are left: "unchanged" was all that was said of them."""
    return all(word in NEUTRAL_WORDS for word in _WORD.findall(text.lower()))
