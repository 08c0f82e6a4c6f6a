"""Find the mentions of each category in a text, with their polarity and details.

The lexicon finds the words of a category in each clause, and the cues around them (`cues`) decide, as in NegEx and the
CheXpert labeler. A cue applies to the words after it ("no effusion, pneumothorax or edema") or before it ("... is not
seen"), up to a word that ends its scope ("with a small ...", "which"). A denied doubt is a denial ("no findings to
suggest pneumonia"), and a doubted denial is a doubt ("pneumonia cannot be excluded").
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from mimic_cxr_vqa.labeling.cues import PLACE, POLARITY, SIZED_COMMA, STATUS, Cue, find_cues
from mimic_cxr_vqa.labeling.fields import Fields, read_fields
from mimic_cxr_vqa.labeling.lexicon import Patterns, read_patterns
from mimic_cxr_vqa.labeling.measures import read_measured_change
from mimic_cxr_vqa.labeling.sentences import split_clauses, split_sentences
from mimic_cxr_vqa.schema import HEART, LABEL_VALUES, NO_FINDING

POSITIVE, NEGATIVE, UNCERTAIN, NOT_MENTIONED = (LABEL_VALUES[value] for value in (1, 0, -1, None))
OTHER_ABNORMALITY = "Other"  # abnormalities outside the 14 labels, which only No Finding asks for
THIS_STUDY, EARLIER_STUDY, OTHER_MODALITY = "this", "earlier", "other"
DEVICES = "Support Devices"

_EXCEPTION = re.compile(r"\b(?:except|aside from|apart from)\b", re.IGNORECASE)
# A second subject with its own verb: "a is larger, and the b has resolved".
_VERB = r"(?:is|are|was|were|has|have|can|cannot|could|remains?|appears?|persists?)"
_HAS_VERB = re.compile(rf"\b(?:{_VERB}|involves?|shows?|demonstrates?|contains?|extends?|ends?|lies|abuts?)\b")
_SUBJECT = re.compile(rf",? and (?P<known>the |left |right )?(?=(?:(?!(?:and|n?or|{_VERB})\b)[\w-]+ ){{1,6}}{_VERB}\b)")
_NOT_EXCLUDED = re.compile(
    r" (?:(?:is|are|can ?not|could not|not|be|to|difficult|hard|\w+ly) )+(?:excluded?|ruled? out)"
)
_CONTRACTION = re.compile(r"\b(?:is|are|was|were|has|have|does|do|did|ca|could)n['’]t\b")
_HAD_BEEN = re.compile(
    r",? (?:which|that) (?:had been|was|were) [^,;]*(?:,|$)|, (?:then|previously|formerly|earlier) [^,;]*,|"
    r"\b(?:measured|had been|was|were) [^,;]*?(?:\band|\bbut|,)(?= (?:now|today|currently)\b)"
)
_NONE_LEFT = re.compile(
    r"\W*(?:(?:today|now|currently),? )?(?:none|nothing|"
    r"(?:it|this|that|they|these|both) (?:has|have|is|are) (?:\w+ )?(?:resolved|cleared|gone|disappeared))\b"
)
_ASIDE = re.compile(r", (?:however|in fact|of note|in the interval|meanwhile),")
_LIST = re.compile(r"\b(?:n?or|and)\b")
_ALTERNATIVE_BEHIND = re.compile(r"\s*,?\s*(?:/(?!a?icd\b|pace)|(?:and/or|or|versus|vs\.?)\s)")
_ALTERNATIVE_BEFORE = re.compile(r"\b(?:or|versus|vs\.?)(?: [\w-]+){0,2} $")
_HEART_WORDS = re.compile(r"\bheart\b|\bcardi(?:ac|omegaly)\b|\bcardio-?mediastin", re.IGNORECASE)
# Between a temporal status and its finding there is none of these.
_STATUS_ENDS = re.compile(
    r"\bwith(?:out)?\b|;|\bbut\b|\b(?:and|no) (?:the|an?|there|no)\b|, (?:and|no|with|the|an?|there)\b"
)
# A finding that is only referred to: "the right effusion is larger, and that on the left is unchanged".
_REFERENCE = re.compile(
    r"\b(?:(?:that|those|the ones?|(?:an? )?[\w-]+ one) (?:on|at|in) (?:the )?(?:left|right)"
    r"(?: (?:side|(?:upper|mid|middle|lower) (?:lobe|lung|zone)|base|apex))?|"
    r"(?:the )?(?:left|right)(?: one)?(?=,? (?:which )?(?:has|is|was|remains|appears)\b))(?! (?:lung|heart|hemi))"
)
_LIST_STATUS_END = re.compile(r"\W*$|[.,;]| (?:since|from|compared|and)\b")
_ADJECTIVES = re.compile(r" (?:(?!(?:in|on|at|with|and|is|are|from|since)\b)[\w-]+ ){0,3}")
# The place of a device, so that what follows is about the next one.
_PLACED = re.compile(
    r"\b(?:in|at|within|into|above|below|near|over\w*|project\w*|terminat\w*|ends?|tips?|coiled|is|has)\b"
)
# Between a finding and the status of a whole list: ", mild edema and right PICC are all", " and atelectasis, ".
_SHARED = re.compile(
    r"(?:(?!\b(?:is|are|has|have|was|were|with(?:out)?|no|there|but|which|that)\b)[^;])*"
    r"(?:\b(?:are|have|were)\b(?: (?:all|both|each|also|been|again))* )|[^,;]*\band\b[^,;]*, |[^;]*\b(?:all|both|each) "
)
_CHANGED_SIDE = re.compile(r" (?:(?:on|in|at) the )?(left|right)(?:-sided)?\b(?! than)")
_OPENING = re.compile(r", there (?:is|are)\b")
_OTHER_SENTENCE = re.compile(r",.*\b(?:is|are|was|were)\b")
_OF_A_SIDE = re.compile(r" (?:than|on)(?: (?:that|on|the|of))* (?:left|right)\b")  # "larger on the left"


@dataclass(frozen=True)
class Mention:
    """A finding in one clause.

    Attributes:
        clause: the text of the clause.
        sentence: index of its sentence.
        span: position of the finding in the clause.
        fields: its sides, sites, size and count.
        status: its change over time (`cues.STATUS`), if the clause gives one.
        study: where it was seen: `THIS_STUDY`, `EARLIER_STUDY` or `OTHER_MODALITY`.
        named: whether the finding is named, unlike in "the lungs are clear".
        is_sign: it is only suggested ("blunting of the costophrenic angle").
        whole: the clause is complete, without an "except for ..." after it.
    """

    category: str
    polarity: str
    clause: str
    sentence: int
    span: tuple[int, int] = (0, 0)
    fields: Fields = Fields()
    status: str | None = None
    study: str = THIS_STUDY
    named: bool = True
    is_sign: bool = False
    whole: bool = True

    @property
    def elsewhere(self) -> bool:
        """Whether the mention is about another image."""
        return self.study != THIS_STUDY


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
        mentions = self.mentions.get(category, ())
        found = {m.polarity for m in mentions if not m.elsewhere} or {m.polarity for m in mentions}
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


@lru_cache(maxsize=256)
def analyse(findings: str) -> Analysis:
    """Find every mention of every category in a text."""
    mentions: dict[str, list[Mention]] = {}
    sentences, before = split_sentences(findings), list[Mention]()
    for number, sentence in enumerate(sentences):
        read, whole = list[Mention](), not _EXCEPTION.search(sentence)
        for clause in split_clauses(sentence):
            last = max((mention.span for mention in before), default=None)
            found = list(_clause_mentions(clause, number, whole, {m.category for m in before if m.span == last}))
            if not found and _NONE_LEFT.match(clause.lower()):  # "today none remains"
                gone = [replace(m, polarity=NEGATIVE, status="resolved", study=THIS_STUDY) for m in before]
                found = [replace(m, fields=replace(m.fields, size=None)) for m in gone]
            read += found
            before = found
        named = {mention.category for mention in read if mention.named and not mention.is_sign}
        for mention in read:
            if not (mention.is_sign and mention.category in named):  # "congestion without edema"
                mentions.setdefault(mention.category, []).append(mention)
    return Analysis({category: tuple(found) for category, found in mentions.items()}, len(sentences))


def _clause_mentions(clause: str, number: int, whole: bool, before: set[str]) -> Iterator[Mention]:
    """The mentions of one clause. Those of one category and polarity are one unless their details differ.

    Args:
        before: the categories of the last mention before the clause, to which "that on the left" refers.
    """
    reader = _ClauseReader(clause.lower(), before)
    text = reader.text
    base = Mention(HEART, POSITIVE, clause, number, study=reader.study, whole=whole)
    if _HEART_WORDS.search(text):
        yield base
    found: list[Mention] = []
    for one in reader.found:
        if one.category != OTHER_ABNORMALITY and reader.is_past(one.reach[0]):
            continue
        polarity = reader.read_polarity(*one.reach)
        if polarity == POSITIVE and (one.is_sign or (reader.study != THIS_STUDY and one.category != DEVICES)):
            polarity = UNCERTAIN
        new = replace(base, category=one.category, polarity=polarity, span=one.reach, is_sign=one.is_sign)
        new = replace(new, status=reader.read_status(one, polarity))
        both = [new]
        if polarity == NEGATIVE and reader.study != THIS_STUDY and reader.is_denied_after(one.reach[1]):
            here = replace(new, study=THIS_STUDY)  # "the nodule on CT is not visible"
            both = [here] if reader.study == EARLIER_STUDY else [here, replace(new, polarity=UNCERTAIN, status=None)]
        changes = reader.read_side_changes()
        for fields in reader.read_fields(one):
            if changes and set(changes) == set(fields.sides) and polarity == POSITIVE:
                both = [replace(new, status=kind) for kind in changes.values()]
                sided = [replace(fields, sides=(side,)) for side in changes]
            else:
                sided = [fields] * len(both)
            for mention, details in zip(both, sided, strict=True):
                _merge(found, replace(mention, fields=details))
    yield from found
    named = {one.category for one in reader.found}
    for category, patterns in read_patterns("normal").items():
        if category not in named and any(pattern.search(text) for pattern in patterns):
            yield replace(base, category=category, polarity=NEGATIVE, named=False)


def _hide(text: str) -> str:
    """Text with "not" for "n't" and without what had been there before. Keeps the length."""
    text = _CONTRACTION.sub(lambda found: "not".rjust(len(found[0])), text)
    return _HAD_BEEN.sub(lambda found: " " * len(found[0]), text)


def _merge(found: list[Mention], new: Mention) -> None:
    """Add a mention, or its details to one of the same finding."""
    for place, old in enumerate(found):
        if (old.category, old.polarity) == (new.category, new.polarity):
            first, last = sorted((old, new), key=lambda mention: mention.span)
            overlap = last.span[0] < first.span[1]
            touch = overlap or new.clause[first.span[1] : last.span[0]] == " "  # "Hickman catheter"
            if (touch or new.category != DEVICES) and not old.fields.conflicts(new.fields):
                longer = max(old, new, key=lambda m: overlap and m.span[1] - m.span[0])
                union = (first.span[0], max(old.span[1], new.span[1]))
                span = union if touch and new.category == DEVICES else longer.span
                found[place] = replace(old, span=span, fields=old.fields | new.fields)
                return
    found.append(new)


class _Found(NamedTuple):
    """A match of the lexicon: its span, and the part of it that a cue must reach."""

    category: str
    is_sign: bool
    span: tuple[int, int]
    reach: tuple[int, int]


def _find(table: Patterns, is_sign: bool, text: str) -> Iterator[_Found]:
    for category, patterns in table.items():
        for pattern in patterns:
            for match in pattern.finditer(text):
                yield _Found(category, is_sign, match.span(), match.span(match.lastindex or 0))


class _ClauseReader:
    """Finds the findings and cues of one clause in lower case, and reads the findings' details."""

    def __init__(self, whole: str, before: set[str]) -> None:
        text = _hide(whole)
        self.text, self.measured_change = text, read_measured_change(whole)
        found = (*_find(read_patterns("finding"), False, text), *_find(read_patterns("sign"), True, text))
        found = tuple(one for one in found if not self._is_foreign(one.category, *one.span))
        has_device = any(one.category == DEVICES and not self._is_tip(one) for one in found)
        self.found = [one for one in found if not (has_device and self._is_tip(one))]
        self.found += self._read_references(before)
        self.cues = list(find_cues(text, POLARITY)) if self.found else []
        self.status_cues = list(find_cues(text, STATUS)) if self.found else []
        places = list(find_cues(text, PLACE))
        self.past = [cue for cue in places if cue.row.kind == "past"]
        kinds = {cue.row.kind for cue in places}
        elsewhere = next((kind for kind in (OTHER_MODALITY, EARLIER_STUDY) if kind in kinds), THIS_STUDY)
        self.study = THIS_STUDY if "here" in kinds else elsewhere
        self.subjects = [match for match in _SUBJECT.finditer(text) if _HAS_VERB.search(text, 0, match.start())]

    def _read_references(self, before: set[str]) -> list[_Found]:
        """The references to a side of the last finding before them."""
        found = []
        for match in _REFERENCE.finditer(self.text):
            last = max((one.span for one in self.found if one.span[1] <= match.start()), default=None)
            categories = {one.category for one in self.found if one.span == last} or before
            for category in sorted(categories - {OTHER_ABNORMALITY, HEART}):
                found.append(_Found(category, False, match.span(), match.span()))
        return found

    def _is_tip(self, one: _Found) -> bool:
        """Whether only the tip of a device is named."""
        return one.category == DEVICES and self.text.startswith("tip", one.span[0])

    def _is_foreign(self, category: str, start: int, end: int) -> bool:
        before, after = (read_patterns(f"foreign {place}").get(category, ()) for place in ("before", "after"))
        return any(p.search(self.text, 0, start) for p in before) or any(p.match(self.text, end) for p in after)

    def is_past(self, start: int) -> bool:
        """Whether a finding belongs to the patient's history."""
        return any(
            cue.end <= start and not re.search(r"[,;]|\bwith\b", self.text[cue.end : start]) for cue in self.past
        )

    def read_fields(self, one: _Found) -> list[Fields]:
        """The details of a finding, one for each side with its own size."""
        start, end = one.span
        others = {other.span for other in self.found if other.category != OTHER_ABNORMALITY} - {one.span}
        for begin, stop in sorted(others):  # "nodular opacity" is one phrase
            if end <= begin and not self.text[end:begin].strip():
                end = stop
        for begin, stop in sorted(others, reverse=True):
            if stop <= start and not self.text[stop:start].strip():
                start = begin
        return read_fields(self.text, start, end, *self._limits(others, start, end), one.category == DEVICES)

    def _limits(self, others: Iterable[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
        """The end of the finding before `start` and the beginning of the one after `end`."""
        others = list(others)
        first = max((stop for _, stop in others if stop <= start), default=0)
        return first, min((begin for begin, _ in others if begin >= end), default=len(self.text))

    def read_status(self, one: _Found, polarity: str) -> str | None:
        """The temporal status of a finding."""
        start, end = one.reach
        first, last = self._limits((o.reach for o in self.found if o.category != one.category), start, end)
        cues = [cue for cue in self.status_cues if not (cue.is_size and _OF_A_SIDE.match(self.text, cue.end))]
        if one.category == DEVICES:
            cues = [cue for cue in cues if not cue.is_size and self._is_shared(cue, one)]
        before = [c for c in cues if first <= c.start and c.end <= end]
        before = [c for c in before if not self._ends_status(self._skip_opening(c), start)]
        before = [c for c in before if not _OTHER_SENTENCE.search(self.text, self._skip_opening(c), max(c.end, start))]
        after = [c for c in cues if end <= c.start and c.end <= last and not self._ends_status(end, c.start)]
        after = [c for c in after if last == len(self.text) or not self._is_of_next(c, last)]
        after = [c for c in after if not self.text.endswith(" of", 0, c.end)]  # "after removal of the tube"
        shared = [c for c in cues if end <= c.start and self._is_of_list(end, c)]
        found = before[-1:] or after[:1] or shared[:1]
        measured = self.measured_change if one.category != DEVICES else None
        status = found[0].row.kind if found else measured
        return status if (status == "resolved") == (polarity == NEGATIVE) else None

    def _is_of_next(self, cue: Cue, start: int) -> bool:
        """Whether a status begins the noun phrase of the finding at `start`: ", stable cardiomegaly"."""
        is_start = self.text[: cue.start].endswith((", ", "and "))
        return is_start and bool(_ADJECTIVES.fullmatch(self.text, cue.end, start))

    def _is_of_list(self, end: int, cue: Cue) -> bool:
        """Whether a status is about all findings of the list before it."""
        return bool(_SHARED.fullmatch(self.text, end, cue.start) and _LIST_STATUS_END.match(self.text, cue.end))

    def read_side_changes(self) -> dict[str, str]:
        """Side -> change if both sides have one of their own: "increasing left and stable right effusions"."""
        found = ((_CHANGED_SIDE.match(self.text, cue.end), cue.row.kind) for cue in self.status_cues)
        changes = {match[1]: kind for match, kind in found if match}
        return changes if len(changes) == 2 else {}

    def _is_shared(self, cue: Cue, device: _Found) -> bool:
        """Whether only a list of devices is between a status and a device ("unchanged tube and line")."""
        others = [one.span for one in self.found if one.category == DEVICES and one.span != device.span]
        start, end = min(cue.end, device.span[1]), max(cue.start, device.span[0])
        between = [span for span in others if start <= span[0] and span[1] <= end]
        return not (between and _PLACED.search(self.text, start, end))

    def _skip_opening(self, cue: Cue) -> int:
        """The end of a cue, with "there is" if the cue opens the clause: "as before, there is"."""
        opening = _OPENING.match(self.text, cue.end) if not cue.start else None
        return opening.end() if opening else cue.end

    def _ends_status(self, start: int, end: int) -> bool:
        return bool(_STATUS_ENDS.search(self.text, start, max(start, end)))

    def read_polarity(self, start: int, end: int) -> str:
        """The polarity of the finding at `start:end`."""
        behind = next((cue for cue in self.cues if cue.start > end), None)
        if behind and behind.is_kind("doubt", "after") and _NOT_EXCLUDED.fullmatch(self.text, end, behind.end):
            return UNCERTAIN  # "no effusion, pneumonia is not excluded"
        before = self._read_before(start)
        if before == NEGATIVE:
            return NEGATIVE
        after = self._read_after(end)
        if after == NEGATIVE:
            return NEGATIVE
        is_alternative = _ALTERNATIVE_BEHIND.match(self.text, end) or _ALTERNATIVE_BEFORE.search(self.text, 0, start)
        return UNCERTAIN if UNCERTAIN in (before, after) or is_alternative else POSITIVE

    def _read_before(self, start: int) -> str:
        """The polarity from the cues before a finding, nearest first."""
        doubt = False
        for cue in reversed([cue for cue in self.cues if cue.end <= start]):
            if any(cue.end <= subject.start() < start and subject["known"] for subject in self.subjects):
                break
            if cue.row.kind in ("end", "change") or self._is_new_item(cue.end, start):
                break
            if cue.is_kind("denial", "before"):
                return NEGATIVE
            if cue.is_kind("denial", "after") and ("no longer" in self.text[cue.start : cue.end] or not cue.start):
                return NEGATIVE  # "no longer enlarged heart", "resolved pneumothorax"
            doubt = doubt or cue.is_kind("doubt", "before")
        return UNCERTAIN if doubt else POSITIVE

    def _read_after(self, end: int) -> str:
        """The polarity from the first cue after a finding, if it applies to the words before it."""
        cue = next((cue for cue in self.cues if cue.start >= end), None)
        if cue is None or cue.row.direction == "before" or cue.row.kind not in ("denial", "doubt"):
            return POSITIVE
        if any(end <= subject.start() < cue.start for subject in self.subjects):
            return POSITIVE
        between = _ASIDE.sub("", self.text[end : cue.start])
        if self.text[cue.start : cue.end] == "removal" and between.strip():
            return POSITIVE  # "pneumothorax after chest tube removal"
        if "," in between and not _LIST.search(between):
            return POSITIVE
        return NEGATIVE if cue.row.kind == "denial" else UNCERTAIN

    def is_denied_after(self, end: int) -> bool:
        """Whether the words after a finding deny it."""
        return self._read_after(end) == NEGATIVE

    def _is_new_item(self, cue_end: int, start: int) -> bool:
        """A comma and a size begin a new statement ("no pneumothorax, small effusion"), except in a list."""
        comma = SIZED_COMMA.search(self.text, cue_end, start)
        return comma is not None and not re.search(r"\bn?or\b|\w/\w", self.text[comma.end() :])
