"""Read one clause: its findings, their polarity and their details.

The lexicon finds the words of a category in each clause, and the cues around them (`cues`) decide, as in NegEx and the
CheXpert labeler. A cue applies to the words after it ("no effusion, pneumothorax or edema") or before it ("... is not
seen"), up to a word that ends its scope ("with a small ...", "which"). A denied doubt is a denial ("no findings to
suggest pneumonia"), and a doubted denial is a doubt ("pneumonia cannot be excluded").
"""

import re

from mimic_cxr_vqa.labeling.cues import PLACE, POLARITY, SIZED_COMMA, find_cues
from mimic_cxr_vqa.labeling.fields import Fields, read_fields
from mimic_cxr_vqa.labeling.lexicon import read_patterns
from mimic_cxr_vqa.labeling.temporal_status import StatusReader
from mimic_cxr_vqa.labeling.terms import (
    DEVICES,
    EARLIER_STUDY,
    NEGATIVE,
    OTHER_ABNORMALITY,
    OTHER_MODALITY,
    POSITIVE,
    THIS_STUDY,
    UNCERTAIN,
    FoundTerm,
    find_limits,
    find_terms,
)  # fmt: skip
from mimic_cxr_vqa.schema import HEART

# A second subject with its own verb: "a is larger, and the b has resolved".
_VERB = r"(?:is|are|was|were|has|have|can|cannot|could|should|may|might|would|remains?|appears?|persists?)"
_HAS_VERB = re.compile(rf"\b(?:{_VERB}|involves?|shows?|demonstrates?|contains?|extends?|ends?|lies|abuts?)\b")
_SUBJECT = re.compile(rf",? and (?P<known>the |left |right )?(?=(?:(?!(?:and|n?or|{_VERB})\b)[\w-]+ ){{1,6}}{_VERB}\b)")
_NOT_EXCLUDED = re.compile(
    r" (?:(?:is|are|can ?not|could not|not|be|to|difficult|hard|\w+ly) )+(?:excluded?|ruled? out)"
)
_CONTRACTION = re.compile(r"\b(?:is|are|was|were|has|have|does|do|did|ca|could)n['’]t\b")
_HAD_BEEN = re.compile(
    r",? (?:which|that) (?:had been|was|were) [^,;]*(?:,|$)|, (?:then|previously|formerly|earlier) [^,;]*,|"
    r", (?:seen|noted|identified|present) (?:on|in) (?:the |an? )?(?:prior|previous|earlier)\b"
    r"(?! (?:cta?|mri|pet)\b)[^,;]*,|"
    r"\b(?:measured|had been|was|were) [^,;]*?(?:\band|\bbut|,)(?= (?:now|today|currently)\b)"
)
_ASIDE = re.compile(r", (?:however|in fact|of note|in the interval|meanwhile),")
_LIST = re.compile(r"\b(?:n?or|and)\b")
_ALTERNATIVE_BEHIND = re.compile(r"\s*,?\s*(?:/(?!a?icd\b|pace)|(?:and/or|or|versus|vs\.?)\s)")
_ALTERNATIVE_BEFORE = re.compile(r"\b(?:or|versus|vs\.?)(?: [\w-]+){0,2} $")
# A finding that is only referred to: "the right effusion is larger, and that on the left is unchanged".
REFERENCE = re.compile(
    r"\b(?:(?:that|those|the ones?|(?:an? )?[\w-]+ one) (?:on|at|in) (?:the )?(?:left|right)"
    r"(?: (?:side|(?:upper|mid|middle|lower) (?:lobe|lung|zone)|base|apex))?|"
    r"(?:^|(?<=, )|(?<=and )|(?<=while ))(?:the )?(?:left|right)(?: one)?"
    r"(?=,? (?:which )?(?:has|is|was|remains|appears)\b))"
    r"(?! (?:lung|heart|hemi|(?:is|remains|appears) (?:clear|normal|unremarkable|free|well)))"
)


class ClauseReader:
    """Finds the findings and cues of one clause in lower case, and reads the findings' details."""

    def __init__(self, whole: str, before: set[str]) -> None:
        text = _hide(whole)
        self.text = text
        found = (*find_terms(read_patterns("finding"), False, text), *find_terms(read_patterns("sign"), True, text))
        found = tuple(one for one in found if not self._is_foreign(one.category, *one.span))
        has_device = any(one.category == DEVICES and not self._is_tip(one) for one in found)
        self.found = [one for one in found if not (has_device and self._is_tip(one))]
        self.found += self._read_references(before)
        self.cues = list(find_cues(text, POLARITY)) if self.found else []
        self.status = StatusReader(text, whole, self.found)
        places = list(find_cues(text, PLACE))
        self.past = [cue for cue in places if cue.row.kind == "past"]
        kinds = {cue.row.kind for cue in places}
        elsewhere = next((kind for kind in (OTHER_MODALITY, EARLIER_STUDY) if kind in kinds), THIS_STUDY)
        self.study = THIS_STUDY if "here" in kinds else elsewhere
        self.subjects = [match for match in _SUBJECT.finditer(text) if _HAS_VERB.search(text, 0, match.start())]

    def _read_references(self, before: set[str]) -> list[FoundTerm]:
        """The references to a side of the last finding before them."""
        found = []
        for match in REFERENCE.finditer(self.text):
            last = max((one.span for one in self.found if one.span[1] <= match.start()), default=None)
            categories = {one.category for one in self.found if one.span == last} or before
            for category in sorted(categories - {OTHER_ABNORMALITY, HEART}):
                found.append(FoundTerm(category, False, match.span(), match.span()))
        return found

    def _is_tip(self, one: FoundTerm) -> bool:
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

    def read_fields(self, one: FoundTerm) -> list[Fields]:
        """The details of a finding, one for each side with its own size."""
        start, end = one.span
        others = {other.span for other in self.found if other.category != OTHER_ABNORMALITY} - {one.span}
        for begin, stop in sorted(others):  # "nodular opacity" is one phrase
            if end <= begin and not self.text[end:begin].strip():
                end = stop
        for begin, stop in sorted(others, reverse=True):
            if stop <= start and not self.text[stop:start].strip():
                start = begin
        return read_fields(self.text, start, end, *find_limits(self.text, others, start, end), one.category == DEVICES)

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
                doubts = (other for other in self.cues if other.end <= cue.start and other.row.kind == "doubt")
                is_weighed = cue.row.text.startswith("rather") and any(doubts)
                return UNCERTAIN if is_weighed else NEGATIVE  # "likely a skin fold rather than a pneumothorax"
            if cue.is_kind("denial", "after") and ("no longer" in self.text[cue.start : cue.end] or not cue.start):
                return NEGATIVE  # "no longer enlarged heart", "resolved pneumothorax"
            doubt = doubt or cue.is_kind("doubt", "before")
        return UNCERTAIN if doubt else POSITIVE

    def _read_after(self, end: int) -> str:
        """The polarity from the first cue after a finding, if it applies to the words before it."""
        cue = next((cue for cue in self.cues if cue.start >= end and cue.row.kind != "change"), None)
        if cue is None or cue.row.direction == "before" or cue.row.kind not in ("denial", "doubt"):
            return POSITIVE
        if any(end <= subject.start() < cue.start for subject in self.subjects):
            return POSITIVE
        between = _ASIDE.sub("", self.text[end : cue.start])
        if cue.row.direction == "next" and between.strip():
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


def _hide(text: str) -> str:
    """Text with "not" for "n't" and without what had been there before. Keeps the length."""
    text = _CONTRACTION.sub(lambda found: "not".rjust(len(found[0])), text)
    return _HAD_BEEN.sub(lambda found: " " * len(found[0]), text)
