"""Where each study's rows lie in a release's Parquet shards, and each row's category, label and flags, in memory.

A release of 3.2 million rows takes some 20 MB here: two bytes a row, three numbers a study, and the flagged rows. Texts
stay in the shards; `row_reader` fetches those that are looked at.
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
    """Rows `first` to `first + rows` of the release, which are row group `number` of a shard."""

    file: Path
    shard: int
    number: int
    first: int
    rows: int


@dataclass(frozen=True)
class RowIndex:
    """All rows of a release, split by split, in the order of its shards; rows and studies are named by their place.

    Attributes:
        category, label: of each row, its number in CATEGORIES and LABELS.
        study_id, subject_id, split: of each study; `split` as its number in `splits`.
        starts: each study's first row, and behind the last study the number of rows.
        shard_starts: each shard's first study.
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
        """The place of a study; None where the release has none of that id."""
        order, ids = self._by_id
        place = int(np.searchsorted(ids, study_id))
        return int(order[place]) if place < len(ids) and ids[place] == study_id else None

    def of_patient(self, subject_id: int) -> np.ndarray:
        """Places of a patient's studies."""
        return np.flatnonzero(self.subject_id == subject_id)

    def rows_of(self, study: int) -> tuple[int, int]:
        """First row of a study, and the one behind its last."""
        return int(self.starts[study]), int(self.starts[study + 1])

    @cached_property
    def flags(self) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Rules and flags of `provenance.lint`: their names, and aligned the rows that carry one and its number."""
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
    """A shard, mapped and not read yet; the columns `coded` come as dictionaries. Raises InputError: it is damaged."""
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=list(coded))
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); build the release again") from None


def index_rows(release: Release) -> RowIndex:
    """Index an open Parquet release: reads three small columns of every row.

    Raises:
        InputError: it is no Parquet release, has no rows, an unknown category or label, or a study whose rows do not
            lie together.
    """
    if release.kind != "parquet":
        raise InputError(
            f"{release.folder} holds {release.kind}, no release in Parquet; the explorer pages those of medvqa-hub cxr "
            "release"
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
        raise InputError(f"{release.folder}: the release has no rows; build it again")
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    ids = columns["study_id"]
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    study_id = ids[starts]
    if len(np.unique(study_id)) != len(study_id):
        raise InputError(f"{release.folder}: the rows of a study do not lie together; build the release again")
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
    """The patient of each study, from the tables of studies. Raises InputError where they are of other studies."""
    found = []
    for split in release.files:
        for path in release.studies[split]:
            with open_shard(path) as file:
                found.append(file.read(["study_id", "subject_id"]))
    table = pa.concat_tables(found)
    if not np.array_equal(table["study_id"].to_numpy(), study_id):
        raise InputError(f"{release.folder}: the tables of studies are not of its rows, in order; build it again")
    return table["subject_id"].to_numpy()


def _codes(column: pa.ChunkedArray, names: tuple[str, ...], path: Path) -> np.ndarray:
    """Each value's number in `names`."""
    column = column.combine_chunks()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    unknown = [name for name in column.dictionary.to_pylist() if name not in names]
    if unknown or column.null_count:
        raise InputError(f"{path}: {unknown[0] if unknown else None!r} is none of {', '.join(names)}; build it again")
    own = np.array([names.index(name) for name in column.dictionary.to_pylist()], np.uint8)
    return own[column.indices.to_numpy()]
