"""The files that a PhysioNet tree consists of, where they may be, and where to download them.

`medvqa-hub doctor` prints this list, and the source `physionet` reads from it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError

LABELERS = ("chexpert", "negbio")
_VERSIONS = ("2.0.0", "2.1.0")  # release 2.1.0 kept the file names of 2.0.0; renamed copies are found too
_JPG_PAGE = "https://physionet.org/content/mimic-cxr-jpg/"
_REPORT_PAGE = "https://physionet.org/content/mimic-cxr/"


@dataclass(frozen=True)
class Piece:
    """A required file or folder: the places to look for it, and the page to download it from."""

    name: str
    looked_for: tuple[Path, ...]
    source: str

    @property
    def path(self) -> Path | None:
        return next((path for path in self.looked_for if path.exists()), None)


def locate(root: Path, reports: Path | None = None, labeler: str = "chexpert") -> dict[str, Piece]:
    """Return the pieces of a tree by name (labels, metadata, split, images, reports), whether found or not.

    Raises:
        ConfigError: `labeler` is neither `chexpert` nor `negbio`.
    """
    if labeler not in LABELERS:
        raise ConfigError(f"labeler {labeler!r} is unknown. Allowed: {', '.join(LABELERS)}")
    tables = {"labels": labeler, "metadata": "metadata", "split": "split"}
    pieces = {
        name: Piece(
            f"{table} table",
            tuple(root / f"mimic-cxr-{v}-{table}.csv{suffix}" for v in _VERSIONS for suffix in (".gz", "")),
            _JPG_PAGE,
        )
        for name, table in tables.items()
    }
    pieces["images"] = Piece("image folder", (root / "files",), _JPG_PAGE)
    pieces["reports"] = Piece("reports", _report_places(reports or root), _REPORT_PAGE)
    return pieces


def need(piece: Piece) -> Path:
    """Return the path of a piece. Raises InputError with the places that were searched and the download page."""
    if piece.path is None:
        places = ", ".join(map(str, piece.looked_for))
        raise InputError(
            f"{piece.name} not found in {places}. Download it from {piece.source} (credentialed access), or make "
            "synthetic studies: medvqa-hub cxr phantom --out FOLDER"
        )
    return piece.path


def is_marked_synthetic(root: Path) -> bool:
    """Whether the tree has the file that `cxr phantom` writes last."""
    try:
        marker = json.loads((root / "phantom.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("source") == "phantom"


def _report_places(folder: Path) -> tuple[Path, ...]:
    """The zip, or the folder that holds `files/pNN/…`: `folder` itself or a usual name below it."""
    if folder.suffix == ".zip":
        return (folder,)
    unpacked = folder / "mimic-cxr-reports"
    holders = tuple(holder for holder in (unpacked, folder) if _holds_reports(holder / "files"))
    return holders or (folder / "mimic-cxr-reports.zip", unpacked / "files")


def _holds_reports(files: Path) -> bool:
    """Whether the first patient folder has a report. MIMIC-CXR-JPG's own `files/` has images only."""
    group = next((path for path in sorted(files.glob("p[0-9][0-9]")) if path.is_dir()), None)
    return group is not None and next(group.glob("p*/s*.txt"), None) is not None
