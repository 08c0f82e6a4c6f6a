"""The words for side, site, size, severity and count, and how they are assigned to a finding in a clause.

`fields.tsv` is the only vocabulary of these words. Mentions, answers, the rule judge and the metric use it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_BOTH = ("left", "right")


def _read(field: str) -> dict[str, str]:
    """The words of a field in `fields.tsv`, each with its value."""
    lines = Path(__file__).with_name("fields.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {word: value for name, value, words in rows if name == field for word in words.split("|")}


# Every form of a detail -> its value. Sizes of one level are near synonyms.
SIDES = {word: tuple(value.split("|")) for word, value in _read("side").items()}
SITES = _read("site")
COUNTS = _read("count") | {number: number for number in _read("count").values() if number.isdigit()}
LEVELS = {word: int(level) for word, level in _read("level").items()}
SIZES = {word: word for word in LEVELS if word != "little"} | {"sizeable": "sizable"}
SIZES |= {f"{word}ly": word for word in LEVELS if word not in ("small", "large", "tiny", "trace", "little")}
SIZES |= {f"{one}-to-{two}": f"{one}-to-{two}" for two in LEVELS for one in LEVELS if LEVELS[one] < LEVELS[two]}
SIZES |= {f"{word}-{end}": word for word in ("small", "moderate", "large") for end in ("size", "sized")}
# Words that may be part of a finding's noun phrase besides the ones above.
QUALIFIERS = _read("qualifier")
MEASURE = re.compile(r"\d{1,3}(?:\.\d+)?(?: ?x ?\d{1,3}(?:\.\d+)?)?[ -]?(?:mm|cm)\b")
_LINK_WORDS = "and to than greater more less larger worse or amount of volume area areas"
_LINKS = frozenset(_LINK_WORDS.split())
_TOKEN = re.compile(
    rf"behind the heart|either side|(?:left|right) "
    rf"(?:ventric|atri|heart|main|cardiac|clinical)\w*|{MEASURE.pattern}|[a-z0-9'-]+|[^\sa-z0-9]"
)
_LATERALITY = re.compile(
    r"\b(left|right|both|bilateral)(?:-sided)? (?:[a-z-]+ ){0,3}?(?:lungs?|lobes?|bases?|apex|apices|hemithorax|side|"
    r"zones?|chest|hilum)\b"
)
# What is after these words is not about the finding before them.
_BOUNDARY = re.compile(
    r";|\bwith(?:out)?\b|\b(?:and|or|no|but|as) (?:the |an? |there |no )|\bno\b|\b(?:which|that|as|since|because|"
    r"greatest|worst|adjacent|due|versus|causing|suggest\w*|represent\w*|reflect\w*|consistent|compatible|concerning|"
    r"from|rather|shift\w*|displac\w*|obscur\w*|compress\w*|heart|cardiac|mediastin\w*|aort\w*|hemidiaphragm|"
    r"may|might|could)\b"
)
# The side of a device, but not the one of the organ that it is in ("overlies the right ventricle").
_DEVICE_SIDE = re.compile(
    r"^[^,;]{0,40}?\b(?:on|from|via|in|at|over|overl\w+|within|through) (?:the |an? )?(?:left|right|both|either side)"
    r"(?= (?:sides?|approach|chest|hemithorax|lungs?|base|apex|upper|lower|pleural|hilar|axilla\w*|shoulder|neck|"
    r"pectoral|subclavian|internal|ij|jugular|and)\b|[.,;]|$)"
)
# After the finding, a size or count belongs to it if one of these follows, and not a noun.
_PREDICATE_ENDS = frozenset(_read("end of a predicate"))
_STARTS = frozenset(_read("start of a phrase"))  # words before a noun phrase
_AWAY = ("above", "below", "from")
# "Small effusions, larger on the left", "L > R": the other side has one too.
_COMPARED = re.compile(
    r"\b(?:greater|larger|worse|more|less|smaller)\b(?: \w+)? (?:on|at|in) the (?:left|right)\b|"
    r"\b(?:larger|smaller) of the two\b|\b(?:l|left|r|right) ?(?:>+|<+|=) ?(?:l|left|r|right)\b"
)
# The words between an observation and its interpretation, which is at the same place.
_INTERPRETED = re.compile(
    r"\b(?:represent|reflect|suggest|indicat|concern|suspicious|worrisome|consistent|compatible|equivocal|likely|due|"
    r"secondary|related|versus|distinguish|differentiat|attribut|rather than|possib|underlying|favor)\w*|\bvs\b|:"
)
_LEVEL_WORDS = "|".join(sorted(SIZES, key=len, reverse=True))
_NOW = re.compile(
    rf"\b(?:(?<=ed )to|from (?:{_LEVEL_WORDS}) to|now|currently) ({_LEVEL_WORDS})\b"
    r"(?! (?!enlarged|dilated|in\b)[a-z]+\b)"
)
# "On the right there is a small effusion and adjacent atelectasis."
_ON_A_SIDE = re.compile(r"\b(?:on|at) the (left|right)(?:,? (?:there|is|remains?|has|appears?)\b|, (?=an? |the ))")
_SEVERAL = re.compile(r"(?:[^si]s|ies|ces|atelectasis|edema|disease|scarring|thickening)$")


@dataclass(frozen=True)
class Fields:
    """The details of a finding. Empty where the clause does not give them."""

    sides: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    size: str | None = None
    count: str | None = None

    def __or__(self, other: "Fields") -> "Fields":
        """The details of two mentions of the same finding."""
        sides = tuple(side for side in _BOTH if side in (*self.sides, *other.sides))
        sites = tuple(dict.fromkeys((*self.sites, *other.sites)))
        return Fields(sides, sites, self.size or other.size, self.count or other.count)

    def conflicts(self, other: "Fields") -> bool:
        """Whether a side or size of the two differs, so that they are about two findings."""
        sides = bool(self.sides and other.sides) and self.sides != other.sides
        return sides or bool(self.size and other.size) and self.size != other.size


def read_fields(text: str, start: int, end: int, first: int, last: int, is_device: bool = False) -> list[Fields]:
    """The details of the finding at `start:end` of a clause in lower case, one for each side with its own size.

    Args:
        first, last: the end of the finding before it and the start of the finding after it, which limit the search.
    """
    before = read_modifiers(text[first:start], unknown=2)
    behind = text[end:last]
    if is_device:
        found = _DEVICE_SIDE.match(behind)
        after = _TOKEN.findall(found[0]) if found else []
    else:
        boundary = _BOUNDARY.search(behind)
        after = _read_after(behind[: boundary.start()] if boundary else behind, not boundary and last < len(text))
    words = [*before, *_TOKEN.findall(text[start:end]), *after]
    sides = find_sides(words)
    if _COMPARED.search(text, first, last) and (_SEVERAL.search(text, start, end) or not sides):
        sides = set(_BOTH)
    if not (sides or is_device or any(is_modifier(word) for word in before)):
        placed = list(_LATERALITY.finditer(text, first, start))
        sides = {side for match in placed[-1:] for side in SIDES[match[1]]}
    if not sides and (place := _ON_A_SIDE.search(text, 0, start)):
        sides = {place[1]}
    if not (sides or is_device):
        sides = _inherit_sides(text, start)
    sites = tuple(dict.fromkeys(SITES[word] for word in words if word in SITES))
    count = next((COUNTS[word] for word in words if word in COUNTS), None)
    now = _NOW.search(behind)
    sizes = [SIZES[now[1]]] if now else _read_sizes(words)
    if len(sizes) == len(sides) == 2 and (pairs := _pair_sides(words)):
        return [Fields((side,), sites, size, count) for side, size in pairs]
    return [Fields(tuple(sorted(sides)), sites, sizes[0] if sizes else None, count)]


def _inherit_sides(text: str, start: int) -> set[str]:
    """The sides of what the finding at `start` interprets: "left basal opacity, which may represent pneumonia"."""
    links = list(_INTERPRETED.finditer(text, 0, start))
    return find_sides(_TOKEN.findall(text[: links[-1].start()])) if links else set()


def split_words(text: str) -> list[str]:
    """The words, measures and signs of a text, in lower case."""
    return _TOKEN.findall(text.lower())


def find_sides(words: Iterable[str]) -> set[str]:
    """The sides that words give."""
    return {side for word in words for side in SIDES.get(word, ())}


def find_levels(words: Iterable[str]) -> set[int]:
    """The levels of the sizes among words, a range such as "mild-to-moderate" by its end."""
    forms = (SIZES.get(word, word).rsplit("-to-", 1)[-1] for word in words)
    return {LEVELS[form] for form in forms if form in LEVELS}


def _read_sizes(words: list[str]) -> list[str]:
    """The different sizes, and a range such as "mild to moderate" as one."""
    found = [n for n, word in enumerate(words) if word in SIZES or MEASURE.fullmatch(word)]
    sizes = [SIZES.get(words[n], words[n]) for n in found]
    if len(found) > 1 and found[1] == found[0] + 2 and words[found[0] + 1] == "to":
        return [f"{sizes[0]} to {sizes[1]}"]
    return list(dict.fromkeys(sizes))


def _pair_sides(words: list[str]) -> list[tuple[str, str]]:
    """Each side with its size: "small right and moderate left", "the left is small, the right moderate"."""
    details = [word for word in words if word in SIDES or word in SIZES or MEASURE.fullmatch(word)]
    details = [word for word in details if len(SIDES.get(word, "1")) == 1]  # not "bilateral"
    if details[0] in SIDES:
        details.reverse()
    pairs: dict[str, str] = {}
    size = details[0]
    for word in details:
        if word in SIDES:
            pairs |= {side: SIZES.get(size, size) for side in SIDES[word]}
        else:
            size = word
    return sorted(pairs.items())


def is_modifier(word: str) -> bool:
    """Whether a word may directly precede a finding as one of its details."""
    known = (SIDES, SIZES, COUNTS, SITES, QUALIFIERS)
    return any(word in words for words in known) or bool(MEASURE.fullmatch(word))


def read_modifiers(text: str, unknown: int = 0) -> list[str]:
    """The modifiers directly before the finding, with the words that link them.

    Args:
        unknown: number of other adjectives that may be among them ("two rounded nodules").
    """
    words: list[str] = []
    for word in reversed(_TOKEN.findall(text)):
        if not is_modifier(word) and word not in _LINKS:
            unknown -= 1
            if unknown < 0 or not word.isalpha() or word in _STARTS or not _LINKS.isdisjoint(words):
                break
        words.insert(0, word)
    return words


def _read_after(text: str, is_followed: bool) -> list[str]:
    """The place after the finding, and its size and count if they are predicates.

    Args:
        is_followed: another finding follows, whose modifiers are left out.
    """
    words = _TOKEN.findall(text)
    while is_followed and words and (is_modifier(words[-1]) or words[-1] in ("a", "an", "the")):
        words.pop()
    kept = []
    for place, word in enumerate(words):
        following = next((other for other in words[place + 1 :] if not is_modifier(other)), ".")
        is_predicate = not following.isalpha() or following in _PREDICATE_ENDS
        is_compared = (word in SIZES and word.endswith("ly")) or words[place - 1 : place] in (
            ["more"],
            ["less"],
            ["most"],
        )
        is_compared |= bool(MEASURE.fullmatch(word)) and words[place - 1 : place] == ["by"]
        if word in COUNTS and words[max(place - 2, 0) : place] == ["of", "the"]:
            continue  # "the larger of the two"
        if word == "both" and words[place - 1 : place] in (["have"], ["are"], ["were"]):
            continue
        if is_compared or (word in SIZES or word in COUNTS) and not is_predicate:
            continue
        if not (word.isdigit() or MEASURE.fullmatch(word) and following in _AWAY):
            kept.append(word)
    return kept
