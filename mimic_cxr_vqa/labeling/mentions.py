"""Find the mentions of each category in a text, and whether they affirm, deny or doubt it.

As in NegEx and the CheXpert labeler, the lexicon finds the words of a category in each clause, and the cues around them
decide. A cue applies to the words after it ("no effusion, pneumothorax or edema") or before it ("... is not seen"), up
to a word that ends its scope ("with a small ...", "which"). A denied doubt is a denial ("no findings to suggest
pneumonia"), and a doubted denial is a doubt ("pneumonia cannot be excluded").
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mimic_cxr_vqa.labeling.lexicon import FINDINGS, NORMAL, OTHER, SUSPICIOUS
from mimic_cxr_vqa.labeling.sentences import split_clauses, split_sentences
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES, NO_FINDING

POSITIVE, NEGATIVE, UNCERTAIN, NOT_MENTIONED = (LABEL_VALUES[value] for value in (1, 0, -1, None))
OTHER_ABNORMALITY = "Other"  # abnormalities outside the 14 labels, which only No Finding asks for

_SEEN = (
    r"(?:(?:clearly|definitely|well|readily|currently|otherwise|convincingly)\ )?(?:seen|identified|present|visible|"
    r"visuali[sz]ed|evident|appreciated|detected|demonstrated|noted|observed|apparent|shown|found|suspected|included)"
)
_SIZE = r"(?:an?\ )?(?:very\ )?(?:small|mild|moderate|large|tiny|trace|minimal|stable|unchanged|persistent|subtle|new)"
# The kinds are tried in this order, so that "cannot be excluded" is a doubt and its "not" is not a denial.
_CUES = re.compile(
    rf"""\b(?:
    (?P<nothing>
        not?\ (?:(?:significant(?:ly)?|interval|definite|appreciable|substantial|real|much|great)\ )*
            (?:changed?|increased?|decreased?|worsening|improvement|difference)
        |not\ (?:present|seen|visible|evident|identified)\ (?:on|in|at)\ (?:the\ )?(?:prior|previous|earlier)
        |(?:partial|incomplete)\ (?:interval\ )?(?:resolution|clearance|clearing|removal)\ of
        |(?:partially|partly|incompletely|hardly|barely|scarcely)\ (?:resolved|cleared|removed)
        |(?:has|have|is|are)\ (?:partially|partly|incompletely|hardly|barely|scarcely)
            \ (?:resolved|cleared|been\ removed)
        |not\ previously\ {_SEEN}|without\ (?:(?:significant|interval)\ )*(?:change|increase)|not\ only
    )
    |(?P<doubt_behind>
        (?:can\ ?not|could\ not|not|(?:is|are)\ difficult\ to)\ (?:be\ )?
            (?:(?:entirely|completely|fully|definitely)\ )*(?:excluded|ruled\ out)
        |(?:is|are)\ (?:\w+\ )?(?:possible|suspected|questioned|questionable(?!\ for)|unlikely|in\ the\ differential)
        |(?:is|are)\ (?:also\ |not\ )?(?:a\ )?(?:consideration|possibility|concern)|should\ be\ considered|unlikely
        |(?:has|have|is|are)\ (?:nearly|almost|mostly|largely)\ (?:(?:completely|entirely)\ )?
            (?:resolved|cleared|disappeared|gone)
        |(?<!\bit\ )(?:is|are)\ (?:difficult|hard|impossible)\ to\ (?:\w+\ )?(?:exclude|rule\ out)
        |(?:may|might|could)\ not\ be\ {_SEEN}|(?<=:\ )(?:possible|possibly|questionable|equivocal|uncertain)
    )
    |(?P<doubt>
        (?:can\ ?not|could\ not|does\ not|do\ not|difficult\ to|not)\ (?:(?:entirely|completely)\ )?
            (?:exclude|rule\ out)
        |(?:may|might|could|can|would)\ (?:also\ )?
            (?:be|represent|reflect|indicate|relate|suggest|have|correspond|obscure)\w*
        |near(?:ly)?[-\ ]complete\ (?:interval\ )?(?:resolution|clearance|clearing)\ of
        |may|might|possibl[ey]|possibility|probabl[ey]|likely|potentially|perhaps|presumabl[ey]|presumed
        |suspicio(?:us|n)|suspect(?:ed)?|at\ most
        |suggest\w*|concern(?:ing)?\ for|worrisome|questionabl[ey]|question\ of|equivocal
        |versus|vs\.?|differential|rule\ out|r/o|borderline|consider|indeterminate|whether|less\ likely
        |most\ (?:consistent|compatible)\ with
        |(?:xxxx|_{{2,}})\ (?:represent(?:s|ing)?|reflect(?:s|ing)?|relates?|related\ to|indicat(?:es?|ing)
            |secondary\ to)
        |(?<=,\ )(?:xxxx|_{{2,}})(?!\ (?:and|or|of)\b)|(?<=appearance\ )(?:xxxx|_{{2,}})
    )
    |(?P<denial_behind>
        (?:(?:is|are|was|were|has|have)\ )?(?:not|no\ longer)\ (?:definitely\ )?(?:been\ )?{_SEEN}
        |(?:has|have)\ (?:(?!not\b|never\b)\w+\ )?(?:resolved|cleared|been\ removed|disappeared)
        |(?:is|are)\ (?:(?:also|now)\ )?(?:absent|gone|excluded|ruled\ out|(?:\w+\ )?negative(?!\ for))
        |(?:is|are|appears?)\ within\ (?:normal\ limits|limits\ of\ normal)
        |(?:was|were)\ (?:(?!not\b|never\b)\w+\ )?removed|resolved|removed
        |(?<=:\ )(?:none|absent|negative|nil|no(?=\s*(?:[.,;]|$)))
    )
    |(?P<denial>
        no|without|w/o|not|nor|neither|never|negative\ for|(?:free|clear)\ of|absen(?:ce\ of|t)|denies|rather\ than
        |(?:resolution|clearance|clearing|removal)\ of|instead\ of|fails?\ to|lack\ of|unremarkable\ for
    )
    |(?P<end>
        which|where|who
        |(?<!compatible\ )(?<!consistent\ )
            with(?=\ (?:associated|bibasilar|bilateral|left|right|adjacent)\b|\ {_SIZE}\b)
        |(?:there|and)\ (?:is|are|has)|{_SEEN}\ and|and(?=\ (?:(?:at\ most|only|just)\ )?{_SIZE}\b)
    )
    )(?!\w)""",
    re.VERBOSE,
)
_OTHER_STUDY = r"(?:cta?|mri|pet(?:/ct)?|ultrasound|sonogra\w+|mammogra\w+|echocardiogra\w+|scans?)"
_PRIOR = r"(?:prior|previous|earlier|outside|old(?:er)?)"
# A clause about another image: another modality or an earlier study ("on a previous radiograph ... was").
_ELSEWHERE = re.compile(
    rf"\b(?:on|in|by|from|at|per) (?:the |an? |his |her )?(?:[\w-]+ ){{0,3}}?{_OTHER_STUDY}\b"
    rf"|^(?:on|in|at) (?:an?|the|his|her) (?:[\w-]+ ){{0,2}}?{_PRIOR}\b"
    rf"|(?<!not )\b(?:seen|noted|identified|demonstrated|visuali[sz]ed|present) (?:on|in) (?:the |an? )?{_PRIOR}\b"
    r"|\b(?:was|were) (?:previously |formerly )?(?:seen|noted|present|identified|demonstrated) (?:on|in|previously)\b"
)
_HERE_TOO = re.compile(r"\b(?:again|still|persist\w*|remain\w*|redemonstrat\w+|unchanged|stable)\b")
_EXCEPTION = re.compile(r"\b(?:except|aside from|apart from)\b", re.IGNORECASE)
_SIZED_COMMA = re.compile(rf",\s*(?={_SIZE}\b)")
# A second subject with its own verb: "a is larger, and the b has resolved".
_VERB = r"(?:is|are|was|were|has|have|can|cannot|could|remains?|appears?|persists?)"
_HAS_VERB = re.compile(rf"\b{_VERB}\b")
_SUBJECT = re.compile(rf",? and (?P<known>the |left |right )?(?=(?:(?!(?:and|n?or|{_VERB})\b)[\w-]+ ){{1,4}}{_VERB}\b)")
_NOT_EXCLUDED = re.compile(
    r" (?:(?:is|are|can ?not|could not|not|be|to|difficult|hard|\w+ly) )+(?:excluded?|ruled? out)"
)
_CONTRACTION = re.compile(r"\b(?:is|are|was|were|has|have|does|do|did|ca|could)n['’]t\b")
_ASIDE = re.compile(r", (?:however|in fact|of note|in the interval|meanwhile),")
_LIST = re.compile(r"\b(?:n?or|and)\b")
_ALTERNATIVE_BEHIND = re.compile(r"\s*,?\s*(?:and/or|or|/|versus|vs\.?)\s")
_ALTERNATIVE_BEFORE = re.compile(r"\b(?:or|versus|vs\.?)(?: [\w-]+){0,2} $")
_HEART_WORDS = re.compile(r"\bheart\b|\bcardi(?:ac|omegaly)\b|\bcardio-?mediastin", re.IGNORECASE)


@dataclass(frozen=True)
class Mention:
    """One clause that mentions a category.

    Attributes:
        clause: the text of the clause.
        sentence: index of its sentence.
        span: position of the finding in the clause.
        named: whether the finding is named, unlike in "the lungs are clear".
        elsewhere: the clause is about another image ("seen on CT") or about change ("no change in").
        whole: the clause is complete, without an "except for ..." after it.
    """

    category: str
    polarity: str
    clause: str
    sentence: int
    span: tuple[int, int] = (0, 0)
    named: bool = True
    elsewhere: bool = False
    whole: bool = True


@dataclass(frozen=True)
class Analysis:
    """All mentions in one text by category (and `OTHER_ABNORMALITY`), and its number of `sentences`."""

    mentions: dict[str, tuple[Mention, ...]]
    sentences: int

    def of(self, category: str, polarity: str) -> tuple[Mention, ...]:
        """The mentions of `category` with that polarity."""
        return tuple(m for m in self.mentions.get(category, ()) if m.polarity == polarity)

    def polarity(self, category: str) -> str:
        """The polarity of `category` in the text: positive mentions decide, then uncertain, then negative ones.

        Heart is positive if it is mentioned. No Finding is positive if nothing but support devices is abnormal.
        """
        if category == NO_FINDING:
            return self._no_finding()
        found = {mention.polarity for mention in self.mentions.get(category, ())}
        return next((p for p in (POSITIVE, UNCERTAIN, NEGATIVE) if p in found), NOT_MENTIONED)

    def abnormal(self, polarity: str) -> tuple[Mention, ...]:
        """The abnormal mentions with that polarity, in the order of the sentences."""
        found = (
            mention
            for category, mentions in self.mentions.items()
            for mention in mentions
            if mention.polarity == polarity and category not in (HEART, "Support Devices")
        )
        return tuple(sorted(found, key=lambda mention: mention.sentence))

    def _no_finding(self) -> str:
        if self.abnormal(POSITIVE):
            return NEGATIVE
        if self.abnormal(UNCERTAIN):
            return UNCERTAIN
        return POSITIVE if self.sentences else NOT_MENTIONED


def polarity(findings: str, category: str) -> str:
    """The polarity of one of `schema.CATEGORIES`: `positive`, `negative`, `uncertain` or `not_mentioned`.

    Raises:
        ValueError: `category` is unknown.
    """
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r} is unknown. Expected one of {', '.join(CATEGORIES)}.")
    return analyse(findings).polarity(category)


@lru_cache(maxsize=256)
def analyse(findings: str) -> Analysis:
    """Find every mention of every category in a text."""
    mentions: dict[str, list[Mention]] = {}
    sentences = split_sentences(findings)
    for number, sentence in enumerate(sentences):
        whole = not _EXCEPTION.search(sentence)
        for clause in split_clauses(sentence):
            for mention in _clause_mentions(clause, number, whole):
                mentions.setdefault(mention.category, []).append(mention)
    return Analysis({category: tuple(found) for category, found in mentions.items()}, len(sentences))


def _compile(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in patterns)


_FINDINGS = tuple(
    (category, _compile(patterns)) for category, patterns in {**FINDINGS, OTHER_ABNORMALITY: OTHER}.items()
)
_NORMAL = tuple((category, _compile(patterns)) for category, patterns in NORMAL.items() if patterns)
_SUSPICIOUS = tuple((category, _compile(patterns)) for category, patterns in SUSPICIOUS.items())


def _clause_mentions(clause: str, number: int, whole: bool) -> Iterator[Mention]:
    """The mentions of one clause, at most one per category and polarity."""
    text = _CONTRACTION.sub(lambda found: "not".rjust(len(found[0])), clause.lower())  # keeps the length
    cues = list(_CUES.finditer(text))
    subjects = [match for match in _SUBJECT.finditer(text) if _HAS_VERB.search(text, 0, match.start())]
    other_image = bool(_ELSEWHERE.search(text)) and not _HERE_TOO.search(text)

    def mention(category: str, found: str, span: tuple[int, int], elsewhere: bool, named: bool = True) -> Mention:
        return Mention(category, found, clause, number, span, named, elsewhere, whole)

    if _HEART_WORDS.search(text):
        yield mention(HEART, POSITIVE, (0, 0), other_image)
    named = set()
    for category, patterns in _FINDINGS:
        seen = set()
        for span in _spans(patterns, text):
            found, compared = _decide(text, *span, cues, subjects)
            if found == POSITIVE and other_image and category != "Support Devices":
                found = UNCERTAIN
            if found not in seen:
                seen.add(found)
                yield mention(category, found, span, other_image or compared)
        if seen:
            named.add(category)
    for category, patterns in _SUSPICIOUS:
        for span in _spans(patterns, text):
            found, compared = _decide(text, *span, cues, subjects)
            yield mention(category, NEGATIVE if found == NEGATIVE else UNCERTAIN, span, other_image or compared)
            named.add(category)
    for category, patterns in _NORMAL:
        if category not in named and any(pattern.search(text) for pattern in patterns):
            yield mention(category, NEGATIVE, (0, 0), other_image, named=False)


def _spans(patterns: Sequence[re.Pattern[str]], text: str) -> Iterator[tuple[int, int]]:
    """The spans that a cue must reach: the pattern's group if it has one, else the whole match."""
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield match.span(match.lastindex or 0)


def _decide(
    text: str, start: int, end: int, cues: Sequence[re.Match[str]], subjects: Sequence[re.Match[str]]
) -> tuple[str, bool]:
    """The polarity of the words at `start:end`, and whether the clause is about their change ("no change in").

    Args:
        subjects: the starts of further subjects with own verbs, which limit the scope of cues.
    """
    doubt = compared = False
    behind = next((cue for cue in cues if cue.start() > end), None)
    if behind and behind.lastgroup == "doubt_behind" and _NOT_EXCLUDED.fullmatch(text, end, behind.end()):
        return UNCERTAIN, False  # "no effusion, pneumonia is not excluded"
    for cue in reversed(cues):  # nearest first
        if cue.end() > start:
            continue
        if any(cue.end() <= subject.start() < start and subject["known"] for subject in subjects):
            break
        if cue.lastgroup in ("end", "nothing") or _breaks(text, cue.end(), start):
            compared = cue.lastgroup == "nothing"
            break
        if cue.lastgroup == "denial":
            return NEGATIVE, False
        if cue.lastgroup == "denial_behind" and ("no longer" in cue[0] or not cue.start()):
            return NEGATIVE, False  # "no longer enlarged heart", "resolved pneumothorax"
        doubt = doubt or cue.lastgroup == "doubt"
    for cue in cues:  # nearest first
        if cue.start() < end:
            continue
        if any(end <= subject.start() < cue.start() for subject in subjects):
            break
        between = _ASIDE.sub("", text[end : cue.start()])
        if cue.lastgroup in ("end", "doubt", "denial", "nothing") or ("," in between and not _LIST.search(between)):
            break
        if cue.lastgroup == "denial_behind":
            return NEGATIVE, False
        doubt = True  # doubt_behind
        break
    if not doubt:
        doubt = bool(_ALTERNATIVE_BEHIND.match(text, end) or _ALTERNATIVE_BEFORE.search(text, 0, start))
    return UNCERTAIN if doubt else POSITIVE, compared


def _breaks(text: str, cue_end: int, start: int) -> bool:
    """A comma and a size begin a new statement ("no pneumothorax, small effusion"), except in a list."""
    comma = _SIZED_COMMA.search(text, cue_end, start)
    return comma is not None and not re.search(r"\bn?or\b|\w/\w", text[comma.end() :])
