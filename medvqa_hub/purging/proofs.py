"""What proves that a file is ours and of a class: a file without a proof is never removed.

    manifest      `manifest.json` of a kind of ours and of the class, and the names that this kind has
    store         a JSONL store whose first line states the class, and what the same step writes beside it
    Arrow folder  `dataset_info.json` whose description states the class, and the Arrow and Parquet files beside it
    columns       Arrow and Parquet files with the columns of our rows and an id of MIMIC's range in them: what a killed
                  run left, and the cache of plain `load_dataset(folder)`, say nothing else of themselves

Weights are no rows and have no proof here. Links are no proof, whatever they lead to.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.dataset_class import stated_class
from medvqa_core.errors import MedvqaError
from medvqa_core.files import MANIFEST, PARTIAL_SUFFIX
from medvqa_core.folder_class import GOVERNANCE
from medvqa_core.governance import Governance
from medvqa_core.minimum_class import minimum_class_for_columns

INFO = "dataset_info.json"
CARD = ("README.md", "croissant.json")
# kind in a manifest -> names below its folder; `*` stands for no slash
KINDS = {
    "questions": ("studies.parquet", "questions.parquet"),
    "release": ("qa/*-?????-of-?????.parquet", "studies/*-?????-of-?????.parquet", *CARD),
    "authors-csv": ("train.csv", "val.csv", "test.csv"),
    "batch": ("batch-????.jsonl", "CREDENTIALED-batch-????.jsonl", "CREDENTIALED.txt"),
    "vlmevalkit-tsv": ("*.tsv",),
    "meddqa-report": ("tables.md", "tables.csv", "figure5.png", "page.html"),
    "review": (
        "items.json", "key.json", "ratings.csv", "ratings/*.json", "images/item-*", "for_raters/*/sheet.csv",
        "for_raters/*/sheet.xlsx", "for_raters/*/tasks.json", "for_raters/*/labelling.xml",
    ),
    "physionet": (
        "texts.md", "texts.generated.md", "TODO.md", "files/*.csv.gz", "files/*.parquet", "files/*.txt",
        "files/statistics.json",
    ),
}  # fmt: skip
# kind in the header of a store -> what the same step writes beside it
BESIDE = {
    "answers": ("answer_keys.parquet", "table3.json", "language_model.json"),
    "predictions": (
        "scored.jsonl", "scored-*.jsonl", "results.json", "results-*.json", "baseline.csv", "chart.png", "examples.png",
        "examples-*.png", "sample.json", "probe.json",
    ),
}  # fmt: skip
SHRUNK, IMAGES = "shrunk.json", (".jpg", ".jpeg", ".png")
_OF_MIMIC = re.compile(r"(^|/)p1\d{7}/s5\d{7}/[^/]+$")
_TABLES = re.compile(
    r"mimic-cxr-[0-9.]+-(chexpert|negbio|metadata|split)\.csv(\.gz)?|mimic-cxr-reports\.zip|cxr-(record|study)-list\.csv(\.gz)?"
)
_OURS = (  # columns that only rows of ours have together
    {"qa_id", "study_id", "question"}, {"subject_id", "study_id", "findings", "labels"},
    {"study_id", "indication", "questions"}, {"study_id", "qa_id", "messages"},
)  # fmt: skip
_IDS = ("subject_id", "study_id")
_TSV_HEADER = b"index\tid\timage_path\tquestion\tanswer"
_ARROW = (".arrow", ".parquet")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True)
class Folder:
    """The regular files of one folder, links left out; `links` are their names."""

    path: Path
    files: frozenset[str]
    links: frozenset[str]


def is_source(folder: Folder) -> bool:
    """Whether a table or the reports of MIMIC-CXR itself lie there: nothing in it or below it is ever removed."""
    return any(_TABLES.fullmatch(name) for name in folder.files | folder.links)


def holds_model(folder: Folder, governance: Governance) -> bool:
    """Whether a model of the class lies there."""
    return _stated(folder, GOVERNANCE).get("governance") == str(governance)


def proven(folder: Folder, governance: Governance) -> Iterator[tuple[str, str]]:
    """(path below `folder`, what proves it) of the files that this folder proves; a path may come up twice."""
    yield from _by_manifest(folder, governance)
    yield from _by_stores(folder, governance)
    yield from _by_info(folder, governance)
    yield from _by_columns(folder, governance)


def _by_manifest(folder: Folder, governance: Governance) -> Iterator[tuple[str, str]]:
    manifest = _stated(folder, MANIFEST)
    if manifest.get("governance") == str(governance) and manifest.get("kind") in KINDS:
        kind = manifest["kind"]
        for name in (MANIFEST, *_existing(folder.path, KINDS[kind])):
            yield name, kind
    shrunk = _stated(folder, SHRUNK)
    if shrunk.get("governance") == str(governance) and shrunk.get("kind") == "shrunk-images":
        for name in (SHRUNK, *([MANIFEST] if MANIFEST in folder.files else []), *_small(folder.path, shrunk)):
            yield name, "shrunk images"


def _small(folder: Path, shrunk: dict[str, Any]) -> Iterator[str]:
    """Images at places of MIMIC's that are no larger than the marker says: a film of the source is."""
    from PIL import Image

    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix.lower() in IMAGES and _OF_MIMIC.search(name) and _is_below(folder, path):
            try:
                with Image.open(path) as image:
                    if min(image.size) <= int(shrunk["size"]):
                        yield name
            except (OSError, ValueError, KeyError, TypeError):
                continue  # no image, or no size to compare with: no proof


def _by_stores(folder: Folder, governance: Governance) -> Iterator[tuple[str, str]]:
    for name in sorted(folder.files):
        if not name.removesuffix(PARTIAL_SUFFIX).endswith(".jsonl"):
            continue
        header = _first_line(folder.path / name)
        if header.get("store") == 1 and header.get("governance") == str(governance):
            kind = str(header.get("kind"))
            yield name, f"store of {kind}"
            for other in _existing(folder.path, BESIDE.get(kind, ())):
                yield other, f"beside a store of {kind}"


def _by_info(folder: Folder, governance: Governance) -> Iterator[tuple[str, str]]:
    try:
        if stated_class(str(_stated(folder, INFO).get("description", ""))) is not governance:
            return
    except MedvqaError:
        return  # a class that is none
    names = [n for n in folder.files if Path(n).suffix in _ARROW or n in ("state.json", INFO)]
    for name in sorted(names):
        yield name, "Arrow copy"


def _by_columns(folder: Folder, governance: Governance) -> Iterator[tuple[str, str]]:
    """Ids of MIMIC's range prove `credentialed`, and no other class."""
    if governance is not Governance.CREDENTIALED:
        return
    found = False
    for name in sorted(folder.files):
        if (Path(name).suffix in _ARROW or name.startswith("tmp")) and _holds_our_rows(folder.path / name):
            found = True
            yield name, "rows of MIMIC's ids"
    if found and INFO in folder.files:
        yield INFO, "beside rows of MIMIC's ids"


def _holds_our_rows(path: Path) -> bool:
    try:
        return any(minimum_class_for_columns(columns) is Governance.CREDENTIALED for columns in _id_columns(path))
    except (pa.ArrowException, OSError, ValueError):
        return False  # no table, or torn before the first id


def _id_columns(path: Path) -> Iterator[dict[str, Any]]:
    """The ids in a table with the columns of our rows, batch by batch; nothing of other tables."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            if _are_ours(file.schema_arrow.names):
                names = [n for n in _IDS if n in file.schema_arrow.names]
                for batch in file.iter_batches(columns=names):
                    yield dict(zip(names, batch.columns, strict=True))
        return
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        if _are_ours(reader.schema.names):
            for batch in reader:
                yield {name: batch.column(name) for name in _IDS if name in batch.schema.names}


def _are_ours(names: list[str]) -> bool:
    return any(columns <= set(names) for columns in _OURS)


def _existing(folder: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    """Regular files below `folder` with one of these names, reached through no link."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            name = path.relative_to(folder).as_posix()
            if fnmatchcase(name, pattern) and _is_below(folder, path) and _is_ours(path):
                yield name


def _is_ours(path: Path) -> bool:
    """Whether a table for VLMEvalKit, which may have any name, begins as ours do; others are ours by their names."""
    if path.suffix != ".tsv":
        return True
    with open(path, "rb") as file:
        return file.readline(_HEADER_BYTES).startswith(_TSV_HEADER)


def _is_below(folder: Path, path: Path) -> bool:
    """Whether `path` is a regular file, and neither it nor a folder on the way to it from `folder` is a link."""
    inner = [path, *path.parents]
    way = inner[: inner.index(folder)]
    return path.is_file() and not any(place.is_symlink() for place in way)


def _stated(folder: Folder, name: str) -> dict[str, Any]:
    """The JSON object in a file of the folder; empty where there is none."""
    if name not in folder.files:
        return {}
    try:
        found = json.loads((folder.path / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_line(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.readline(_HEADER_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
