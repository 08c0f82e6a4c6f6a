"""Turn a mention into a noun phrase with its size, severity, side and site.

    "Stable XXXX small left basilar effusion"  ->  "a small left basilar pleural effusion"

The phrase takes the modifiers that directly precede the finding, and its place ("in the left lower lobe"). Details
elsewhere in the clause are left out, which `is_lossless` tells.
"""

import re
from collections.abc import Iterable

from mimic_cxr_vqa.generation.lint import read_wording, read_words
from mimic_cxr_vqa.generation.quoting import leave_out_changes
from mimic_cxr_vqa.labeling.fields import (
    COUNTS,
    SIDES,
    SITES,
    SIZES,
    is_modifier,
    read_modifiers,
    split_words,
)
from mimic_cxr_vqa.labeling.lexicon import read_patterns
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, OTHER_ABNORMALITY, Mention

# The category as a noun phrase that fits after "no" or "evidence of".
CATEGORY_NAMES = {category: text for text, category in read_wording("category")}
_RENAMED, _SPELT = ({word: text for text, word in read_wording(level)} for level in ("renamed", "spelt"))

_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_NEAR = "|".join([*SIDES, *SITES, *_ORDINALS.split(), "lateral", "medial", "posterior", "anterior", "mid"])
_PLACE = re.compile(
    r" (?:(?:is|are) )?(?:(?:seen|noted|present|identified|visuali[sz]ed) )?(in|at|within|of|on|involving) "
    rf"(?:the |both )?((?:(?:{_NEAR}) (?:and (?=(?:{_NEAR}) ))?){{0,5}}"
    r"(?:(?:lung )?(?:bases?|apex|apices|zones?)|lobes?|lungs?|lingula|left|right|ribs?|clavicle|spine|hilum)|"
    r"[tlc]\d{1,2}(?:-[tlc]?\d{1,2})?)\b"
    r"(?! (?:and|or|than)\b|/|-)"
)
_HEARTS = ("Cardiomegaly", "Enlarged Cardiomediastinum")
_MANY = "|".join(word for word in COUNTS if word.isalpha())
_PLURAL = re.compile(r"(?:[^s]s|ces|thoraces|opacities|densities|masses)$")
_COUNTED = re.compile(read_wording("counted")[0][1])


def noun_phrase(mention: Mention, article: bool = True) -> str | None:
    """The finding of `mention` with its size, severity, side and site.

    Args:
        article: prepend "a" or "an" to a countable singular. Without it the phrase fits after "no".

    Returns:
        None for an abnormality outside the 14 labels that is not in the tables.
    """
    text = mention.clause.lower()
    start, end = mention.span
    noun = _find_noun(mention.category, text[start:end])
    if noun is None:
        return None
    words = [
        word
        for word in _clean(read_modifiers(text[:start]))
        if word not in noun and not (word == "cardiac" and "cardio" in noun)
    ]
    place = _PLACE.match(text, end) if end else None
    where = f" {'on' if place[2] in ('left', 'right') else 'in'} the {place[2]}" if place else ""
    if place and place[2][-1].isdigit():
        where = f" at {place[2].upper()}"  # a vertebra
    phrase = " ".join(_SPELT.get(word, word) for word in [*words, *noun.split()]) + where
    return with_article(phrase, noun) if article else phrase


_EMPTY = frozenset(read_words("empty words"))  # they carry no detail of a finding
_DENYING, _NAMES_OF_HEART = (frozenset(read_words(f"words of {of}")) for of in ("a denial", "the heart"))


def is_lossless(phrase: str, mention: Mention, others: Iterable[Mention] = ()) -> bool:
    """Whether `phrase` says all that the best passage of `mention` says, and nothing else.

    Args:
        others: the other findings of its clause, which need not be repeated if they are denied with it.
    """
    text = leave_out_changes(mention.passages[0]).lower()
    name = _EMPTY | set(CATEGORY_NAMES.get(mention.category, "").split())
    name |= _NAMES_OF_HEART if mention.category in _HEARTS else frozenset()
    if mention.polarity == NEGATIVE:
        name |= _DENYING
        for other in others:
            start, end = other.span
            words = {*read_modifiers(other.clause[:start].lower()), *split_words(other.clause[start:end].lower())}
            name |= words - SIZES.keys() if other.polarity == NEGATIVE else set()
    clause, said = (
        {SIZES.get(word, word) for word in split_words(words) if word[0].isalnum()} for words in (text, phrase)
    )
    return clause - name == said - name


def _clean(words: list[str]) -> list[str]:
    """The modifiers of a noun phrase, without links at either end and with adjectives for adverbs."""
    words = [SIZES.get(word, word) for word in words]
    of = [n for n, word in enumerate(words[1:]) if word == "of" and words[n] in ("amount", "volume", "area", "areas")]
    words = [word for n, word in enumerate(words) if n not in of and n - 1 not in of]
    while words and not is_modifier(words[0]):
        words = words[1:]
    while words and not is_modifier(words[-1]):
        words = words[:-1]
    return words


def with_article(phrase: str, noun: str) -> str:
    """`phrase` with "a" or "an" if its `noun` is a countable singular."""
    if not _COUNTED.search(noun) or re.match(rf"(?:{_MANY}|bilateral)\b", phrase):
        return phrase
    return f"{'an' if phrase[0].lower() in 'aeiou' and not phrase.startswith('uni') else 'a'} {phrase}"


def is_plural(phrase: str) -> bool:
    """Whether the phrase takes "are"."""
    head = re.split(r" (?:in|on) the ", phrase, maxsplit=1)[0]
    if re.match(rf"(?:{_MANY})\b", head):
        return True
    return bool(_PLURAL.search(head)) and not head.endswith(("asis", "thorax", "osis", "itis", "ous", "sis"))


def be(phrase: str) -> str:
    """ "is" or "are", to follow the phrase."""
    return "are" if is_plural(phrase) else "is"


def _find_noun(category: str, found: str) -> str | None:
    """The words of the report if they are a noun (role `noun` of the lexicon), else the name of the category."""
    found = re.sub(r"\b(?:x{3,}|_{2,}) ?", "", found)
    if any(pattern.fullmatch(found) for pattern in read_patterns("noun").get(category, ())):
        return _RENAMED.get(found, found)
    return None if category == OTHER_ABNORMALITY else CATEGORY_NAMES[category]
