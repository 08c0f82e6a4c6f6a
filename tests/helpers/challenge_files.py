"""Releases in the layout of the challenge CXR-ORACLE, with and without answers."""

import csv
from pathlib import Path

from mimic_cxr_vqa.authors_csv import COLUMNS, write_authors_csv
from mimic_cxr_vqa.release import Release

NAMES = {"train": "Train", "validate": "Validation", "test": "Test"}


def write_challenge(release: Release, folder: Path, split: str, as_split: str, without: tuple[str, ...] = ()) -> Path:
    """Write the rows of a split as `CXR_ORACLE_2025_….csv` of another split, without some columns."""
    path = folder / "CXR_ORACLE_2025" / f"CXR_ORACLE_2025_{NAMES[as_split]}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_authors_csv(path, release.iterate_split(split, {}))
    return drop_columns(path, without)


def drop_columns(path: Path, without: tuple[str, ...]) -> Path:
    kept = [name for name in COLUMNS if name not in without]
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, kept, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return path
