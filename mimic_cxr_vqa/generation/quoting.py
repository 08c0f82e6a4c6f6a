"""Quote a clause of a report as an answer, unchanged, if it works on its own.

The clause must be a complete sentence with a subject and a finite verb, and without a "this" or "it" that refers to
another sentence. It must pass the lint without a warning and must not contain blanked words (`XXXX`, `___`), advice or
history.
"""

import re
from functools import lru_cache

from mimic_cxr_vqa.generation.lint import lint, warnings

LONGEST_QUOTE = 45  # words

_SUB_HEADING = re.compile(r"^[A-Z][A-Z ,/&()-]{2,60}:\s*")  # "LUNGS: The lungs are clear"
_UNKNOWN = re.compile(r"x{3,}|_{2,}", re.IGNORECASE)
_PROPER_NAMES = frozenset(
    {"Kerley", "Harrington", "Dobbhoff", "Hickman", "Bochdalek", "Morgagni", "Foley", "Swan-Ganz"}
)
_FIRST_WORDS = """this these those adjacent associated additional it its they their which that who with without and or
but nor as than of to from by due secondary including also otherwise such except following given likely possibly
probably cannot can may might could would should is are was were has have had be been being not again where when while
although though however other another same consistent compatible suggesting suggestive representing reflecting
concerning measuring then so if"""
_LAST_WORDS = """of the a an with in to on at by from is are for and or as than appear appears be been has have which
that may no not nor near over into likely most possibly since compatible consistent versus vs within without both
either this these its their suggesting representing measuring
approximately about between under through"""
_FIRST, _LAST = frozenset(_FIRST_WORDS.split()), frozenset(_LAST_WORDS.split())
_RELATIVE = re.compile(r"\b(?:which|that|who|where)\b.*|\([^()]*\)")
_FINITE = re.compile(
    r"\b(?:is|are|has|have|appears?|shows?|demonstrates?|projects?|overl(?:ies|ie|ays?)|terminates?|measures?|lies?|"
    r"suggests?|represents?|may|might|could|can|cannot|extends?|obscures?|reveals?|contains?|overlaps?|does|do|"
    r"enters?|ends?|seems?|occup(?:y|ies)|resides?|reaches|traverses?|crosses|involves?|causes?|raises?|abuts?|"
    r"exceeds?|indicates?|reflects?|lacks?)\b"
)
_BAD_WORDS = re.compile(
    # advice, history and other studies
    r"\brecommend\w*|\bcorrelat\w+|\bfurther (?:evaluation|characteri[sz]ation|imaging)\b|\bdiscussed\b|\bnotified\b|"
    r"\btelephone|\bDr\b|\bplease\b|\bconsider\b|\bstatus[- ]post\b|\bhistory\b|\bclinical\w*|\bpatient\b|"
    r"\b(?:was|were|had)\b|"
    r"\b(?:CTA?|MRI|PET|ultrasound|sonogra\w+|mammogra\w+|echocardiogra\w+|scans?)\b|\b(?:I|we|our|his|her)\b|"
    r"\b(?:helpful|useful|warranted|advised)\b|\bnot as (?:well|\w+ly)\b|"
    r"\bas (?:above|below|seen|noted)\b|\b(?:above|below)[.,]?$|\bviews? of\b|"
    r"\b(?:exam|examination|study) is\b|\btechnique\b",
    re.IGNORECASE,
)
_BAD_SIGNS = re.compile(r"[:?!\[\]{}<>=*#\"]|^\W|^\d|[a-z] [A-Z][a-z]+ (?:is|are|size)\b|\b(\w+) \1\b|\.\S*[a-z]{2}")
_SUBJECT_LOST = re.compile(
    r"\b(?:is|are|appears?) normal limits\b|"
    r"\b(?:no|the|an?|of|with|in|and|or|to) (?:of|is|are|has|have|and|or|appears?)\b|\b(?:is|are) (?:is|are|of|the)\b|"
    r"\bthere (?:is|are) (?:of|in|and|with|not|seen)\b|"
    r"\b(?:there|their)\b(?! (?:is|are|appears?|may|has|have|does|can))",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)  # clauses repeat, within a study and between studies
def quote(clause: str) -> str | None:
    """`clause` without its sub-heading and full stop, or None if it does not work as an answer."""
    text = _SUB_HEADING.sub("", " ".join(clause.split())).rstrip(".,; ")
    words = re.findall(r"[\w'-]+", text)
    if not 3 <= len(words) <= LONGEST_QUOTE or words[0].lower() in _FIRST or words[-1].lower() in _LAST:
        return None
    if _UNKNOWN.search(text) or _BAD_SIGNS.search(text) or text.count("(") != text.count(")"):
        return None
    if text.isupper():
        text = text.lower()
    if len(words) > 3 and all(word.istitle() for word in words if word.isalpha()):
        return None  # A Clause Typed Like This
    main = _RELATIVE.sub("", text)
    if _BAD_WORDS.search(text) or _SUBJECT_LOST.search(text) or not _FINITE.search(main.lower()):
        return None
    return None if lint(text) or warnings(text) else text


def uncapitalise(text: str) -> str:
    """`text` with a lower-case first letter, unless it begins with a name or an abbreviation ("PICC", "T-spine")."""
    word = re.split(r"[\s,;]", text, maxsplit=1)[0]
    if word in _PROPER_NAMES or word[1:2] == "-" or not (word == "A" or word[1:].replace("-", "").islower()):
        return text
    return word.lower() + text[len(word) :]


def capitalise(text: str) -> str:
    """`text` with an upper-case first letter."""
    return text[:1].upper() + text[1:]
