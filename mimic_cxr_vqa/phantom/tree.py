"""Writes synthetic studies with reports in the layout of MIMIC-CXR-JPG 2.0.0.

    root/mimic-cxr-2.0.0-{split,metadata,chexpert,negbio}.csv.gz
    root/files/p90/p90000001/s95000001/<dicom_id>.jpg
    root/files/p90/p90000001/s95000001.txt      reports="folder"
    root/mimic-cxr-reports.zip                  reports="zip": the same files/... members
    root/phantom.json                           written last: the tree is complete

`specs` samples the content of a study, `drawing` its images and `reports` its text. Every file is a pure function of
(seed, study number, size). An interrupted run is resumed by a call with the same parameters, which are kept in
`phantom-unfinished.json` meanwhile.
"""

import csv
import gzip
import io
import signal
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

from PIL import Image

from medvqa_core.errors import ConfigError
from medvqa_core.files import atomic_file, make_folder, output_errors
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_json, write_json
from medvqa_core.progress import track
from mimic_cxr_vqa.images import check_image
from mimic_cxr_vqa.phantom.drawing import draw
from mimic_cxr_vqa.phantom.reports import write_report
from mimic_cxr_vqa.phantom.specs import StudySpec, sample_studies, stream
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, canonical_view
from mimic_cxr_vqa.sources import physionet

MARKER, UNFINISHED = "phantom.json", "phantom-unfinished.json"
REPORTS_ZIP = "mimic-cxr-reports.zip"
SMALLEST_SIZE = 64  # pixels; below, a rib is less than one pixel wide
LARGEST_SIZE = 8192  # pixels. Real films have some 3000. Drawing takes 40 bytes per pixel
MOST_STUDIES = 4_999_999  # their ids have eight digits
STUDIES_PER_TASK = 20  # of one process
_VERSION = 1
_JPEG_QUALITY = 90
_ZIP_DATE = (2000, 1, 1, 0, 0, 0)

_METADATA_COLUMNS = (
    "dicom_id",
    "subject_id",
    "study_id",
    "PerformedProcedureStepDescription",
    "ViewPosition",
    "Rows",
    "Columns",
    "StudyDate",
    "StudyTime",
    "ProcedureCodeSequence_CodeMeaning",
    "ViewCodeSequence_CodeMeaning",
    "PatientOrientationCodeSequence_CodeMeaning",
)


def write_phantom(
    root: Path, studies: int, seed: int = 0, size: int = 512, reports: str = "folder", processes: int = 1
) -> dict:
    """Write synthetic studies below `root`, or resume an interrupted run.

    Args:
        size: height and width of the images in pixels.
        reports: `folder` (a text file beside each study's folder) or `zip` (one archive, as on PhysioNet).
        processes: number of drawing processes. On macOS and Windows, scripts that use more than one need
            `if __name__ == "__main__"`.

    Returns:
        The marker's content and the counts `patients`, `images`, `drawn` (by this run) and `kept` (from earlier runs).

    Raises:
        ConfigError: a parameter is out of range, or `root` has a tree with other parameters.
        InputError: the marker in `root` cannot be read.
        OutputError: `root` cannot be written.
    """
    parameters = _check_parameters(studies, seed, size, reports)
    root = make_folder(Path(root))
    _check_same_parameters(root, parameters)
    if (root / MARKER).exists() and not all(_is_whole(path) for path in _files(root, parameters)):
        with output_errors(root / MARKER):
            (root / MARKER).unlink()  # files were deleted, so the tree is incomplete
    if not (root / MARKER).exists():
        _write_json(root / UNFINISHED, parameters)
    counts = _write_studies(root, parameters, processes)
    for name, columns, rows in _tables(size):
        _write_table(_table_path(root, name), columns, rows, sample_studies(studies, seed))
    if reports == "zip":
        _write_zip(root / REPORTS_ZIP, sample_studies(studies, seed))
    _write_json(root / MARKER, parameters)
    with output_errors(root / UNFINISHED):
        (root / UNFINISHED).unlink(missing_ok=True)
    return parameters | counts


def _is_whole(path: Path) -> bool:
    return check_image(path) is None if path.suffix == ".jpg" else path.exists() and path.stat().st_size > 0


def image_path(spec: StudySpec, dicom_id: str) -> str:
    """Return the path below the root: `files/p90/p90000001/s95000001/<dicom_id>.jpg`."""
    return f"files/{physionet.study_folder(spec.subject_id, spec.study_id)}/{dicom_id}.jpg"


def report_path(spec: StudySpec) -> str:
    """Return the path below the root or in the zip: `files/p90/p90000001/s95000001.txt`."""
    return physionet.report_path(spec.subject_id, spec.study_id)


def _check_parameters(studies: int, seed: int, size: int, reports: str) -> dict:
    if not 1 <= studies <= MOST_STUDIES:
        raise ConfigError(f"phantom: studies is {studies}. Allowed are 1 to {MOST_STUDIES:,}")
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise ConfigError(f"phantom: size is {size} pixels. Allowed are {SMALLEST_SIZE} to {LARGEST_SIZE}")
    if seed < 0:
        raise ConfigError(f"phantom: seed is {seed}. It must be 0 or more")
    if reports not in ("folder", "zip"):
        raise ConfigError(f"phantom: reports is {reports!r}. Allowed are 'folder' and 'zip'")
    return {
        "source": "phantom",
        "version": _VERSION,
        "governance": str(Governance.OPEN),
        "seed": seed,
        "studies": studies,
        "size": size,
        "reports": reports,
    }


def _check_same_parameters(root: Path, parameters: dict) -> None:
    for name in (MARKER, UNFINISHED):
        path = root / name
        if not path.exists():
            continue
        found = read_json(path, f"delete the folder {root} and write it again")
        differing = [key for key in parameters if not isinstance(found, dict) or found.get(key) != parameters[key]]
        if differing:
            key = differing[0]
            there = found.get(key) if isinstance(found, dict) else found
            raise ConfigError(
                f"{root} has a tree with {key} {there!r}, not {parameters[key]!r}. Choose another folder, delete this "
                f"one, or use the same {key}"
            )


def _files(root: Path, parameters: dict) -> Iterator[Path]:
    """Every file of a complete tree except for the marker."""
    for name, _, _ in _tables(parameters["size"]):
        yield _table_path(root, name)
    if parameters["reports"] == "zip":
        yield root / REPORTS_ZIP
    for spec in sample_studies(parameters["studies"], parameters["seed"]):
        yield from (root / image_path(spec, dicom_id) for dicom_id in spec.dicom_ids)
        if parameters["reports"] == "folder":
            yield root / report_path(spec)


def _table_path(root: Path, name: str) -> Path:
    return root / f"mimic-cxr-2.0.0-{name}.csv.gz"


def _write_studies(root: Path, parameters: dict, processes: int) -> dict[str, int]:
    """Write the images and, with reports="folder", the texts that are missing."""
    specs = sample_studies(parameters["studies"], parameters["seed"])
    size = 1 if processes == 1 else STUDIES_PER_TASK
    tasks = iter(lambda: list(islice(specs, size)), [])
    write = partial(_write_some, root, parameters["size"], parameters["reports"] == "folder")
    subjects: set[int] = set()
    drawn = kept = 0
    done = map(write, tasks) if processes == 1 else _write_together(write, tasks, processes)
    what = "Drawing synthetic studies" + (f", {size} at a time" if size > 1 else "")
    for of_subjects, new, old in track(done, what, -(-parameters["studies"] // size)):
        subjects |= of_subjects
        drawn, kept = drawn + new, kept + old
    return {"patients": len(subjects), "images": drawn + kept, "drawn": drawn, "kept": kept}


def _write_together(write: Callable, tasks: Iterable[list[StudySpec]], processes: int) -> Iterator[tuple]:
    """Run the tasks in several processes. Tasks that have not started are cancelled on interruption."""
    with ProcessPoolExecutor(processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield from pool.map(write, tasks)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _write_some(root: Path, size: int, texts: bool, specs: list[StudySpec]) -> tuple[set[int], int, int]:
    """Write the missing files of some studies. Returns their patients, and the numbers of images drawn and kept."""
    drawn = kept = 0
    for spec in specs:
        if texts and not _is_whole(root / report_path(spec)):
            with atomic_file(root / report_path(spec)) as file:
                file.write(write_report(spec).text.encode())
        for number, dicom_id in enumerate(spec.dicom_ids):
            path = root / image_path(spec, dicom_id)
            if _is_whole(path):
                kept += 1
                continue
            with atomic_file(path, synced=False) as file:  # `_is_whole` checks it
                file.write(draw_jpeg(spec, number, size))
            drawn += 1
    return {spec.subject_id for spec in specs}, drawn, kept


def draw_jpeg(spec: StudySpec, number: int, size: int) -> bytes:
    """Return an image of a study as a JPEG. Its pixels only depend on the arguments."""
    pixels = draw(spec, spec.views[number], size, stream(spec.seed, f"picture {number}", spec.study_id))
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()


def _tables(size: int) -> list[tuple[str, tuple[str, ...], Callable[[StudySpec], Iterable[tuple]]]]:
    """Name, columns and row function of the four tables of MIMIC-CXR-JPG."""
    label_columns = ("subject_id", "study_id", *CHEXPERT_LABELS)
    return [
        ("chexpert", label_columns, _label_rows),
        ("negbio", label_columns, _label_rows),
        ("metadata", _METADATA_COLUMNS, lambda spec: _metadata_rows(spec, size)),
        ("split", ("dicom_id", "study_id", "subject_id", "split"), _split_rows),
    ]


def _label_rows(spec: StudySpec) -> Iterator[tuple]:
    values = spec.labels
    yield (spec.subject_id, spec.study_id, *("" if v is None else f"{v:.1f}" for v in values.values()))


def _split_rows(spec: StudySpec) -> Iterator[tuple]:
    for dicom_id in spec.dicom_ids:
        yield dicom_id, spec.study_id, spec.subject_id, spec.split


def _metadata_rows(spec: StudySpec, size: int) -> Iterator[tuple]:
    """Dates are in the 22nd century, like MIMIC's shifted dates, and ascend with a patient's studies."""
    rng = stream(spec.seed, "metadata", spec.study_id)
    year = 2120 + int(stream(spec.seed, "year", spec.subject_id).integers(0, 60))
    date = f"{year}{1 + (spec.study_id // 28) % 12:02d}{1 + spec.study_id % 28:02d}"
    time = f"{rng.integers(0, 24):02d}{rng.integers(0, 60):02d}{rng.integers(0, 60):02d}.{rng.integers(0, 1000):03d}"
    lateral = any(canonical_view(view) == "LAT" for view in spec.views)
    procedure = f"CHEST ({spec.views[0] or 'PA'} AND LAT)" if lateral else "CHEST (PORTABLE AP)"
    for dicom_id, view in zip(spec.dicom_ids, spec.views, strict=True):
        meaning = {"AP": "antero-posterior", "PA": "postero-anterior", "LAT": "lateral"}.get(
            canonical_view(view) or "", ""
        )
        posture = "Erect" if lateral else ("", "Recumbent", "Erect")[rng.integers(0, 3)]
        ids = (dicom_id, spec.subject_id, spec.study_id)
        yield (*ids, procedure, view, size, size, date, time, procedure, meaning, posture)


def _write_table(
    path: Path, columns: tuple[str, ...], rows: Callable[[StudySpec], Iterable[tuple]], specs: Iterable[StudySpec]
) -> None:
    if path.exists():
        return
    with (
        atomic_file(path) as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        table = csv.writer(text, lineterminator="\n")
        table.writerow(columns)
        for spec in specs:
            table.writerows(rows(spec))


def _write_zip(path: Path, specs: Iterable[StudySpec]) -> None:
    if path.exists():
        return
    with atomic_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for spec in specs:
            member = zipfile.ZipInfo(report_path(spec), _ZIP_DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, write_report(spec).text.encode())


def _write_json(path: Path, content: dict) -> None:
    if path.exists():
        return
    write_json(path, content, indent=2)
