"""Rating sheets filled in as people do: in a spreadsheet program's file, or in a CSV."""

import csv
from pathlib import Path

import openpyxl

from mimic_cxr_vqa.judging.dimensions import DIMENSIONS


def fill_csv(path: Path, verdicts: dict[str, dict[str, str]]) -> None:
    """Put `verdicts` (item -> dimension -> category) into an exported CSV sheet."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row |= {name: verdicts.get(row["item"], {}).get(name, "") for name in DIMENSIONS}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def fill_xlsx(path: Path, verdicts: dict[str, dict[str, str]]) -> None:
    """Put `verdicts` into an exported XLSX sheet."""
    book = openpyxl.load_workbook(path)
    sheet = book["ratings"]
    columns = {cell.value: cell.column for cell in sheet[1]}
    for row in range(2, sheet.max_row + 1):
        item = sheet.cell(row, columns["item"]).value
        for name in DIMENSIONS:
            sheet.cell(row, columns[name]).value = verdicts.get(item, {}).get(name) or None
    book.save(path)


def read_rows(path: Path) -> list[list[str | None]]:
    """All cells of all sheets of an XLSX file."""
    book = openpyxl.load_workbook(path)
    return [list(row) for sheet in book.worksheets for row in sheet.iter_rows(values_only=True)]
