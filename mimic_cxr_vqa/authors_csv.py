"""Reads the authors' CSV release into QA rows, and writes QA rows in that layout.

There is one file per split (`train*.csv`, `val*.csv`, `test*.csv`, also gzipped) with the columns
`index, patient_id (p10000032), study_id (s50414267), question, answer, question_label, question_value
(1.0|0.0|-1.0|nothing), indication, image_path (comma-separated, below files/), view_position (comma-separated,
aligned)`.

`index` is the row number and is counted anew on writing. Answers that are empty, "error" (a reply that the authors'
parser could not read) or "error: …" (an error of their client) are flagged `failed_reply`. The layout does not
distinguish an empty text from null, and "nan" is read as null.

The files of the challenge CXR-ORACLE (`CXR_ORACLE_2025_Train.csv`, …) are read in the same layout. Their columns are
not published and the questions of their test split lack answers, so that there

- a missing column is replaced by what follows from the others (`_fill_missing`) and is named in a warning;
- an empty answer is None, and not a failed reply.
"""

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.csv_files import column_names, iterate_csv
from medvqa_core.digests import digest
from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import atomic_file
from mimic_cxr_vqa.answer_types import answer_types
from mimic_cxr_vqa.question_list import QUESTION_SLUGS, QUESTION_TEXTS, QUESTIONS_PER_CATEGORY, SPELLINGS
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES, PROVENANCE_TYPE, QA_SCHEMA, category_slug, has_flag

COLUMNS = (
    "index", "patient_id", "study_id", "question", "answer", "question_label", "question_value", "indication",
    "image_path", "view_position",
)  # fmt: skip
FAILED_REPLY = "failed_reply"
# paper, Section 3.2; revision, seed and attempts are unknown
AUTHORS_ANSWERS = {"engine": "authors", "model": "LLaMA 3.1 8B Q4_K_M"}
CHALLENGE_FILE = re.compile(r"cxr_oracle_", re.IGNORECASE)
OTHER = "Other"  # category of a question that is not among the 90, in a file without question_label
_log = logging.getLogger(__name__)
_READ_AS = {name: pa.string() for name in COLUMNS[1:]}
_IDS_IN_PATH = {"patient_id": r"(?:^|/)(?P<id>p[1-9][0-9]*)/s[1-9]", "study_id": r"/(?P<id>s[1-9][0-9]*)/"}

_LABELS = [HEART.lower() if c == HEART else c for c in CATEGORIES]  # the release spells the 15th label "heart"
_NAMES = [*CATEGORIES, OTHER]
_VALUES = {"positive": "1.0", "negative": "0.0", "uncertain": "-1.0", "not_mentioned": ""}
# the spellings that data-frame libraries write
_VALUE_SPELLINGS = pa.array(["1.0", "1", "0.0", "0", "-1.0", "-1", "nan", "NaN"])
_VALUE_NAMES = pa.array(["positive"] * 2 + ["negative"] * 2 + ["uncertain"] * 2 + ["not_mentioned"] * 2)
# on comma-joined paths without outer blanks
_LEAVES_ROOT = r"(^|,)(/|([^,]*/)?\.\.(/|,|$))|\\|\x00"
_ERROR_REPLY = r"(?is)^error\s*(:.*)?$"
_EMPTY_PATH = r"^,|,,|,$"
_PLAIN_TEXTS = pa.array([text.lower() for text in QUESTION_TEXTS.to_pylist()])


def read_authors_csv(
    path: Path, split: str, answers: Mapping[str, Any] | None = None, tolerant: bool | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file as QA_SCHEMA batches, in file order.

    Args:
        split: `train`, `validate` or `test`.
        answers: provenance of the answers (engine, model, …) from a manifest. Default: that of the authors' files.
        tolerant: whether columns and answers may be missing. Default: only in the challenge's files.

    Raises:
        InputError: a column is missing or a row is invalid. The message names the file and the row.
    """
    tolerant = CHALLENGE_FILE.match(path.name) is not None if tolerant is None else tolerant
    columns = _find_columns(path) if tolerant else _READ_AS
    row = 2  # row 1 is the header; a row with line breaks counts once
    for batch in _one_ahead(iterate_csv(path, columns)):
        refuse = partial(_refuse, path, row)
        yield _convert(_fill_missing(batch, refuse), split, answers or AUTHORS_ANSWERS, refuse, tolerant)
        row += len(batch)


def _find_columns(path: Path) -> dict[str, pa.DataType]:
    """The columns that the file has, with a warning about the others.

    Raises:
        InputError: the file lacks `question`, or has neither study_id nor image_path.
    """
    found = column_names(path)
    present = {name: type for name, type in _READ_AS.items() if name in found}
    ids = [name for name in _IDS_IN_PATH if name not in present and "image_path" not in present]
    if "question" not in present or ids:
        raise InputError(
            f"{path}: no column {', '.join(['question'] * ('question' not in present) + ids)}. Needed are question, "
            "and patient_id and study_id or the image_path that has both"
        )
    missing = [name for name in _READ_AS if name not in present]
    if missing:
        _log.warning("%s does not have the columns %s", path, ", ".join(missing))
    return present


def _fill_missing(batch: pa.RecordBatch, refuse) -> dict[str, pa.Array]:
    """The columns of a batch. Ids are found in image_path, and categories from the question. Others are null.

    question_value stays missing, because null means that the report does not mention the finding.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, pattern in _IDS_IN_PATH.items():
        if name not in columns:
            ids = pc.struct_field(pc.extract_regex(columns["image_path"], pattern), "id")
            refuse(pc.is_null(ids), columns["image_path"], f"image_path does not have a {name}, such as in p10/p1/s5/")
            columns[name] = ids
    for name in ("answer", "indication", "image_path"):
        columns.setdefault(name, pa.nulls(len(batch), pa.string()))
    if "question_label" not in batch.schema.names:
        number = pc.divide(_question_numbers(columns["question"]), QUESTIONS_PER_CATEGORY)
        columns["question_label"] = pc.fill_null(pa.array(_LABELS).take(number), OTHER)
    if "view_position" not in batch.schema.names:
        commas = pc.count_substring(pc.fill_null(columns["image_path"], ""), ",")
        columns["view_position"] = pc.binary_repeat(pa.scalar(","), commas)
    return columns


def _one_ahead(items: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Prefetch one of `items` in a thread."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, items, end)
        while (item := ahead.result()) is not end:
            ahead = pool.submit(next, items, end)
            yield item


def write_authors_csv(path: Path, batches: Iterable[pa.RecordBatch], private: bool = False) -> int:
    """Write QA rows in the authors' layout and return their number.

    Raises:
        InputError: a path or view cannot be expressed (a comma, outer blanks, an empty path), or a text has a NUL byte.
        OutputError: the file cannot be written.
    """
    index = 0
    with atomic_file(path, "w", private=private) as file:
        plain = csv.writer(file, lineterminator="\n")
        quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        plain.writerow(COLUMNS)
        for batch in batches:
            for row in batch.to_pylist():
                cells = _authors_row(index, row)
                # the csv module does not quote a carriage return, at which readers end the row
                (quoting if any("\r" in cell for cell in cells) else plain).writerow(cells)
                index += 1
    return index


class ReplyFilter:
    """Drops rows whose reply could not be parsed, and counts them in `left_out`."""

    def __init__(self) -> None:
        self.left_out = 0

    def keep(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches without those rows. Batches without provenance are not changed."""
        for batch in batches:
            if "provenance" in batch.schema.names:
                rows = len(batch)
                batch = batch.filter(pc.invert(has_flag(batch["provenance"], FAILED_REPLY)))
                self.left_out += rows - len(batch)
            yield batch


def _convert(
    column: Mapping[str, pa.Array], split: str, answers: Mapping[str, Any], refuse, tolerant: bool
) -> pa.RecordBatch:
    """A block of the file as QA rows. `refuse(wrong, column, remedy)` raises if any row is wrong."""
    rows = len(column["question"])
    for name in ("patient_id", "study_id", "question", "question_label"):
        refuse(pc.is_null(column[name]), column[name], f"{name} is empty")
    subject, study = (_id(column[name], letter, refuse) for name, letter in (("patient_id", "p"), ("study_id", "s")))

    category = pc.index_in(column["question_label"], pa.array([*_LABELS, OTHER] if tolerant else _LABELS))
    refuse(pc.is_null(category), column["question_label"], f"question_label is unknown. Allowed: {', '.join(_LABELS)}")
    values = pa.nulls(rows, pa.string())
    if "question_value" in column:
        value = pc.index_in(column["question_value"], _VALUE_SPELLINGS)
        wrong = pc.and_(pc.is_null(value), pc.is_valid(column["question_value"]))
        refuse(wrong, column["question_value"], "question_value is unknown. Allowed: 1.0, 0.0, -1.0 and empty")
        values = pc.fill_null(_VALUE_NAMES.take(value), LABEL_VALUES[None])

    images, leaves, empty = _split(column["image_path"], _LEAVES_ROOT, _EMPTY_PATH)
    refuse(leaves, column["image_path"], "image_path leaves its root. Allowed: relative paths without '..'")
    refuse(empty, column["image_path"], "image_path has an empty path. Remove the extra comma")
    views = _align_lone_view(_split(column["view_position"])[0], images)
    wrong = pc.not_equal(pc.list_value_length(images), pc.list_value_length(views))
    refuse(wrong, column["view_position"], "view_position does not have one entry per image_path")

    answer = column["answer"] if tolerant else pc.fill_null(column["answer"], "")
    columns = {
        "qa_id": _qa_ids(column["study_id"], column["question"], category),
        "subject_id": subject,
        "study_id": study,
        "split": pa.repeat(split, rows),
        "category": pa.array(_NAMES).take(category),
        "label_value": values,
        "question": column["question"],
        "answer": answer,
        "answer_type": answer_types(answer),
        "indication": column["indication"],
        "images": images,
        "views": _null_empty_views(views),
        "provenance": _provenance(answer, answers),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in QA_SCHEMA.names], schema=QA_SCHEMA)


def _refuse(path: Path, first_row: int, wrong: pa.Array, values: pa.Array, remedy: str) -> None:
    position = pc.index(wrong, True).as_py()
    if position >= 0:
        value = values[position].as_py()
        raise InputError(
            f"{path}, row {first_row + position}: {'empty' if value is None else quote_value(value)}: {remedy}"
        )


def _id(values: pa.Array, letter: str, refuse) -> pa.Array:
    """`p10000032` -> 10000032."""
    wrong = pc.invert(pc.match_substring_regex(values, f"^{letter}[1-9][0-9]{{0,17}}$"))
    example = letter + {"p": "10000032", "s": "50414267"}[letter]
    refuse(wrong, values, f"expected an id such as {example}")
    return pc.cast(pc.utf8_slice_codeunits(values, 1), pa.int64())


def _split(values: pa.Array, *patterns: str) -> tuple[pa.Array, ...]:
    """Comma-separated texts as lists without outer blanks, and for each pattern where the joined list matches it.

    Each distinct text is split once, because the rows of a study repeat it.
    """
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    texts = pc.utf8_trim_whitespace(pc.fill_null(encoded.dictionary, ""))
    parts = pc.split_pattern(texts, ",")
    trimmed = pa.ListArray.from_arrays(parts.offsets, pc.utf8_trim_whitespace(parts.values))
    no_image = pa.scalar([], pa.list_(pa.string()))
    lists = pc.if_else(pc.equal(texts, ""), no_image, trimmed)
    joined = pc.binary_join(lists, ",")
    matches = (pc.match_substring_regex(joined, pattern) for pattern in patterns)
    return tuple(array.take(encoded.indices) for array in (lists, *matches))


def _align_lone_view(views: pa.ListArray, images: pa.ListArray) -> pa.ListArray:
    """Read an empty cell beside a single image as one missing view."""
    lone = pc.and_(pc.equal(pc.list_value_length(images), 1), pc.equal(pc.list_value_length(views), 0))
    return pc.if_else(lone, pa.scalar([None], views.type), views) if pc.any(lone).as_py() else views


def _null_empty_views(views: pa.ListArray) -> pa.ListArray:
    flat = views.flatten()
    names = pc.if_else(pc.equal(flat, ""), pa.scalar(None, pa.string()), flat)
    return pa.ListArray.from_arrays(views.offsets, names)


def _qa_ids(study: pa.Array, question: pa.Array, category: pa.Array) -> pa.Array:
    """Ids such as `s50414267-pleural_effusion-3`. A question that is not among the 90 has a hash as its number.

    Questions are compared without case and repeated blanks, and in the released spelling (`question_list.SPELLINGS`).
    """
    text = _question_numbers(question)
    slug = QUESTION_SLUGS.take(text)
    unknown = pc.or_kleene(pc.is_null(text), pc.not_equal(pc.divide(text, QUESTIONS_PER_CATEGORY), category))
    if pc.any(unknown).as_py():
        rows = np.flatnonzero(unknown.to_numpy(False))
        names = [f"{category_slug(_NAMES[category[i].as_py()])}-x{digest(question[i].as_py())[:8]}" for i in rows]
        slug = pc.replace_with_mask(slug, unknown, pa.array(names, pa.string()))
    return pc.binary_join_element_wise(study, slug, "-")


def _question_numbers(question: pa.Array) -> pa.Array:
    """The places of questions among the 90, null for others."""
    text = pc.index_in(question, QUESTION_TEXTS)
    return pc.fill_null(text, pc.index_in(_plain(question), _PLAIN_TEXTS)) if text.null_count else text


def _plain(question: pa.Array) -> pa.Array:
    """Questions in lower case with single blanks and the paper's spelling."""
    encoded = pc.dictionary_encode(question)
    texts = [" ".join((text or "").lower().split()) for text in encoded.dictionary.to_pylist()]
    return pa.array([SPELLINGS.get(text, text) for text in texts], pa.string()).take(encoded.indices)


def _provenance(answer: pa.Array, answers: Mapping[str, Any]) -> pa.StructArray:
    """The provenance of the answers. The layout does not have columns for attempts and lint rules."""
    rows = len(answer)
    failed = pc.fill_null(_is_failure(answer), False).to_numpy(False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(failed)]).astype(np.int32))
    lint = pa.ListArray.from_arrays(offsets, pa.repeat(FAILED_REPLY, int(failed.sum())))
    columns = [
        lint if field.name == "lint" else pa.repeat(pa.scalar(answers.get(field.name), field.type), rows)
        for field in PROVENANCE_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(PROVENANCE_TYPE))


def _is_failure(answer: pa.Array) -> pa.BooleanArray:
    """Where an answer is blank, "error" or, for example, "Error: Connection refused"."""
    failed = pc.or_(pc.equal(answer, ""), pc.utf8_is_space(answer))
    starting = pc.starts_with(answer, "error")
    for spelling in ("Error", "ERROR"):  # much cheaper than a regular expression over all answers
        starting = pc.or_(starting, pc.starts_with(answer, spelling))
    if not pc.any(starting).as_py():
        return failed
    return pc.or_(failed, pc.and_(starting, pc.match_substring_regex(answer, _ERROR_REPLY)))


def _authors_row(index: int, row: dict) -> tuple[str, ...]:
    paths, views = row["images"] or [], [view or "" for view in row["views"] or []]
    for text in (*paths, *views):
        if "," in text or text != text.strip() or (not text and text in paths):
            raise InputError(
                f"{row['qa_id']}: {text!r} cannot be written in a comma-separated list of the CSV layout. Rename it"
            )
    for name in ("question", "answer", "indication"):
        if "\0" in (row[name] or ""):
            raise InputError(f"{row['qa_id']}: {name} has a NUL byte, which a CSV cannot contain. Remove it")
    label = HEART.lower() if row["category"] == HEART else row["category"]
    return (
        str(index), f"p{row['subject_id']}", f"s{row['study_id']}", row["question"], row["answer"], label,
        _VALUES[row["label_value"]], row["indication"] or "", ",".join(paths), ",".join(views),
    )  # fmt: skip
