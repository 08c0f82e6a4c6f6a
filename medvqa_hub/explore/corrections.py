"""Corrected annotations: a folder's `annotations.csv` in the released layout, one row per report that was saved.

`meddqa check`, `meddqa generate` and `load_dataset` read the folder as it is. What a person did not change is written
to the letter of the file that it came from; a draft's reasons stay with the rows whose verdict was left as it was.
"""

import fcntl
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, show
from medvqa_core.files import make_folder, output_errors
from medvqa_core.governance import Governance
from rjua_meddqa.annotation.drafts import REASONS
from rjua_meddqa.data_folder import ANNOTATIONS, OUR_NAMES, open_folder, record_part
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.schema import IMAGE_QUALITIES, IMAGE_TYPES, IS_NORMAL_VALUES, Annotation, TableRow

SOURCE = "explorer"  # of the annotations, in the manifest
CHOICES = {"image_type": IMAGE_TYPES, "image_quality": IMAGE_QUALITIES}
LONGEST = 20_000  # characters of a field, far beyond any report's


class Corrections:
    """The folder that corrections are saved in; used by several threads.

    Raises:
        InputError: the folder holds annotations that cannot be read.
        GovernanceError: its class is stricter than that of what is corrected.
    """

    def __init__(self, folder: Path, governance: Governance) -> None:
        self.folder, self._governance = folder, governance
        self._lock = threading.Lock()
        self._rows = self._read()

    def _read(self) -> dict[str, Annotation]:
        if not self.folder.is_dir() or ANNOTATIONS not in (found := open_folder(self.folder)).files:
            return {}
        if found.manifest.get(ANNOTATIONS, {}).get("source") != SOURCE:
            raise InputError(f"{self.folder} holds annotations that were not saved here; name another folder")
        return {row.img_path: row for row in read_annotations(found.file(ANNOTATIONS))}

    def find(self, img_path: str) -> Annotation | None:
        """What was saved of a report."""
        return self._rows.get(img_path)

    def __len__(self) -> int:
        return len(self._rows)

    def save(self, annotation: Annotation) -> None:
        """Add a report's annotation or put it in the place of the one saved before; on disk when this returns.

        Another explorer may save into the same folder: its reports are read again and kept.

        Raises:
            InputError: another explorer saved this report after it was shown here.
            OutputError: the folder cannot be written.
        """
        with self._lock:
            make_folder(self.folder, self._governance.private)
            with _alone_in(self.folder):
                self._save(annotation)

    def _save(self, annotation: Annotation) -> None:
        shown, self._rows = self._rows.get(annotation.img_path), self._read()
        if _content(self._rows.get(annotation.img_path)) != _content(shown):
            raise InputError(
                f"{annotation.img_path}: another explorer saved this report meanwhile; nothing was overwritten: "
                "load the page again, it shows what was saved"
            )
        rows = {**self._rows, annotation.img_path: annotation}
        details = {"source": SOURCE, "counts": {"annotations": len(rows)}}
        record_part(self.folder, ANNOTATIONS, self._governance, details)
        write_annotations(list(rows.values()), self.folder / OUR_NAMES[ANNOTATIONS])
        self._rows = self._read()


def _content(annotation: Annotation | None) -> Annotation | None:
    """Without empty columns, which a report has or not as the others in the file do."""
    if annotation is None:
        return None
    return replace(annotation, extra={name: value for name, value in annotation.extra.items() if value})


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process saves into `folder`, for the moment that a save takes."""
    with output_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with output_errors(folder):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_correction(given: Mapping[str, Any], before: Annotation) -> Annotation:
    """The annotation that a person sent.

    Args:
        given: `key_values` as pairs, `table` as rows of four, and the choices report_type, image_type, image_quality.
        before: what it was made from; its id and the columns that are not ours stay.

    Raises:
        InputError: a field is missing, no text, too long or none of what is allowed.
    """
    key_values = tuple((key, value) for key, value in _rows(given, "key_values", 2))
    table = tuple(TableRow(*row) for row in _rows(given, "table", 4))
    for number, row in enumerate(table, start=1):
        if row.is_normal not in IS_NORMAL_VALUES:
            allowed = ", ".join(IS_NORMAL_VALUES)
            raise InputError(f"table row {number}: is_normal {show(row.is_normal)} is unknown; allowed: {allowed}")
    chosen = {name: _text(given.get(name), name).strip() for name in ("report_type", *CHOICES)}
    for name, allowed in CHOICES.items():
        if chosen[name] not in allowed:
            raise InputError(f"{name} {show(chosen[name])} is unknown; allowed: {', '.join(allowed)}")
    if not chosen["report_type"]:
        raise InputError("report_type is empty; say which kind of report it is")
    extra = dict(before.extra)
    if REASONS in extra:
        extra[REASONS] = json.dumps(_reasons(table, before), ensure_ascii=False)
    return replace(before, key_values=key_values, table=table, extra=extra, **chosen)


def reasons_of(annotation: Annotation) -> list[str]:
    """Why each row of a drafted table has its verdict; "" where nothing is said."""
    try:
        reasons = json.loads(annotation.extra.get(REASONS) or "[]")
    except ValueError:
        reasons = []
    if not isinstance(reasons, list) or len(reasons) != len(annotation.table):
        return [""] * len(annotation.table)
    return [str(reason) for reason in reasons]


def _reasons(table: tuple[TableRow, ...], before: Annotation) -> list[str]:
    known = dict(zip(before.table, reasons_of(before), strict=True))
    return [known.get(row, "") for row in table]


def _rows(given: Mapping[str, Any], name: str, fields: int) -> list[list[str]]:
    rows = given.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == fields for row in rows):
        raise InputError(f"{name}: expected a list of rows of {fields} texts")
    return [[_text(field, f"{name} {number}") for field in row] for number, row in enumerate(rows, start=1)]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: expected a text, found {type(value).__name__}")
    if len(value) > LONGEST:
        raise InputError(f"{where}: {len(value):,} characters; at most {LONGEST:,} are kept")
    return value
