"""What PhysioNet asks of a submission, and what stands in the way of one: `medvqa-hub doctor --publish FOLDER`.

    FOLDER/texts.md          title, short description, version and licence in front; a section per text of its form
    FOLDER/TODO.md           what a person must still write or decide
    FOLDER/manifest.json     kind "physionet", governance class, sha256 of texts.md as it was written
    FOLDER/files/            what is uploaded: tables, statistics.json, LICENSE.txt, SHA256SUMS.txt

Rules: PhysioNet's author guidelines and its notice on derived titles ("Ext" in what is derived from MIMIC).
"""

import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST
from medvqa_core.json_files import read_manifest
from medvqa_hub.publishing.marks import holds_image_text

KIND, FORMAT = "physionet", 1
TEXTS, TODO, FILES = "texts.md", "TODO.md", "files"
SUMS, LICENSE, STATISTICS = "SHA256SUMS.txt", "LICENSE.txt", "statistics.json"
PREFIX = "MIMIC-CXR-Ext-"
SECTIONS = (
    "Abstract", "Background", "Methods", "Content Description", "Usage Notes", "Ethics", "Conflicts of Interest",
)  # fmt: skip
TO_WRITE = re.compile(r"\[TO WRITE: ([^\]]*)\]")
TITLE_LENGTH, DESCRIPTION_LENGTH, ABSTRACT_WORDS, NAME_LENGTH = 200, 250, 250, 100
BYTES = 100 * 10**6  # unless more is asked for
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_VERSION = re.compile(r"\d+(\.\d+)+")
_FRONT = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)
_SUM = re.compile(r"([0-9a-f]{64}) (\S+)")
_SPLIT = re.compile(r"(train|validate|test)\.(csv\.gz|parquet)")
COLUMNS = {
    "qa_id": "identifier of the question",
    "subject_id": "patient, as in the source",
    "study_id": "study, as in the source",
    "split": "train, validate or test, as in the source",
    "category": "CheXpert label, or Heart",
    "label_value": "positive, negative, uncertain or not_mentioned",
    "question": "text of the question",
    "answer": "text of the answer",
    "answer_type": "open or closed",
    "images": "paths of the study's images in the source; in CSV separated by semicolons",
    "views": "view of each image, as the source spells it",
    "engine": "kind of program that wrote the answer",
    "model": "its model",
    "revision": "the model's revision",
    "prompt_version": "version of the prompt",
    "temperature": "sampling temperature",
    "seed": "sampling seed",
    "attempts": "how often the answer was asked for",
    "lint": "wording rules that the answer breaks, and flags",
}


@dataclass(frozen=True)
class Obstacle:
    """One thing that stands in the way; `note`: something to ask for or to think of, no fault."""

    where: str
    what: str
    note: bool = False


def obstacles(folder: Path) -> list[Obstacle]:
    """Everything that stands in the way of submitting a folder that `publish physionet` wrote.

    Raises:
        InputError: it is no such folder.
    """
    read_manifest(folder, "write it with medvqa-hub publish physionet", KIND, FORMAT)
    files = folder / FILES
    if not files.is_dir() or files.is_symlink():
        raise InputError(f"{files}: no such folder; write it again with medvqa-hub publish physionet")
    found = [*_texts(folder / TEXTS), *_names(files)]
    if any(problem.what == "is a link" for problem in found):
        return found  # what a link leads to is not read
    return [*found, *_sums(files), *_tables(files)]


def _texts(path: Path) -> Iterator[Obstacle]:
    import yaml

    try:
        parts = _FRONT.fullmatch(path.read_text(encoding="utf-8"))
        front = yaml.safe_load(parts[1]) if parts else None
    except (OSError, ValueError, yaml.YAMLError):
        parts, front = None, None
    if parts is None or not isinstance(front, dict):
        yield Obstacle(TEXTS, "cannot be read: it begins with ---, title, short_description, version, license, ---")
        return
    yield from check_front(front)
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", parts[2], re.DOTALL | re.MULTILINE))
    yield from check_sections(sections)


def check_front(front: dict[str, Any]) -> Iterator[Obstacle]:
    """Title, short description, version and licence."""
    title, description, version = (str(front.get(name) or "") for name in ("title", "short_description", "version"))
    if not title.startswith(PREFIX) or title == PREFIX or "\n" in title:
        yield Obstacle("title", f"{title!r} does not begin with {PREFIX}: what is derived from MIMIC says so")
    if len(title) > TITLE_LENGTH:
        yield Obstacle("title", f"has {len(title)} characters; allowed are {TITLE_LENGTH}")
    if not description:
        yield Obstacle("short_description", "is missing")
    if len(description) > DESCRIPTION_LENGTH:
        yield Obstacle("short_description", f"has {len(description)} characters; allowed are {DESCRIPTION_LENGTH}")
    if not _VERSION.fullmatch(version):
        yield Obstacle("version", f"{version!r} is no version such as 1.0.0")
    if not front.get("license"):
        yield Obstacle("license", "is missing")


def check_sections(sections: dict[str, str]) -> Iterator[Obstacle]:
    """The texts of the form."""
    for name in SECTIONS:
        text = sections.get(name, "").strip()
        if not text:
            yield Obstacle(name, "is missing or empty")
        for wanted in TO_WRITE.findall(text):
            yield Obstacle(name, f"still to write: {wanted}")
    words = len(sections.get("Abstract", "").split())
    if words > ABSTRACT_WORDS:
        yield Obstacle("Abstract", f"has {words} words; allowed are {ABSTRACT_WORDS}")


def _names(files: Path) -> Iterator[Obstacle]:
    total = 0
    for path in sorted(files.rglob("*")):
        name = path.relative_to(files).as_posix()
        if path.is_symlink():
            yield Obstacle(name, "is a link")
            continue
        yield from check_name(path.name, name)
        if path.is_file():
            total += path.stat().st_size
            if not path.stat().st_size:
                yield Obstacle(name, "is empty")
            if not _SPLIT.fullmatch(name) and name not in (SUMS, LICENSE, STATISTICS):
                yield Obstacle(name, "is none of the files of a submission: no image, no report, nothing else goes")
        else:
            yield Obstacle(name, "is no file; the files of a submission lie in one folder")
    if total > BYTES:
        yield Obstacle(FILES, f"{total:,} bytes; {BYTES:,} are given, more have to be asked for", note=True)


def check_name(name: str, where: str) -> Iterator[Obstacle]:
    """The name of a file."""
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH or ".." in name or name[0] in ".-" or name[-1] in ".-":
        yield Obstacle(
            where, f"name: letters, digits, _ . -, at most {NAME_LENGTH}, no .. and no dot or dash at an end"
        )


def _sums(files: Path) -> Iterator[Obstacle]:
    try:
        lines = (files / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        yield Obstacle(SUMS, "is missing or cannot be read")
        return
    stated = {}
    for line in lines:
        parts = _SUM.fullmatch(line)
        if parts is None:
            yield Obstacle(SUMS, f"{line[:80]!r} is no sha256, a space and a name")
        else:
            stated[parts[2]] = parts[1]
    there = {p.relative_to(files).as_posix() for p in files.rglob("*") if p.is_file()} - {SUMS}
    for name in sorted(there - stated.keys()):
        yield Obstacle(name, f"is not in {SUMS}")
    for name in sorted(stated.keys() - there):
        yield Obstacle(name, f"is in {SUMS}, and is missing")
    for name in sorted(stated.keys() & there):
        if digest_file(files / name) != stated[name]:
            yield Obstacle(name, f"has another sha256 than {SUMS} says")


def _tables(files: Path) -> Iterator[Obstacle]:
    for name in ("train", "validate", "test"):
        csv_file, parquet = files / f"{name}.csv.gz", files / f"{name}.parquet"
        if csv_file.exists() != parquet.exists():
            yield Obstacle(name, "is there as CSV or as Parquet alone; both are asked for")
        elif parquet.exists():
            yield from _table(csv_file, parquet)
    if not any(files.glob("*.parquet")):
        yield Obstacle(FILES, "there is no table")


def _table(csv_file: Path, parquet: Path) -> Iterator[Obstacle]:
    """Columns are the listed ones, both files have the same rows in the same order, and no text is an image."""
    try:
        with pq.ParquetFile(parquet) as table:
            names = table.schema_arrow.names
            if names != list(COLUMNS):
                extra = ", ".join(sorted(set(names) ^ set(COLUMNS))) or "their order"
                yield Obstacle(parquet.name, f"has other columns than a submission's: {extra}")
                return
            for batch in table.iter_batches(columns=["question", "answer"]):
                for column in batch.schema.names:
                    if holds_image_text(batch.column(column)):
                        yield Obstacle(parquet.name, f"column {column} holds an image as text")
            with gzip.open(csv_file, "rt", encoding="utf-8", newline="") as file:
                rows = csv.reader(file)
                if next(rows, None) != list(COLUMNS):
                    yield Obstacle(csv_file.name, "has other columns than a submission's")
                elif not _are_same(rows, table):
                    yield Obstacle(csv_file.name, f"has other rows than {parquet.name}")
    except (OSError, EOFError, ValueError, IndexError, pa.ArrowException, csv.Error) as error:
        yield Obstacle(parquet.stem, f"cannot be read ({error})")


def _are_same(rows: Iterator[list[str]], table: pq.ParquetFile) -> bool:
    """Whether the lines of a CSV file say what a table's rows do, cell by cell."""
    for batch in table.iter_batches():
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            cells = next(rows, None)
            if cells is None or len(cells) != len(values) or not all(map(_says, cells, values)):
                return False
    return next(rows, None) is None


def _says(cell: str, value: Any) -> bool:
    if isinstance(value, float):
        return float(cell) == value
    if isinstance(value, list):
        value = None if None in value else ";".join(value)  # a view that is not known: the CSV has none of them
    return cell == ("" if value is None else str(value))


def show(found: list[Obstacle], log: Any = print) -> bool:
    """Print what stands in the way; True where nothing does."""
    for one in found:
        log(f"  {'note   ' if one.note else 'missing'}  {one.where}: {one.what}")
    faults = [one for one in found if not one.note]
    log(f"{len(faults)} in the way" if faults else "nothing stands in the way of submitting")
    return not faults


def written_texts(folder: Path) -> str | None:
    """The texts that a person has changed since they were written; None where nobody has."""
    path = folder / TEXTS
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        stated = manifest.get("texts") if manifest.get("kind") == KIND else None
        if stated is None or digest_file(path) == stated:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, InputError, AttributeError):
        return None
