"""PhysioNet's requirements, and the check of a submission: `medvqa-hub doctor --publish FOLDER`.

    FOLDER/texts.md          front matter (title, short description, version, licence) and a section for each text
    FOLDER/TODO.md           tasks for a person
    FOLDER/manifest.json     kind "physionet", governance class, sha256 of texts.md as written
    FOLDER/files/            files to upload: tables, statistics.json, LICENSE.txt, SHA256SUMS.txt

Rules: PhysioNet's author guidelines and its notice on titles of derived datasets ("Ext").
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
BYTES = 100 * 10**6  # default quota
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
class Problem:
    """A problem of a submission. A `note` does not prevent it."""

    where: str
    what: str
    note: bool = False


def find_problems(folder: Path) -> list[Problem]:
    """All problems of a folder that `publish physionet` wrote.

    Raises:
        InputError: the folder is not a submission.
    """
    read_manifest(folder, "write it with medvqa-hub publish physionet", KIND, FORMAT)
    files = folder / FILES
    if not files.is_dir() or files.is_symlink():
        raise InputError(f"{files} is not a folder. Run medvqa-hub publish physionet again.")
    found = [*_texts(folder / TEXTS), *_names(files)]
    if any(problem.what == "is a link" for problem in found):
        return found  # links are not followed
    return [*found, *_sums(files), *_tables(files)]


def _texts(path: Path) -> Iterator[Problem]:
    import yaml

    try:
        parts = _FRONT.fullmatch(path.read_text(encoding="utf-8"))
        front = yaml.safe_load(parts[1]) if parts else None
    except (OSError, ValueError, yaml.YAMLError):
        parts, front = None, None
    if parts is None or not isinstance(front, dict):
        yield Problem(TEXTS, "cannot be read: it must begin with ---, title, short_description, version, license, ---")
        return
    yield from check_front(front)
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", parts[2], re.DOTALL | re.MULTILINE))
    yield from check_sections(sections)


def check_front(front: dict[str, Any]) -> Iterator[Problem]:
    """Title, short description, version and licence."""
    title, description, version = (str(front.get(name) or "") for name in ("title", "short_description", "version"))
    if not title.startswith(PREFIX) or title == PREFIX or "\n" in title:
        yield Problem("title", f"{title!r} does not begin with {PREFIX}, as titles of data derived from MIMIC must")
    if len(title) > TITLE_LENGTH:
        yield Problem("title", f"has {len(title)} characters. The limit is {TITLE_LENGTH}.")
    if not description:
        yield Problem("short_description", "is missing")
    if len(description) > DESCRIPTION_LENGTH:
        yield Problem("short_description", f"has {len(description)} characters. The limit is {DESCRIPTION_LENGTH}.")
    if not _VERSION.fullmatch(version):
        yield Problem("version", f"{version!r} is not a version such as 1.0.0")
    if not front.get("license"):
        yield Problem("license", "is missing")


def check_sections(sections: dict[str, str]) -> Iterator[Problem]:
    """The texts of the form."""
    for name in SECTIONS:
        text = sections.get(name, "").strip()
        if not text:
            yield Problem(name, "is missing or empty")
        for wanted in TO_WRITE.findall(text):
            yield Problem(name, f"still to write: {wanted}")
    words = len(sections.get("Abstract", "").split())
    if words > ABSTRACT_WORDS:
        yield Problem("Abstract", f"has {words} words. The limit is {ABSTRACT_WORDS}.")


def _names(files: Path) -> Iterator[Problem]:
    total = 0
    for path in sorted(files.rglob("*")):
        name = path.relative_to(files).as_posix()
        if path.is_symlink():
            yield Problem(name, "is a link")
            continue
        yield from check_name(path.name, name)
        if path.is_file():
            total += path.stat().st_size
            if not path.stat().st_size:
                yield Problem(name, "is empty")
            if not _SPLIT.fullmatch(name) and name not in (SUMS, LICENSE, STATISTICS):
                yield Problem(name, "is not a file of a submission")
        else:
            yield Problem(name, "is not a file. A submission has no subfolders.")
    if total > BYTES:
        yield Problem(FILES, f"{total:,} bytes. Ask PhysioNet for more than {BYTES:,}.", note=True)


def check_name(name: str, where: str) -> Iterator[Problem]:
    """The name of a file."""
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH or ".." in name or name[0] in ".-" or name[-1] in ".-":
        yield Problem(
            where,
            f"invalid name: expected letters, digits, _ . -, at most {NAME_LENGTH}, no .. and no dot or dash at an end",
        )


def _sums(files: Path) -> Iterator[Problem]:
    try:
        lines = (files / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        yield Problem(SUMS, "is missing or cannot be read")
        return
    stated = {}
    for line in lines:
        parts = _SUM.fullmatch(line)
        if parts is None:
            yield Problem(SUMS, f"{line[:80]!r}: expected a sha256, a space and a name")
        else:
            stated[parts[2]] = parts[1]
    names = {p.relative_to(files).as_posix() for p in files.rglob("*") if p.is_file()} - {SUMS}
    for name in sorted(names - stated.keys()):
        yield Problem(name, f"is not in {SUMS}")
    for name in sorted(stated.keys() - names):
        yield Problem(name, f"is in {SUMS}, but missing")
    for name in sorted(stated.keys() & names):
        if digest_file(files / name) != stated[name]:
            yield Problem(name, f"does not have the sha256 in {SUMS}")


def _tables(files: Path) -> Iterator[Problem]:
    for name in ("train", "validate", "test"):
        csv_file, parquet = files / f"{name}.csv.gz", files / f"{name}.parquet"
        if csv_file.exists() != parquet.exists():
            yield Problem(name, "is only in CSV or only in Parquet. Both are needed.")
        elif parquet.exists():
            yield from _table(csv_file, parquet)
    if not any(files.glob("*.parquet")):
        yield Problem(FILES, "does not hold a table")


def _table(csv_file: Path, parquet: Path) -> Iterator[Problem]:
    """Check that both files have the listed columns and the same rows, and that no text is an image."""
    try:
        with pq.ParquetFile(parquet) as table:
            names = table.schema_arrow.names
            if names != list(COLUMNS):
                extra = ", ".join(sorted(set(names) ^ set(COLUMNS))) or "their order"
                yield Problem(parquet.name, f"differs from a submission's columns: {extra}")
                return
            for batch in table.iter_batches(columns=["question", "answer"]):
                for column in batch.schema.names:
                    if holds_image_text(batch.column(column)):
                        yield Problem(parquet.name, f"column {column} contains an image as text")
            with gzip.open(csv_file, "rt", encoding="utf-8", newline="") as file:
                rows = csv.reader(file)
                if next(rows, None) != list(COLUMNS):
                    yield Problem(csv_file.name, "does not have a submission's columns")
                elif not _are_same(rows, table):
                    yield Problem(csv_file.name, f"does not have the rows of {parquet.name}")
    except (OSError, EOFError, ValueError, IndexError, pa.ArrowException, csv.Error) as error:
        yield Problem(parquet.stem, f"cannot be read ({error})")


def _are_same(rows: Iterator[list[str]], table: pq.ParquetFile) -> bool:
    """Whether a CSV file and a table have the same rows."""
    for batch in table.iter_batches():
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            cells = next(rows, None)
            if cells is None or len(cells) != len(values) or not all(map(_is_equal, cells, values)):
                return False
    return next(rows, None) is None


def _is_equal(cell: str, value: Any) -> bool:
    if isinstance(value, float):
        return float(cell) == value
    if isinstance(value, list):
        value = None if None in value else ";".join(value)  # with an unknown view, the CSV has no views
    return cell == ("" if value is None else str(value))


def show(found: list[Problem], log: Any = print) -> bool:
    """Print problems. Returns whether the folder can be submitted."""
    for one in found:
        log(f"  {'note   ' if one.note else 'problem'}  {one.where}: {one.what}")
    faults = [one for one in found if not one.note]
    log(f"{len(faults)} problems" if faults else "ready to submit")
    return not faults


def written_texts(folder: Path) -> str | None:
    """The texts, if a person has changed them since they were written."""
    path = folder / TEXTS
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        stated = manifest.get("texts") if manifest.get("kind") == KIND else None
        if stated is None or digest_file(path) == stated:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError, InputError, AttributeError):
        return None
