"""Convert the authors' CSV files to Parquet in a temporary folder, so that the page can read any study quickly.

Only the owner can read the folder, and it is deleted when the explorer ends. The files lack findings and impression.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medvqa_core.errors import InputError
from medvqa_core.progress import track
from mimic_cxr_vqa.parquet_files import WRITING
from mimic_cxr_vqa.release import Release, find_csv_files, open_release
from mimic_cxr_vqa.release_writer import ROWS_PER_GROUP
from mimic_cxr_vqa.schema import IMAGES_TYPE, QA_SCHEMA, STUDY_SCHEMA
from mimic_cxr_vqa.study_rows import group_by_study, whole_studies

LAYOUT = "train*.csv, val*.csv and test*.csv, plain or gzipped"


@dataclass(frozen=True)
class AuthorsFiles:
    """The converted release. Its folder is deleted with this object, or when the process ends."""

    release: Release
    folder: tempfile.TemporaryDirectory


def find_release(place: Path) -> Release:
    """Open the release in a folder, or a single one of the authors' CSV files.

    Raises:
        InputError: the name of the file is not one of the authors' names, or the release is damaged.
    """
    if not place.is_file():
        return open_release(place)
    path = place.absolute()
    files = {split: [path] for split, paths in find_csv_files(path.parent).items() if path in paths}
    release = open_release(path.parent) if files else None
    if release is None or release.kind != "csv":
        raise InputError(
            f"{place} is not one of the authors' CSV files ({LAYOUT}). Rename it, or pass the folder of a release."
        )
    return replace(release, files=files)


def lay_out(release: Release) -> AuthorsFiles:
    """Convert a release in the authors' CSV layout to Parquet. Only the first row of repeated questions is kept.

    Raises:
        InputError: a row is wrong, the rows of a study are not contiguous, or a patient is in two splits.
    """
    folder = tempfile.TemporaryDirectory(prefix="medvqa-explore-")  # mode 0700
    files, studies = {}, {}
    patients: dict[str, Any] = {}
    for split in release.files:
        files[split] = [Path(folder.name) / f"qa-{split}.parquet"]
        studies[split] = [Path(folder.name) / f"studies-{split}.parquet"]
        rows = track(release.iterate_split(split, patients), f"Laying out the {split} split")
        with (
            pq.ParquetWriter(files[split][0], QA_SCHEMA, **WRITING) as of_rows,
            pq.ParquetWriter(studies[split][0], STUDY_SCHEMA, **WRITING) as of_studies,
        ):
            for table in _large_tables(_named(whole_studies(rows), release)):
                of_rows.write_table(table, row_group_size=ROWS_PER_GROUP)
                of_studies.write_table(_to_studies(table))
    return AuthorsFiles(replace(release, kind="parquet", files=files, studies=studies), folder)


def _named(tables: Iterator[pa.Table], release: Release) -> Iterator[pa.Table]:
    try:
        yield from tables
    except InputError as error:
        where = str(release.folder)
        raise InputError(str(error) if where in str(error) else f"{where}: {error}") from None


def _large_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables with at least one full row group."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _to_studies(rows: pa.Table) -> pa.Table:
    """The studies of complete studies' rows, with the columns of STUDY_SCHEMA."""
    grouped = group_by_study(rows, None).combine_chunks()
    images, views = grouped["images"].combine_chunks(), grouped["views"].combine_chunks()
    paths = pc.list_flatten(images)
    films = pa.StructArray.from_arrays(
        [paths, pa.nulls(len(paths), pa.string()), pc.list_flatten(views)], fields=list(IMAGES_TYPE.value_type)
    )
    columns = {name: grouped[name] for name in STUDY_SCHEMA.names if name != "images"}
    ends = pc.cumulative_sum(pc.list_value_length(images))
    columns["images"] = pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], ends.type), ends]), films)
    return pa.table([columns[name] for name in STUDY_SCHEMA.names], schema=STUDY_SCHEMA)
