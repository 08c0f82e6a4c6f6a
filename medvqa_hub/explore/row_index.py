"""In-memory index of a release: the position of each study in the shards, and category, label and flags of each row.

The index of 3.2 million rows takes about 20 MB. `row_reader` reads texts from the shards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.errors import InputError
from mimic_cxr_vqa.release import Release
from mimic_cxr_vqa.schema import CATEGORIES, LABEL_VALUES

LABELS = tuple(LABEL_VALUES.values())


@dataclass(frozen=True)
class RowGroup:
    """Row group `number` of a shard, with rows `first` to `first + rows` of the release."""

    file: Path
    shard: int
    number: int
    first: int
    rows: int


@dataclass(frozen=True)
class RowIndex:
    """All rows of a release, split by split, in the order of its shards. Rows and studies are named by position.

    Attributes:
        category, label: index in CATEGORIES and LABELS for each row.
        study_id, subject_id, split: for each study. `split` is an index into `splits`.
        starts: first row of each study, and the number of rows at the end.
        shard_starts: first study of each shard.
    """

    release: Release
    groups: tuple[RowGroup, ...]
    category: np.ndarray
    label: np.ndarray
    study_id: np.ndarray
    subject_id: np.ndarray
    split: np.ndarray
    splits: tuple[str, ...]
    starts: np.ndarray
    shard_starts: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.category)

    @property
    def studies(self) -> int:
        return len(self.study_id)

    def find(self, study_id: int) -> int | None:
        """The position of a study, or None."""
        order, ids = self._by_id
        place = int(np.searchsorted(ids, study_id))
        return int(order[place]) if place < len(ids) and ids[place] == study_id else None

    def of_patient(self, subject_id: int) -> np.ndarray:
        """Positions of a patient's studies."""
        return np.flatnonzero(self.subject_id == subject_id)

    def row_range(self, study: int) -> tuple[int, int]:
        """First and end row of a study."""
        return int(self.starts[study]), int(self.starts[study + 1])

    @cached_property
    def flags(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Flags in `provenance.lint`: their names, the flagged rows, and the index of each row's flag."""
        names: dict[str, int] = {}
        rows, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
        for group, table in self._read(["provenance.lint"]):
            lint = pc.struct_field(table["provenance"].combine_chunks(), "lint")
            flat = pc.list_flatten(lint).dictionary_encode()
            if len(flat):
                own = [names.setdefault(name, len(names)) for name in flat.dictionary.to_pylist()]
                rows.append(group.first + pc.list_parent_indices(lint).to_numpy().astype(np.int64))
                codes.append(np.array(own, np.uint8)[flat.indices.to_numpy()])
        return tuple(names), np.concatenate(rows), np.concatenate(codes)

    @cached_property
    def _by_id(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.study_id, kind="stable")
        return order, self.study_id[order]

    def _read(self, columns: list[str]) -> Iterator[tuple[RowGroup, pa.Table]]:
        for group in self.groups:
            with open_shard(group.file) as file:
                yield group, file.read_row_group(group.number, columns)


def open_shard(path: Path, coded: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a shard with the columns `coded` as dictionaries. Raises InputError if it is damaged."""
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=list(coded))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read ({error}). Build the release again.") from None


def index_rows(release: Release) -> RowIndex:
    """Index a Parquet release.

    Raises:
        InputError: the release is not in Parquet, is empty, has an unknown category or label, or the rows of a study
            are not contiguous.
    """
    if release.kind != "parquet":
        raise InputError(
            f"{release.folder} holds {release.kind}. The explorer needs a release in Parquet (medvqa-hub cxr release)."
        )
    groups: list[RowGroup] = []
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("study_id", "category", "label_value")}
    splits, split_of_group, shard, first = tuple(release.files), [], 0, 0
    for split, files in release.files.items():
        for path in files:
            with open_shard(path, ("category", "label_value")) as file:
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number, list(parts))
                    groups.append(RowGroup(path, shard, number, first, len(table)))
                    split_of_group.append(splits.index(split))
                    first += len(table)
                    parts["study_id"].append(table["study_id"].to_numpy())
                    parts["category"].append(_codes(table["category"], CATEGORIES, path))
                    parts["label_value"].append(_codes(table["label_value"], LABELS, path))
            shard += 1
    if not first:
        raise InputError(f"{release.folder} is empty. Build the release again.")
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    ids = columns["study_id"]
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    study_id = ids[starts]
    if len(np.unique(study_id)) != len(study_id):
        raise InputError(f"{release.folder}: the rows of a study are not contiguous. Build the release again.")
    group_firsts = np.array([group.first for group in groups])
    group_of_study = np.searchsorted(group_firsts, starts, side="right") - 1
    shard_of_study = np.array([group.shard for group in groups])[group_of_study]
    return RowIndex(
        release,
        tuple(groups),
        columns["category"],
        columns["label_value"],
        study_id,
        _patients(release, study_id),
        np.array(split_of_group, np.uint8)[group_of_study],
        splits,
        np.append(starts, first),
        np.searchsorted(shard_of_study, np.arange(shard)),
    )


def _patients(release: Release, study_id: np.ndarray) -> np.ndarray:
    """The patient of each study. Raises InputError if the study tables do not match the rows."""
    found = []
    for split in release.files:
        for path in release.studies[split]:
            with open_shard(path) as file:
                found.append(file.read(["study_id", "subject_id"]))
    table = pa.concat_tables(found)
    if not np.array_equal(table["study_id"].to_numpy(), study_id):
        raise InputError(f"{release.folder}: the study tables do not match the rows. Build the release again.")
    return table["subject_id"].to_numpy()


def _codes(column: pa.ChunkedArray, names: tuple[str, ...], path: Path) -> np.ndarray:
    """The index of each value in `names`."""
    column = column.combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    unknown = [name for name in column.dictionary.to_pylist() if name not in names]
    if unknown or column.null_count:
        value = unknown[0] if unknown else None
        raise InputError(f"{path}: {value!r} is unknown. Expected {', '.join(names)}. Build the release again.")
    own = np.array([names.index(name) for name in column.dictionary.to_pylist()], np.uint8)
    return own[column.indices.to_numpy()]
