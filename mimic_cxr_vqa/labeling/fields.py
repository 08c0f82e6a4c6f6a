"""The words for side, site, size, severity and count, and how they are assigned to a finding in a clause.

This is the only vocabulary of these words. Mentions, answers, the rule judge and the metric use it.
"""

import re
from dataclasses import dataclass

SIDES = {
    **dict.fromkeys(("left", "left-sided", "leftward"), ("left",)),
    **dict.fromkeys(("right", "right-sided", "rightward"), ("right",)),
    **dict.fromkeys(("bilateral", "bilaterally", "both", "bibasilar", "bibasal", "biapical"), ("left", "right")),
}
# Every form of a size or severity -> its adjective.
SIZES = {word: word for word in ("small", "large", "tiny", "trace", "massive", "sizable", "minute", "subcentimeter")}
SIZES |= {"moderate-sized": "moderate"}
for _word in ("mild", "moderate", "severe", "marked", "massive", "minimal", "extensive", "slight", "subtle", "gross"):
    SIZES |= {_word: _word, f"{_word}ly": _word}
SIZES |= {f"{one}-to-{other}": f"{one}-to-{other}" for one, other in (
    ("mild", "moderate"), ("moderate", "severe"), ("small", "moderate"), ("moderate", "large"))}  # fmt: skip
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTS = {word: str(number) for number, word in enumerate(_NUMBERS, 1) if number > 1}
COUNTS |= {word: word for word in ("multiple", "several", "few", "numerous", "many")}
# Every form of a site -> its name.
SITES = {
    **dict.fromkeys(("base", "bases", "basilar", "basal", "bibasilar", "bibasal"), "base"),
    **dict.fromkeys(("apex", "apices", "apical", "biapical"), "apex"),
    **{word: word for word in ("upper", "middle", "lower", "perihilar", "retrocardiac", "lingula", "hilar")},
    **{"lingular": "lingula", "mid": "mid", "suprahilar": "hilar", "infrahilar": "hilar", "hilum": "hilar"},
}
MEASURE = re.compile(r"\d{1,3}(?:\.\d+)?(?: ?x ?\d{1,3}(?:\.\d+)?)?[ -]?(?:mm|cm)\b")
# Words that may be part of a finding's noun phrase besides the ones above.
_WORDS = """
central peripheral medial lateral posterior anterior lobe lobes lung zone zones rib ribs clavicular vertebral thoracic
sternal humeral focal patchy hazy linear streaky subsegmental segmental discoid plate-like platelike interstitial
alveolar airspace pulmonary pleural diffuse multifocal scattered loculated layering calcified noncalcified
non-calcified healed healing acute chronic displaced nondisplaced compression nodular confluent cardiac dual-lumen
single-lead dual-lead implanted internal venous jugular subclavian surgical enteric nasogastric endotracheal feeding
chest discrete suspicious dense vague spiculated cavitary single old vascular vein proximal distal comminuted clavicle
humerus scapula sternum spine vertebra third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth first
second mitral aortic hemithorax atrial ventricular tip fissure minor major
"""
QUALIFIERS = frozenset(_WORDS.split())
_LINK_WORDS = "and to than greater more less larger worse or amount of volume"
_LINKS = frozenset(_LINK_WORDS.split())
_TAIL_WORDS = """
in on at of within over overlying projecting involving along near throughout the a an is are was were has have been
seen noted present identified again than that more less greater larger smaller worse pronounced prominent severe
numerous side sides and to , lung lungs lobe lobes zone zones hemithorax size measures measuring severity unchanged
stable slightly predominantly predominant especially project projects component fissure half thorax chest appears
appear remains remain still also now right-sided left-sided fifth sixth seventh eighth ninth fourth third second tenth
rib ribs hilum hemidiaphragm possible possibly suspected visible located situated centered evident demonstrated found
observed shown detected likely
"""
_TAIL = frozenset(_TAIL_WORDS.split())
_TOKEN = re.compile(r"\d{1,3}(?:\.\d+)?(?: ?x ?\d{1,3}(?:\.\d+)?)?[ -]?(?:mm|cm)\b|[a-z0-9'-]+|[^\sa-z0-9]")
_LATERALITY = re.compile(
    r"\b(left|right|both|bilateral)(?:-sided)? (?:[a-z-]+ ){0,3}?(?:lungs?|lobes?|bases?|apex|apices|hemithorax|side|"
    r"zones?|chest|hilum)\b"
)

# "Small effusions, larger on the left": the other side has one too.
_COMPARED = re.compile(r"\b(?:greater|larger|worse|more|less|smaller)\b(?: \w+)? (?:on|at|in) the (?:left|right)\b")
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
        sides = tuple(side for side in ("left", "right") if side in (*self.sides, *other.sides))
        sites = tuple(dict.fromkeys((*self.sites, *other.sites)))
        return Fields(sides, sites, self.size or other.size, self.count or other.count)


def read_fields(text: str, start: int, end: int, first: int = 0, last: int | None = None) -> Fields:
    """The details of the finding at `start:end` of a clause in lower case.

    Args:
        first, last: the end of the finding before it and the start of the finding after it, which limit the search.
    """
    last = len(text) if last is None else last
    before = read_modifiers(text[first:start])
    words = [*before, *_TOKEN.findall(text[start:end]), *_read_after(text[end:last], last < len(text))]
    sides = {side for word in words for side in SIDES.get(word, ())}
    sites = tuple(dict.fromkeys(SITES[word] for word in words if word in SITES))
    if sides and _COMPARED.search(text, end, last) and _SEVERAL.search(text, start, end):
        sides = {"left", "right"}
    if not sides and not before:
        placed = list(_LATERALITY.finditer(text, first, start))
        sides = {side for match in placed[-1:] for side in SIDES[match[1]]}
    size = _read_size(words, several=len(sides) > 1)
    count = next((COUNTS[word] for word in words if word in COUNTS), None)
    return Fields(tuple(sorted(sides)), sites, size, count)


def _read_size(words: list[str], several: bool) -> str | None:
    """The size, or a range such as "mild to moderate". None if each of `several` sides has its own."""
    found = [n for n, word in enumerate(words) if word in SIZES or MEASURE.fullmatch(word)]
    sizes = [SIZES.get(words[n], words[n]) for n in found]
    if len(found) > 1 and found[1] == found[0] + 2 and words[found[0] + 1] == "to":
        return f"{sizes[0]} to {sizes[1]}"
    return None if not sizes or (several and len(set(sizes)) > 1) else sizes[0]


def is_modifier(word: str) -> bool:
    """Whether a word may directly precede a finding as one of its details."""
    known = (SIDES, SIZES, COUNTS, SITES, QUALIFIERS)
    return any(word in words for words in known) or bool(MEASURE.fullmatch(word))


def read_modifiers(text: str) -> list[str]:
    """The modifiers directly before the finding, with the words that link them."""
    words: list[str] = []
    for word in reversed(_TOKEN.findall(text)):
        if not is_modifier(word) and word not in _LINKS:
            break
        words.insert(0, word)
    return words


def _read_after(text: str, is_followed: bool) -> list[str]:
    """The place, size and comparison after the finding.

    Args:
        is_followed: another finding follows, whose modifiers are left out.
    """
    words: list[str] = []
    tokens = _TOKEN.findall(text)
    for word in tokens:
        if word not in _TAIL and not is_modifier(word) and not word.endswith("ly"):
            break
        words.append(word)
    if is_followed and len(words) == len(tokens):
        while words and (is_modifier(words[-1]) or words[-1] in ("a", "an", "the")):
            words.pop()
    return words
