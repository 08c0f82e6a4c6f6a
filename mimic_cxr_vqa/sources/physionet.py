"""MIMIC-CXR-JPG 2.0.0/2.1.0 with the reports of MIMIC-CXR, in PhysioNet's layout, which `phantom` writes too.

    <root>/mimic-cxr-2.0.0-{chexpert,negbio,metadata,split}.csv[.gz]
    <root>/files/p10/p10000032/s50414267/<dicom_id>.jpg
    <reports>/mimic-cxr-reports.zip            read in place, or
    <reports>/files/p10/p10000032/s50414267.txt

`<reports>` defaults to `<root>` and may be the zip itself. Image paths in the rows start below `files/`, as in the
authors' release.
"""

import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.csv_files import read_csv
from medvqa_core.errors import ConfigError, InputError, quote_value
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from mimic_cxr_vqa.reports import NO_FINDINGS, Sections, split_sections
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, LABELS_TYPE, STUDY_SCHEMA
from mimic_cxr_vqa.sources.chosen import choose_studies, read_sections
from mimic_cxr_vqa.sources.pieces import is_marked_synthetic, locate, need
from mimic_cxr_vqa.sources.registry import DEFAULTS, SourceOptions
from mimic_cxr_vqa.sources.study_set import StudySet, check_splits, check_unique, find_mixed

LARGEST_REPORT = 1 << 20  # bytes
PHANTOM_FIRST_ID = 90_000_000  # MIMIC's subject ids are 1xxxxxxx, its study ids 5xxxxxxx


def read_studies(root: Path, options: SourceOptions = DEFAULTS) -> StudySet:
    """Read every study of the metadata table, or those of a list (`options.studies`).

    With `options.sections`, findings and impression come from that file. Studies that it does not list have neither.

    Args:
        root: folder of MIMIC-CXR-JPG.

    Raises:
        ConfigError: `labeler` or `encoding` is unknown.
        InputError: a piece is missing, a row, a report or the zip cannot be read, or a chosen study is not in the
            metadata table.
    """
    pieces = locate(root, options.reports, options.labeler)
    images = _read_images(need(pieces["metadata"]), need(pieces["split"]))
    if options.studies is not None:  # before any report is read
        images = choose_studies(images, options.studies, str(pieces["metadata"].path))
    official = None if options.sections is None else read_sections(options.sections)
    _, starts, sizes = np.unique(images["study_id"].to_numpy(), return_index=True, return_counts=True)
    first = images.take(pa.array(starts))
    studies = first.select(["subject_id", "study_id", "split"])
    with open_reports(need(pieces["reports"]), options.encoding) as read_report:
        ids = zip(first["subject_id"].to_pylist(), first["study_id"].to_pylist(), strict=True)
        found = [
            _get_sections(study, read_report(report_path(subject, study)), official)
            for subject, study in track(ids, "Reading reports", total=len(first))
        ]
    for name in ("findings", "impression", "indication"):
        studies = studies.append_column(name, pa.array([getattr(s, name) for s in found], pa.string()))
    labels, unlabelled = _read_labels(need(pieces["labels"]), first["study_id"])
    studies = studies.append_column("labels", labels)
    studies = studies.append_column("images", _group_images(images, sizes))
    studies = studies.select(STUDY_SCHEMA.names).cast(STUDY_SCHEMA)
    synthetic = _is_phantom(root, studies)
    return StudySet(
        "phantom" if synthetic else "physionet",
        Governance.OPEN if synthetic else Governance.CREDENTIALED,
        studies,
        {"studies_without_labels": unlabelled},
        Counter(rule for report in found for rule in report.rules),
    )


def _get_sections(study_id: int, report: str, official: dict[int, tuple[str | None, str | None]] | None) -> Sections:
    """A report's sections, with findings and impression from `official` if given."""
    ours = split_sections(report)
    if official is None:
        return ours
    findings, impression = official.get(study_id, (None, None))
    rules = frozenset({"official sections" if findings else NO_FINDINGS})
    return Sections(findings, impression, ours.indication, rules)


def study_folder(subject_id: int, study_id: int) -> str:
    """Return a study's image folder below `files/`, such as `p10/p10000032/s50414267`."""
    return f"p{str(subject_id)[:2]}/p{subject_id}/s{study_id}"


def report_path(subject_id: int, study_id: int) -> str:
    """Return a report's path in the folder or zip, such as `files/p10/p10000032/s50414267.txt`."""
    return f"files/{study_folder(subject_id, study_id)}.txt"


@contextmanager
def open_reports(source: Path, encoding: str) -> Iterator[Callable[[str], str]]:
    """Yield a function that returns the text of a report path, from a folder or a zip.

    Raises:
        InputError: the zip is damaged, or a report is missing, too large, not in `encoding` or has a NUL byte.
    """
    if source.is_dir():
        yield partial(_read_report, source, None, encoding)
        return
    try:
        with zipfile.ZipFile(source) as archive:
            yield partial(_read_report, source, archive, encoding)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{source} is damaged or truncated ({error}). Download it again") from None
    except (RuntimeError, NotImplementedError) as error:  # passwords and other compression methods
        raise InputError(f"{source} cannot be read ({error}). Download PhysioNet's own zip") from None


def _read_report(source: Path, archive: zipfile.ZipFile | None, encoding: str, path: str) -> str:
    """The report at `path` below the folder `source`, or in the zip."""
    remedy = "copy the reports again (PhysioNet's MIMIC-CXR, mimic-cxr-reports.zip)"
    where = f"{source}, member {path}" if archive else str(source / path)
    try:
        with archive.open(path) if archive else open(source / path, "rb") as file:
            data = file.read(LARGEST_REPORT + 1)
    except (FileNotFoundError, KeyError):
        raise InputError(f"{where}: no such report; {remedy}") from None
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror}); {remedy}") from None
    if len(data) > LARGEST_REPORT:
        raise InputError(f"{where} is larger than {LARGEST_REPORT >> 20} MiB, the limit of a report; {remedy}")
    try:
        text = data.decode(encoding)
    except LookupError:
        raise ConfigError(f"encoding {encoding!r} is unknown. Examples: utf-8, latin-1") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: byte {error.start} is not {encoding}. Convert the report, or pass --encoding latin-1"
        ) from None
    if "\0" in text:
        raise InputError(f"{where} has a NUL byte; {remedy}, or save it as {encoding}")
    return text


def _read_images(metadata: Path, split: Path) -> pa.Table:
    """One row per image, ordered by study and then as in the metadata table."""
    integer, text = pa.int64(), pa.string()
    images = read_csv(metadata, {"dicom_id": text, "subject_id": integer, "study_id": integer, "ViewPosition": text})
    splits = read_csv(split, {"dicom_id": text, "split": text})
    for name in ("dicom_id", "subject_id", "study_id"):
        _refuse(metadata, images, name, pc.is_null(images[name]), "Copy the file again")
    wrong = pc.invert(pc.match_substring_regex(images["dicom_id"], "^[A-Za-z0-9][A-Za-z0-9-]*$"))
    _refuse(metadata, images, "dicom_id", wrong, "Allowed are letters, digits and '-'")
    for path, table in ((metadata, images), (split, splits)):
        check_unique(table["dicom_id"], f"{path}: image")
    row = pc.index_in(images["dicom_id"], splits["dicom_id"].combine_chunks())
    if row.null_count:
        dicom = images["dicom_id"].filter(pc.is_null(row))[0]
        raise InputError(
            f"{split}: no row for image {dicom} of {metadata.name} ({row.null_count} such images). Copy both again"
        )
    images = images.append_column("split", splits["split"].take(row))
    check_splits(images, str(split))  # per image; a study gets the split of its first image
    if mixed := find_mixed(images, "study_id", "subject_id"):
        study, patients, _ = mixed
        names = " and ".join(map(str, patients))
        raise InputError(f"{metadata}: study {study} belongs to the patients {names}. Copy the file again")
    return images.take(pa.array(np.argsort(images["study_id"].to_numpy(), kind="stable")))


def _refuse(path: Path, table: pa.Table, name: str, wrong: pa.ChunkedArray, remedy: str) -> None:
    """Raise InputError for the first row where `wrong` is true, with its value in the column `name`."""
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        value = table[name][row].as_py()
        raise InputError(
            f"{path}, row {row + 2}: {name} is {'empty' if value is None else quote_value(str(value))}. {remedy}"
        )


def _group_images(images: pa.Table, sizes: np.ndarray) -> pa.ListArray:
    subject, study = (pc.cast(images[name], pa.string()) for name in ("subject_id", "study_id"))
    parts = ("p", pc.utf8_slice_codeunits(subject, 0, 2), "/p", subject, "/s", study, "/", images["dicom_id"], ".jpg")
    columns = [pc.binary_join_element_wise(*parts, ""), images["dicom_id"], images["ViewPosition"]]
    rows = pa.StructArray.from_arrays([c.combine_chunks() for c in columns], names=["path", "dicom_id", "view"])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), rows)


def _read_labels(path: Path, study_ids: pa.ChunkedArray) -> tuple[pa.StructArray, int]:
    """One label struct per study, and the number of studies that are not in the table."""
    columns = {"study_id": pa.int64(), **dict.fromkeys(CHEXPERT_LABELS, pa.float32())}
    table = read_csv(path, columns)
    check_unique(table["study_id"], f"{path}: study")
    for label in CHEXPERT_LABELS:
        unknown = pc.invert(pc.is_in(table[label], pa.array([1, 0, -1, None], pa.float32())))
        _refuse(path, table, label, unknown, "Allowed are 1.0, 0.0, -1.0 and empty")
    row = pc.index_in(study_ids, table["study_id"].combine_chunks())
    arrays = [pc.cast(table[label].take(row), pa.int8()).combine_chunks() for label in CHEXPERT_LABELS]
    return pa.StructArray.from_arrays(arrays, fields=list(LABELS_TYPE)), row.null_count


def _is_phantom(root: Path, studies: pa.Table) -> bool:
    """Whether the tree is marked as synthetic and lacks ids of MIMIC's range. Otherwise it is credentialed."""
    ids = [pc.min(studies[name]).as_py() for name in ("subject_id", "study_id")]
    return is_marked_synthetic(root) and len(studies) > 0 and min(ids) >= PHANTOM_FIRST_ID
