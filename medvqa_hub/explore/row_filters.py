"""Find the rows that match a filter, one page of studies at a time.

Category, label and flag are masks over the index. Texts and the answers of runs have to be read from the shards. A scan
reads row groups in order until the page is full or the time is up, and remembers its results.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_hub.explore.row_index import LABELS, RowGroup, RowIndex, open_shard
from medvqa_hub.explore.runs import DIFFERENCES
from medvqa_hub.explore.verdicts import CHOICES
from mimic_cxr_vqa.schema import CATEGORIES

PAGE = 20  # studies
TIME_PER_PAGE = 0.12  # seconds
SCANS_KEPT = 6
SHORTEST_TEXT, LONGEST_TEXT = 2, 200  # characters

# (row group, mask of its candidate rows, filter) -> mask of the rows whose answers and verdicts match
AnswerTest = Callable[[RowGroup, np.ndarray, "RowFilter"], np.ndarray]


@dataclass(frozen=True)
class RowFilter:
    """Conditions on rows. None and "" match every row. A study is shown if one of its rows matches.

    Attributes:
        text: substring of question or answer, ignoring case.
        difference: one of `runs.DIFFERENCES`.
        verdict: one of `verdicts.CHOICES`.
    """

    split: str | None = None
    category: str | None = None
    label: str | None = None
    flag: str | None = None
    text: str = ""
    difference: str | None = None
    verdict: str | None = None

    def check(self, index: RowIndex) -> None:
        """Raise InputError if a name is unknown."""
        allowed = {
            "split": index.splits,
            "category": CATEGORIES,
            "label": LABELS,
            "flag": index.flags[0] if self.flag else (),
            "difference": tuple(DIFFERENCES),
            "verdict": tuple(CHOICES),
        }
        for name, names in allowed.items():
            value = getattr(self, name)
            if value is not None and value not in names:
                raise InputError(f"{name} {value!r} is unknown. Expected {', '.join(names)}.")
        if len(self.text) > LONGEST_TEXT:
            raise InputError(f"the search text has {len(self.text):,} characters. The limit is {LONGEST_TEXT}.")
        if self.text and len(self.text) < SHORTEST_TEXT:
            raise InputError(f"the search text needs at least {SHORTEST_TEXT} characters")

    @property
    def is_scan(self) -> bool:
        """Whether rows have to be read from the shards."""
        return bool(self.text) or self.difference is not None or self.verdict is not None


@dataclass(frozen=True)
class FilterResult:
    """One page of studies.

    Attributes:
        studies: positions of the studies.
        rows: number of matching rows of each study.
        next: start of the next page, or None.
        previous: start of the previous page, or None.
        total: number of all matching studies. None until all rows have been read.
        looked: share of the rows that have been read.
    """

    studies: list[int]
    rows: list[int]
    next: int | None
    previous: int | None
    total: int | None
    looked: float


class RowSearch:
    """Pages of studies that match filters. Thread-safe."""

    def __init__(self, index: RowIndex, test: AnswerTest | None = None) -> None:
        self._index, self._test = index, test
        self._lock = threading.Lock()
        self._scans: OrderedDict[RowFilter, _Scan] = OrderedDict()

    def page(self, wanted: RowFilter, at: int = 0, size: int = PAGE) -> FilterResult:
        """The first `size` matching studies from position `at`. Raises InputError if the filter is not valid."""
        wanted.check(self._index)
        with self._lock:
            scan = self._scans.pop(wanted, None) or _Scan(self._index, wanted, self._test)
            self._scans[wanted] = scan
            if len(self._scans) > SCANS_KEPT:
                self._scans.popitem(last=False)
            return scan.page(max(0, at), size)

    def mask(self, wanted: RowFilter, study: int) -> list[bool]:
        """Which rows of a study match."""
        wanted.check(self._index)
        with self._lock:
            scan = self._scans.get(wanted) or _Scan(self._index, wanted, self._test)
            return scan.mask(study)


class _Scan:
    """The matching rows of one filter. `_wanted` is final in the row groups that are `_done`."""

    def __init__(self, index: RowIndex, wanted: RowFilter, test: AnswerTest | None) -> None:
        self._index, self._filter, self._test = index, wanted, test
        self._wanted = _cheap_mask(index, wanted)
        self._done = np.array([not wanted.is_scan or not self._rows_in(group).any() for group in index.groups])
        self._firsts = np.array([group.first for group in index.groups])
        self._is_hit = np.logical_or.reduceat(self._wanted, index.starts[:-1])  # for each study
        self._hits = np.flatnonzero(self._is_hit)

    def page(self, at: int, size: int) -> FilterResult:
        deadline, is_late = time.monotonic() + TIME_PER_PAGE, False
        while True:
            known = self._known_studies()
            found = self._hits[np.searchsorted(self._hits, at) :]
            found = found[found < known][: size + 1]
            if len(found) > size or known == self._index.studies:
                break
            if is_late:
                return self._as_hits(at, found[:size], known)
            self._look(int(np.flatnonzero(~self._done)[0]))
            is_late = time.monotonic() > deadline
        following = int(found[size]) if len(found) > size else None
        return self._as_hits(at, found[:size], following)

    def mask(self, study: int) -> list[bool]:
        first, end = self._index.row_range(study)
        for number, group in enumerate(self._index.groups):
            if group.first < end and first < group.first + group.rows and not self._done[number]:
                self._look(number)
        return self._wanted[first:end].tolist()

    def _as_hits(self, at: int, found: np.ndarray, following: int | None) -> FilterResult:
        is_whole = bool(self._done.all())
        before = self._hits[: np.searchsorted(self._hits, at)]
        looked = sum(g.rows for g, done in zip(self._index.groups, self._done, strict=True) if done) / self._index.rows
        previous = int(before[max(0, len(before) - PAGE)]) if len(before) else None
        ends = [self._index.row_range(place) for place in found.tolist()]
        counts = [int(self._wanted[first:end].sum()) for first, end in ends]
        total = len(self._hits) if is_whole else None
        return FilterResult(found.tolist(), counts, following, previous, total, looked)

    def _known_studies(self) -> int:
        """Number of studies whose rows, and all rows before them, have been read."""
        undone = np.flatnonzero(~self._done)
        if not len(undone):
            return self._index.studies
        return int(np.searchsorted(self._index.starts, self._firsts[undone[0]], side="right")) - 1

    def _look(self, number: int) -> None:
        group = self._index.groups[number]
        wanted = self._rows_in(group)
        if self._filter.text:
            wanted &= _holds_text(group, self._filter.text)
        if self._filter.difference is not None or self._filter.verdict is not None:
            wanted &= self._test(group, wanted, self._filter) if self._test is not None else False
        self._done[number] = True
        starts = self._index.starts
        first = int(np.searchsorted(starts, group.first, side="right")) - 1
        end = int(np.searchsorted(starts, group.first + group.rows))
        rows = self._wanted[starts[first] : starts[end]]
        self._is_hit[first:end] = np.logical_or.reduceat(rows, starts[first:end] - starts[first])
        self._hits = np.flatnonzero(self._is_hit)

    def _rows_in(self, group: RowGroup) -> np.ndarray:
        return self._wanted[group.first : group.first + group.rows]


def _cheap_mask(index: RowIndex, wanted: RowFilter) -> np.ndarray:
    mask = np.ones(index.rows, bool)
    if wanted.split is not None:
        mask &= np.repeat(index.split == index.splits.index(wanted.split), np.diff(index.starts))
    if wanted.category is not None:
        mask &= index.category == CATEGORIES.index(wanted.category)
    if wanted.label is not None:
        mask &= index.label == LABELS.index(wanted.label)
    if wanted.flag is not None:
        names, rows, codes = index.flags
        flagged = np.zeros(index.rows, bool)
        flagged[rows[codes == names.index(wanted.flag)]] = True
        mask &= flagged
    return mask


def _holds_text(group: RowGroup, text: str) -> np.ndarray:
    with open_shard(group.file) as file:
        table = file.read_row_group(group.number, ["question", "answer"])
    found = [pc.match_substring(table[name], text, ignore_case=True) for name in ("question", "answer")]
    return pc.fill_null(pc.or_kleene(*found), False).to_numpy()
