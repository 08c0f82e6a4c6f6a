"""Find the rows that match a filter, one page of studies at a time.

Category, label and flag are masks over the index. Texts and the answers of runs have to be read from the shards. A scan
reads batches of rows in order until the page is full or the time is up, and remembers its results. Each scan has its
own lock, so that a slow one only delays requests for the same filter.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_hub.explore.row_index import LABELS, RowGroup, RowIndex, open_shard
from medvqa_hub.explore.runs import DIFFERENCES
from medvqa_hub.explore.verdicts import CHOICES
from mimic_cxr_vqa.schema import CATEGORIES

PAGE = 20  # studies
TIME_PER_PAGE = 0.12  # seconds; the page asks again for up to 2 s (`studies.js`)
BATCH, BATCH_TESTED = 2048, 128  # most rows between two looks at the clock
BATCH_BYTES = 8 << 20  # most bytes, unless one row has more
SCANS_KEPT = 6
SHORTEST_TEXT, LONGEST_TEXT = 2, 200  # characters

# (rows, position of the first, mask of the candidates, filter) -> mask of the rows whose answers and verdicts match
AnswerTest = Callable[[pa.Table, int, np.ndarray, "RowFilter"], np.ndarray]


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
        scan = self._scan(wanted)
        with scan.lock:
            return scan.page(max(0, at), size)

    def mask(self, wanted: RowFilter, study: int, rows: pa.Table) -> list[bool]:
        """Which rows of a study match. `rows` has its texts."""
        wanted.check(self._index)
        return self._scan(wanted).mask(study, rows)

    def _scan(self, wanted: RowFilter) -> "_Scan":
        with self._lock:
            scan = self._scans.pop(wanted, None)
            if scan is None:
                scan = _Scan(self._index, wanted, self._test)
            self._scans[wanted] = scan
            if len(self._scans) > SCANS_KEPT:
                self._scans.popitem(last=False)
            return scan


class _Scan:
    """The matching rows of one filter. `_wanted` is final in the first `_looked` rows of each row group."""

    def __init__(self, index: RowIndex, wanted: RowFilter, test: AnswerTest | None) -> None:
        self.lock = threading.Lock()
        self._index, self._filter, self._test = index, wanted, test
        self._candidates = _cheap_mask(index, wanted)
        self._wanted = self._candidates.copy()
        self._sizes = np.array([group.rows for group in index.groups])
        rows = [self._wanted[group.first : group.first + group.rows] for group in index.groups]
        self._looked = np.array([0 if wanted.is_scan and one.any() else len(one) for one in rows])
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.Table | None = None  # of a batch that was read
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
            self._look(int(np.flatnonzero(self._looked < self._sizes)[0]))
            is_late = time.monotonic() > deadline
        following = int(found[size]) if len(found) > size else None
        return self._as_hits(at, found[:size], following)

    def mask(self, study: int, rows: pa.Table) -> list[bool]:
        first, end = self._index.row_range(study)
        return self._match(rows, first, self._candidates[first:end]).tolist()

    def _as_hits(self, at: int, found: np.ndarray, following: int | None) -> FilterResult:
        is_whole = bool((self._looked == self._sizes).all())
        before = self._hits[: np.searchsorted(self._hits, at)]
        looked = int(self._looked.sum()) / self._index.rows
        previous = int(before[max(0, len(before) - PAGE)]) if len(before) else None
        ends = [self._index.row_range(place) for place in found.tolist()]
        counts = [int(self._wanted[first:end].sum()) for first, end in ends]
        total = len(self._hits) if is_whole else None
        return FilterResult(found.tolist(), counts, following, previous, total, looked)

    def _known_studies(self) -> int:
        """Number of studies whose rows, and all rows before them, have been read."""
        open_groups = np.flatnonzero(self._looked < self._sizes)
        if not len(open_groups):
            return self._index.studies
        row = self._index.groups[open_groups[0]].first + self._looked[open_groups[0]]
        return int(np.searchsorted(self._index.starts, row, side="right")) - 1

    def _look(self, number: int) -> None:
        """Search the next rows of a row group."""
        group = self._index.groups[number]
        if not self._looked[number]:
            size = BATCH if self._filter.difference is None and self._filter.verdict is None else BATCH_TESTED
            self._batches, self._rest = _read_batches(group, size), None
        read = pa.Table.from_batches([next(self._batches)]) if self._rest is None else self._rest
        table = read.slice(0, max(1, len(read) * BATCH_BYTES // max(BATCH_BYTES, read.nbytes)))
        self._rest = read.slice(len(table)) if len(table) < len(read) else None
        first, end = group.first + int(self._looked[number]), group.first + int(self._looked[number]) + len(table)
        self._wanted[first:end] = self._match(table, first, self._candidates[first:end])
        self._looked[number] += len(table)
        starts = self._index.starts
        study, last = int(np.searchsorted(starts, first, side="right")) - 1, int(np.searchsorted(starts, end))
        rows = self._wanted[starts[study] : starts[last]]
        self._is_hit[study:last] = np.logical_or.reduceat(rows, starts[study:last] - starts[study])
        self._hits = np.flatnonzero(self._is_hit)

    def _match(self, table: pa.Table, first: int, mask: np.ndarray) -> np.ndarray:
        """Which of the candidates match. `first` is the position of the first row."""
        wanted = mask.copy()
        if self._filter.text and wanted.any():
            wanted &= _holds_text(table, self._filter.text)
        if (self._filter.difference is not None or self._filter.verdict is not None) and wanted.any():
            wanted &= self._test(table, first, wanted, self._filter) if self._test is not None else False
        return wanted


def _read_batches(group: RowGroup, size: int) -> Iterator[pa.RecordBatch]:
    with open_shard(group.file) as file:
        yield from file.iter_batches(size, row_groups=[group.number], columns=["qa_id", "question", "answer"])


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


def _holds_text(table: pa.Table, text: str) -> np.ndarray:
    found = [pc.match_substring(table[name], text, ignore_case=True) for name in ("question", "answer")]
    return pc.fill_null(pc.or_kleene(*found), False).to_numpy()
