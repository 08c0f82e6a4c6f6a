"""List and delete files with rows of a governance class (`medvqa-hub purge`).

The search covers the cache of `datasets` and the folders that the user names, without models, copies of MIMIC-CXR, and
anything behind a link. A file is only listed if one of these shows that this package wrote it with the class:

- `manifest.json` of a known kind that states the class, for the file names of that kind
- the header of a JSONL store that states the class, for the store and files that the same command writes beside it
- a JSON file of a known kind that states the class
- the manifest of a folder of report data, for the parts that it records
- `dataset_info.json` with a description that states the class, for the tables beside it
- our columns with ids in MIMIC's range, for tables of killed runs and of plain `load_dataset(folder)`
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from PIL import Image

from medvqa_core.dataset_class import stated_class
from medvqa_core.errors import ConfigError, MedvqaError, OutputError
from medvqa_core.files import MANIFEST, PARTIAL_SUFFIX
from medvqa_core.governance import Governance
from medvqa_core.minimum_class import OUR_COLUMNS, minimum_class_for_columns
from rjua_meddqa import data_folder
from rjua_meddqa.card import CARD, MARK

INFO, SHRUNK = "dataset_info.json", "shrunk.json"
AUDIT_QUESTIONS = "audit-questions"  # kind in the header of `audit --export`
_CHANGED_IMAGE = f"images/*-{'[0-9a-f]' * 16}.png"  # as `audit_images` names it, so that photographs stay
# kind in a manifest -> file names below its folder
KINDS = {
    "questions": ("studies.parquet", "questions.parquet"),
    "release": ("qa/*-?????-of-?????.parquet", "studies/*-?????-of-?????.parquet", "README.md", "croissant.json"),
    "authors-csv": ("train.csv", "val.csv", "test.csv"),
    "vlmevalkit-tsv": ("*.tsv",),
    "image-features": ("*.safetensors",),
    "batch": ("batch-????.jsonl", "CREDENTIALED-batch-????.jsonl", "CREDENTIALED.txt"),
    "meddqa-boxes": ("*.json",),
    "meddqa-labelstudio": ("tasks.json", "labelling_config.xml"),
    "meddqa-pages": ("pages.jsonl",),
    "meddqa-report": ("tables.md", "tables.csv"),
    "review": (
        "items.json", "key.json", "ratings.csv", "ratings/*.json", "images/item-*", "for_raters/*/sheet.*",
        "for_raters/*/tasks.json", "for_raters/*/labelling.xml",
    ),
}  # fmt: skip
# kind in the header of a store -> files that the same command writes beside it
BESIDE_STORE = {
    "answers": ("answer_keys.parquet", "table3.json", "language_model.json", "answers.csv"),
    "predictions": (
        "scored*.jsonl", "results*.json", "baseline.csv", "chart.png", "examples*.png", "sample.json", "probe.json",
        "audit.json", "audit.jsonl", "audit.png", "audit-examples.png", _CHANGED_IMAGE, "clinical*.jsonl",
    ),
    AUDIT_QUESTIONS: (_CHANGED_IMAGE,),
    "corrections": ("boxes/*.json",),
}  # fmt: skip
_SINGLE_FILE = re.compile(rb'\{\s*"kind": "meddqa-check"')  # the beginning of a JSON file of any name
_MIMIC_IMAGE = re.compile(r"(^|/)p1\d{7}/s5\d{7}/[^/]+\.(jpe?g|png)$", re.IGNORECASE)
_MIMIC_TABLE = re.compile(
    r"mimic-cxr-[0-9.]+-(chexpert|negbio|metadata|split)\.csv(\.gz)?|mimic-cxr-reports\.zip|cxr-(record|study)-list\.csv(\.gz)?"
)
# Files that others may write under the same name or ending -> how ours begin
_BEGINNINGS = {
    ".tsv": b"index\tid\timage_path\tquestion\tanswer",
    "answers.csv": b'"qa_id","study_id","question","prediction","error","governance"',
}


def find_files(roots: Sequence[Path], governance: Governance) -> dict[Path, str]:
    """Find the files of a class below `roots`. Returns the evidence for each.

    Raises:
        ConfigError: a root is not a folder, is the root of a file system, or lies in a copy of MIMIC-CXR.
        OSError: a folder cannot be read.
    """
    files, unreadable = dict[Path, str](), list[OSError]()
    for root in roots:
        top = Path(os.path.realpath(root))  # the root itself may be a link
        if not top.is_dir() or top == top.parent:
            raise ConfigError(f"{root}: expected a workspace, a folder of predictions, or a folder above them")
        for parent in top.parents:
            if os.access(parent, os.R_OK) and any(map(_MIMIC_TABLE.fullmatch, os.listdir(parent))):
                raise ConfigError(f"{root} lies in a copy of MIMIC-CXR ({parent}), which is never purged")
        for place, subfolders, names in os.walk(top, onerror=unreadable.append):
            if any(map(_MIMIC_TABLE.fullmatch, names)):
                subfolders.clear()
                continue
            folder = Path(place)
            found = _identify(folder, sorted(name for name in names if _is_plain_file(folder / name)), governance)
            files |= {folder / name: evidence for name, evidence in found.items()}
    if unreadable:
        raise unreadable[0]
    return files


def _identify(folder: Path, names: list[str], governance: Governance) -> dict[str, str]:
    """Names below `folder` of files of the class, with the evidence."""
    found = _identify_tables(folder, names, governance)
    for name in names:
        ending = Path(name.removesuffix(PARTIAL_SUFFIX)).suffix
        if ending not in (".json", ".jsonl"):
            continue
        if ending == ".json" and not _SINGLE_FILE.match(_read_start(folder / name, 64)):  # other files may be large
            continue
        header = _read_json(folder / name, first_line=ending == ".jsonl")
        kind = str(header.get("kind"))
        if header.get("governance") != str(governance):
            continue
        if ending == ".json":
            found[name] = kind
        elif header.get("store") == 1 or kind == AUDIT_QUESTIONS:
            found |= dict.fromkeys([name, *_match(folder, BESIDE_STORE.get(kind, ()))], f"store of {kind}")
    marker = _read_json(folder / SHRUNK) if SHRUNK in names else {}
    if marker.get("governance") == str(governance) and marker.get("kind") == "shrunk-images":
        ours = [SHRUNK, *({MANIFEST} & set(names)), *_shrunk_images(folder, marker)]
        found |= dict.fromkeys(ours, "shrunk images")
    manifest = _read_json(folder / MANIFEST) if MANIFEST in names else {}
    if manifest.get("governance") == str(governance) and manifest.get("kind") in KINDS:
        found |= dict.fromkeys([MANIFEST, *_match(folder, KINDS[manifest["kind"]])], manifest["kind"])
    if manifest.get("governance") == str(governance) and manifest.get("kind") == data_folder.KIND:
        found |= dict.fromkeys(_report_data(folder, manifest), data_folder.KIND)
    return found


def _report_data(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Names of the parts that the manifest records and of our card. The manifest itself is only among them if no other
    part stays, since it states the class of what stays."""
    parts = data_folder.find_parts(folder)
    names = [data_folder.OUR_NAMES[part] for part in parts if part in manifest]
    ours = [path.name for paths in parts.values() for path in paths if path.name in names and _is_plain_file(path)]
    others = sum(map(len, parts.values())) - len(ours)
    card = folder / CARD
    is_our_card = _is_plain_file(card) and MARK.encode() in card.read_bytes()
    return [*ours, *([CARD] if is_our_card else []), *([] if others else [MANIFEST])]


def _read_start(path: Path, length: int) -> bytes:
    """The first bytes of a file, without reading a large one. Empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(length)
    except OSError:
        return b""


def _identify_tables(folder: Path, names: list[str], governance: Governance) -> dict[str, str]:
    found: dict[str, str] = {}
    if governance is Governance.CREDENTIALED:  # ids in MIMIC's range cannot prove another class
        tables = [n for n in names if n.endswith((".arrow", ".parquet")) or n.startswith("tmp")]
        found |= {name: "rows with MIMIC ids" for name in tables if _holds_mimic_rows(folder / name)}
        found |= dict.fromkeys({INFO} & set(names) if found else (), "rows with MIMIC ids")
    with suppress(MedvqaError):  # an unknown class
        if INFO in names and stated_class(str(_read_json(folder / INFO).get("description", ""))) is governance:
            copies = [n for n in names if n.endswith((".arrow", ".parquet")) or n in ("state.json", INFO)]
            found |= dict.fromkeys(copies, "Arrow copy")
    return found


def _shrunk_images(folder: Path, marker: dict[str, Any]) -> Iterator[str]:
    """Images in MIMIC's layout that are not larger than `cxr shrink` writes them: larger ones are originals."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if _MIMIC_IMAGE.search(name) and _is_plain_file(path):
            try:
                with Image.open(path) as image:
                    if min(image.size) <= int(marker["size"]):
                        yield name
            except (OSError, ValueError, KeyError, TypeError):
                continue


def _holds_mimic_rows(path: Path) -> bool:
    """Whether a file is a table with our columns and ids in MIMIC's range."""
    is_parquet = path.suffix == ".parquet"
    try:
        with pq.ParquetFile(path) if is_parquet else pa.ipc.open_stream(pa.memory_map(str(path))) as table:
            names = set((table.schema_arrow if is_parquet else table.schema).names)
            ids = names & {"subject_id", "study_id"} if any(columns <= names for columns in OUR_COLUMNS) else ()
            batches = (table.iter_batches(columns=sorted(ids)) if is_parquet else table) if ids else ()
            columns = ({name: batch.column(name) for name in ids} for batch in batches)
            return any(minimum_class_for_columns(part) is Governance.CREDENTIALED for part in columns)
    except (pa.ArrowException, OSError, ValueError):
        return False  # not a table, or cut off before its first row


def _match(folder: Path, patterns: Iterable[str]) -> Iterator[str]:
    """Names of files below `folder` that match one of the patterns. The content must begin as `_BEGINNINGS` tells."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            name = path.relative_to(folder).as_posix()
            beginning = _BEGINNINGS.get(path.name, _BEGINNINGS.get(path.suffix))
            is_ours = beginning is None or _read_start(path, len(beginning)) == beginning
            if is_ours and fnmatchcase(name, pattern) and _is_plain_file(path):
                yield name


def _is_plain_file(path: Path) -> bool:
    """Whether `path` is a regular file that is not reached through a link."""
    return path.is_file() and os.path.realpath(path) == str(path)


def _read_json(path: Path, first_line: bool = False) -> dict[str, Any]:
    """The JSON object in a file or in its first line. Empty if there is none."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.readline(1 << 20) if first_line else file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def delete_files(files: Iterable[Path]) -> int:
    """Delete files, and the folders that this leaves empty. Returns the number of files.

    Raises:
        OutputError: some files could not be deleted. All others are gone.
    """
    problems, files = [], list(files)
    for path in files:
        try:
            if not _is_plain_file(path):
                raise FileNotFoundError(0, "is gone, or behind a link now")
            with FileLock(path, blocking=False):
                path.unlink()
        except Timeout:
            problems.append(f"{path} is being written by another process")
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    for folder in sorted({path.parent for path in files}, key=lambda folder: -len(folder.parts)):
        with suppress(OSError):  # not empty
            os.removedirs(folder)
    if problems:
        raise OutputError(f"{len(problems)} of {len(files)} files not deleted: {problems[0]}. Run the command again.")
    return len(files)
