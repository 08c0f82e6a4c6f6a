"""The polarity of a free-text answer for its category, and whether it contradicts the label.

`mentions` reads the answer without its leading "Yes" or "No". If the category is not mentioned, the first of these
decides: a doubt ("possibly"), the leading word, a denial without a name ("none is seen"). The answer is `undecided` if
nothing decides or if the leading word contradicts the rest. No Finding is positive if nothing is wrong, as its label,
so "Yes, there is an effusion" is negative.
"""

import re
from functools import lru_cache

from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, analyse
from mimic_cxr_vqa.schema import CATEGORIES, HEART, NO_FINDING

UNDECIDED = "undecided"

OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
LEAD = re.compile(r"\W*(yes|no)\W*?(?:[,.;:!]\s*|$)", re.IGNORECASE)  # "No," but not "No effusion is seen"
# A model with a vocabulary of words writes "and / or", where a reference has "and/or".
_SLASH = re.compile(r" ?/ ?")
_UNCONFIRMED = re.compile(r"\bcan ?not be confirmed (?:n?or|and) (?:excluded|ruled out)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:none|nothing|absent|negative)\b|\bno (?:such )?(?:evidence|signs?|indications?|abnormal\w*|findings?)\b|"
    r"\bnot (?:\w+ )?(?:seen|present|visible|evident|identified|observed|detected|apparent)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(r"\bpossibl[ey]\b|\buncertain\b|\bequivocal\b|\bindeterminate\b|\bmaybe\b", re.IGNORECASE)
_ALL_NORMAL = re.compile(r"\b(?:normal|unremarkable|clear)\b", re.IGNORECASE)
_ABNORMAL = re.compile(r"\babnormal\w*|\bfindings?\b", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # answers repeat
def answer_polarity(answer: str, category: str) -> str:
    """The polarity of `category` in `answer`: `positive`, `negative`, `uncertain` or `undecided`.

    Raises:
        ConfigError: `category` is unknown, or Heart, whose label is not about a finding.

    Examples:
        >>> answer_polarity("There is no effusion.", "Pleural Effusion")
        'negative'
    """
    if category not in CATEGORIES or category == HEART:
        allowed = ", ".join(name for name in CATEGORIES if name != HEART)
        raise ConfigError(f"category {category!r} does not have a polarity. Expected one of {allowed}.")
    answer = _SLASH.sub("/", answer)
    if _UNCONFIRMED.search(answer):
        return UNCERTAIN
    lead = LEAD.match(answer)
    rest = answer[lead.end() :] if lead else answer
    leading = _read_leading_word(lead[1], category) if lead else None
    found = _no_finding(analyse(rest), rest) if category == NO_FINDING else analyse(rest).polarity(category)
    if found == NOT_MENTIONED and _DOUBTED.search(rest):
        return UNCERTAIN
    if found == NOT_MENTIONED:
        return leading or (NEGATIVE if category != NO_FINDING and _DENIED.search(rest) else UNDECIDED)
    if leading and found == OPPOSITE[leading]:
        return UNDECIDED
    return found


def contradicts(answer: str, category: str, label_value: str) -> bool:
    """Whether `answer` denies a positive label or affirms a negative one.

    Heart is never contradicted, because its label only means that the report has the word "heart".

    Examples:
        >>> contradicts("There is no effusion.", "Pleural Effusion", "positive")
        True
    """
    if category == HEART or label_value not in OPPOSITE:
        return False
    return answer_polarity(answer, category) == OPPOSITE[label_value]


def _read_leading_word(word: str, category: str) -> str:
    """The polarity of "yes" or "no". "Yes" to a question about No Finding means that something is wrong."""
    yes = word.lower() == "yes"
    return POSITIVE if yes != (category == NO_FINDING) else NEGATIVE


def _no_finding(analysis: Analysis, text: str) -> str:
    """The polarity of No Finding: from the named abnormalities, else from words such as "abnormal" and "normal"."""
    if analysis.abnormal(POSITIVE):
        return NEGATIVE
    if analysis.abnormal(UNCERTAIN):
        return UNCERTAIN
    if _DENIED.search(text) or _ALL_NORMAL.search(_ABNORMAL.sub("", text)):
        return POSITIVE
    if _ABNORMAL.search(text):
        return NEGATIVE
    denied = any(mention.polarity == NEGATIVE for found in analysis.mentions.values() for mention in found)
    return POSITIVE if denied else NOT_MENTIONED  # "no effusion or pneumothorax"
