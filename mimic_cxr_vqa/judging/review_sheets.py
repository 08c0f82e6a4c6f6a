"""Rating sheets as CSV and XLSX, with a row per item and a column per dimension. XLSX needs the extra `sheets`."""

import csv
import re
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file
from medvqa_core.workbooks import workbook_rows
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.review import COMMENT, ReviewItem

COLUMNS = ("rater", "item", "indication", "findings", "question", "answer", *DIMENSIONS, COMMENT)
READ = ("rater", "item", *DIMENSIONS)
_WIDTHS = {"indication": 24, "findings": 60, "question": 24, "answer": 44, "comment": 30}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheet programs evaluate cells that begin with these
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_CORE = "docProps/core.xml"


def write_csv_sheet(path: Path, rater: str, items: Sequence[ReviewItem], private: bool) -> None:
    """Write an empty sheet. A ' precedes texts that a spreadsheet would evaluate. Raises OutputError."""
    with atomic_file(path, "w", private) as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for item in items:
            texts = [f"'{text}" if text.startswith(_FORMULA) else text for text in _texts(item)]
            writer.writerow([rater, item.item, *texts, *[""] * (len(DIMENSIONS) + 1)])


def write_xlsx_sheet(path: Path, rater: str, items: Sequence[ReviewItem], private: bool) -> bool:
    """Write an empty sheet with drop-downs, and a second one with the categories' meanings, deterministically.

    Returns:
        False if openpyxl is not installed. Nothing is written then.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        import openpyxl
        from openpyxl.styles import Alignment, Font
        from openpyxl.utils import get_column_letter
        from openpyxl.worksheet.datavalidation import DataValidation
    except ImportError:
        return False
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "ratings"
    sheet.append(list(COLUMNS))
    for row, item in enumerate(items, start=2):
        for column, text in enumerate((rater, item.item, *_texts(item)), start=1):
            cell = sheet.cell(row, column)
            cell.value = _ILLEGAL.sub(" ", text)
            cell.data_type = "s"  # never a formula
            cell.alignment = Alignment(wrap_text=True, vertical="top")
    for column, name in enumerate(COLUMNS, start=1):
        letter = get_column_letter(column)
        sheet.column_dimensions[letter].width = _WIDTHS.get(name, 22 if name in DIMENSIONS else 10)
        sheet.cell(1, column).font = Font(bold=True)
        if name in DIMENSIONS:
            choices = ",".join(reversed(DIMENSIONS[name].categories))
            rule = DataValidation(type="list", formula1=f'"{choices}"', allow_blank=True, showErrorMessage=True)
            rule.error, rule.errorTitle = "Choose one of the list.", DIMENSIONS[name].title
            rule.add(f"{letter}2:{letter}{len(items) + 1}")
            sheet.add_data_validation(rule)
    sheet.freeze_panes = "C2"
    meanings = book.create_sheet("categories")
    meanings.append(["dimension", "question", "category", "applies where"])
    for dimension in DIMENSIONS.values():
        for category in reversed(dimension.categories):
            meanings.append([dimension.title, dimension.asks, category, dimension.meanings[category]])
    for letter, width in zip("ABCD", (26, 60, 26, 110), strict=True):
        meanings.column_dimensions[letter].width = width
    with atomic_file(path, private=private) as file:
        file.write(_without_times(book))
    return True


def read_sheet(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place, cells by name) of each row: the columns `READ`, and the comment if there is one.

    Raises:
        InputError: the sheet cannot be read or lacks a column.
    """
    rows = _xlsx_rows(path) if path.suffix.lower() == ".xlsx" else iterate_cells(path, READ, first=2, delimiters=",;")
    for number, cells in rows:
        yield f"{path}, row {number}", {name: cells[name].strip() for name in (*READ, COMMENT) if name in cells}


def _xlsx_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    rows = [["" if cell.value is None else str(cell.value) for cell in row] for row in workbook_rows(path, "ratings")]
    header = [name.strip() for name in rows[0]] if rows else []
    doubled = [name for name in (*READ, COMMENT) if header.count(name) > 1]
    if doubled:
        raise InputError(f"{path}: column {doubled[0]!r} occurs twice. Remove one.")
    missing = [name for name in READ if name not in header]
    if missing:
        raise InputError(f"{path}: columns {', '.join(missing)} are missing. Found: {', '.join(header) or 'none'}.")
    for number, row in enumerate(rows[1:], start=2):
        if any(cell.strip() for cell in row):
            yield number, dict(zip(header, row, strict=False))


_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that are invalid in XML


def _texts(item: ReviewItem) -> tuple[str, str, str, str]:
    return item.indication or "", item.findings, item.question, item.answer


def _without_times(book: Any) -> bytes:
    """The workbook's bytes without the time of saving."""
    saved, clean = BytesIO(), BytesIO()
    book.save(saved)
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(clean, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == _CORE:
                content = re.sub(rb"(<dcterms:\w+[^>]*>)[^<]*", rb"\g<1>1980-01-01T00:00:00Z", content)
            info = zipfile.ZipInfo(entry.filename, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, content)
    return clean.getvalue()
