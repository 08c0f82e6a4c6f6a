"""Quote a report as an answer, if the text works on its own.

The text may be a sentence or a noun phrase ("Right PICC with its tip in the SVC"). Words of Appendix B are left out
("unchanged moderate effusion since the prior study"). A text is not quoted if such a word cannot be left out, if it
refers to another sentence ("this", "it"), or if it contains blanked words (`XXXX`, `___`), advice or history.
"""

import re
from functools import lru_cache

from mimic_cxr_vqa.generation.lint import OMISSIONS, lint, read_wording, read_words

LONGEST_QUOTE = 70  # words

_SUB_HEADING = re.compile(r"^([A-Z][A-Z ,/&()-]{2,60}):\s*")  # "LUNGS: The lungs are clear"
# Such a heading is the subject of words without a verb: "HEART: Mildly enlarged".
_SUBJECT = re.compile(r"heart|cardi|lung|pleura|mediastin|hil|aorta|bone|osseous|soft tissue|vascul", re.IGNORECASE)
_UNKNOWN = re.compile(r"x{3,}|_{2,}", re.IGNORECASE)
_PROPER_NAMES = frozenset(read_words("proper names"))
_PRONOUNS = frozenset(["This", "These", "Those", "It", "Its", "They", "Their", "Which", "That"])
_FIRST, _LAST = frozenset(read_words("first words")), frozenset(read_words("last words"))
_RELATIVE = re.compile(r"\b(?:which|that|who|where)\b.*|\([^()]*\)")
_FINITE = re.compile(read_wording("verb")[0][1])
_BAD_WORDS = re.compile("|".join(pattern for _, pattern in read_wording("unquotable")), re.IGNORECASE)
_BAD_SIGNS = re.compile(r"[?!\[\]{}=*#\"]|^\W|[a-z] [A-Z][a-z]+ (?:is|are|size)\b|\b(\w+) \1\b|\.\S*[a-z]{2}")
_SUBJECT_LOST = re.compile(read_wording("garbled")[0][1], re.IGNORECASE)
_REFERENCE = re.compile(r"\b(?:there|their)\b(?! (?:is|are|appears?|may|has|have|does|can))", re.IGNORECASE)
_PART = re.compile(
    r",? (?:and|while|whereas|but) (?=(?:the|there|an?|no|on) )|, (?:with |leaving |as |which |where |described )|; "
)


@lru_cache(maxsize=4096)  # clauses repeat, within a study and between studies
def leave_out_changes(text: str) -> str:
    """`text` without the words of Appendix B and other studies, where it can do without them."""
    for replacement, pattern in OMISSIONS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def quote(passage: str) -> str | None:
    """`passage` without its sub-heading and words of Appendix B, or None if it does not work as an answer."""
    text = _use_heading(" ".join(passage.split()).rstrip(".,; "))
    whole, text = text, leave_out_changes(text)
    words = re.findall(r"[\w'-]+", text)
    if not 2 <= len(words) <= LONGEST_QUOTE or words[0] in _FIRST | _PRONOUNS or words[-1].lower() in _LAST:
        return None
    if _UNKNOWN.search(text) or _BAD_SIGNS.search(text) or text.count("(") != text.count(")"):
        return None
    if text.isupper():
        text = text.lower()
    if len(words) > 3 and all(word.istitle() for word in words if word.isalpha()):
        return None  # A Clause Typed Like This
    is_garbled = text != whole and _SUBJECT_LOST.search(text)
    return None if is_garbled or _REFERENCE.search(text) or _BAD_WORDS.search(text) or lint(text) else text


def narrow(clause: str, span: tuple[int, int]) -> str:
    """The part of a clause with the finding at `span`, between the conjunctions and commas around it."""
    start = max((found.end() for found in _PART.finditer(clause, 0, span[0])), default=0)
    end = _PART.search(clause, span[1])
    return clause[start : end.start() if end else None]


def _use_heading(text: str) -> str:
    """`text` with its sub-heading in lower case if that is the subject of words without a verb, else without it."""
    heading = _SUB_HEADING.match(text)
    rest = text[heading.end() :] if heading else text
    if not heading or not _SUBJECT.search(heading[1]) or is_sentence(rest):
        return rest
    return f"{heading[1].capitalize()}: {uncapitalise(rest)}"


def is_sentence(text: str) -> bool:
    """Whether a text has a finite verb, so that it is not just a noun phrase."""
    return bool(_FINITE.search(_RELATIVE.sub("", text).lower()))


def uncapitalise(text: str) -> str:
    """`text` with a lower-case first letter, unless it begins with a name or an abbreviation ("PICC", "T-spine")."""
    word = re.split(r"[\s,;]", text, maxsplit=1)[0]
    if word in _PROPER_NAMES or word[1:2] == "-" or not (word == "A" or word[1:].replace("-", "").islower()):
        return text
    return word.lower() + text[len(word) :]


def capitalise(text: str) -> str:
    """`text` with an upper-case first letter."""
    return text[:1].upper() + text[1:]
