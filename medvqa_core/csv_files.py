"""Reading CSV files, with errors that name the file, the row and the remedy.

Large tables column by column (plain or gzipped; only the wanted columns are converted), small ones row by row as text.
A row with another number of fields, a value that does not fit its column's type, bytes that are not UTF-8 and NUL
bytes are errors: none of them is skipped or guessed at.
"""

import csv as rows_of_text
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from medvqa_core.errors import InputError, show

BLOCK_BYTES = 8 << 20
CELL_LIMIT = 8 << 20  # characters; the standard library refuses cells of more than 128 KiB
_NUL_REMEDY = "copy the file again from its source; if it is UTF-16, save it as UTF-8"
# pyarrow's words for a row with another number of fields. A handler of such rows would tell the same, but the reader's
# threads may let go of that Python function while the interpreter shuts down, which aborts the process.
_WRONG_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def read_csv(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """The wanted `columns` (name -> type) of a CSV file with a header line; empty cells are null.

    Raises:
        InputError: the file or a column is missing, or a row cannot be read.
    """
    return pa.Table.from_batches(iterate_csv(path, columns), schema=pa.schema(list(columns.items())))


def iterate_csv(path: Path, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Like `read_csv`, a block at a time: memory does not grow with the file.

    Quoted values may hold line breaks. Columns come in the order asked for.
    """
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
            reader = csv.open_csv(
                stream,
                # one thread: only then does pyarrow number the rows of its complaints
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
    except GeneratorExit:  # a stream left unfinished: at exit the names of the clause below may be gone already
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError) as error:
        raise _explain(path, columns, error) from None


def iterate_cells(path: Path, columns: Sequence[str], first: int = 1) -> Iterator[tuple[int, dict[str, str]]]:
    """(row number, cells by column) of every row of a CSV that has `columns` and perhaps more; all cells are text.

    A byte-order mark, blanks around the names and blank lines are passed over; quoted cells may hold line breaks.

    Args:
        first: number of the first row below the header.

    Raises:
        InputError: the file is missing, not UTF-8 or no CSV, a column is missing or there twice, or a row has more or
            fewer cells than the header.
    """
    rows_of_text.field_size_limit(CELL_LIMIT)
    reader = rows_of_text.reader(_decoded_lines(path), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing or len(set(header)) < len(header):
            problem = f"columns {', '.join(missing)} are missing" if missing else "a column occurs twice"
            raise InputError(f"{path}: {problem}; found: {', '.join(header) or 'none'}")
        rows = (cells for cells in reader if cells)
        for number, cells in enumerate(rows, start=first):
            if len(cells) != len(header):
                raise InputError(
                    f"{path}, row {number}: {len(cells)} fields where the header has {len(header)}; correct the quotes"
                )
            yield number, dict(zip(header, cells, strict=True))
    except rows_of_text.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not readable as CSV ({error}); is the file cut off?"
        ) from None


def _decoded_lines(path: Path) -> Iterator[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    # not str.splitlines: it also ends lines at characters that cells may hold
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number}: byte {line[error.start]:#04x} is not UTF-8; save the file as UTF-8"
            ) from None
        if "\0" in text:
            raise InputError(f"{path}, line {number}: holds a NUL byte; {_NUL_REMEDY}")
        yield text


def _refuse_nul(path: Path, batch: pa.RecordBatch, first: int) -> None:
    """Raise InputError where a text of `batch`, whose first row has the number `first`, holds a NUL byte.

    The bytes of a column are looked at together; row by row would cost as much as reading them.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = column.buffers()[-1] if pa.types.is_string(column.type) else None
        if texts is None or not texts.size or np.frombuffer(texts, np.uint8).min() > 0:
            continue
        row = pc.index(pc.match_substring(column, "\0"), True).as_py()
        if row >= 0:  # otherwise it is in the padding of the buffer
            raise InputError(f"{path}, row {first + row}: column {name!r} holds a NUL byte; {_NUL_REMEDY}")


def column_names(path: Path) -> list[str]:
    """The names in the header line. Raises InputError where the file is missing, empty or not UTF-8."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            line = file.readline()
        header = line.decode("utf-8").strip("\ufeff\r\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the header line is not UTF-8 text; save the file as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: cannot read the header line ({error}); copy the file again from its source"
        ) from None
    if "\0" in header:  # UTF-16 without a mark, for one
        raise InputError(f"{path}: the header line is not UTF-8 text (it holds a NUL byte); save the file as UTF-8")
    return [name.strip('"') for name in header.split(",")]


def _explain(path: Path, columns: Mapping[str, pa.DataType], error: Exception) -> InputError:
    wrong_row = _WRONG_ROW.search(str(error))
    if wrong_row:
        number, expected, found = wrong_row.groups()
        return InputError(
            f"{path}, row {number}: {found} fields where the header has {expected}; "
            "repair the row or copy the file again"
        )
    if isinstance(error, pa.ArrowKeyError):
        missing = [name for name in columns if name not in column_names(path)]
        return InputError(f"{path}: no column {', '.join(map(repr, missing))}; needed are {', '.join(columns)}")
    # a shifted row may hold report text in any column
    text = re.sub(r"invalid value '(.*)'", lambda match: f"invalid value {show(match[1])}", str(error), flags=re.DOTALL)
    if "UTF8" in text:
        text += "; convert the file to UTF-8"
    elif isinstance(error, OSError):
        text += "; the file is damaged or cut short: copy it again"
    else:
        text += "; repair the row or copy the file again"
    if "In CSV column #" in text:
        for number, name in enumerate(column_names(path)):
            text = text.replace(f"In CSV column #{number}: ", f"column {name!r}, ")
    return InputError(f"{path}: {text.replace('Row #', 'row ')}")
