"""Word rules for answers: the paper's Appendix B, checked on every engine's answers, and notes for the rows.

A rule is named `family:word`. The families are `prohibited` (the 17 words that imply comparison or change),
`report_reference` (an answer must speak of the image, not of the report) and `verb` ("mentioned", "described"). An
empty answer breaks `empty`. An answer that breaks a rule is asked for again.

`find_flags` returns notes that do not cause a retry: `relative:...` for words of comparison beyond the 17 (`WARNINGS`),
and `label_conflict` if the answer contradicts its label.
"""

import re
from functools import lru_cache

from mimic_cxr_vqa.labeling.answer_polarity import contradicts
from mimic_cxr_vqa.schema import LABEL_CONFLICT

EMPTY = "empty"

# (rule, pattern). Patterns match whole words in any case, so "newborn" and "unstable" pass. Inflections that also mean
# comparison or change are included. The first 17 rows are the words of Appendix B in its order.
RULES: tuple[tuple[str, str], ...] = (
    ("prohibited:unchanged", r"unchanged"),  # not "change", because of "degenerative changes"
    ("prohibited:new", r"new(?:ly|er|est)?"),
    ("prohibited:previous", r"previous(?:ly)?"),
    ("prohibited:compared", r"compar(?:e[sd]?|ing|isons?|able|ably|ative(?:ly)?)"),
    ("prohibited:remains", r"remain(?:s|ed|ing)?"),  # not "remainder": "the remainder of the lungs" is a place
    ("prohibited:alteration", r"alter(?:s|ed|ing|ations?)?"),
    ("prohibited:progressive", r"progress(?:es|ed|ing|ions?|ive|ively)?"),
    ("prohibited:stable", r"stab(?:le|ly|ility)"),
    ("prohibited:worsening", r"worse(?:n|ns|ned|ning)?"),
    ("prohibited:improving", r"improv(?:e|es|ed|ing|ements?)"),
    ("prohibited:evolving", r"evol(?:ve|ves|ved|ving|utions?)"),
    ("prohibited:resolving", r"resolv(?:e|es|ed|ing)|(?<!high )(?<!high-)resolution"),  # "high-resolution" is technique
    ("prohibited:persistent", r"persist(?:s|ed|ing|ent|ently|ence)?"),
    ("prohibited:ongoing", r"on-?going"),
    ("prohibited:recurrent", r"recur(?:s|red|ring|rent|rently|rences?)?"),
    ("prohibited:interval", r"intervals?"),
    ("prohibited:follow-up", r"follow(?:ed|ing)?[\s-]?ups?"),
    # "Do not reference reports directly; instead, refer to them as images or radiographs."
    ("report_reference:report", r"report(?:s|ed|edly|ing)?"),
    ("report_reference:section", r"(?:findings|impression|indication|history) section"),
    (
        "report_reference:text",
        r"(?:as|is|are|was|were) (?:documented|noted|stated|written|recorded|dictated) (?:in|by|under) the "
        r"(?:findings|impression|text|note|dictation|radiologist)",
    ),
    ("report_reference:radiologist", r"radiologist(?:'s|s)?"),
    # "Avoid verbs like mentioned or described."
    ("verb:mentioned", r"mention(?:s|ed|ing)?"),
    ("verb:described", r"describ(?:e|es|ed|ing)"),
)

# Words of comparison that are not in the paper's list. Some also have other uses ("increased interstitial markings").
WARNINGS: tuple[tuple[str, str], ...] = (
    (
        "relative:has changed",
        r"(?:has|have|had) (?:\w+ )?(?:been )?(?:\w+ly )?(?:develop|increas|decreas|enlarg|chang|clear|appear|diminish|"
        r"grown?|shr[au]nk|mov|advanc|retract|remov|plac|reposition|withdrawn|inserted|return|become|occur)\w*",
    ),
    (
        "relative:appears changed",
        r"(?:appears?|is|are|looks?|seems?) (?:to be )?(?:\w+ly |somewhat |overall )?"
        r"(?:increased|decreased|larger|smaller|greater|lower|higher|diminished|increasing|decreasing|enlarging|denser)"
        r"(?! than (?:normal|usual|expected))",
    ),
    ("relative:more", r"(?:more|less) (?:prominent|conspicuous|apparent|pronounced|extensive|dense|confluent|marked)"),
    ("relative:increasing", r"(?:increasing|decreasing|enlarging|developing|diminishing)(?:ly)?|(?:in|de)crease in"),
    ("relative:since", r"since"),
    ("relative:known", r"known"),
    ("relative:again", r"again|redemonstrat\w+|re-demonstrat\w+"),
    ("relative:still", r"still|now|currently|today|yesterday|anymore|no longer|continues?(?: to)?|continued"),
    (
        "relative:prior",
        r"prior|earlier|former(?:ly)?|preceding|last|baseline|interim|pre-existing|preexisting|old films?",
    ),
    ("relative:similar", r"similar(?:ly)?|unaltered|the same|identical|as before"),
    ("relative:change", r"no (?:\w+ ){0,2}changes?|(?:un)?changing|changes? (?:in|from|since)|changed"),
)

_COMPILED_WARNINGS = tuple((rule, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for rule, pattern in WARNINGS)
_COMPILED = tuple((rule, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for rule, pattern in RULES)
_ANY = re.compile("|".join(rf"\b(?:{pattern})\b" for _, pattern in RULES), re.IGNORECASE)


def lint(answer: str) -> list[str]:
    """The rules of Appendix B that `answer` breaks, in the order of `RULES`. A blank answer only breaks `empty`."""
    if not answer.strip():
        return [EMPTY]
    if not _ANY.search(answer):  # most answers are clean, and this is a single pass
        return []
    return [rule for rule, pattern in _COMPILED if pattern.search(answer)]


def warnings(answer: str) -> list[str]:
    """The words of comparison beyond Appendix B in `answer`, in the order of `WARNINGS`."""
    return [rule for rule, pattern in _COMPILED_WARNINGS if pattern.search(answer)]


@lru_cache(maxsize=1 << 16)  # answers repeat
def find_flags(answer: str, category: str, label_value: str) -> tuple[str, ...]:
    """The flags of one row, warnings first."""
    conflict = (LABEL_CONFLICT,) if contradicts(answer, category, label_value) else ()
    return (*warnings(answer), *conflict)
