"""Corrected annotations: a log of edits (`edits.jsonl`), and `annotations.csv` in the released layout made from it.

`meddqa check`, `meddqa generate` and `load_dataset` read the CSV file, which is written again after each edit. Fields
that were not changed keep their exact text. The reasons of a draft stay with the rows that were not changed.
"""

import json
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from medvqa_core.edit_log import Edit, EditLog
from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance
from rjua_meddqa.data_folder import ANNOTATIONS, OUR_NAMES, open_folder, record_part
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.restoration.ocr import boxes_from_json, boxes_to_json, write_boxes
from rjua_meddqa.schema import Annotation, Box, TableRow

SOURCES = ("explorer", "label studio")  # of annotations in a manifest that may be continued
EDITS, KIND = "edits.jsonl", "corrections"
BOXES, MARK, MARKS = "boxes", "mark", ("", "flagged", "skipped")


class Corrections:
    """The folder of corrections. Thread-safe, and several explorers may use one folder.

    Raises:
        InputError: the folder holds annotations that were not corrected here, or that cannot be read.
        ConfigError, GovernanceError: its class is another than that of the corrected data.
    """

    def __init__(self, folder: Path, governance: Governance, source: str = SOURCES[0]) -> None:
        self.folder, self._governance, self._source = folder, governance, source
        self._lock = threading.Lock()
        self._log = EditLog(folder / EDITS, KIND, governance, self._read_earlier())
        if self._log.items() and not self._is_current():
            self._write()  # killed between the log and the CSV file

    def _read_earlier(self) -> dict[str, dict[str, Any]]:
        """The rows of the CSV file, for those that the log does not have."""
        if not self.folder.is_dir() or ANNOTATIONS not in (found := open_folder(self.folder)).files:
            return {}
        if found.manifest.get(ANNOTATIONS, {}).get("source") not in SOURCES:
            raise InputError(f"{self.folder} holds annotations that the explorer did not save. Choose another folder.")
        return {row.img_path: to_state(row) for row in read_annotations(found.file(ANNOTATIONS))}

    def find(self, img_path: str) -> Annotation | None:
        """The saved annotation of a report."""
        return to_annotation(img_path, self._log.state(img_path))

    def mark(self, img_path: str) -> str:
        """One of MARKS."""
        return self._log.state(img_path).get(MARK, "")

    def version(self, img_path: str) -> int:
        """The number of edits of a report."""
        return self._log.version(img_path)

    def history(self, img_path: str) -> list[tuple[Edit, Annotation | None]]:
        """The edits of a report, oldest first, each with the annotation after it."""
        edits = self._log.history(img_path)
        return [(edit, to_annotation(img_path, self._log.state(img_path, edit.version))) for edit in edits]

    def paths(self) -> list[str]:
        """The reports with a saved annotation."""
        self._log.refresh()
        return [path for path in self._log.items() if self.find(path) is not None]

    def refresh(self) -> None:
        """Read what other explorers have saved."""
        self._log.refresh()

    def boxes(self, img_path: str) -> list[Box] | None:
        """The corrected boxes of a report, in pixels of its image. None if nobody moved one."""
        found = self._log.state(img_path).get(BOXES)
        return boxes_from_json(found, f"{self.folder / EDITS}, {img_path}") if found is not None else None

    def save(
        self,
        img_path: str,
        annotation: Annotation | None,
        author: str,
        base: int | None = None,
        mark: str | None = None,
        boxes: Sequence[Box] | None = None,
        time: str | None = None,
    ) -> Edit | None:
        """Record an edit. It is on disk when this returns. What is None is not changed.

        Args:
            base, time: see `EditLog.append`.
            boxes: also written to `boxes/NAME.json`, as by `meddqa ocr`.

        Raises:
            EditConflictError: the report was saved by someone else after `base`.
            InputError: the annotation could not be read again, or the mark is unknown.
            OutputError: the folder cannot be written.
        """
        if mark is not None and mark not in MARKS:
            raise InputError(
                f"mark {quote_value(mark)} is unknown. Expected one of {', '.join(MARKS[1:])}, or nothing."
            )
        state: dict[str, Any] = {} if mark is None else {MARK: mark}
        if annotation is not None:
            check_readable(annotation)
            state |= to_state(annotation)
        if boxes is not None:
            state[BOXES] = boxes_to_json(boxes)
        with self._lock:
            make_folder(self.folder, self._governance.private)
            edit = self._log.append(img_path, author, base, state, time)
            if edit is not None:
                self._write(img_path if boxes is not None else None)
        return edit

    def extend(self, edits: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
        """Record edits that were made elsewhere: (img_path, author, time, fields as in `to_state`) each.

        Raises:
            InputError: an edit is damaged. Nothing was recorded.
            OutputError: the folder cannot be written.
        """
        edits = list(edits)
        states: dict[str, dict[str, Any]] = {}
        for path, _, time, change in edits:
            state = states.setdefault(path, self._log.state(path))
            state |= change
            try:
                if (annotation := to_annotation(path, state)) is not None:
                    check_readable(annotation)
                boxes_from_json(state.get(BOXES, []), path)
                is_whole = isinstance(time, str) and state.get(MARK, "") in MARKS
            except (TypeError, ValueError, KeyError, AttributeError):
                is_whole = False
            if not is_whole:
                raise InputError(f"{path}: an edit in its history is damaged. Export it again.")
        with self._lock:
            self._log.extend(edits)
            self._write()

    def _rows(self) -> list[Annotation]:
        return [row for path in self._log.items() if (row := self.find(path)) is not None]

    def _is_current(self) -> bool:
        try:
            written = read_annotations(self.folder / OUR_NAMES[ANNOTATIONS])
        except InputError:
            return False
        return [_content(row) for row in written] == [_content(row) for row in self._rows()]

    def _write(self, moved: str | None = None) -> None:
        """Write the files that other commands read. `moved` is the report whose boxes were moved."""
        with self._log.writing():  # another explorer may write the same files
            rows = self._rows()
            details = {"source": self._source, "counts": {"annotations": len(rows)}}
            if open_folder(self.folder).manifest.get(ANNOTATIONS) != details:
                record_part(self.folder, ANNOTATIONS, self._governance, details)
            write_annotations(rows, self.folder / OUR_NAMES[ANNOTATIONS])
            if moved is not None and (boxes := self.boxes(moved)) is not None:
                write_boxes(self.folder / BOXES / f"{Path(moved).stem}.json", boxes)


def to_state(annotation: Annotation) -> dict[str, Any]:
    """The fields of an annotation as JSON values."""
    state = {field.name: getattr(annotation, field.name) for field in fields(annotation) if field.name != "img_path"}
    state["table"] = [list(astuple(row)) for row in annotation.table]
    state["extra"] = {name: value for name, value in annotation.extra.items() if value}  # the CSV file fills others
    return json.loads(json.dumps(state))


def to_annotation(img_path: str, state: Mapping[str, Any]) -> Annotation | None:
    """The annotation with these fields, or None if they have none."""
    if "table" not in state:
        return None
    made = {field.name: state[field.name] for field in fields(Annotation) if field.name in state}
    made["key_values"] = tuple((key, value) for key, value in state["key_values"])
    made["table"] = tuple(TableRow(*row) for row in state["table"])
    return Annotation(img_path=img_path, **made)


def check_readable(annotation: Annotation) -> None:
    """Raise InputError if the released layout cannot hold an annotation, which would lock the folder."""
    with tempfile.TemporaryDirectory(prefix="medvqa-corrections-") as folder:
        path = Path(folder) / OUR_NAMES[ANNOTATIONS]
        try:
            write_annotations([annotation], path)
            (again,) = read_annotations(path)
        except InputError as error:
            reason = str(error).replace(f"{path}, ", "").replace(str(path), "the annotation")
            raise InputError(f"the annotation cannot be saved: {reason}") from None
    if _content(again) != _content(annotation):
        raise InputError("the annotation cannot be saved, since it would be read again with other texts")


def _content(annotation: Annotation) -> dict[str, Any]:
    return {**to_state(annotation), "raw": None, "img_path": annotation.img_path}
