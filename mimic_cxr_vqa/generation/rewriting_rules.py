"""The tables behind `rewriting`: what is taken out of a report's clause or replaced in it, in the order of application.

Four passes: comparison with other studies goes (`COMPARISONS`), blanked words (`XXXX`, `___`) are mended where one
word alone can have stood there and taken out elsewhere (`MENDED_BLANKS`, `BLANKS`), telegram style gets its verb and
article (`TELEGRAM`), and what the passes leave behind is tidied (`TIDY`). The other patterns say when a clause is
given up.
"""

import re
from collections.abc import Callable

Rules = tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]

_I = re.IGNORECASE
_PRIOR = (
    r"(?:prior|previous|earlier|last|most recent|recent|older|comparison|outside|preceding|multiple previous|today|"
    r"yesterday)"
)
_STUDY = r"(?:stud(?:y|ies)|exam(?:ination)?s?|radiographs?|films?|x-?(?:rays?|xxxx)|chest|images?|ct|ones?|dates?)"
_CHANGED = r"(?:increased|decreased|worsened|improved|progressed|enlarged|changed|diminished|evolved|altered|recurred)"
_GONE = r"(?:\w+ly )?(?:been )?(?:interval )?(?:resolved|cleared|removed|disappeared)\b"
_CHANGE = (
    r"(?:placement|development|appearance|insertion|increase|decrease|improvement|worsening|progression|change|"
    r"redemonstration)s?"
)
_HOW = (
    r"(?:slightly|mildly|minimally|markedly|significantly|grossly|relatively|essentially|overall|generally|somewhat|"
    r"largely|very|not significantly)"
)
_ASPECT = (
    r"(?: (?:in|on) (?:overall )?(?:appearance|size|position|configuration|contour|extent|number|volume)s?"
    r"(?: and \w+)?)?"
)
_SEEN = r"(?:seen|noted|present|identified|demonstrated|visuali[sz]ed|evident|visible)"
_SAME = r"(?:stable|unchanged|similar|persistent|recurrent|the same)"
_ORGANS_ONLY = r"(?:(?:mediastinal|hilar|cardiac|cardiomediastinal|and|superior|heart|bony|osseous) )+"


def _rules(*pairs: tuple[str, str | Callable[[re.Match[str]], str]], flags: int = _I) -> Rules:
    return tuple((re.compile(pattern, flags), replacement) for pattern, replacement in pairs)


COMPARISONS = _rules(
    # phrases that point at another study
    (rf",?\s*\bnot (?:present|seen|visible|evident|identified) (?:on|in|at) (?:the )?{_PRIOR}\b[^,;.()]*", ""),
    (rf",?\s*\bnot previously {_SEEN}", ""),
    (r",?\s*\b(?:when |as )?(?:compared?|comparing|in comparison) (?:to|with) [^,;.()]*", ""),
    (rf",?\s*\b(?:similar|relative|{_SAME}) (?:to|with|in comparison to) (?:the |that on )?{_PRIOR}\b[^,;.()]*", ""),
    (rf",?\s*\b{_SAME}?\s*(?:since|from|on|over|across) (?:the |an? |her |his )?(?:\w+ )?{_PRIOR}\b[^,;.()]*", ""),
    (rf",?\s*\b(?:which|that) (?:is|are|was|were|has|have|appears?)(?: been| \w+ly)? {_SAME}\b[^,;.]*", ""),
    (rf"\b(is|are) {_SAME} (?:since|from) (?:the )?XXXX(?=[,.]| and| with|$)", r"\1 seen"),
    (rf",?\s*\b(?:{_SAME}|new|worse|{_CHANGED})?\s*(?:since|from) (?:the )?XXXX(?=[,.]| and| with|$)", ""),
    # phrases that point at the report
    (
        r"\bas (?:was |were )?(?:previously )?(?:described|mentioned|noted|seen|reported|above|before|discussed)"
        r"(?: (?:above|below|previously|before))?",
        "",
    ),
    (r"\b(?:described|mentioned|noted|reported) (?:above|below)\b", ""),
    (r"\b(?:previously |prior |already )(?:described|mentioned|noted|reported|seen|identified|documented)\b", ""),
    (rf"\b(?:the )?{_PRIOR} (?:report|{_STUDY})\b", ""),
    (r"\bthis report\b|\bthe report\b", "the radiograph"),
    # what has gone
    (rf"\bhas {_GONE}", "is not seen"),
    (rf"\bhave {_GONE}", "are not seen"),
    (r"\bno longer\b", "not"),
    # what has come: "there has been interval placement of a tube" -> "there is a tube"
    (rf"\bthere (?:has|have) been (?:an? )?(?:{_HOW} )?(?:interval )?{_CHANGE} (?:of|in)(?: the)?\b", "there is"),
    (rf"\bthere (?:is|are) (?:an? )?(?:{_HOW} )?(?:interval )?(?:{_CHANGE}) (?:of|in)(?: the)?\b", "there is"),
    (r"\bthere (?:has|have) been\b", "there is"),
    (r"\bin the (?:interval|interim|meantime)\b,?", ""),
    (
        rf"\b(?:no|without) (?:\w+ )?(?:interval )?changes? (?:in|of)(?: the)?(?: {_CHANGE[:-2]}| size|"
        rf" position)? ?(?:of )?(?:the\b)?",
        "",
    ),
    (rf"\b(?:an? )?(?:{_HOW} )?(?:interval|relative|new) {_CHANGE} (?:of|in)\b(?: the)?", ""),
    (r"\b(?:stable|unchanged|similar) (?:appearance|position|size|configuration) of\b(?: the)?", ""),
    (rf"^(?:{_HOW} )?(?:redemonstration|improvement|worsening|progression) (?:of|in)\b(?: the)?", ""),
    (
        r",? (?:slightly |mildly )?(?:increased|decreased|larger|smaller) in (?:size|number|"
        r"extent)(?: and \w+)?(?=,|$|\.)",
        "",
    ),
    (
        rf",\s*(?:with )?(?:{_HOW} )?(?:interval )?(?:larger|smaller|worse|greater|increase|decrease|worsening|"
        rf"progression|improvement|enlargement|{_CHANGED})(?=$|[.,;])",
        "",
    ),
    # verbs of change
    (rf"\bhas (?:{_HOW} )?remained\b|\bremains\b|\bcontinues to be\b|\bhas become\b", "is"),
    (rf"\bhave (?:{_HOW} )?remained\b|\bremain(?:ed)?\b|\bcontinue to be\b|\bhave become\b", "are"),
    (rf"\bhas (?:also )?(?:{_HOW} )?(?:been )?{_CHANGED}{_ASPECT}", "is seen"),
    (rf"\bhave (?:also )?(?:{_HOW} )?(?:been )?{_CHANGED}{_ASPECT}", "are seen"),
    (r"\bpersists\b|\brecurs\b", "is seen"),
    (r"\bpersist\b|\brecur\b", "are seen"),
    # "is stable and within normal limits" -> "is within normal limits"; "is stable in size" -> "is seen"
    (
        rf"(?<!there )\b(is|are|appears?)(?: again| grossly| {_HOW})* {_SAME}{_ASPECT} (?:and|but) (?!stable)(?=\w)",
        r"\1 ",
    ),
    (rf"\bappears (?:{_HOW} )?{_SAME}\b{_ASPECT}", "is seen"),
    (rf"\bappear (?:{_HOW} )?{_SAME}\b{_ASPECT}", "are seen"),
    (rf"(?<!there )\b(is|are)(?: \w+ly| again)? (?:{_SAME}|new)\b{_ASPECT}", r"\1 seen"),
    (rf"\b(is|are) (?:once )?again (?!{_SEEN})", r"\1 "),
    # a silhouette of which only stability was said
    (
        rf"(?:^|,)\s*(?:and )?(?:stable|unchanged) {_ORGANS_ONLY}(?:contours?|silhouettes?|structures?|"
        rf"appearance)\b(?! with| is| are)",
        "",
    ),
    (
        r"\b(?:and|but) (?:stable|unchanged)\b|\b(?:stable|unchanged) and\b|\b(?:stable|unchanged|"
        r"similar)[- ]appearing\b",
        "",
    ),
    # adjectives and adverbs
    (r"\bworse than\b", "greater than"),
    (r"\b(?:the )?remaining\b", "the other"),
    (r"\bredemonstrated\b|\bre-demonstrated\b", "seen"),
    (
        r"\b(?:unchanged|stabl[ey]|new(?:ly)?(?: (?:appearing|placed|developed))?|worsen(?:ing|ed)|improv(?:ing|"
        r"ed)|evolving|"
        r"resolving|resolved|persistent(?:ly)?|ongoing|recurrent|progressive(?:ly)?|interval|previous(?:ly)?|prior|"
        r"(?:once )?again|"
        r"still|now|currently|redemonstration of)\b(?!-)",
        "",
    ),
    (r"\b(?:increasing|decreasing|increase in|decrease in|alteration in)\b", ""),
)  # fmt: skip

_BLANK = r"(?:x-?)?XXXX(?:['’]s)?"  # `rewriting` turns ___ into XXXX first
MENDED_BLANKS = _rules(
    # one word alone follows or precedes here in practice
    (r"\b(costophrenic|cardiophrenic) XXXX", r"\1 angle"),
    (r"\b([Ss]ternotomy) XXXX", r"\1 wires"),
    (r"\b([Ll]ymph) XXXX", r"\1 nodes"),
    (r"\baortic XXXX", "aorta"),
    (r"\bmost XXXX\b", "most likely"),
    (r"\bXXXX-a-XXXX", "Port-A-Cath"),
    (r"\bXXXX-of-view", "field-of-view"),
    (r"\b(is|are) in XXXX", r"\1 in place"),
    (r"\b(both|bilateral|and) lung XXXX", r"\1 lungs"),
    (r"^Lung XXXX", "lungs"),
    (r"\bchest XXXX(?= (?:with|tip|is|terminat))", "chest device"),  # only a device has a tip
    # `mentions` takes the hidden word for a hedge, and so does the reader of this
    (r"^([Tt]his|[Tt]hese|[Ii]t) XXXX (represent|reflect|relate|indicate)(s?)\b", r"\1 possibly \2\3"),
    (r",?(?: which| that)? XXXX (represent|reflect|indicat|relat)e?s?\b", r", possibly \1ing"),
    (r",?(?: which| that)? XXXX (related|secondary) to\b", r", possibly \1 to"),
    # "compatible with remote XXXX": the diagnosis itself is hidden
    (
        r"[,\s]*\b(?:compatible with|consistent with|secondary to|related to|due to|status post|representing|"
        r"suggesting|from)"
        rf" (?:an? |the )?(?:[a-z]+ ){{0,2}}{_BLANK}(?=\s*(?:[.,;]|$|is\b|are\b))",
        "",
    ),
    flags=0,
)
# A noun that was blanked behind its adjective or article: the clause cannot be mended.
LOST_NOUN = re.compile(
    r"\b(?:pulmonary|bony|soft|the|an?|osseous|of|and|visualized|left|right|left-sided|right-sided|hilar|"
    r"suprahilar|perihilar|"
    rf"mediastinal|both|to|large|small|with)\s+{_BLANK}(?=\s*(?:and|or|is|are|in|of|within|with|appears?|"
    rf"bilaterally|to|from|on|,|;|\.|$))"
    # a verb or preposition that was blanked: "leads XXXX the thorax"
    rf"|\w\s+{_BLANK}\s+(?:the|an?)\b",
    _I,
)
BLANKS = _rules(
    (rf"[,(]?\s*\b(?:on|at|dated|from|of|by|in|to|per|since) (?:the )?(?:{_BLANK}[\s,/.:]*)+(?=[.,;)]|$)\)?", ""),
    (rf",\s*(?:and )?{_BLANK}(?=\s*,)|\s*{_BLANK}(?=\s*,)", ""),
    (rf"\b([a-z]+), {_BLANK} (?=[a-z]+ (?:opacit|densit|markings|projected))", r"\1 "),
    (rf"(?:{_BLANK}\s*)+", ""),
    flags=0,
)

_ORGAN = (
    r"(heart size|heart|cardiac silhouette|cardiac|cardiomediastinal|cardio-?mediastinal|lungs?|mediastin(?:um|al)|"
    r"pulmonary (?:vasc\w+|arter\w+|interstitium)|vascularity|vasculature|osseous structures|osseous|bony|bones|"
    r"costophrenic|"
    r"pleural spaces?|trachea|aorta|hil(?:a|ar)|visuali[sz]ed|soft tissues|hemidiaphragms?|diaphragms?)"
)
_STATE = (
    r"(?:(?:(?:slightly|mildly|moderately|markedly|severely|grossly|normally|borderline|well)(?: to)?[ -])*"
    r"(?:normal|clear|enlarged|unremarkable|intact|tortuous|expanded|inflated|midline|sharp)(?: (?:in|limits|"
    r"bilaterally|for|and)\b.*)?$"
    r"|within (?:the )?normal|at (?:the )?upper|upper (?:limits|normal)|top[- ]normal)"
)  # fmt: skip


def _add_verb(match: re.Match[str]) -> str:
    words = f"{match[1]}{match[2]}"
    if re.search(r"\b(?:is|are|appears?|has|have|was|were|with|no|not|without|both|to|mildly|slightly)\b", words, _I):
        return match[0]
    many = bool(re.search(r"\band\b", words)) or words.endswith(("s", "hila"))
    return f"{words} {'are' if many else 'is'} "


TELEGRAM = _rules(
    (
        r"^(?:the )?(?:[\w-]+[ ,]+){0,6}?(?:views?|radiographs?|examination|images?|films?)(?: of the chest)?"
        r" (?:show|demonstrate|reveal)s? ",
        "",
    ),
    (r", (may|might|could|likely|probably|possibly) (reflect|represent|be|indicate|relate)(s?)\b", r", which \1 \2\3"),
    (
        rf"^{_ORGAN}((?: [\w-]+){{0,3}}?)"
        rf" (?={_STATE})(?<!is )(?<!are )(?<!appears )(?<!appear )(?<!ly )(?<!not )(?<!and )",
        _add_verb,
    ),
    (rf"^(?=(?:left |right |bilateral )?{_ORGAN}\b.*\b(?:is|are|appears?|has|have)\b)", "the "),
    (r"\b(is|are) (upper limits|top limits)", r"\1 at the \2"),
)  # fmt: skip

TIDY = _rules(
    (r"\(\s*\)|\[\s*\]", ""),
    (r"\s+", " "),
    (r"\b(there (?:is|are)),", r"\1"),
    (r"\s+([,.;:)])", r"\1"),
    (r"([,;:])(?:\s*[,;:])+", r"\1"),
    (r"\.{2,}|\s+\.", "."),
    (r"\b(is|are) seen seen\b", r"\1 seen"),
    (r"\b(?:and|or) (?=(?:and|or)\b)", ""),
    (r"\b([a-z]+) \1\b", r"\1"),
    (r"^[\s,;:.)]+|^(?:and|or|with|of|also|additionally|otherwise|overall|the (?=there ))\b[\s,]*|[\s,;:.(-]+$", ""),
    (r",? (?:and|or|but|which|that)(?=\.|$)|\s+(?:is|are|appears?)$", ""),
    (
        r"\bthere is (?=(?:[\w-]+ ){0,2}(?:opacities|effusions|nodules|changes|granulomas|markings|fractures|wires|"
        r"leads)\b)",
        "there are ",
    ),
    (r"\ba(?= (?:[aio]|e(?!u)|u(?!ni|su|re)))", "an"),
    (r"\ban(?= [b-df-gj-np-tv-z])", "a"),
    (r"\s+(?:also|otherwise|too)$", ""),
) + _rules(  # capitals within the clause: "the Heart size"
    (r"\b[tT]he (?!Kerley|Bochdalek|Morgagni)[A-Z][a-z]+\b(?!-)", lambda match: match[0].lower()),
    flags=0,
)

# Not a finding: advice, and what is known from elsewhere.
ADVICE = re.compile(
    r"\brecommend\w*|\bfollow-?\s?up\b|\b(?:ct|mri|ultrasound|imaging|correlat\w+|evaluation|radiographs?|views?)"
    r" (?:\w+ ){0,4}"
    r"(?:may|could|would|is|are|can) (?:\w+ )?(?:be )?(?:helpful|useful|suggested|advised|considered|obtained|"
    r"warranted|needed)|"
    r"\bfurther (?:evaluation|characteri[sz]ation)\b|\bcorrelat(?:e|ion)\b|\bdiscussed\b|\bnotified\b|\btelephone|"
    r"\bDr\.",
    _I,
)
HISTORY = re.compile(
    rf"^(?:on|in|at) (?:an?|the) {_PRIOR}\b|\bwas (?:seen|present|noted|demonstrated) (?:on|in|previously)", _I
)
DANGLING = re.compile(
    r"(?:^|\s)(?:of|the|a|an|with|in|to|on|at|by|from|is|are|for|and|or|as|than|appears?|be|been|has|have|which|"
    r"that|may|no|near|"
    r"over|into|remote|old|recent|likely|most|possibly|since|compatible|consistent)$|\ba the\b|^(?:could|may|might|"
    r"is|are|has|have|was)\b|\bthis (?:shows|has)\b",
    _I,
)
MISSING_WORD = re.compile(
    r"\b(?:no|the|an?|of|with|in|and|or|pulmonary) (?:of|is|are|and|or|with|to)\b|\b(?:is|are) (?:is|are|of)\b|"
    r"\bthere (?:is|are) (?:of|in|and|with|not)\b|\b(?:in|of) the (?:bilaterally|in|with)\b",
    _I,
)
_NEUTRAL = """
the there is are a an and of in with seen appear appears noted present again heart cardiac cardiomediastinal mediastinal
mediastinum hilar hila silhouette silhouettes contour contours lung lungs pulmonary vasculature vascularity size
appearance position exam examination chest aorta aortic thoracic left right both bilateral superior osseous bony
structures shape configuration
"""
NEUTRAL_WORDS = frozenset(_NEUTRAL.split())
