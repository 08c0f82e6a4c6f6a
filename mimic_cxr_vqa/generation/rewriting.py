"""A clause of a report -> a statement about one radiograph: without comparison, without reference to the report.

Appendix B of the paper: the answer describes the image as if it were seen for the first time. Words of comparison are taken
out where the clause stands without them ("stable left effusion" -> "left effusion"), replaced where they are its verb ("remains
enlarged" -> "is enlarged"), and a clause that says nothing else is given up ("the heart is unchanged"). A clause that does not
read as a statement afterwards is given up too: the caller has its own sentence for that. Nothing is added to what was said.
"""

import re

from mimic_cxr_vqa.generation.lint import lint

_I = re.IGNORECASE
_PRIOR = r"(?:prior|previous|earlier|last|most recent|older|comparison|outside|preceding|multiple previous)"
_STUDY = r"(?:stud(?:y|ies)|exam(?:ination)?s?|radiographs?|films?|x-?(?:rays?|xxxx)|chest|images?|ct|ones?|date)"
_CHANGE = r"(?:increased|decreased|worsened|improved|progressed|enlarged|changed|resolved|diminished|evolved|altered)"
_HOW = r"(?:slightly|mildly|minimally|markedly|significantly|grossly|relatively|essentially|overall|generally|somewhat|largely|very)"
_PROPER_NAMES = frozenset({"Kerley", "Harrington", "Dobbhoff", "Hickman", "Bochdalek", "Morgagni", "Foley", "Doppler"})

# (pattern, replacement), applied in this order.
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, _I), replacement)
    for pattern, replacement in (
        # phrases that point at another study or at the report itself
        (
            r"\b(?:when |as )?(?:compared?|comparing|in comparison|similar|relative|unchanged|stable) (?:to|with) [^,;.()]*",
            "",
        ),
        (
            r"[,\s]*\b(?:unchanged|stable)?\s*(?:since|from|on|over|across) (?:the |an? |her |his )?(?:\w+ )?"
            + _PRIOR
            + r"\b[^,;.()]*",
            "",
        ),
        (
            r"\bas (?:was |were )?(?:previously )?(?:described|mentioned|noted|seen|reported|above|before|discussed)(?: (?:above|below|previously|before))?",
            "",
        ),
        (r"\b(?:described|mentioned|noted|reported) (?:above|below)\b", ""),
        (
            r"\b(?:also |previously |prior |already )(?:described|mentioned|noted|reported|seen|identified|documented)\b",
            "",
        ),
        (r"\b(?:the )?" + _PRIOR + r" (?:report|" + _STUDY + r")\b", ""),
        (
            r"\bin the interval\b|\b(?:no|without) (?:\w+ )?(?:interval )?changes? (?:in|of)(?: the)?(?: (?:appearance|size|position) of(?: the)?)?",
            "",
        ),
        (r"\bthis report\b|\bthe report\b", "the radiograph"),
        # "there has been interval placement of a tube" -> "there is a tube"
        (
            r"\bthere (?:has|have) been (?:an? )?(?:"
            + _HOW
            + r" )?(?:interval )?(?:placement|development|appearance|insertion|increase|decrease"
            r"|improvement|worsening|progression|enlargement)s? (?:of|in)\b",
            "there is",
        ),
        (r"\bthere (?:has|have) been\b", "there is"),
        (
            r"\b(?:an? )?(?:"
            + _HOW
            + r" )?(?:interval|relative|new) (?:placement|development|appearance|insertion|increase|decrease|improvement|worsening"
            r"|progression|enlargement|change)s? (?:of|in)\b(?: the)?",
            "",
        ),
        # verbs of change
        (r"\bhas (?:" + _HOW + r" )?remained\b|\bremains\b|\bcontinues to be\b|\bhas become\b", "is"),
        (r"\bhave (?:" + _HOW + r" )?remained\b|\bremain(?:ed)?\b|\bcontinue to be\b|\bhave become\b", "are"),
        (
            r"\bhas (?:also )?(?:"
            + _HOW
            + r" )?(?:(?:been )?"
            + _CHANGE
            + r")(?: (?:in|on) (?:size|extent|volume|number))?",
            "is seen",
        ),
        (
            r"\bhave (?:also )?(?:"
            + _HOW
            + r" )?(?:(?:been )?"
            + _CHANGE
            + r")(?: (?:in|on) (?:size|extent|volume|number))?",
            "are seen",
        ),
        (r"\bpersists\b|\brecurs\b", "is seen"),
        (r"\bpersist\b|\brecur\b", "are seen"),
        (
            r"\b(?:is|appears?) (?:again|once again|still) (?=seen|noted|present|identified|demonstrated|visualized|evident)",
            "is ",
        ),
        (r"\bare (?:again|once again|still) (?=seen|noted|present|identified|demonstrated|visualized|evident)", "are "),
        # "is stable in size and appearance" says nothing of one image
        (
            r"\b(is|are|appears?)(?: (?:again|"
            + _HOW
            + r"|grossly))* (?:stable|unchanged|persistent|recurrent)(?: (?:but|and) (?=\w+ed\b|normal|prominent|low|within|at\b|clear|unremarkable|mild|moderate|not|"
            + _HOW
            + r"))",
            r"\1 ",
        ),
        (
            r"\bappears (?:"
            + _HOW
            + r" )?(?:stable|unchanged|similar|the same)\b(?: in (?:appearance|size|position|configuration|contour|extent)"
            r"(?: and \w+)?)?",
            "is seen",
        ),
        (
            r"\bappear (?:"
            + _HOW
            + r" )?(?:stable|unchanged|similar|the same)\b(?: in (?:appearance|size|position|configuration|contour|extent)"
            r"(?: and \w+)?)?",
            "are seen",
        ),
        (
            r"\b(is|are)(?: \w+ly)? (?:stable|unchanged|similar|persistent|recurrent|new)\b(?: in (?:appearance|size|position|configuration|contour|extent)"
            r"(?: and \w+)?)?",
            r"\1 seen",
        ),
        # adjectives and adverbs
        (
            r"\b(?:(?:un|inter)?changed|stable|new(?:ly)?(?: (?:appearing|placed|developed))?|worsening|worsened|improving|improved|evolving|resolving"
            r"|persistent|ongoing|recurrent|progressive(?:ly)?|interval|previous(?:ly)?|prior|once again|again|still|similar-appearing|stably)\b(?!-)",
            "",
        ),
        (r"\bthe (?:" + _HOW + r" )?(?:increasing|decreasing)\b", "the"),
        (r"\b(?:increasing|decreasing|increase in|decrease in|alteration in)\b", ""),
    )
)
_BLANK = r"(?:x-?)?(?:XXXX|_{2,})(?:['’]s)?"
_MENDED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # the only noun that follows these words in practice
        (r"\b(costophrenic|cardiophrenic) XXXX", r"\1 angle"),
        (r"\b([Ss]ternotomy) XXXX", r"\1 wires"),
        (r"\b([Ll]ymph) XXXX", r"\1 nodes"),
        (
            r"[,\s]*\b(?:compatible with|consistent with|secondary to|related to|due to|status post|representing|suggesting) (?:an? |the )?(?:[a-z]+ ){0,2}"
            + _BLANK
            + r"(?=\s*(?:[.,;]|$))",
            "",
        ),
    )
)
_BLANKED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[,(]?\s*(?:on|at|dated|from|of|by|in|to|per) (?:the )?(?:" + _BLANK + r"[\s,/.:]*)+(?=[.,;)]|$)\)?", ""),
        (r"(?:" + _BLANK + r"[\s,]*)+", ""),
    )
)
# A noun that was blanked behind its adjective: the clause cannot be mended.
_LOST_NOUN = re.compile(
    r"\b(?:pulmonary|bony|soft|aortic|the|an?|osseous|of|and|in|with|visualized|left-sided|right-sided)\s+"
    + _BLANK
    + r"(?=\s*(?:and|or|is|are|in|of|within|with|,|\.|$))",
    _I,
)
_ORGAN = (
    r"(heart size|heart|cardiac silhouette|cardiac|cardiomediastinal|cardio-?mediastinal|lungs?|mediastin(?:um|al)|pulmonary (?:vasc\w+|arter\w+|"
    r"interstitium)|vascularity|vasculature|osseous structures|osseous|bony|bones|costophrenic|pleural spaces?|trachea|aort(?:a|ic)|hil(?:a|ar)|"
    r"visuali[sz]ed|soft tissues|hemidiaphragms?|diaphragms?)"
)
_STATE = (
    r"(?:(?:(?:slightly|mildly|moderately|markedly|severely|grossly|normally|borderline|well)[ -])*(?:normal|clear|enlarged|unremarkable|intact|tortuous|"
    r"expanded|inflated|midline|sharp)(?: (?:in|limits|bilaterally|for|and)\b.*)?$|within normal|at (?:the )?upper|upper (?:limits|normal)|top[- ]normal)"
)


def _add_verb(match: re.Match[str]) -> str:
    words = f"{match[1]}{match[2]}"
    if re.search(
        r"\b(?:is|are|appears?|has|have|was|were|with|no|not|without|both|and)\b", words, _I
    ) and not re.search(r"\band\b", words):
        return match[0]
    many = re.search(r"\band\b", words) or (words.endswith("s") and not words.endswith(("vasculars", "ous")))
    return f"{words} {'are' if many else 'is'} "


_TIDY: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, _I), replacement)
    for pattern, replacement in (
        (r"\(\s*\)|\[\s*\]", ""),
        (
            r"^(?:the )?(?:[\w-]+[ ,]+){0,6}?(?:views?|radiographs?|examination|images?|films?)(?: of the chest)? (?:show|demonstrate|reveal)s? ",
            "",
        ),
        (r", (may|might|could|likely|probably|possibly) (reflect|represent|be|indicate|relate)", r", which \1 \2"),
        # telegram style: "heart size normal", "lungs clear"
        (
            r"^"
            + _ORGAN
            + r"((?: [\w-]+){0,3}?) (?="
            + _STATE
            + r")(?<!is )(?<!are )(?<!appears )(?<!appear )(?<!ly )(?<!not )(?<!and )",
            _add_verb,
        ),
        (r"^(?=(?:left |right |bilateral )?" + _ORGAN + r"\b.*\b(?:is|are|appears?|has|have)\b)", "the "),
        (
            r"\bthe (Heart|Lungs?|Cardiac|Cardiomediastinal|Mediastin\w+|Aorta|Trachea|Bony|Osseous|Pulmonary)\b",
            lambda m: m[0].lower(),
        ),
        (r"\s+", " "),
        (r"\s+([,.;:)])", r"\1"),
        (r"([,;:])(?:\s*[,;:])+", r"\1"),
        (r"\.{2,}|\s+\.", "."),
        (r"\b(is|are) seen seen\b", r"\1 seen"),
        (r"\b(?:and|or) (?=(?:and|or)\b)", ""),
        (r"\b(\w+) \1\b", r"\1"),
        (r"^[\s,;:.)]+|^(?:and|or|with|of|also|additionally|otherwise|overall)\b[\s,]*|[\s,;:.(-]+$", ""),
        (r",? (?:and|or|but|which|that)(?=\.|$)", ""),
        (
            r"\b(?:there is) (?=(?:[\w-]+ ){0,4}(?:opacities|effusions|nodules|changes|atelectases|granulomas|markings|fractures|wires|leads)\b)",
            "there are ",
        ),
        (r"\ba(?= [aeiou](?!ni|ne|ur))", "an"),
        (r"\ban(?= [b-df-hj-np-tv-z])", "a"),
    )
)
_ADVICE = re.compile(
    r"\brecommend\w*|\bfollow-?\s?up\b|\b(?:ct|mri|ultrasound|imaging|correlat\w+|evaluation|radiographs?|views?) (?:\w+ ){0,4}(?:may|could|would|is|are|can) "
    r"(?:\w+ )?(?:be )?(?:helpful|useful|suggested|advised|considered|obtained|warranted|needed)|\bfurther (?:evaluation|characteri[sz]ation)\b|"
    r"\bcorrelat(?:e|ion)\b|\bdiscussed\b|\bnotified\b|\btelephone|\bDr\.",
    _I,
)
_DANGLING = re.compile(
    r"(?:^|\s)(?:of|the|a|an|with|in|to|on|at|by|from|is|are|for|and|or|as|than|appears?|be|been|has|have|which|that|may|no|near|over|into|remote|old|recent|prior|likely)$",
    _I,
)
_EMPTY_CLAIM = re.compile(  # "the heart is seen" after taking "unchanged" out
    r"^(?:the |there (?:is|are) )?(?:[\w/-]+[ ,]*){0,6}(?:heart|silhouettes?|contours?|lungs?|mediastin\w+|appearance|size|vasculature|aorta|exam\w*|chest)"
    r"(?: (?:is|are) seen| appears?)?$",
    _I,
)
_MISSING_WORD = re.compile(
    r"\b(?:no|the|a|an|of|with|in|and|or|pulmonary) (?:of|is|are|and|or|with|to)\b|\bthere (?:is|are) (?:of|in|and|with)\b|\b(?:is|are) (?:is|are|of)\b",
    _I,
)


def rewrite(clause: str) -> str | None:
    """The statement that `clause` makes of the image alone: no final stop, no capital at the front unless it belongs there.

    Returns:
        None where nothing is left, where it does not read as a statement, or where it still breaks the lint.
    """
    if _ADVICE.search(clause):
        return None
    text = clause
    for pattern, replacement in _REWRITES + _MENDED:
        text = pattern.sub(replacement, text)
    if _LOST_NOUN.search(text):
        return None
    for pattern, replacement in _BLANKED + _TIDY + _TIDY:
        text = pattern.sub(replacement, text)
    text = uncapitalise(text.strip())
    words = text.split()
    if not words or len(text) < 4 or _DANGLING.search(text) or _MISSING_WORD.search(text) or _EMPTY_CLAIM.match(text):
        return None
    return None if lint(text) else text


def uncapitalise(text: str) -> str:
    """`text` with a small letter in front, unless its first word is a name or an abbreviation ("PICC", "T-spine", "L1")."""
    word = re.split(r"[\s,;:]", text, maxsplit=1)[0]
    if (
        (word[1:] != word[1:].lower() and not (word.isupper() and len(word) > 4))
        or word in _PROPER_NAMES
        or not word[1:].isalpha()
    ):
        return text if word != "A" else "a" + text[1:]
    return text[:1].lower() + text[1:].replace(word[1:], word[1:].lower(), 1)


def capitalise(text: str) -> str:
    """`text` with a capital in front."""
    return text[:1].upper() + text[1:]
