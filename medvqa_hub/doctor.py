"""`medvqa-hub doctor`: what is there, what is missing, and what to do about it."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from medvqa_core.errors import ConfigError, MedvqaError, one_line

PACKAGES = (
    "torch", "transformers", "datasets", "accelerate", "peft", "evaluate", "huggingface-hub", "safetensors",
    "bitsandbytes", "pyarrow", "pillow", "numpy",
)  # fmt: skip
IMAGES_LOOKED_AT = 20
LOW_DISK_BYTES = 20 << 30  # a release of the whole of MIMIC-CXR and its Arrow cache take a few GiB each


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report; `problem` findings make the command fail, `optional` ones do not."""

    name: str
    state: str
    problem: bool = False
    optional: bool = False


def examine(mimic_root: Path | None, reports: Path | None) -> bool:
    """Print the report; True when nothing that is needed is missing.

    Raises:
        ConfigError: `reports` without `mimic_root`.
    """
    if reports is not None and mimic_root is None:
        raise ConfigError("--reports goes with --mimic-root: name the folder of MIMIC-CXR-JPG too")
    console = Console()
    healthy = True
    sections = {"This machine": _machine(), "Releases": _releases()}
    if mimic_root is not None:
        sections[f"MIMIC-CXR at {mimic_root}"] = _mimic(mimic_root, reports)
    for title, findings in sections.items():
        console.print(f"[bold]{title}[/bold]", highlight=False)
        for finding in findings:
            mark = (
                "[red]missing[/red]"
                if finding.problem
                else "[yellow]note[/yellow]   "
                if finding.optional
                else "ok     "
            )
            console.print(f"  {mark}  {finding.name:20}", end="", highlight=False)
            console.print(finding.state, markup=False, highlight=False, soft_wrap=True)
            healthy &= not finding.problem
    if mimic_root is None:
        console.print("Check a copy of MIMIC-CXR with: medvqa-hub doctor --mimic-root FOLDER [--reports FOLDER]")
    return healthy


def _machine() -> Iterator[Finding]:
    yield Finding("python", platform.python_version())
    for package in PACKAGES:
        try:
            yield Finding(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, f"not installed; pip install {package}", problem=True)
    java = shutil.which("java")
    yield Finding("java", java or "not found; only the METEOR metric needs it", optional=java is None)
    offline = os.environ.get("HF_HUB_OFFLINE")
    yield Finding("HF_HUB_OFFLINE", offline or "not set; datasets of this package need no network either way")
    yield from _cache()


def _cache() -> Iterator[Finding]:
    from huggingface_hub.constants import HF_HOME

    folder = Path(HF_HOME)
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        yield Finding("cache", f"{existing} cannot be written; set HF_HOME to a folder of yours", problem=True)
        return
    free = shutil.disk_usage(existing).free
    yield Finding("cache", f"{folder}, {free / 2**30:.0f} GiB free", optional=free < LOW_DISK_BYTES)


def _releases() -> Iterator[Finding]:
    from mimic_cxr_vqa.release import IMAGE_VARIABLE, RELEASE_VARIABLE, find_default_release, open_release
    from mimic_cxr_vqa.workspace import SAMPLE_DIR

    for name, find in {"sample": lambda: SAMPLE_DIR, "default": find_default_release}.items():
        try:
            release = open_release(find())
            yield Finding(name, f"{release.folder} ({release.kind}, {release.governance})")
        except MedvqaError as error:
            yield Finding(name, one_line(error), problem=name == "sample", optional=name != "sample")
    for variable in (RELEASE_VARIABLE, IMAGE_VARIABLE):
        yield Finding(variable, os.environ.get(variable, "not set"))


def _mimic(root: Path, reports: Path | None) -> Iterator[Finding]:
    from mimic_cxr_vqa.sources.pieces import locate

    pieces = locate(root, reports)
    for piece in pieces.values():
        if piece.path is None:
            places = " or ".join(map(str, piece.looked_for))
            yield Finding(piece.name, f"looked for {places}; get it from {piece.source}", problem=True)
        else:
            yield Finding(piece.name, str(piece.path))
    negbio = locate(root, reports, "negbio")["labels"]
    if negbio.path is None:
        yield Finding(negbio.name, "not there; only --labeler negbio needs it", optional=True)
    if all(pieces[name].path for name in ("metadata", "images")):
        yield from _images(pieces["metadata"].path, pieces["images"].path)


def _images(metadata: Path, files: Path) -> Iterator[Finding]:
    """Look at images spread over the metadata table: enough to see a tree that was copied in part."""
    import pyarrow as pa

    from medvqa_core.csv_files import read_csv
    from mimic_cxr_vqa.images import check_image
    from mimic_cxr_vqa.sources.physionet import study_folder

    columns = {"dicom_id": pa.string(), "subject_id": pa.int64(), "study_id": pa.int64()}
    try:
        table = read_csv(metadata, columns)
    except MedvqaError as error:
        yield Finding("metadata table", one_line(error), problem=True)
        return
    rows = table.take(list(range(0, len(table), max(1, len(table) // IMAGES_LOOKED_AT)))).to_pylist()
    paths = [files / study_folder(row["subject_id"], row["study_id"]) / f"{row['dicom_id']}.jpg" for row in rows]
    problems = [(path, problem) for path in paths if (problem := check_image(path))]
    state = f"{len(table):,} in the metadata table; {len(paths) - len(problems)} of {len(paths)} looked at are whole"
    if problems:
        state += f"; {problems[0][0]} {problems[0][1]}; load with missing_images='skip', or copy the rest"
    yield Finding("images", state, optional=bool(problems))
