"""The authors' CSV release, read into QA rows and written back with equal values.

One file per split (`train*.csv`, `val*.csv`, `test*.csv`, also gzipped) with the columns
`index, patient_id (p10000032), study_id (s50414267), question, answer, question_label, question_value
(1.0|0.0|-1.0|nothing), indication, image_path (comma-separated, below files/), view_position (comma-separated,
aligned)`.

Reading works on whole columns: no row becomes a Python object. `index` is the row number and is counted again on
writing. An answer "error" is a reply that the authors' parser could not read (FACTS of their code): it is marked
`failed_reply`.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from mimic_cxr_vqa.csv_files import iterate_csv
from mimic_cxr_vqa.generation.answer_types import answer_types
from mimic_cxr_vqa.generation.questions import QUESTION_SLUGS, QUESTION_TEXTS, QUESTIONS_PER_CATEGORY
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES, PROVENANCE_TYPE, QA_SCHEMA, category_slug

COLUMNS = (
    "index", "patient_id", "study_id", "question", "answer", "question_label", "question_value", "indication",
    "image_path", "view_position",
)  # fmt: skip
FAILED_REPLY = "failed_reply"
_READ_AS = {name: pa.string() for name in COLUMNS[1:]}

_LABELS = [HEART.lower() if c == HEART else c for c in CATEGORIES]  # the release spells the 15th label "heart"
_VALUES = {"positive": "1.0", "negative": "0.0", "uncertain": "-1.0", "not_mentioned": ""}
# every spelling of a value that a data-frame library may have written
_VALUE_SPELLINGS = pa.array(["1.0", "1", "0.0", "0", "-1.0", "-1", "nan", "NaN"])
_VALUE_NAMES = pa.array(["positive"] * 2 + ["negative"] * 2 + ["uncertain"] * 2 + ["not_mentioned"] * 2)
_LEAVES_ROOT = r"(^|,)\s*(/|([^,]*/)?\.\.(/|,|$))|\\"


def read_authors_csv(path: Path, split: str) -> Iterator[pa.RecordBatch]:
    """The rows of one file as QA_SCHEMA batches, in file order.

    Args:
        split: `train`, `validate` or `test`, written into every row.

    Raises:
        InputError: a column is missing or a row is wrong; names the file and the row.
    """
    row = 2  # row 1 is the header; exact unless a quoted value holds a line break
    for batch in _one_ahead(iterate_csv(path, _READ_AS)):
        yield _convert(batch, split, partial(_refuse, path, row))
        row += len(batch)


def _one_ahead(items: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`items`, the next one being made in a thread while the last one is used (parsing frees the interpreter)."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, items, end)
        while (item := ahead.result()) is not end:
            ahead = pool.submit(next, items, end)
            yield item


def write_authors_csv(path: Path, batches: Iterable[pa.RecordBatch], private: bool = False) -> int:
    """Write QA rows in the authors' layout; returns the number of rows. The file appears when it is complete.

    Raises:
        InputError: a path or view holds a comma, which the layout cannot express.
        OutputError: the file cannot be written.
    """
    index = 0
    with atomic_file(path, "w", private=private) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for batch in batches:
            for row in batch.to_pylist():
                writer.writerow(_authors_row(index, row))
                index += 1
    return index


def has_reply(batch: pa.RecordBatch) -> pa.BooleanArray:
    """(rows,) False where the answer is a failed reply of the authors' run."""
    flagged = pc.greater(pc.list_value_length(pc.struct_field(batch["provenance"], "lint")), 0)
    if not pc.any(flagged).as_py():
        return pa.repeat(True, len(batch))
    return pa.array([FAILED_REPLY not in (row["lint"] or ()) for row in batch["provenance"].to_pylist()], pa.bool_())


def _convert(batch: pa.RecordBatch, split: str, refuse) -> pa.RecordBatch:
    """One block of the file as QA rows; `refuse(wrong, column, remedy)` raises if any row is wrong."""
    column = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in ("patient_id", "study_id", "question", "answer", "question_label"):
        refuse(pc.is_null(column[name]), column[name], f"{name} is empty")
    subject, study = (_id(column[name], letter, refuse) for name, letter in (("patient_id", "p"), ("study_id", "s")))

    category = pc.index_in(column["question_label"], pa.array(_LABELS))
    refuse(pc.is_null(category), column["question_label"], f"question_label is unknown; allowed: {', '.join(_LABELS)}")
    value = pc.index_in(column["question_value"], _VALUE_SPELLINGS)
    wrong = pc.and_(pc.is_null(value), pc.is_valid(column["question_value"]))
    refuse(wrong, column["question_value"], "question_value is unknown; allowed: 1.0, 0.0, -1.0 and nothing")

    images, leaves = _split_paths(column["image_path"])
    refuse(leaves, column["image_path"], "image_path leaves its root; allowed are relative paths without '..'")
    views, _ = _split_paths(column["view_position"])
    wrong = pc.not_equal(pc.list_value_length(images), pc.list_value_length(views))
    refuse(wrong, column["view_position"], "view_position does not have one entry per image_path")

    columns = {
        "qa_id": _qa_ids(column["study_id"], column["question"], category),
        "subject_id": subject,
        "study_id": study,
        "split": pa.repeat(split, len(batch)),
        "category": pa.array(CATEGORIES).take(category),
        "label_value": pc.fill_null(_VALUE_NAMES.take(value), LABEL_VALUES[None]),
        "question": column["question"],
        "answer": column["answer"],
        "answer_type": answer_types(column["answer"]),
        "indication": column["indication"],
        "images": images,
        "views": _null_empty_views(views),
        "provenance": _provenance(column["answer"]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in QA_SCHEMA.names], schema=QA_SCHEMA)


def _refuse(path: Path, first_row: int, wrong: pa.Array, values: pa.Array, remedy: str) -> None:
    position = pc.index(wrong, True).as_py()
    if position >= 0:
        raise InputError(f"{path}, row {first_row + position}: {values[position].as_py()!r}: {remedy}")


def _id(values: pa.Array, letter: str, refuse) -> pa.Array:
    """`p10000032` -> 10000032."""
    digits = pc.utf8_slice_codeunits(values, 1)
    wrong = pc.invert(pc.and_(pc.starts_with(values, letter), pc.string_is_ascii(values)))
    wrong = pc.or_(wrong, pc.invert(pc.utf8_is_digit(digits)))
    refuse(
        wrong, values, f"expected {letter} and digits, such as {letter}{'10000032' if letter == 'p' else '50414267'}"
    )
    return pc.cast(digits, pa.int64())


def _split_paths(values: pa.Array) -> tuple[pa.ListArray, pa.BooleanArray]:
    """Comma-separated texts as lists, and where a path in them would leave its root.

    A study's rows repeat the same text, so the distinct texts are looked at, once each.
    """
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    texts = pc.fill_null(encoded.dictionary, "")
    parts = pc.split_pattern(texts, ",")
    trimmed = pa.ListArray.from_arrays(parts.offsets, pc.utf8_trim_whitespace(parts.values))
    no_image = pa.scalar([], pa.list_(pa.string()))
    lists = pc.if_else(pc.equal(texts, ""), no_image, trimmed)
    leaves = pc.match_substring_regex(texts, _LEAVES_ROOT)
    return lists.take(encoded.indices), leaves.take(encoded.indices)


def _null_empty_views(views: pa.ListArray) -> pa.ListArray:
    flat = views.flatten()
    empty = pc.equal(flat, "")
    if not pc.any(empty).as_py():
        return views
    return pa.ListArray.from_arrays(views.offsets, pc.if_else(empty, pa.scalar(None, pa.string()), flat))


def _qa_ids(study: pa.Array, question: pa.Array, category: pa.Array) -> pa.Array:
    """`s50414267-pleural_effusion-3`; a question that is not among the 90 gets a hash of its text for a number."""
    text = pc.index_in(question, QUESTION_TEXTS)
    slug = QUESTION_SLUGS.take(text)
    unknown = pc.or_kleene(pc.is_null(text), pc.not_equal(pc.divide(text, QUESTIONS_PER_CATEGORY), category))
    if pc.any(unknown).as_py():
        rows = np.flatnonzero(unknown.to_numpy(False))
        names = [
            f"{category_slug(CATEGORIES[category[i].as_py()])}-x{hashlib.sha256(question[i].as_py().encode()).hexdigest()[:8]}"
            for i in rows
        ]
        slug = pc.replace_with_mask(slug, unknown, pa.array(names, pa.string()))
    return pc.binary_join_element_wise(study, slug, "-")


def _provenance(answer: pa.Array) -> pa.StructArray:
    """What is known of the release: LLaMA 3.1 8B, Q4_K_M (paper, Section 3.2); revision, seed and attempts are not."""
    rows = len(answer)
    failed = pc.equal(answer, "error").to_numpy(False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(failed)]).astype(np.int32))
    arrays = {
        "engine": pa.repeat("authors", rows),
        "model": pa.repeat("LLaMA 3.1 8B Q4_K_M", rows),
        "lint": pa.ListArray.from_arrays(offsets, pa.repeat(FAILED_REPLY, int(failed.sum()))),
    }
    columns = [arrays[f.name] if f.name in arrays else pa.nulls(rows, f.type) for f in PROVENANCE_TYPE]
    return pa.StructArray.from_arrays(columns, fields=list(PROVENANCE_TYPE))


def _authors_row(index: int, row: dict) -> tuple:
    paths, views = row["images"] or [], [view or "" for view in row["views"] or []]
    for text in (*paths, *views):
        if "," in text:
            raise InputError(
                f"{row['qa_id']}: {text!r} holds a comma, which the CSV layout uses as separator; rename it"
            )
    label = HEART.lower() if row["category"] == HEART else row["category"]
    return (
        index, f"p{row['subject_id']}", f"s{row['study_id']}", row["question"], row["answer"], label,
        _VALUES[row["label_value"]], row["indication"] or "", ",".join(paths), ",".join(views),
    )  # fmt: skip
