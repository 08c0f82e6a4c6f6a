"""Parquet files with a checksum on every page, and errors that name the file and the remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medvqa_core.errors import InputError

# how tables are written: zstd, and a checksum of each page, which finds a flipped bit when the page is read
WRITING: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


def read_table(path: Path) -> pa.Table:
    """A whole Parquet file. Raises InputError where it is missing or damaged."""
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer. Raises InputError where the file is missing or damaged."""
    try:
        return pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None


def iterate_parquet(path: Path, rows: int = 65536, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of at most `rows` rows. Raises InputError where the file is missing or damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from file.iter_batches(batch_size=rows, columns=columns)
    except GeneratorExit:  # a stream left unfinished: at exit the names of the clause below may be gone already
        raise
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the step that writes it again") from None
