"""The released files, in and out: annotation CSV, question JSON lines, context CSV.

A cell that nobody changed is written back to the letter (odd spaces, quotes, duplicate keys), and columns that are not
ours stay where they were. `kv` and `table` are Python literals: they are parsed as syntax and never run.
"""

import ast
import csv
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError, show
from medvqa_core.files import atomic_file, join_under
from rjua_meddqa.schema import (
    ANNOTATION_COLUMNS,
    CONTEXT_COLUMNS,
    IMAGE_QUALITIES,
    IMAGE_TYPES,
    QUESTION_COLUMNS,
    Annotation,
    Question,
    TableRow,
)

FIELDS_OF_A_ROW = 4  # item, result, range, is_normal
LITERAL_LIMIT = 1024 * 1024  # characters of kv or table: the syntax tree of a cell takes up to 500 times as many bytes
_SEPARATE = ("idx", "img_path", "report_type", "image_type", "image_quality")


@dataclass(frozen=True, slots=True)
class Context:
    """One entry of the context base: what an expert wrote under a title."""

    idx: str
    title: str
    context_type: str
    description: str


def read_annotations(path: Path, skipped: list[str] | None = None) -> list[Annotation]:
    """The rows of an annotation CSV (UTF-8, with or without a byte-order mark).

    Args:
        skipped: where given, a row that cannot be read adds its error here and is left out; otherwise it raises.

    Raises:
        InputError: the file is missing, is no CSV of these columns, or a row holds what is not a literal.
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
    """Write `annotations` as a released CSV; cells whose value is still that of `raw` are written as they were.

    Raises:
        OutputError: the file cannot be written.
    """
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
    """(key, value) of a `kv` cell in the order of the file; a key that occurs twice is there twice.

    Raises:
        InputError: `cell` is not the literal of a dict of texts or numbers.
    """
    node = _literal(cell, where, "kv")
    if node is None:
        return ()
    if not isinstance(node, ast.Dict) or None in node.keys:
        raise InputError(f"{where}: kv is not a dict literal such as {{'年龄': '50岁'}}; correct the cell")
    pairs = zip(node.keys, node.values, strict=True)
    lines = cell.strip().encode("utf-8", "surrogatepass").splitlines()
    return tuple((_text(key, lines, where, "kv"), _text(value, lines, where, "kv")) for key, value in pairs)


def parse_table(cell: str, where: str) -> tuple[tuple[str, ...], ...]:
    """Rows of a `table` cell, of whatever length they have.

    Raises:
        InputError: `cell` is not the literal of a list of tuples of texts or numbers.
    """
    node = _literal(cell, where, "table")
    if node is None:
        return ()
    rows = node.elts if isinstance(node, ast.List | ast.Tuple) else None
    if rows is None or not all(isinstance(row, ast.List | ast.Tuple) for row in rows):
        raise InputError(f"{where}: table is not a list of (item, result, range, is_normal); correct the cell")
    lines = cell.strip().encode("utf-8", "surrogatepass").splitlines()
    return tuple(tuple(_text(field, lines, where, "table") for field in row.elts) for row in rows)


def read_questions(path: Path, skipped: list[str] | None = None) -> list[Question]:
    """The image-content questions of a released JSON-lines file.

    Args:
        skipped: where given, a line that cannot be read adds its error here and is left out; otherwise it raises.

    Raises:
        InputError: the file is missing or a line is no JSON object with the columns of a question.
    """
    questions = []
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            questions.append(_question(line, f"{path}, line {number}"))
        except InputError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
    return questions


def write_questions(questions: Iterable[Question], path: Path) -> None:
    """Write `questions` as released JSON lines. Raises OutputError where the file cannot be written."""
    with atomic_file(path) as file:
        for question in questions:
            record = {name: getattr(question, name) for name in QUESTION_COLUMNS} | question.extra
            file.write(_encode(json.dumps(record, ensure_ascii=False), question.img_path) + b"\n")


def read_contexts(path: Path) -> list[Context]:
    """The context base. Raises InputError where the file is missing or an entry has no title."""
    contexts = []
    for where, cells in read_cells(path, CONTEXT_COLUMNS):
        if not cells["title"].strip():
            raise InputError(f"{where}: no title; the question generator takes titles for options: add one")
        contexts.append(Context(**{name: cells[name] for name in CONTEXT_COLUMNS}))
    return contexts


def image_path(root: Path, annotation: Annotation) -> Path:
    """The image of `annotation` below `root`.

    Raises:
        InputError: the path leaves `root` (absolute, `..`, a link), or there is no such file.
    """
    where = f"annotation {annotation.idx}"
    path = join_under(root, annotation.img_path, where)
    if not path.is_file():
        raise InputError(f"{where}: no image {annotation.img_path!r} in {root}; copy it there or remove the row")
    return path


def read_cells(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(where, cells by column) of every row of a CSV that has `columns` and perhaps more.

    Raises:
        InputError: the file is missing, not UTF-8, lacks a column, or a row has more or fewer cells than the header.
    """
    return ((f"{path}, row {number}", cells) for number, cells in iterate_cells(path, columns))


def _annotation(cells: dict[str, str], where: str) -> Annotation:
    rows = parse_table(cells["table"], where)
    for number, row in enumerate(rows, start=1):
        if len(row) != FIELDS_OF_A_ROW:
            raise InputError(f"{where}: table row {number} has {len(row)} fields; allowed are {FIELDS_OF_A_ROW}")
    values = _separate_values(cells)
    for name, allowed in (("image_type", IMAGE_TYPES), ("image_quality", IMAGE_QUALITIES)):
        if values[name] not in allowed:
            raise InputError(f"{where}: {name} {show(cells[name])} is unknown; allowed: {', '.join(allowed)}")
    return Annotation(
        key_values=parse_key_values(cells["kv"], where),
        table=tuple(TableRow(*row) for row in rows),
        extra={name: value for name, value in cells.items() if name not in ANNOTATION_COLUMNS},
        raw=cells,
        **values,
    )


def _separate_values(cells: dict[str, str]) -> dict[str, str]:
    """The cells that are no literals, without the odd spaces and capitals that released files have."""
    values = {name: cells[name].strip() for name in _SEPARATE}
    return values | {name: values[name].lower() for name in ("image_type", "image_quality")}


def _cells(annotation: Annotation) -> dict[str, str]:
    """The CSV cells of `annotation`, by column."""
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
    """A dict literal that may hold a key twice, which no dict can."""
    return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in pairs) + "}" if pairs else ""


def _literal(cell: str, where: str, column: str) -> ast.expr | None:
    """The syntax of a literal, None for an empty cell. Parsing builds a tree of it and runs nothing."""
    if not cell.strip():
        return None
    if len(cell) > LITERAL_LIMIT:
        raise InputError(f"{where}: {column} has {len(cell):,} characters; allowed are {LITERAL_LIMIT:,}; shorten it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # '\d' in a report is no mistake of ours
            return ast.parse(cell.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{where}: {column} is not a Python literal ({type(error).__name__}); correct it") from error


def _text(node: ast.expr, lines: Sequence[bytes], where: str, column: str) -> str:
    """A text, or a number as the cell (`lines` of UTF-8) writes it: 5.10 keeps its zero."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if isinstance(number, ast.Constant) and type(number.value) in (int, float) and node.lineno == node.end_lineno:
        return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        _encode(node.value, f"{where}: {column}")
        return node.value
    kind = type(node.value if isinstance(node, ast.Constant) else node).__name__
    raise InputError(
        f"{where}: {column} holds {kind}, which is neither text nor number; it is never evaluated, put it in quotes"
    )


def _encode(text: str, where: str) -> bytes:
    """UTF-8; raises InputError for half of a surrogate pair, which literals and JSON can hold and files cannot."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds half a character ({error.reason}); write that text again") from error


def _question(line: str, where: str) -> Question:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error.args[0]}); correct or remove the line") from error
    missing = [name for name in QUESTION_COLUMNS if not isinstance(record, dict) or name not in record]
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} is missing; a question has {', '.join(QUESTION_COLUMNS)}")
    for name in QUESTION_COLUMNS:
        kind = int if name in ("answer_length", "is_table") else str
        if type(record[name]) is not kind:
            raise InputError(f"{where}: {name} is a {type(record[name]).__name__}; allowed is {kind.__name__}")
    extra = {name: value for name, value in record.items() if name not in QUESTION_COLUMNS}
    return Question(**{name: record[name] for name in QUESTION_COLUMNS}, extra=extra)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
