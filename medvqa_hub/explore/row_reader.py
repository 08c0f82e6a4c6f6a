"""Read rows and studies from the shards of a release.

A few row groups are cached. Each is decoded from its start up to the requested rows, and further when needed.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from medvqa_core.errors import InputError
from medvqa_hub.explore.row_index import RowIndex, open_shard

GROUPS_KEPT = 8
BATCH = 2048  # rows decoded at once
COLUMNS = ["qa_id", "question", "answer", "answer_type", "provenance.lint"]


class RowReader:
    """Reads rows and studies by position. Thread-safe."""

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Path, int], _Group] = OrderedDict()
        self._study_files = [path for split in index.splits for path in index.release.studies[split]]

    def rows(self, first: int, end: int) -> list[dict[str, Any]]:
        """Rows as dicts: qa_id, question, answer, answer_type, lint."""
        found = []
        for group in self._index.groups:
            start, stop = max(first, group.first), min(end, group.first + group.rows)
            if start < stop:
                with self._lock:
                    opened = self._open(group.file, group.number, COLUMNS)
                    found += opened.rows(start - group.first, stop - group.first)
        for row in found:
            row["lint"] = list((row.pop("provenance") or {}).get("lint") or [])
        return found

    def study(self, place: int) -> dict[str, Any]:
        """A study as a dict of STUDY_SCHEMA. Raises InputError if the shard has another study at this position."""
        index = self._index
        shard = int(index.shard_starts.searchsorted(place, side="right")) - 1
        path, row = self._study_files[shard], place - int(index.shard_starts[shard])
        with self._lock:
            for number, rows in enumerate(_rows_of_groups(path)):
                if row < rows:
                    found = self._open(path, number, None).rows(row, row + 1)
                    break
                row -= rows
            else:
                found = []
        if not found or found[0]["study_id"] != int(index.study_id[place]):
            raise InputError(f"{path}: study {index.study_id[place]} is not at its position. Build the release again.")
        return found[0]

    def _open(self, path: Path, number: int, columns: list[str] | None) -> "_Group":
        key = (path, number)
        if key not in self._kept:
            self._kept[key] = _Group(path, number, columns)
            if len(self._kept) > GROUPS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class _Group:
    """A row group, decoded as far as it was needed."""

    def __init__(self, path: Path, number: int, columns: list[str] | None) -> None:
        self._rest = _batches(path, number, columns)
        self._batches: list[tuple[int, pa.RecordBatch]] = []  # each with its first row
        self._decoded = 0

    def rows(self, first: int, end: int) -> list[dict[str, Any]]:
        """Rows of the group as dicts."""
        while self._decoded < end and (batch := next(self._rest, None)) is not None:
            self._batches.append((self._decoded, batch))
            self._decoded += len(batch)
        found = []
        for start, batch in self._batches:
            if start < end and first < start + len(batch):
                here = max(0, first - start)
                found += batch.slice(here, min(len(batch), end - start) - here).to_pylist()
        return found


def _batches(path: Path, number: int, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    with open_shard(path) as file:
        try:
            yield from file.iter_batches(BATCH, row_groups=[number], columns=columns)
        except GeneratorExit:  # removed from the cache
            raise
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"{path} cannot be read ({error}). Build the release again.") from None


def _rows_of_groups(path: Path) -> list[int]:
    with open_shard(path) as file:
        return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
