"""The change over time of the findings of a clause: new, larger, smaller, unchanged or resolved.

A status belongs to the nearest finding before or after it, unless another noun phrase, clause or list item begins
between them. It belongs to a whole list if the list has one predicate ("effusions and edema are both unchanged").
"""

import re
from collections.abc import Sequence

from mimic_cxr_vqa.labeling.cues import STATUS, Cue, find_cues
from mimic_cxr_vqa.labeling.measures import read_measured_change
from mimic_cxr_vqa.labeling.terms import DEVICES, NEGATIVE, FoundTerm, find_limits

# These words end the reach of a temporal status.
_STATUS_ENDS = re.compile(
    r"\bwith(?:out)?\b|;|\bbut\b(?! $)|\b(?:and|no) (?:the|an?|there|no)\b|, (?:and|no|with|the|an?|there)\b"
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


class StatusReader:
    """Reads the status of each finding of one clause.

    Args:
        text: the clause in lower case, without what had been there before.
        whole: the whole clause, for the two sizes of a comparison.
        found: the findings of the clause.
    """

    def __init__(self, text: str, whole: str, found: Sequence[FoundTerm]) -> None:
        self.text, self.found = text, found
        self.cues = list(find_cues(text, STATUS)) if found else []
        self.measured_change = read_measured_change(whole)

    def read(self, one: FoundTerm, polarity: str) -> str | None:
        """The temporal status of a finding."""
        start, end = one.reach
        first, last = find_limits(self.text, (o.reach for o in self.found if o.category != one.category), start, end)
        cues = [cue for cue in self.cues if not (cue.is_size and _OF_A_SIDE.match(self.text, cue.end))]
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
        found = ((_CHANGED_SIDE.match(self.text, cue.end), cue.row.kind) for cue in self.cues)
        changes = {match[1]: kind for match, kind in found if match}
        return changes if len(changes) == 2 else {}

    def _is_shared(self, cue: Cue, device: FoundTerm) -> bool:
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
