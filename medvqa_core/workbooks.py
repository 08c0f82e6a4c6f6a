"""Reads XLSX files row by row, with limits on their size (extra `sheets`)."""

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.install_hint import install

LARGEST = 1 << 29  # bytes of all parts, unpacked
MOST_ROWS = 1 << 20  # of a sheet in Excel


def workbook_rows(path: Path, sheet: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The rows of a workbook as openpyxl cells, each as long as the first.

    Formulas have the `data_type` "f", errors "e".

    Args:
        sheet: its name; the active sheet if that name is missing.

    Raises:
        ConfigError: openpyxl is missing.
        InputError: not readable as XLSX, or too large when unpacked.
    """
    try:
        import openpyxl
        from openpyxl.cell.read_only import EMPTY_CELL
    except ImportError:
        raise ConfigError(f"{path}: reading XLSX needs openpyxl: {install('sheets')}") from None
    try:
        with zipfile.ZipFile(path) as parts:  # never unpacks more of a part than its stated size
            size = sum(part.file_size for part in parts.infolist())
        if size > LARGEST:
            raise InputError(f"{path}: {size:,} bytes when unpacked, at most {LARGEST:,} are read. Save it as CSV")
        book = openpyxl.load_workbook(path, read_only=True)
        table = book[sheet] if sheet in book.sheetnames else book.active
        table.reset_dimensions()
        width = 0
        for row in islice(table.iter_rows(), MOST_ROWS):
            width = width or len(row)
            yield (*row, *[EMPTY_CELL] * (width - len(row)))
    except (
        AttributeError,
        IndexError,
        KeyError,
        OSError,
        SyntaxError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        openpyxl.utils.exceptions.InvalidFileException,
    ) as error:
        raise InputError(f"{path}: cannot be read as XLSX ({type(error).__name__}). Save the sheet again") from None
