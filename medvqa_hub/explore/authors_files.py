"""The authors' CSV files for the page: laid out anew as Parquet in a temporary folder.

A page shows a study out of the middle of millions of rows; a CSV file can only be read from its start. The copy lies in
a folder that its owner alone can read, and is removed when the explorer ends. It has what the files say: no findings
and impression, labels as the questions name them, and a flag where the authors' reply could not be read.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

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
    """The laid-out release, and the folder that it lies in: removed with this object, or when the process ends."""

    release: Release
    folder: tempfile.TemporaryDirectory


def find_release(place: Path) -> Release:
    """What is at `place`: a folder, or one of the authors' CSV files, which is opened alone.

    Raises:
        InputError: the file is not named as the authors' files are, or what is there is broken.
    """
    if not place.is_file():
        return open_release(place)
    path = place.absolute()
    files = {split: [path] for split, paths in find_csv_files(path.parent).items() if path in paths}
    release = open_release(path.parent) if files else None
    if release is None or release.kind != "csv":
        raise InputError(
            f"{place}: a file of the authors' CSV layout is named by its split ({LAYOUT}) and lies beside no release; "
            "rename it, or name a folder"
        )
    return replace(release, files=files)


def lay_out(release: Release) -> AuthorsFiles:
    """The rows of a release in the authors' CSV layout, as Parquet; of repeated questions the first row.

    Raises:
        InputError: a row is wrong, a study's rows do not lie together, or a patient is in two splits.
    """
    folder = tempfile.TemporaryDirectory(prefix="medvqa-explore-")  # mode 0700
    files, studies, patients = {}, {}, {}
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
                of_studies.write_table(_studies_of(table))
    return AuthorsFiles(replace(release, kind="parquet", files=files, studies=studies), folder)


def _named(tables: Iterator[pa.Table], release: Release) -> Iterator[pa.Table]:
    try:
        yield from tables
    except InputError as error:
        where = str(release.folder)
        raise InputError(str(error) if where in str(error) else f"{where}: {error}") from None


def _large_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of some row groups each: a group is what is decoded to show a study."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _studies_of(rows: pa.Table) -> pa.Table:
    """The studies of whole studies' rows, as STUDY_SCHEMA has them."""
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
