"""Corrected annotations: `annotations.csv` in the released layout, with one row for each saved report.

`meddqa check`, `meddqa generate` and `load_dataset` read the folder. Fields that were not changed keep their exact
text. The reasons of a draft stay with the rows that were not changed.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from medvqa_core.errors import InputError, show
from medvqa_core.files import make_folder, output_errors
from medvqa_core.governance import Governance
from rjua_meddqa.annotation.drafts import REASONS
from rjua_meddqa.data_folder import ANNOTATIONS, OUR_NAMES, open_folder, record_part
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, TableRow

SOURCE = "explorer"  # in the manifest
LOCK = ".annotations.lock"
CHOICES = {"image_type": IMAGE_TYPES, "image_quality": IMAGE_QUALITIES}
LONGEST = 20_000  # characters of a field
LARGEST = 1 << 19  # bytes of an annotation, half of what a CSV field may have


class Corrections:
    """The folder of corrections. Thread-safe.

    Raises:
        InputError: the folder holds annotations that cannot be read.
        GovernanceError: its class is stricter than that of the corrected data.
    """

    def __init__(self, folder: Path, governance: Governance) -> None:
        self.folder, self._governance = folder, governance
        self._lock = threading.Lock()
        self._rows = self._read()

    def _read(self) -> dict[str, Annotation]:
        if not self.folder.is_dir() or ANNOTATIONS not in (found := open_folder(self.folder)).files:
            return {}
        if found.manifest.get(ANNOTATIONS, {}).get("source") != SOURCE:
            raise InputError(f"{self.folder} holds annotations that the explorer did not save. Choose another folder.")
        return {row.img_path: row for row in read_annotations(found.file(ANNOTATIONS))}

    def find(self, img_path: str) -> Annotation | None:
        """The saved annotation of a report."""
        return self._rows.get(img_path)

    def __len__(self) -> int:
        return len(self._rows)

    def save(self, annotation: Annotation) -> None:
        """Save or replace the annotation of a report. It is on disk when this returns.

        Another explorer may use the same folder. The reports that it saved are kept.

        Raises:
            InputError: another explorer has saved this report since it was shown.
            OutputError: the folder cannot be written.
        """
        with self._lock:
            make_folder(self.folder, self._governance.private)
            with output_errors(self.folder), FileLock(self.folder / LOCK):
                self._save(annotation)

    def _save(self, annotation: Annotation) -> None:
        shown, self._rows = self._rows.get(annotation.img_path), self._read()
        if _content(self._rows.get(annotation.img_path)) != _content(shown):
            raise InputError(
                f"{annotation.img_path} was saved by another explorer in the meantime. Nothing was overwritten. Load "
                "the page again to see the saved version."
            )
        rows = {**self._rows, annotation.img_path: annotation}
        details = {"source": SOURCE, "counts": {"annotations": len(rows)}}
        record_part(self.folder, ANNOTATIONS, self._governance, details)
        write_annotations(list(rows.values()), self.folder / OUR_NAMES[ANNOTATIONS])
        self._rows = self._read()


def _content(annotation: Annotation | None) -> Annotation | None:
    """An annotation without empty extra columns, which depend on the other rows of the file."""
    if annotation is None:
        return None
    return replace(annotation, extra={name: value for name, value in annotation.extra.items() if value})


def read_correction(given: Mapping[str, Any], before: Annotation) -> Annotation:
    """Validate a correction from the page.

    Args:
        given: `key_values` as pairs, `table` as rows of four, report_type, image_type and image_quality.
        before: the annotation that was corrected. Its id and extra columns are kept.

    Raises:
        InputError: a field is missing, not a text, too long or not an allowed value.
    """
    key_values = tuple((key, value) for key, value in _rows(given, "key_values", 2))
    table = tuple(TableRow(*row) for row in _rows(given, "table", 4))
    for number, row in enumerate(table, start=1):
        if row.is_normal not in IS_NORMAL_VALUES:
            allowed = ", ".join(IS_NORMAL_VALUES)
            raise InputError(f"table row {number}: is_normal is {show(row.is_normal)}. Expected {allowed}.")
    chosen = {name: _text(given.get(name), name).strip() for name in ("report_type", *CHOICES)}
    for name, allowed in CHOICES.items():
        if chosen[name] not in allowed:
            raise InputError(f"{name} is {show(chosen[name])}. Expected {', '.join(allowed)}.")
    if not chosen["report_type"]:
        raise InputError("report_type is empty. Enter the kind of report.")
    if len(json.dumps([key_values, [astuple(row) for row in table]], ensure_ascii=False).encode()) > LARGEST:
        raise InputError(f"the annotation is too large to be saved. The limit is {LARGEST >> 10} KiB.")
    extra = dict(before.extra)
    if REASONS in extra:
        extra[REASONS] = json.dumps(_reasons(table, before), ensure_ascii=False)
    return replace(before, key_values=key_values, table=table, extra=extra, **chosen)


def read_reasons(annotation: Annotation) -> list[str]:
    """The reason for the verdict of each row of a draft, or ""."""
    try:
        reasons = json.loads(annotation.extra.get(REASONS) or "[]")
    except ValueError:
        reasons = []
    if not isinstance(reasons, list) or len(reasons) != len(annotation.table):
        return [""] * len(annotation.table)
    return [str(reason) for reason in reasons]


def _reasons(table: tuple[TableRow, ...], before: Annotation) -> list[str]:
    known = dict(zip(before.table, read_reasons(before), strict=True))
    return [known.get(row, "") for row in table]


def _rows(given: Mapping[str, Any], name: str, fields: int) -> list[list[str]]:
    rows = given.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == fields for row in rows):
        raise InputError(f"{name}: expected a list of rows of {fields} texts")
    return [[_text(field, f"{name} {number}") for field in row] for number, row in enumerate(rows, start=1)]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: expected a text, found {type(value).__name__}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"{where} contains half of a surrogate pair, which cannot be saved")
    if len(value) > LONGEST:
        raise InputError(f"{where} has {len(value):,} characters. The limit is {LONGEST:,}.")
    return value
