"""Split findings into sentences and clauses, the scope of a negation or a hedge.

Handles "Dr.", decimals, times ("5.30 p.m."), blanks (`___`, `XXXX`), list numbers ("1. ... 2. ...") and a missing blank
after a full stop. A clause ends at "but", "however", a semicolon, or at a comma or "and" before another organ with a
verb.
"""

import re

# A full stop after these, or after a single letter ("p.m.", "L. lung"), does not end a sentence.
_ABBREVIATIONS = re.compile(r"\b(?:dr|mr|mrs|ms|st|vs|approx|resp|ca|cf|fig|e\.g|i\.e|[a-z])$", re.IGNORECASE)
_END = re.compile(r"(?<=[^\s(,])[.!?]+(?=\s|$)|(?<=[a-z)])\.(?=[A-Z][a-z])")
_LIST_NUMBER = re.compile(r"^\(?\d{1,2}[.)]\s+|^[-*•]\s+")

LONGEST = 1000  # characters of a clause, which keeps the time linear

_CONTRAST = re.compile(
    r"\s*;\s*|,?\s+(?:but|however(?!,\s+(?:is|are|was|were|has|have|remains?|appears?)\b)|whereas|although|though|yet|"
    r"while|except(?: for| that)?|aside from|apart from)\b,?\s+"
    r"(?!(?:is|are|has|have|still|now|remains?|(?:probably |likely |possibly )?not)\b|"
    r"(?:unchanged|stable|similar|improved|resolved)(?= (?:since|from|compared|as|to)\b|[,.]|$))",
    re.IGNORECASE,
)
_ORGAN_CLAUSE = re.compile(  # ", the lungs are": begins a clause if there is a verb before it
    r"(?:,\s+(?:and\s+)?|\s+and\s+)(?=(?:the\s+|there\s+|no\s+|both\s+)?(?:lungs?|heart|cardi\w+|mediastin\w+|"
    r"hil\w+|bony|bones?|"
    r"osseous|pulmonary vasc\w+|vasculature|pleural spaces?|costophrenic|trachea|aorta|there|no)\b"
    r"[^,;.]{0,60}?\b(?:is|are|appears?|remains?|has|have)\b)",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|are|was|were|appears?|remains?|has|have|shows?|demonstrates?)\b", re.IGNORECASE)


def split_sentences(text: str) -> list[str]:
    """The sentences of `text`, with white space folded and without list numbers."""
    text = " ".join(text.split())
    sentences, start = [], 0
    for match in _END.finditer(text):
        before = text[max(start, match.start() - 8) : match.start()]
        # "2." alone is a list number and belongs to the next sentence
        if _ABBREVIATIONS.search(before) and match.end() < len(text) or before.strip(" (").isdigit():
            continue
        sentences.append(text[start : match.end()])
        start = match.end()
    sentences.append(text[start:])
    stripped = (_LIST_NUMBER.sub("", sentence.strip()) for sentence in sentences)
    return [sentence for sentence in stripped if any(char.isalnum() for char in sentence)]


def split_clauses(sentence: str) -> list[str]:
    """The clauses of one sentence, without the conjunctions between them."""
    clauses = []
    for part in _CONTRAST.split(sentence):
        start = 0
        for match in _ORGAN_CLAUSE.finditer(part):
            if _VERB.search(part, start, match.start()):
                clauses.append(part[start : match.start()])
                start = match.end()
        clauses.append(part[start:])
    stripped = (clause.strip(" ,;") for clause in clauses)
    pieces = (clause[start : start + LONGEST] for clause in stripped for start in range(0, len(clause), LONGEST))
    return [piece for piece in pieces if any(char.isalnum() for char in piece)]
