"""Parquet files with page checksums, and errors that name the file and the remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.errors import InputError

# write options of every table; the page checksums detect flipped bits when a page is read
WRITING: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


_READ_ERRORS = (OSError, pa.ArrowInvalid)


def read_table(path: Path) -> pa.Table:
    """Return a whole Parquet file. Raises InputError if it is missing or damaged."""
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except _READ_ERRORS as error:
        raise _explain(path, error) from None


def count_rows(path: Path) -> int:
    """Return the number of rows in the footer of a Parquet file. Raises InputError if it is missing or damaged."""
    try:
        return pq.read_metadata(path).num_rows
    except _READ_ERRORS as error:
        raise _explain(path, error) from None


def iterate_parquet(path: Path, rows: int = 65536, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield record batches of at most `rows` rows. Raises InputError if the file is missing or damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            expected, found = file.metadata.num_rows, 0
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                found += len(batch)
                yield batch
            if found != expected:  # a flipped bit in the header of a page can end a column early
                raise pa.ArrowInvalid(f"{found} rows found, {expected} expected")
    except GeneratorExit:  # an unfinished stream: at interpreter exit the names below may already be gone
        raise
    except _READ_ERRORS as error:
        raise _explain(path, error) from None


def _explain(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} cannot be read ({error}). Run the step that writes it again")
