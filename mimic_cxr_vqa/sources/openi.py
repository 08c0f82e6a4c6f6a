"""The Indiana University chest X-ray collection (Open-i), read from its two CSV files. It needs no credentials.

One folder holds `indiana_reports.csv` (uid, MeSH, Problems, image, indication, comparison, findings, impression) and
`indiana_projections.csv` (uid, filename, projection). A uid is one study of one patient and becomes both `subject_id`
and `study_id`. The collection lacks an official split, so a hash of the uid assigns 80% of the studies to train and 10%
each to validate and test.

Labels come from the text of findings and impression (`text`), or from the annotation columns through `openi_labels`
(`mesh`: positives only). Images are not opened. Findings that consist of a title ("AP and lateral view of the chest.")
count as missing. The licence is CC BY-NC-ND, so rows have the class `no-derivatives`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from mimic_cxr_vqa.labeling.labels import label_text
from mimic_cxr_vqa.reports import is_title
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, NO_FINDING, STUDY_SCHEMA
from mimic_cxr_vqa.sources.openi_labels import map_term
from mimic_cxr_vqa.sources.registry import DEFAULTS, SourceOptions
from mimic_cxr_vqa.sources.study_set import StudySet

GOVERNANCE = Governance.NO_DERIVATIVES
LABEL_SOURCES = ("text", "mesh")
REPORTS = "indiana_reports.csv"
PROJECTIONS = "indiana_projections.csv"
_REPORT_COLUMNS = ("uid", "MeSH", "Problems", "image", "indication", "findings", "impression")
_PROJECTION_COLUMNS = ("uid", "filename", "projection")
_UID_DIGITS = 18  # fits into int64
_VIEWS = {"frontal": "FRONTAL", "lateral": "LATERAL"}
_PA, _AP = re.compile(r"\bPA\b"), re.compile(r"\bAP\b")  # in capitals, as radiographers write them

_log = logging.getLogger(__name__)


def read_studies(root: Path, options: SourceOptions = DEFAULTS) -> StudySet:
    """Read the collection below `root`, in the order of its reports file, with labels from `options.labels`.

    Raises:
        ConfigError: `options.labels` is neither `text` nor `mesh`.
        InputError: a file or column is missing, a row is malformed, a uid is invalid or repeated, or a projection names
            an unknown uid. The message names file and row, where row 1 is the header.
    """
    if options.labels not in LABEL_SOURCES:
        raise ConfigError(f"labels={options.labels!r}: allowed are {', '.join(LABEL_SOURCES)}")
    root = Path(root)
    reports = dict(_read_reports(root / REPORTS))
    images = _read_images(root / PROJECTIONS, reports)
    unmapped: Counter[str] = Counter()
    rows = [_make_study(uid, report, images.get(uid, []), unmapped) for uid, report in reports.items()]
    notes = {
        "studies_with_a_title_for_findings": sum(row.pop("title_alone") for row in rows),
        "studies_without_images": sum(not row["images"] for row in rows),
        "unmapped_headings": len(unmapped),
    }
    if options.labels == "text":
        for row in track(rows, "Labelling reports", total=len(rows)):
            row["labels"] = label_text(row["findings"], row["impression"])
    if unmapped:
        terms = ", ".join(f"{term} ({count})" for term, count in sorted(unmapped.items()))
        _log.warning("%s: %d annotation headings are not mapped to a label: %s", root / REPORTS, len(unmapped), terms)
    return StudySet("openi", GOVERNANCE, pa.Table.from_pylist(rows, schema=STUDY_SCHEMA), notes)


def assign_split(uid: int) -> str:
    """Return `train`, `validate` or `test` (80/10/10) by a hash of the uid."""
    place = int.from_bytes(blake2b(str(uid).encode(), digest_size=8).digest()) % 100
    return "train" if place < 80 else "validate" if place < 90 else "test"


def labels_from(problems: str, mesh: str) -> tuple[dict[str, int | None], list[str]]:
    """Return a study's 14 labels (1 or None) from its two annotation cells, and the headings that are not mapped.

    "No Finding" is dropped where the study has any other label.
    """
    found: set[str] = set()
    unknown: dict[str, None] = {}
    # MeSH repeats the headings of Problems with qualifiers, so Problems is only read where MeSH is empty.
    terms = [term for term in mesh.split(";") if term.strip()] or [term for term in problems.split(";") if term.strip()]
    for term in terms:
        labels, known = map_term(term)
        found.update(labels)
        if not known:
            unknown[term.split("/")[0].strip()] = None
    if found - {NO_FINDING}:
        found.discard(NO_FINDING)
    return {label: 1 if label in found else None for label in CHEXPERT_LABELS}, list(unknown)


def _make_study(
    uid: int, report: dict[str, str], images: list[tuple[str, str]], unmapped: Counter[str]
) -> dict[str, Any]:
    labels, unknown = labels_from(report["Problems"], report["MeSH"])
    unmapped.update(unknown)
    sections = {name: " ".join(report[name].split()) or None for name in ("findings", "impression", "indication")}
    title_alone = sections["findings"] is not None and is_title(sections["findings"])
    if title_alone:
        sections["findings"] = None
    return {
        "subject_id": uid,
        "study_id": uid,
        "split": assign_split(uid),
        **sections,
        "title_alone": title_alone,
        "labels": labels,
        "images": [
            {"path": name, "dicom_id": re.sub(r"(?:\.dcm)?\.\w+$", "", name), "view": _view(view, report["image"])}
            for name, view in images
        ],
    }


def _view(projection: str, described: str) -> str:
    """PA or AP for a frontal image if the study's own description names exactly one of them."""
    pa_named, ap_named = bool(_PA.search(described)), bool(_AP.search(described))
    if projection == "FRONTAL" and pa_named != ap_named:
        return "PA" if pa_named else "AP"
    return projection


def _read_reports(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    rows: dict[int, int] = {}
    for number, row in _read_rows(path, _REPORT_COLUMNS):
        uid = _parse_uid(row["uid"], path, number)
        if uid in rows:
            raise InputError(f"{path}, row {number}: uid {uid} is already in row {rows[uid]}. Keep one row per study")
        rows[uid] = number
        yield uid, row


def _read_images(path: Path, reports: dict[int, dict[str, str]]) -> dict[int, list[tuple[str, str]]]:
    images: dict[int, list[tuple[str, str]]] = {}
    for number, row in _read_rows(path, _PROJECTION_COLUMNS):
        where = f"{path}, row {number}"
        uid, name, projection = _parse_uid(row["uid"], path, number), row["filename"].strip(), row["projection"]
        view = _VIEWS.get(projection.strip().lower())
        if uid not in reports:
            raise InputError(f"{where}: uid {uid} is not in {REPORTS}. Use both files of the same download")
        if view is None:
            raise InputError(f"{where}: projection {projection!r} is unknown. Allowed: Frontal, Lateral")
        if not name or "/" in name or "\\" in name or name.startswith("."):
            raise InputError(f"{where}: filename {name!r} is not a plain file name")
        images.setdefault(uid, []).append((name, view))
    return images


def _parse_uid(cell: str, path: Path, number: int) -> int:
    if not (cell.isascii() and cell.strip().isdigit() and len(cell) <= _UID_DIGITS):
        raise InputError(f"{path}, row {number}: uid {cell!r} is not a number of at most {_UID_DIGITS} digits")
    return int(cell)


def _read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    if not path.exists():
        raise InputError(f"{path}: no such file. Expected a folder with {REPORTS} and {PROJECTIONS}")
    return iterate_cells(path, columns, first=2)
