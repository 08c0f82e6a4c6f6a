"""Rows of a file of questions with ids of their own (CSV or JSON lines), and the studies that they are about."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError
from medvqa_core.files import join_under
from medvqa_core.json_lines import parse_line, read_lines
from medvqa_hub.evaluation.answer_files import IDS
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.release import find_image_prefix

IMAGES = ("images", "image", "image_path", "image_paths")
VIEWS = ("views", "view_position")
PLACE = "place"  # number of the row in its source, because studies group rows
Row = dict[str, Any]


def read_csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Where each row is, and the row, with lists of images and views. Raises InputError as `iterate_cells`."""
    for number, cells in iterate_cells(path, ["question"], first=2, delimiters=",;\t"):
        row: Row = dict(cells)
        for name in (*IMAGES, *VIEWS):
            if name in row:
                row[name] = [part.strip() for part in row[name].split(",")] if row[name].strip() else []
        yield f"{path}, row {number}", row


def read_json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Where each row is, and the row. Raises InputError for a line that is not an object."""
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        row = parse_line(line, where)
        if not isinstance(row, dict):
            raise InputError(f"{where} is not a JSON object. Expected one question per line.")
        yield where, row


def group_rows(rows: list[tuple[str, Row]], root: Path, split: str) -> list[Study]:
    """A study for all rows with the same study, images and indication.

    Raises:
        InputError: a row lacks an id or a question, an image leaves `root`, or views do not fit the images.
    """
    found: dict[tuple, tuple[Study, list[Row]]] = {}
    for place, (where, row) in enumerate(rows):
        question = row.get("question")
        name = next((str(row[name]) for name in IDS if row.get(name) not in (None, "")), None)
        if name is None or not isinstance(question, str):
            raise InputError(
                f"{where} lacks {'a question' if name else 'an id'}. Needed are {' or '.join(IDS)}, and question."
            )
        images, views = _read_list(row, IMAGES, where), _read_list(row, VIEWS, where)
        if views and len(views) != len(images):
            raise InputError(
                f"{where} has {len(views)} views of {len(images)} images. Give each image a view, or none."
            )
        files = tuple(_locate(root, image, where) for image in images)
        indication = str(row.get("indication") or "") or None
        study_id = row.get("study_id") or (images[0] if images else name)
        study = Study(
            str(study_id),
            "",
            split,
            files,
            tuple(view or None for view in views) or (None,) * len(files),
            (),
            indication,
        )
        empty = {"category": None, "label_value": None, "answer": None, "answer_type": None}
        made = found.setdefault((study_id, files, indication), (study, []))
        made[1].append({"qa_id": name, "question": question, PLACE: place, **empty})
    return [replace(study, rows=tuple(made)) for study, made in found.values()]


def _locate(root: Path, image: str, where: str) -> Path:
    """The path of an image below `root`, or below its folder files/ as in MIMIC-CXR-JPG."""
    path = join_under(root, image, where)
    return path if path.exists() else join_under(find_image_prefix(root), image, where)


def _read_list(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> list[str]:
    value: Any = next((row[name] for name in names if row.get(name)), [])
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str | None) for part in parts):
        raise InputError(f"{where}: {names[0]} is a {type(value).__name__}. Expected a text or a list of texts.")
    return [part or "" for part in parts]
