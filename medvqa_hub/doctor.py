"""`medvqa-hub doctor`: check the installation and the data, with a remedy for each problem."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from medvqa_core.errors import ConfigError, MedvqaError, one_line

PACKAGES = (
    "torch", "transformers", "datasets", "accelerate", "peft", "evaluate", "huggingface-hub", "safetensors",
    "bitsandbytes", "pyarrow", "pillow", "numpy",
)  # fmt: skip
IMAGES_CHECKED = 20
LOW_DISK_BYTES = 20 << 30  # a release of MIMIC-CXR and its Arrow cache take a few GiB each


@dataclass(frozen=True)
class Check:
    """One line of the report. A `problem` makes the command fail, a missing `optional` item does not."""

    name: str
    state: str
    problem: bool = False
    optional: bool = False


def examine(mimic_root: Path | None, reports: Path | None) -> bool:
    """Print the report. Returns whether everything that is required was found.

    Raises:
        ConfigError: `reports` without `mimic_root`.
    """
    if reports is not None and mimic_root is None:
        raise ConfigError("--reports needs --mimic-root, the folder of MIMIC-CXR-JPG")
    sections = {"This machine": _machine(), "Releases": _releases()}
    if mimic_root is not None:
        sections[f"MIMIC-CXR at {mimic_root}"] = _mimic(mimic_root, reports)
    healthy = print_checks(sections)
    if mimic_root is None:
        Console().print("To check a copy of MIMIC-CXR: medvqa-hub doctor --mimic-root FOLDER [--reports FOLDER]")
    return healthy


def print_checks(sections: Mapping[str, Iterable[Check]]) -> bool:
    """Print checks under their titles. Returns whether none is a problem."""
    console, healthy = Console(), True
    for title, checks in sections.items():
        console.print(f"[bold]{title}[/bold]", highlight=False)
        for check in checks:
            note = "[yellow]note[/yellow]   " if check.optional else "ok     "
            mark = "[red]missing[/red]" if check.problem else note
            console.print(f"  {mark}  {check.name:20}", end="", highlight=False)
            console.print(check.state, markup=False, highlight=False, soft_wrap=True)
            healthy &= not check.problem
    return healthy


def _machine() -> Iterator[Check]:
    yield Check("python", platform.python_version())
    for package in PACKAGES:
        try:
            yield Check(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Check(package, f"not installed: pip install {package}", problem=True)
    java = shutil.which("java")
    yield Check("java", java or "not found (only METEOR needs it)", optional=java is None)
    offline = os.environ.get("HF_HUB_OFFLINE")
    yield Check("HF_HUB_OFFLINE", offline or "not set (the bundled datasets do not use the network)")
    yield from _cache()


def _cache() -> Iterator[Check]:
    from huggingface_hub.constants import HF_HOME

    folder = Path(HF_HOME)
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        yield Check("cache", f"{existing} is not writable: set HF_HOME to another folder", problem=True)
        return
    free = shutil.disk_usage(existing).free
    yield Check("cache", f"{folder}, {free / 2**30:.0f} GiB free", optional=free < LOW_DISK_BYTES)


def _releases() -> Iterator[Check]:
    from mimic_cxr_vqa.release import IMAGE_VARIABLE, RELEASE_VARIABLE, find_default_release, open_release
    from mimic_cxr_vqa.workspace import SAMPLE_DIR

    for name, find in {"sample": lambda: SAMPLE_DIR, "default": find_default_release}.items():
        try:
            release = open_release(find())
            yield Check(name, f"{release.folder} ({release.kind}, {release.governance})")
        except MedvqaError as error:
            yield Check(name, one_line(error), problem=name == "sample", optional=name != "sample")
    for variable in (RELEASE_VARIABLE, IMAGE_VARIABLE):
        yield Check(variable, os.environ.get(variable, "not set"))


def _mimic(root: Path, reports: Path | None) -> Iterator[Check]:
    from mimic_cxr_vqa.sources.pieces import locate

    pieces = locate(root, reports)
    for piece in pieces.values():
        if piece.path is None:
            places = " or ".join(map(str, piece.looked_for))
            yield Check(piece.name, f"{places} not found: get it from {piece.source}", problem=True)
        else:
            yield Check(piece.name, str(piece.path))
    negbio = locate(root, reports, "negbio")["labels"]
    if negbio.path is None:
        yield Check(negbio.name, "not found (only --labeler negbio needs it)", optional=True)
    metadata, images = pieces["metadata"].path, pieces["images"].path
    if metadata and images:
        yield from _images(metadata, images)


def _images(metadata: Path, files: Path) -> Iterator[Check]:
    """Check images from all parts of the metadata table, to detect an incomplete copy."""
    import pyarrow as pa

    from medvqa_core.csv_files import read_csv
    from mimic_cxr_vqa.images import check_image
    from mimic_cxr_vqa.sources.physionet import study_folder

    columns = {"dicom_id": pa.string(), "subject_id": pa.int64(), "study_id": pa.int64()}
    try:
        table = read_csv(metadata, columns)
    except MedvqaError as error:
        yield Check("metadata table", one_line(error), problem=True)
        return
    rows = table.take(list(range(0, len(table), max(1, len(table) // IMAGES_CHECKED)))).to_pylist()
    paths = [files / study_folder(row["subject_id"], row["study_id"]) / f"{row['dicom_id']}.jpg" for row in rows]
    problems = [(path, problem) for path in paths if (problem := check_image(path))]
    state = f"{len(table):,} in the metadata table, {len(paths) - len(problems)} of {len(paths)} checked are complete"
    if problems:
        state += f". {problems[0][0]} {problems[0][1]}. Copy the rest, or load with missing_images='skip'."
    yield Check("images", state, optional=bool(problems))
