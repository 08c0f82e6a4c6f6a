"""Finds the table row of an asked item. Misread names are accepted, names of other analytes are not.

总胆红素 and 直接胆红素, ALT and AST, 凝血酶时间 and 凝血酶原时间 look alike but are different measurements, and another
analyte's number is worse than 无. Two names match only if every difference is a typical reading or writing slip. If two
rows match, neither is returned.
"""

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.schema import TableRow
from rjua_meddqa.vocabulary import VOCABULARY

MARGIN = 0.05  # smallest lead over the second-best row
ALIKE_NAMES = 0.5  # similarity of two items with the same abbreviation
MISREAD_FROM = 5  # characters: in shorter names another character may mean another analyte
# Characters that are often confused, mapped to one of them.
LOOK_ALIKE = str.maketrans({other: group[-1] for group in VOCABULARY["look_alike"] for other in group})
_MARKS = re.compile(r"^[*★☆▲△#√\s]+|[*★☆▲△#\s]+$")
_BRACKETS = re.compile(r"[()]")
_DOUBLED = re.compile(r"([Ⅰ-Ⅻ])\1+")  # a Roman numeral that was read twice
_IGNORED = re.compile(r"测定|定量|检测|[,'\"*★☆▲ ]")  # without influence on the meaning
# Characters that distinguish analytes.
_TELLING = frozenset("".join(VOCABULARY["analyte_characters"].split()))


def find_row(asked: str, table: Sequence[TableRow]) -> TableRow | None:
    """Return the row of the item `asked`, or None if no row or several different rows match."""
    scored = sorted(((item_score(asked, row.item), place) for place, row in enumerate(table)), reverse=True)
    if not scored or not scored[0][0]:
        return None
    best, place = scored[0]
    rivals = [other for score, other in scored[1:] if score > best - MARGIN]
    if best < 0.999 and any(fold(table[other].item) != fold(table[place].item) for other in rivals):
        return None
    return table[min(other for score, other in scored if score == best)]


def item_score(asked: str, item: str) -> float:
    """Return 1 for the same name, less for a name with reading or writing slips, 0 for another analyte."""
    if fold(asked) == fold(item):
        return 1.0 if asked == item else 0.999  # a table may have both eGFR-EPICr and eGFR-EPIcr
    one, other = _key(asked), _key(item)
    if one == other:
        return 0.99
    if _BRACKETS.sub("", one) == _BRACKETS.sub("", other):  # 纤维蛋白(原)降解产物
        return 0.95
    (name, short), (other_name, other_short) = _split(one), _split(other)
    if short and other_short:
        if short == other_short:
            return 0.9 if _is_same_name(name, other_name, has_short=True) else 0.0
        return 0.8 if name == other_name and _is_misread_short(short, other_short) else 0.0
    if short or other_short:  # one of the two lacks its abbreviation
        if (short or other_short) == (other_name if short else name):
            return 0.85
        return 0.9 if name == other_name else 0.75 if _is_same_name(name, other_name) else 0.0
    return 0.8 if _is_same_name(name, other_name) else 0.0


def _is_same_name(one: str, other: str, has_short: bool = False) -> bool:
    """Whether two names without their abbreviations differ only by reading slips.

    If the abbreviations are equal, characters may be misread or cut off. Otherwise, one character of a longer name.
    """
    if _IGNORED.sub("", one) == _IGNORED.sub("", other):
        return True
    changed = [
        (one[a:b], other[c:d])
        for kind, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        if kind != "equal"
    ]
    replaced = all(len(old) == len(new) for old, new in changed)
    characters = "".join(old + new for old, new in changed)
    if has_short:
        is_telling = not replaced and any(character in _TELLING for character in characters)
        return similarity(one, other) >= ALIKE_NAMES and not is_telling and not _swaps(changed)
    is_chinese = all("\u4e00" <= character <= "\u9fff" for character in characters)
    is_one = replaced and len(characters) == 2
    return is_one and is_chinese and len(one) >= MISREAD_FROM and not any(c in _TELLING for c in characters)


def _swaps(changed: list[tuple[str, str]]) -> bool:
    """Whether one distinguishing character replaces another: 白 for 红."""
    pairs = (pair for old, new in changed for pair in zip(old, new, strict=False))
    return any(old in _TELLING and new in _TELLING for old, new in pairs)


def _is_misread_short(one: str, other: str) -> bool:
    """Whether two abbreviations of one name differ by a sign or by one of at least four letters."""
    bare, other_bare = (re.sub(r"[^0-9a-z\u0370-\u03ff]", "", text) for text in (one, other))
    if bare == other_bare:
        return True
    differing = sum(a != b for a, b in zip(bare, other_bare, strict=False))
    return len(bare) == len(other_bare) >= 4 and differing == 1


def _key(item: str) -> str:
    """Normalise a name for comparison: one width, no blanks, confusable characters merged."""
    text = unicodedata.normalize("NFKC", _DOUBLED.sub(r"\1", _MARKS.sub("", item)))
    return fold(text).translate(LOOK_ALIKE).strip(",:")


def _split(item: str) -> tuple[str, str]:
    """`总蛋白(tp)` -> 总蛋白, tp."""
    match = re.fullmatch(r"(.*[^(])\(([^()\u4e00-\u9fff]+(?:\([^()]*\))?)\)?", item)
    return (match[1], match[2]) if match else (item, "")
