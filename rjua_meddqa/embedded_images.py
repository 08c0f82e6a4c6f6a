"""Parquet shards of synthetic reports with their images inside, for a dataset that loads without this package.

    data/test-00000-of-00001.parquet   a row per page: image, annotation, questions, and the chat messages
    qa/test-00000-of-00001.parquet     a row per question

The images are never read from a disk. They are drawn again from the parameters in the manifest, so that a photo of a
real report in their place cannot leave the machine. The annotations must be those of the drawn pages.
"""

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, Image, List, Value
from PIL import Image as Pillow

from hub_cards.dataset_info import CardConfig
from medvqa_core.chat_rows import MESSAGES, conversations
from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.image_shards import EXAMPLES, FOLDER, ROWS_PER_GROUP, write_split
from medvqa_core.json_files import find_manifest
from medvqa_core.progress import track
from rjua_meddqa.card import SPLIT
from rjua_meddqa.data_folder import ANNOTATIONS, QUESTIONS, REASONING, DataFolder
from rjua_meddqa.fonts import BUNDLED, find_fonts
from rjua_meddqa.phantom.folder import draw_report, encode_image, select_fonts
from rjua_meddqa.phantom.page import SyntheticReport
from rjua_meddqa.released import read_annotations, read_questions, read_reasoning

_TEXT = Value("string")
_QUESTION = {
    **dict.fromkeys(("question", "answer", "task", "answer_type", "context", "context_id"), _TEXT),
    "unanswerable": Value("bool"),
}
_PAGE = dict.fromkeys(("img_path", "report_type", "image_type", "image_quality"), _TEXT)
FEATURES = Features(
    {
        "images": List(Image()),
        **_PAGE,
        "key_values": List({"key": _TEXT, "value": _TEXT}),
        "table": List(dict.fromkeys(("item", "result", "range", "is_normal"), _TEXT)),
        "questions": List(_QUESTION),
        "messages": MESSAGES,
    }
)
QA_FEATURES = Features({"img_path": _TEXT, **_QUESTION})
CHAT_COLUMNS = ["images", "img_path", "messages"]


def read_parameters(folder: Path) -> dict[str, Any]:
    """Return the parameters of a folder of synthetic reports. Raises InputError if it is not one."""
    found = find_manifest(folder, "name the folder that medvqa-hub meddqa phantom wrote").get("phantom")
    if not isinstance(found, dict):
        raise InputError(f"{folder} does not hold synthetic reports. Write them with medvqa-hub meddqa phantom.")
    return found


def write_shards(folder: DataFolder, parameters: dict[str, Any], out: Path) -> list[CardConfig]:
    """Write the shards and a picture of the first pages to `out`. Returns the configs of the dataset.

    Args:
        parameters: of the synthetic reports (`read_parameters`).

    Raises:
        ConfigError: the fonts of the reports are not installed.
        GovernanceError: the folder's reports are not synthetic, or not those that the parameters give.
    """
    if folder.governance is not Governance.OPEN or "phantom" not in folder.manifest:
        raise GovernanceError(f"{folder.root} does not hold synthetic reports, so its images must not be embedded.")
    questions = _read_questions(folder)
    expected = {found.img_path: found for found in read_annotations(folder.file(ANNOTATIONS))}
    rows = (_make_row(page, questions[page.annotation.img_path]) for page in _draw(parameters, expected))
    tables = map(_make_table, iter(lambda: list(islice(rows, ROWS_PER_GROUP)), []))
    data = write_split(tables, out, SPLIT)
    _draw_examples(data[0], out / EXAMPLES)
    flat = [{"img_path": path, **question} for path, found in questions.items() for question in found]
    (out / "qa").mkdir()
    qa = out / "qa" / f"{SPLIT}-00000-of-00001.parquet"
    table = pa.Table.from_pylist(flat, QA_FEATURES.arrow_schema).replace_schema_metadata(None)
    pq.write_table(table, qa, compression="zstd", write_page_checksum=True)
    pages = [name for name in FEATURES if name != "messages"]
    return [
        CardConfig("pages", FOLDER, FEATURES, {SPLIT: data}, pages, default=True),
        CardConfig("chat", FOLDER, FEATURES, {SPLIT: data}, CHAT_COLUMNS),
        CardConfig("qa", "qa", QA_FEATURES, {SPLIT: [qa]}),
    ]


def _read_questions(folder: DataFolder) -> dict[str, list[dict[str, Any]]]:
    """Questions of both kinds by image."""
    found: list[tuple[Any, dict[str, Any]]] = []
    if QUESTIONS in folder.files:
        for asked in read_questions(folder.file(QUESTIONS)):
            unanswerable = bool(asked.extra.get("unanswerable", False))
            found.append((asked, {"context": None, "context_id": None, "unanswerable": unanswerable}))
    if REASONING in folder.files:
        for reasoned in read_reasoning(folder.file(REASONING)):
            details = {"context": reasoned.context, "context_id": reasoned.context_id, "unanswerable": False}
            found.append((reasoned, details))
    questions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for asked, details in found:
        texts = {name: getattr(asked, name) for name in ("question", "answer", "task", "answer_type")}
        questions[asked.img_path].append({**texts, **details})
    return questions


def _draw(parameters: dict[str, Any], expected: dict[str, Any]) -> Iterator[SyntheticReport]:
    """Draw every page again, and compare it with its annotation."""
    hard, varied = (bool(parameters.get(name)) for name in ("hard", "varied"))
    choices = [select_fonts(find_fonts(), hard), [BUNDLED]]
    fonts = next((files for files in choices if ",".join(file.stem for file in files) == parameters["font"]), None)
    if fonts is None:
        raise ConfigError(
            f"the reports were drawn with the fonts {parameters['font']}, which are not installed here. Install them, "
            "or draw the reports again with medvqa-hub meddqa phantom."
        )
    if len(expected) != parameters["reports"]:
        raise GovernanceError(
            f"the data has {len(expected)} annotated pages, but {parameters['reports']} were drawn. Name the folder "
            "that medvqa-hub meddqa phantom wrote."
        )
    for number in track(range(1, len(expected) + 1), "drawing reports", total=len(expected)):
        page, _ = draw_report(parameters["seed"], number, fonts, hard, varied)
        drawn = page.annotation
        found = expected.get(drawn.img_path)
        if found is None or (found.key_values, found.table) != (drawn.key_values, drawn.table):
            raise GovernanceError(
                f"the annotation of {drawn.img_path} is not that of the synthetic report. Push the folder as "
                "medvqa-hub meddqa phantom wrote it, or leave out --image-root."
            )
        yield page


def _make_row(page: SyntheticReport, questions: list[dict[str, Any]]) -> dict[str, Any]:
    annotation = page.annotation
    return {
        "images": [{"bytes": encode_image(page), "path": annotation.img_path}],
        **{name: getattr(annotation, name) for name in _PAGE},
        "key_values": [{"key": key, "value": value} for key, value in annotation.key_values],
        "table": [asdict(row) for row in annotation.table],
        "questions": questions,
    }


def _make_table(rows: list[dict[str, Any]]) -> pa.Table:
    """A table with the column `messages`. The context of a question precedes it."""
    asked = [question for row in rows for question in row["questions"]]
    offsets = np.concatenate([[0], np.cumsum([len(row["questions"]) for row in rows])])
    texts = [f"{one['context']}\n{one['question']}" if one["context"] else one["question"] for one in asked]
    messages = conversations(texts, [one["answer"] for one in asked], offsets, [1] * len(rows))
    schema = FEATURES.arrow_schema
    columns = [
        messages if name == "messages" else pa.array([row[name] for row in rows], schema.field(name).type)
        for name in schema.names
    ]
    return pa.table(columns, schema=schema).replace_schema_metadata(None)


def _draw_examples(shard: Path, path: Path, pages: int = 3, height: int = 640) -> None:
    """Draw the first pages side by side for the card."""
    with pq.ParquetFile(shard) as file:
        rows = next(file.iter_batches(pages, columns=["images"])).to_pylist()
    images = [Pillow.open(io.BytesIO(row["images"][0]["bytes"])).convert("RGB") for row in rows]
    images = [image.resize((round(image.width * height / image.height), height)) for image in images]
    sheet = Pillow.new("RGB", (sum(image.width + 8 for image in images) - 8, height), "white")
    left = 0
    for image in images:
        sheet.paste(image, (left, 0))
        left += image.width + 8
    sheet.save(path, optimize=True)
