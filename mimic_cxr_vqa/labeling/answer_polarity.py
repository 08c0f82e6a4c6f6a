"""What an answer says of its category, whatever its wording; and whether that contradicts the label.

A leading "Yes" or "No" is set aside, and the rest is read like a report by `mentions` (words of the finding, negation
and doubt around them). If the rest speaks of the category it decides; else a doubt ("possibly"); else the leading word;
else a denial without a name ("none is seen"). If leading word and rest contradict each other, or nothing speaks, the
answer is `undecided`. No Finding is positive where nothing is wrong, as its label: "Yes, there is an effusion" is
negative.
"""

import re
from functools import lru_cache

from medvqa_core.errors import ConfigError
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, analyse
from mimic_cxr_vqa.schema import CATEGORIES, HEART, NO_FINDING

UNDECIDED = "undecided"

_OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
_LEAD = re.compile(r"\W*(yes|no)\W*?(?:[,.;:!]\s*|$)", re.IGNORECASE)  # "No," but not "No effusion is seen"
# A model with a vocabulary of words writes "and / or", where a reference has "and/or".
_SLASH = re.compile(r" ?/ ?")
_CANNOT_SAY = re.compile(r"\bcan ?not be confirmed (?:n?or|and) (?:excluded|ruled out)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:none|nothing|absent|negative)\b|\bno (?:such )?(?:evidence|signs?|indications?|abnormal\w*|findings?)\b|"
    r"\bnot (?:\w+ )?(?:seen|present|visible|evident|identified|observed|detected|apparent)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(r"\bpossibl[ey]\b|\buncertain\b|\bequivocal\b|\bindeterminate\b|\bmaybe\b", re.IGNORECASE)
_ALL_NORMAL = re.compile(r"\b(?:normal|unremarkable|clear)\b", re.IGNORECASE)
_ABNORMAL = re.compile(r"\babnormal\w*|\bfindings?\b", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # references are read again with every condition, and answers repeat
def answer_polarity(answer: str, category: str) -> str:
    """`positive`, `negative`, `uncertain` or `undecided`: what `answer` says of `category` (the module's rule).

    Raises:
        ConfigError: `category` is none of the 15, or Heart, whose label says nothing of a finding.
    """
    if category not in CATEGORIES or category == HEART:
        allowed = ", ".join(name for name in CATEGORIES if name != HEART)
        raise ConfigError(f"category {category!r} has no polarity to read; allowed: {allowed}")
    answer = _SLASH.sub("/", answer)
    if _CANNOT_SAY.search(answer):
        return UNCERTAIN
    lead = _LEAD.match(answer)
    rest = answer[lead.end() :] if lead else answer
    said = _leading_word(lead[1], category) if lead else None
    found = _no_finding(analyse(rest), rest) if category == NO_FINDING else analyse(rest).polarity(category)
    if found == NOT_MENTIONED and _DOUBTED.search(rest):
        return UNCERTAIN
    if found == NOT_MENTIONED:
        return said or (NEGATIVE if category != NO_FINDING and _DENIED.search(rest) else UNDECIDED)
    if said and found == _OPPOSITE[said]:
        return UNDECIDED
    return found


def contradicts(answer: str, category: str, label_value: str) -> bool:
    """Whether `answer` says the opposite of its label: denies what is labelled positive, or affirms what is negative.

    Doubt contradicts nothing, and Heart's label says only that the report has the word "heart".
    """
    if category == HEART or label_value not in _OPPOSITE:
        return False
    return answer_polarity(answer, category) == _OPPOSITE[label_value]


def _leading_word(word: str, category: str) -> str:
    """What "yes" or "no" says: every question but those of No Finding asks for what its label calls positive."""
    yes = word.lower() == "yes"
    return POSITIVE if yes != (category == NO_FINDING) else NEGATIVE


def _no_finding(analysis: Analysis, text: str) -> str:
    """No Finding: the abnormalities that are named decide; without any, the words "abnormal", "findings", "normal"."""
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
