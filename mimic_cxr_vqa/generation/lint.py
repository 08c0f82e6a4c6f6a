"""Rules that an answer must keep: the paper's Appendix B as patterns, one table, checked on every engine's answers.

Rule names are `family:word`; the families are `prohibited` (the 17 words that imply comparison or change),
`report_reference` (an answer speaks of the radiograph, never of the report) and `verb` ("mentioned", "described").
`empty` stands alone. `warnings` names words of comparison beyond the 17, of the family `relative`: they are noted with
a kept answer, but it is not asked again for them. The rules look at words only: whether an answer is true to its report
is the judge's and the people's business.
"""

import re

EMPTY = "empty"

# (rule, pattern). Every pattern is matched as a whole word in any case, so that "newborn", "renew", "unstable" and
# "intervalometer" pass. Inflections are those with the same meaning of comparison or change. The first 17 rows are the
# words of Appendix B in its order.
RULES: tuple[tuple[str, str], ...] = (
    ("prohibited:unchanged", r"unchanged"),  # not "change": "degenerative changes" compares nothing
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

# Words of comparison that the paper's list leaves out; some have plain uses too ("increased interstitial markings").
WARNINGS: tuple[tuple[str, str], ...] = (
    (
        "relative:has changed",
        r"(?:has|have|had) (?:\w+ )?(?:been )?(?:\w+ly )?(?:develop|increas|decreas|enlarg|chang|clear|appear|diminish|"
        r"grown?|shr[au]nk|mov|advanc|retract|remov|plac|reposition|withdrawn|inserted|return|become|occur)\w*",
    ),
    (
        "relative:appears changed",
        r"(?:appears?|is|are|looks?|seems?) (?:to be )?(?:\w+ly |somewhat |overall )?"
        r"(?:increased|decreased|larger|smaller|greater|lower|higher|diminished|increasing|decreasing|enlarging|denser)",
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
    """Name the rules of Appendix B that `answer` breaks, in the order of `RULES`; an empty list for a clean answer.

    An answer of nothing but white space breaks `empty` alone.
    """
    if not answer.strip():
        return [EMPTY]
    if not _ANY.search(answer):  # most answers are clean: one pass instead of one a rule
        return []
    return [rule for rule, pattern in _COMPILED if pattern.search(answer)]


def warnings(answer: str) -> list[str]:
    """Name the words of comparison beyond Appendix B that `answer` has (`WARNINGS`), in the order of the table."""
    return [rule for rule, pattern in _COMPILED_WARNINGS if pattern.search(answer)]
