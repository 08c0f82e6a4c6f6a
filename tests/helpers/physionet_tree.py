"""A small tree in PhysioNet's layout, written by hand: two studies of two patients, ids in the drawn range."""

import gzip
import zipfile
from pathlib import Path

from mimic_cxr_vqa.schema import CHEXPERT_LABELS
from mimic_cxr_vqa.sources.physionet import report_path

FIRST, SECOND = 95_000_001, 95_000_002  # studies of the patients 90000001 and 90000002
LABELS = {
    FIRST: {"Edema": "1.0", "Pneumonia": "-1.0", "Fracture": "0.0"},
    SECOND: {"No Finding": "1"},
}
# dicom_id, subject, study, view, split; the studies lie interleaved, as nothing forbids
IMAGES = [
    ("d4", 90_000_002, SECOND, "LL", "test"),
    ("d2", 90_000_001, FIRST, "LATERAL", "train"),
    ("d3", 90_000_002, SECOND, "", "test"),
    ("d1", 90_000_001, FIRST, "PA", "train"),
]
REPORTS = {
    FIRST: "INDICATION: Cough.\n\nFINDINGS: Mild edema.\n\nIMPRESSION: Edema.\n",
    SECOND: "IMPRESSION: Normal chest.\n",
}


def tables(images=IMAGES, labels=LABELS) -> dict[str, str]:
    label_rows = [[s - 5_000_000, s, *(values.get(c, "") for c in CHEXPERT_LABELS)] for s, values in labels.items()]
    return {
        "chexpert": _csv(["subject_id", "study_id", *CHEXPERT_LABELS], label_rows),
        "metadata": _csv(
            ["dicom_id", "subject_id", "study_id", "Rows", "ViewPosition"],
            [[dicom, subject, study, 3056, view] for dicom, subject, study, view, _ in images],
        ),
        "split": _csv(
            ["dicom_id", "study_id", "subject_id", "split"],
            [[dicom, study, subject, split] for dicom, subject, study, _, split in reversed(images)],
        ),
    }


def _csv(header: list[str], rows: list[list]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def write_tree(
    root: Path, version="2.0.0", suffix=".csv.gz", reports: dict[int, bytes | str] = REPORTS, **content
) -> Path:
    """A tree with its reports in a folder; `content` is for `tables`."""
    root.mkdir(exist_ok=True)
    for name, text in tables(**content).items():
        data = gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode()
        (root / f"mimic-cxr-{version}-{name}{suffix}").write_bytes(data)
    write_reports(root, reports)
    return root


def write_reports(root: Path, reports=REPORTS) -> Path:
    for study, text in reports.items():
        path = root / report_path(study - 5_000_000, study)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def write_zip(path: Path, reports=REPORTS) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for study, text in reports.items():
            archive.writestr(report_path(study - 5_000_000, study), text)
    return path


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace the text `old` of a gzipped table."""
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new).encode()))
