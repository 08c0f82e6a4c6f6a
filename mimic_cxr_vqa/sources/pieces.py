"""Which files a PhysioNet tree needs, where they were looked for, and where to get those that are missing.

`medvqa-hub doctor` prints this list; the `physionet` source reads from it.
"""

from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError

LABELERS = ("chexpert", "negbio")
_VERSIONS = ("2.0.0", "2.1.0")  # release 2.1.0 kept the file names of 2.0.0; renamed copies are found too
_JPG_PAGE = "https://physionet.org/content/mimic-cxr-jpg/"
_REPORT_PAGE = "https://physionet.org/content/mimic-cxr/"


@dataclass(frozen=True)
class Piece:
    """One thing a tree must hold: found at `path`, or missing from every place in `looked_for`."""

    name: str
    looked_for: tuple[Path, ...]
    source: str  # page it can be had from

    @property
    def path(self) -> Path | None:
        return next((path for path in self.looked_for if path.exists()), None)


def locate(root: Path, reports: Path | None = None, labeler: str = "chexpert") -> dict[str, Piece]:
    """The pieces of a tree by name: labels, metadata, split, images, reports (each found or not).

    Raises:
        ConfigError: `labeler` is neither `chexpert` nor `negbio`.
    """
    if labeler not in LABELERS:
        raise ConfigError(f"labeler {labeler!r} is unknown; allowed: {', '.join(LABELERS)}")
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
    """The path of a piece. Raises InputError naming every place that was looked at and where to get it."""
    if piece.path is None:
        places = ", ".join(map(str, piece.looked_for))
        raise InputError(
            f"{piece.name} not found; looked for {places}; get it from {piece.source} (credentialed access), "
            "or draw synthetic studies: medvqa-hub cxr phantom --out FOLDER"
        )
    return piece.path


def _report_places(folder: Path) -> tuple[Path, ...]:
    """The zip, or the folder that holds `files/pNN/…`: named itself, or below `folder` under its usual names."""
    if folder.suffix == ".zip":
        return (folder,)
    unpacked = folder / "mimic-cxr-reports"
    holders = tuple(holder for holder in (unpacked, folder) if _holds_reports(holder / "files"))
    return holders or (folder / "mimic-cxr-reports.zip", unpacked / "files")


def _holds_reports(files: Path) -> bool:
    """Whether the first patient folder has a report: MIMIC-CXR-JPG's own `files/` has images only."""
    group = next((path for path in sorted(files.glob("p[0-9][0-9]")) if path.is_dir()), None)
    return group is not None and next(group.glob("p*/s*.txt"), None) is not None
