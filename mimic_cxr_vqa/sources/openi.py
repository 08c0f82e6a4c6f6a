"""The Indiana University chest X-ray collection (Open-i): studies from its two CSV files. Needs no credentials.

Layout: `indiana_reports.csv` (uid, MeSH, Problems, image, indication, comparison, findings, impression) and
`indiana_projections.csv` (uid, filename, projection) in one folder. A uid is one study of one patient, so
`subject_id` and `study_id` are both the uid. The collection has no official split: a hash of the uid puts 80 of 100
studies into train and 10 each into validate and test, the same on every machine and whatever else is in the files.

Labels come from the text of findings and impression (`text`: four-valued, `labeling.labels`), from the annotation
columns by `openi_labels` (`mesh`: positives; `normal` = No Finding; the rest missing), or from the text and, where that
is silent, the annotation (`both`). On how many labels the two disagree is counted whichever is taken. Images are named,
not opened. Findings that are a title alone ("AP and lateral view of the chest.") are none. The licence is CC BY-NC-ND:
rows of this source are of class `no-derivatives`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from mimic_cxr_vqa.labeling.labels import combine, label_text
from mimic_cxr_vqa.reports import is_title
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, NO_FINDING, STUDY_SCHEMA
from mimic_cxr_vqa.sources.openi_labels import labels_of
from mimic_cxr_vqa.sources.registry import SourceOptions
from mimic_cxr_vqa.sources.study_set import StudySet

GOVERNANCE = Governance.NO_DERIVATIVES
LABEL_SOURCES = ("text", "mesh", "both")
REPORTS = "indiana_reports.csv"
PROJECTIONS = "indiana_projections.csv"
_REPORT_COLUMNS = ("uid", "MeSH", "Problems", "image", "indication", "findings", "impression")
_PROJECTION_COLUMNS = ("uid", "filename", "projection")
_UID_DIGITS = 18  # what fits into int64
_VIEWS = {"frontal": "FRONTAL", "lateral": "LATERAL"}
_PA, _AP = re.compile(r"\bPA\b"), re.compile(r"\bAP\b")  # in capitals, as radiographers write them

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenIStudies:
    """The collection's studies and what was met while reading them.

    Attributes:
        table: one row per study, `schema.STUDY_SCHEMA`, in the order of the reports file.
        without_findings: studies whose findings are empty: they yield no questions.
        title_alone: how many of those have a title in the place of findings.
        without_images: studies that the projections file does not name.
        unmapped: annotation headings that the mapping does not know -> how often each was met.
        disagreements: {kind: {label: studies}}: where annotation and text differ on a label.
        governance: the class of the rows.
    """

    table: pa.Table
    without_findings: int
    without_images: int
    unmapped: dict[str, int]
    title_alone: int
    disagreements: dict[str, Counter[str]]
    governance: Governance = GOVERNANCE


def read_openi(root: Path, labels: str = "text") -> OpenIStudies:
    """Read the collection under `root`.

    Args:
        labels: where labels come from: `text`, `mesh` or `both`.

    Raises:
        ConfigError: `labels` is another word.
        InputError: a file or column is missing, a row has another number of fields or bytes that are not UTF-8, a uid
        is no number or comes twice, or a projection names an unknown uid. File and row are named; row 1 is the
        header.
    """
    if labels not in LABEL_SOURCES:
        raise ConfigError(f"labels={labels!r}: allowed are {', '.join(LABEL_SOURCES)}")
    root = Path(root)
    reports = dict(_reports(root / REPORTS))
    images = _images(root / PROJECTIONS, reports)
    unmapped: Counter[str] = Counter()
    rows = [_study(uid, report, images.get(uid, []), unmapped) for uid, report in reports.items()]
    titles = sum(row.pop("title_alone") for row in rows)
    disagreements: dict[str, Counter[str]] = {}
    for row in track(rows, "Labelling reports", total=len(rows)):
        text, mesh = label_text(row["findings"], row["impression"]), row["labels"]
        both, kinds = combine(text, mesh)
        for kind, names in kinds.items():
            disagreements.setdefault(kind, Counter()).update(names)
        row["labels"] = {"text": text, "mesh": mesh, "both": both}[labels]
    if unmapped:
        _log.warning(
            "%s: %d annotation headings have no mapping and give no label: %s",
            root / REPORTS,
            len(unmapped),
            ", ".join(f"{term} ({count})" for term, count in sorted(unmapped.items())),
        )
    return OpenIStudies(
        table=pa.Table.from_pylist(rows, schema=STUDY_SCHEMA),
        without_findings=sum(row["findings"] is None for row in rows),
        without_images=sum(not row["images"] for row in rows),
        unmapped=dict(sorted(unmapped.items())),
        title_alone=titles,
        disagreements=dict(sorted(disagreements.items())),
    )


def read_studies(root: Path, labels: str = "text") -> StudySet:
    """Like `read_openi`, in the form that every source has."""
    found = read_openi(root, labels)
    notes = {
        "studies_with_a_title_for_findings": found.title_alone,
        "studies_without_images": found.without_images,
        "unmapped_headings": len(found.unmapped),
        **{f"labels with {kind}": counts.total() for kind, counts in found.disagreements.items()},
    }
    return StudySet("openi", found.governance, found.table, notes)


def read(root: Path, options: SourceOptions) -> StudySet:
    """See `sources/registry.py`."""
    return read_studies(root, options.labels)


def split_of(uid: int) -> str:
    """`train`, `validate` or `test` (80/10/10) by a hash of the uid."""
    place = int.from_bytes(blake2b(str(uid).encode(), digest_size=8).digest()) % 100
    return "train" if place < 80 else "validate" if place < 90 else "test"


def labels_from(problems: str, mesh: str) -> tuple[dict[str, int | None], list[str]]:
    """The 14 labels of one study (1 or None) from its two annotation cells, and the headings that the mapping lacks.

    A study that is annotated with any other label is not without findings, whatever else stands there.
    """
    found: set[str] = set()
    unknown: dict[str, None] = {}
    # MeSH qualifies the headings that Problems lists; where it has them, the bare ones add nothing
    terms = [term for term in mesh.split(";") if term.strip()] or [term for term in problems.split(";") if term.strip()]
    for term in terms:
        labels, known = labels_of(term)
        found.update(labels)
        if not known:
            unknown[term.split("/")[0].strip()] = None
    if found - {NO_FINDING}:
        found.discard(NO_FINDING)
    return {label: 1 if label in found else None for label in CHEXPERT_LABELS}, list(unknown)


def _study(
    uid: int, report: dict[str, str], images: list[tuple[str, str]], unmapped: Counter[str]
) -> dict[str, object]:
    labels, unknown = labels_from(report["Problems"], report["MeSH"])
    unmapped.update(unknown)
    sections = {name: " ".join(report[name].split()) or None for name in ("findings", "impression", "indication")}
    title_alone = sections["findings"] is not None and is_title(sections["findings"])
    if title_alone:
        sections["findings"] = None
    return {
        "subject_id": uid,
        "study_id": uid,
        "split": split_of(uid),
        **sections,
        "title_alone": title_alone,
        "labels": labels,
        "images": [
            {"path": name, "dicom_id": re.sub(r"(?:\.dcm)?\.\w+$", "", name), "view": _view(view, report["image"])}
            for name, view in images
        ],
    }


def _view(projection: str, described: str) -> str:
    """PA or AP for a frontal image where the study's own description names exactly one of them."""
    pa_named, ap_named = bool(_PA.search(described)), bool(_AP.search(described))
    if projection == "FRONTAL" and pa_named != ap_named:
        return "PA" if pa_named else "AP"
    return projection


def _reports(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    rows: dict[int, int] = {}
    for number, row in _rows(path, _REPORT_COLUMNS):
        uid = _uid(row["uid"], path, number)
        if uid in rows:
            raise InputError(f"{path}: row {number}: uid {uid} is in row {rows[uid]} already; keep one row per study")
        rows[uid] = number
        yield uid, row


def _images(path: Path, reports: dict[int, dict[str, str]]) -> dict[int, list[tuple[str, str]]]:
    images: dict[int, list[tuple[str, str]]] = {}
    for number, row in _rows(path, _PROJECTION_COLUMNS):
        uid, name = _uid(row["uid"], path, number), row["filename"].strip()
        if uid not in reports:
            raise InputError(
                f"{path}: row {number}: uid {uid} has no row in {REPORTS}; take both files from one download"
            )
        view = _VIEWS.get(row["projection"].strip().lower())
        if view is None:
            raise InputError(
                f"{path}: row {number}: projection {row['projection']!r} is unknown; allowed: Frontal, Lateral"
            )
        if not name or "/" in name or "\\" in name or name.startswith("."):
            raise InputError(f"{path}: row {number}: filename {name!r} is not a plain file name")
        images.setdefault(uid, []).append((name, view))
    return images


def _uid(cell: str, path: Path, number: int) -> int:
    if not (cell.isascii() and cell.strip().isdigit() and len(cell) <= _UID_DIGITS):
        raise InputError(f"{path}: row {number}: uid {cell!r} is not a whole number of at most {_UID_DIGITS} digits")
    return int(cell)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """(row number, cells) of one of the two files, the header being row 1."""
    if not path.exists():
        raise InputError(
            f"{path}: no such file; the Indiana collection needs {REPORTS} and {PROJECTIONS} in one folder"
        )
    return iterate_cells(path, columns, first=2)
