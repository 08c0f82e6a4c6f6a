"""Reads CSV files: large tables by column (plain or gzipped), small ones by row as text.

Rows with a wrong number of fields, values that do not fit their column's type, bytes that are not UTF-8 and NUL bytes
are errors that name the file, the row and the remedy.
"""

import csv as rows_of_text
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from medvqa_core.errors import InputError, quote_value

BLOCK_BYTES = 8 << 20
CELL_LIMIT = 8 << 20  # characters; the standard library allows 128 KiB
_NUL_REMEDY = "Copy the file again from its source. If it is UTF-16, save it as UTF-8"
# pyarrow's message for a wrong number of fields. A handler for such rows is not used, because the reader's threads may
# release that Python function during shutdown, which aborts the process.
_WRONG_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def read_csv(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read `columns` (name -> type) of a CSV file with a header line. Empty cells become null.

    Raises:
        InputError: the file or a column is missing, or a row cannot be read.
    """
    return pa.Table.from_batches(iterate_csv(path, columns), schema=pa.schema(list(columns.items())))


def iterate_csv(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Like `read_csv`, in blocks. Quoted values may contain line breaks. Columns are in the given order."""
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            reader = csv.open_csv(
                stream,
                # pyarrow numbers the rows of its errors in one thread only
                read_options=csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
                parse_options=csv.ParseOptions(newlines_in_values=True),  # no handler: see _WRONG_ROW
                convert_options=csv.ConvertOptions(
                    column_types=dict(columns),
                    include_columns=list(columns),
                    null_values=["", "nan", "NaN"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
            first = 2  # row 1 is the header
            for batch in reader:
                _refuse_nul(path, batch, first)
                first += len(batch)
                yield batch
    except GeneratorExit:  # at exit the names in the clauses below may be gone
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError) as error:
        raise _explain(path, columns, error) from None


def iterate_cells(
    path: Path, columns: Sequence[str], first: int = 1, delimiters: str = ","
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (row number, cells by column as text) for each row of a CSV file.

    A byte-order mark, blanks around names and blank lines are ignored. Quoted cells may contain line breaks.

    Args:
        columns: names that must be present.
        first: number of the first row below the header.
        delimiters: the allowed ones. The most frequent one in the header is used.

    Raises:
        InputError: the file is missing or not CSV in UTF-8, a column is missing or repeated, or a row has too few or
            too many cells.
    """
    rows_of_text.field_size_limit(CELL_LIMIT)
    lines = _decoded_lines(path)
    top = next(lines, "")
    reader = rows_of_text.reader(chain([top], lines), strict=True, delimiter=max(delimiters, key=top.count))
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing or len(set(header)) < len(header):
            problem = f"columns {', '.join(missing)} are missing" if missing else "a column occurs twice"
            raise InputError(f"{path}: {problem}. Found: {', '.join(header) or 'none'}")
        rows = (cells for cells in reader if cells)
        for number, cells in enumerate(rows, start=first):
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, row {number}: {len(cells)} fields where the header has {len(header)}. Correct the quotes"
                )
            yield number, dict(zip(header, cells, strict=True))
    except rows_of_text.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not readable as CSV ({error}). Check whether the file is cut off"
        ) from None


def _decoded_lines(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check the path") from None
    # Not str.splitlines, which also splits at other characters.
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number}: byte {line[error.start]:#04x} is not UTF-8. Save the file as UTF-8"
            ) from None
        if "\0" in text:
            raise InputError(f"{path}, line {number}: contains a NUL byte. {_NUL_REMEDY}")
        yield text


def _refuse_nul(path: Path, batch: pa.RecordBatch, first: int) -> None:
    """Raise InputError if a text of `batch` contains a NUL byte. `first` is the number of its first row."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = column.buffers()[-1] if pa.types.is_string(column.type) else None
        if texts is None or not texts.size or np.frombuffer(texts, np.uint8).min() > 0:
            continue
        row = pc.index(pc.match_substring(column, "\0"), True).as_py()
        if row >= 0:  # otherwise it is padding of the buffer
            raise InputError(f"{path}, row {first + row}: column {name!r} contains a NUL byte. {_NUL_REMEDY}")


def column_names(path: Path) -> list[str]:
    """The names in the header line. Raises InputError if the file is missing, empty or not UTF-8."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            line = file.readline()
        header = line.decode("utf-8").strip("\ufeff\r\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the header line is not UTF-8 text. Save the file as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: cannot read the header line ({error}). Copy the file again from its source"
        ) from None
    if "\0" in header:  # such as UTF-16 without a mark
        raise InputError(f"{path}: the header line is not UTF-8 text (it contains a NUL byte). Save the file as UTF-8")
    return [name.strip('"') for name in header.split(",")]


def _explain(path: Path, columns: Mapping[str, pa.DataType], error: Exception) -> InputError:
    wrong_row = _WRONG_ROW.search(str(error))
    if wrong_row:
        number, expected, found = wrong_row.groups()
        return InputError(
            f"{path}, row {number}: {found} fields where the header has {expected}. "
            "Repair the row or copy the file again"
        )
    if isinstance(error, pa.ArrowKeyError):
        missing = [name for name in columns if name not in column_names(path)]
        return InputError(f"{path}: no column {', '.join(map(repr, missing))}. Needed are {', '.join(columns)}")
    # a shifted row may hold report text in any column
    text = re.sub(
        r"invalid value '(.*)'", lambda match: f"invalid value {quote_value(match[1])}", str(error), flags=re.DOTALL
    )
    if "UTF8" in text:
        text += ". Convert the file to UTF-8"
    elif isinstance(error, OSError):
        text += ". The file is damaged or cut short: copy it again"
    else:
        text += ". Repair the row or copy the file again"
    if "In CSV column #" in text:
        for number, name in enumerate(column_names(path)):
            text = text.replace(f"In CSV column #{number}: ", f"column {name!r}, ")
    return InputError(f"{path}: {text.replace('Row #', 'row ')}")
