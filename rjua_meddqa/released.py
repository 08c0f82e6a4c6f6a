"""Reads and writes the released files: annotation CSV, question JSON lines, context CSV.

Cells that did not change are written back byte for byte (odd spaces, quotes, duplicate keys), and unknown columns keep
their places. The Python literals in `kv` and `table` are parsed and never evaluated.
"""

import ast
import csv
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import atomic_file
from rjua_meddqa.schema import (
    ANNOTATION_COLUMNS,
    CONTEXT_COLUMNS,
    IMAGE_QUALITIES,
    IMAGE_TYPES,
    MULTIPLE_CHOICE,
    QUESTION_COLUMNS,
    REASONING_COLUMNS,
    REASONING_TASKS,
    SHORT_ANSWER,
    Annotation,
    Question,
    ReasoningQuestion,
    TableRow,
)

FIELDS_OF_A_ROW = 4  # item, result, range, is_normal
LITERAL_LIMIT = 1024 * 1024  # characters of kv or table. Parsing takes up to 500 times as many bytes
_SEPARATE = ("idx", "img_path", "report_type", "image_type", "image_quality")
_ALLOWED = {"task": REASONING_TASKS, "answer_type": (MULTIPLE_CHOICE, SHORT_ANSWER)}  # of reasoning questions


@dataclass(frozen=True, slots=True)
class Context:
    """One entry of the context base."""

    idx: str
    title: str
    context_type: str
    description: str


def read_annotations(path: Path, skipped: list[str] | None = None) -> list[Annotation]:
    """Read an annotation CSV (UTF-8, with or without a byte-order mark).

    Args:
        skipped: collects the errors of rows that cannot be read, which are left out. By default, they raise.

    Raises:
        InputError: the file is missing, lacks a column, or a row is broken.
    """
    annotations = []
    for where, cells in read_cells(path, ANNOTATION_COLUMNS):
        try:
            annotations.append(_annotation(cells, where))
        except InputError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
    return annotations


def write_annotations(annotations: Sequence[Annotation], path: Path) -> None:
    """Write a released CSV. Cells whose value is still that of `raw` do not change. Raises OutputError."""
    columns = list(annotations[0].raw or ANNOTATION_COLUMNS) if annotations else list(ANNOTATION_COLUMNS)
    for annotation in annotations:
        columns += [name for name in annotation.extra if name not in columns]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for annotation in annotations:
        cells = _cells(annotation)
        writer.writerow([cells.get(name, "") for name in columns])
    with atomic_file(path) as file:
        file.write(_encode(text.getvalue(), str(path)))


def parse_key_values(cell: str, where: str) -> tuple[tuple[str, str], ...]:
    """The (key, value) pairs of a `kv` cell, with repeated keys.

    Raises:
        InputError: `cell` is not the literal of a dict of texts or numbers.
    """
    node = _literal(cell, where, "kv")
    if node is None:
        return ()
    if not isinstance(node, ast.Dict) or None in node.keys:
        raise InputError(f"{where}: kv is not a dict literal such as {{'年龄': '50岁'}}. Correct the cell.")
    lines = cell.strip().encode("utf-8", "surrogatepass").splitlines()
    keys = [_text(key, lines, where, "kv") for key in node.keys if key is not None]
    values = [_text(value, lines, where, "kv") for value in node.values]
    return tuple(zip(keys, values, strict=True))


def parse_table(cell: str, where: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a `table` cell, of any length.

    Raises:
        InputError: `cell` is not the literal of a list of tuples of texts or numbers.
    """
    node = _literal(cell, where, "table")
    if node is None:
        return ()
    rows = [row for row in getattr(node, "elts", []) if isinstance(row, ast.List | ast.Tuple)]
    if not isinstance(node, ast.List | ast.Tuple) or len(rows) < len(node.elts):
        raise InputError(f"{where}: table is not a list of (item, result, range, is_normal). Correct the cell.")
    lines = cell.strip().encode("utf-8", "surrogatepass").splitlines()
    return tuple(tuple(_text(field, lines, where, "table") for field in row.elts) for row in rows)


def read_questions(path: Path) -> list[Question]:
    """Read image-content questions. Raises InputError if a line is not a question."""
    questions = []
    for record, _ in _read_records(path, QUESTION_COLUMNS):
        extra = {name: value for name, value in record.items() if name not in QUESTION_COLUMNS}
        questions.append(Question(**{name: record[name] for name in QUESTION_COLUMNS}, extra=extra))
    return questions


def read_reasoning(path: Path) -> list[ReasoningQuestion]:
    """Read clinical-reasoning questions, without unknown columns. Raises InputError if a line is not a question."""
    questions = []
    for record, where in _read_records(path, REASONING_COLUMNS):
        for name, allowed in _ALLOWED.items():
            if record[name] not in allowed:
                raise InputError(f"{where}: {name} {record[name]!r} is unknown. Allowed: {', '.join(allowed)}.")
        questions.append(ReasoningQuestion(**{name: record[name] for name in REASONING_COLUMNS}))
    return questions


def write_questions(questions: Iterable[Question | ReasoningQuestion], path: Path) -> None:
    """Write questions as released JSON lines. Raises OutputError."""
    with atomic_file(path) as file:
        for question in questions:
            record = asdict(question)
            if isinstance(question, Question):
                record = {name: record[name] for name in QUESTION_COLUMNS} | question.extra
            file.write(_encode(json.dumps(record, ensure_ascii=False), question.img_path) + b"\n")


def read_contexts(path: Path) -> list[Context]:
    """Read the context base. Raises InputError if the file is missing or an entry lacks a title."""
    contexts = []
    for where, cells in read_cells(path, CONTEXT_COLUMNS):
        if not cells["title"].strip():
            raise InputError(f"{where}: the title is empty. Add one, since options of questions are titles.")
        contexts.append(Context(**{name: cells[name] for name in CONTEXT_COLUMNS}))
    return contexts


def read_cells(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place, cells by column) for the rows of a CSV with at least these columns.

    Raises:
        InputError: the file is missing, is not UTF-8, lacks a column, or a row does not fit the header.
    """
    return ((f"{path}, row {number}", cells) for number, cells in iterate_cells(path, columns))


def _annotation(cells: dict[str, str], where: str) -> Annotation:
    rows = parse_table(cells["table"], where)
    for number, row in enumerate(rows, start=1):
        if len(row) != FIELDS_OF_A_ROW:
            raise InputError(f"{where}: table row {number} has {len(row)} fields. Expected {FIELDS_OF_A_ROW}.")
    values = _separate_values(cells)
    for name, allowed in (("image_type", IMAGE_TYPES), ("image_quality", IMAGE_QUALITIES)):
        if values[name] not in allowed:
            raise InputError(f"{where}: {name} {quote_value(cells[name])} is unknown. Allowed: {', '.join(allowed)}.")
    return Annotation(
        key_values=parse_key_values(cells["kv"], where),
        table=tuple(TableRow(*row) for row in rows),
        extra={name: value for name, value in cells.items() if name not in ANNOTATION_COLUMNS},
        raw=cells,
        **values,
    )


def _separate_values(cells: dict[str, str]) -> dict[str, str]:
    """The cells that are not literals, without the odd spaces and capitals of released files."""
    values = {name: cells[name].strip() for name in _SEPARATE}
    return values | {name: values[name].lower() for name in ("image_type", "image_quality")}


def _cells(annotation: Annotation) -> dict[str, str]:
    """The CSV cells of an annotation, by column."""
    raw, where = annotation.raw, f"annotation {annotation.idx}"
    cells = {name: getattr(annotation, name) for name in _SEPARATE} | annotation.extra
    cells["kv"] = _dict_literal(annotation.key_values)
    rows = tuple((row.item, row.result, row.range, row.is_normal) for row in annotation.table)
    cells["table"] = repr(list(rows)) if rows else ""
    if not raw:
        return cells
    unchanged = {name for name, value in _separate_values(raw).items() if value == cells[name]}
    unchanged |= {"kv"} if parse_key_values(raw["kv"], where) == annotation.key_values else set()
    unchanged |= {"table"} if parse_table(raw["table"], where) == rows else set()
    return cells | {name: raw[name] for name in unchanged}


def _dict_literal(pairs: Sequence[tuple[str, str]]) -> str:
    """A dict literal, with repeated keys."""
    return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in pairs) + "}" if pairs else ""


def _literal(cell: str, where: str, column: str) -> ast.expr | None:
    """Parse a literal without evaluating it. Returns None for an empty cell."""
    if not cell.strip():
        return None
    if len(cell) > LITERAL_LIMIT:
        raise InputError(f"{where}: {column} has {len(cell):,} characters. The limit is {LITERAL_LIMIT:,}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # '\d' in a report
            return ast.parse(cell.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: {column} is not a Python literal ({type(error).__name__}). Correct it.") from error


def _text(node: ast.expr, lines: Sequence[bytes], where: str, column: str) -> str:
    """A text, or a number as written in the UTF-8 `lines` of the cell: 5.10 keeps its zero."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if isinstance(number, ast.Constant) and type(number.value) in (int, float) and node.lineno == node.end_lineno:
        return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        _encode(node.value, f"{where}: {column}")
        return node.value
    kind = type(node.value if isinstance(node, ast.Constant) else node).__name__
    raise InputError(f"{where}: {column} holds {kind}. Expected a text or a number. Put it in quotes.")


def _encode(text: str, where: str) -> bytes:
    """Encode as UTF-8. Raises InputError for half of a surrogate pair, which literals and JSON can hold."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds half a character ({error.reason}). Write that text again.") from error


def _read_records(path: Path, columns: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield (record, place) for the lines of a JSON-lines file of questions."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check the path.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would split at U+2028
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not valid JSON ({error}). Correct or remove the line.") from None
        for name in columns:
            kind = int if name in ("answer_length", "is_table") else str
            if not isinstance(record, dict) or type(record.get(name)) is not kind:
                raise InputError(f"{where}: {name!r} is missing or is not of type {kind.__name__}.")
        yield record, where
