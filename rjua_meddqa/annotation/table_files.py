"""Reads tables of document parsers: HTML, Markdown or JSON, as grids of cell texts."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError

Grid = dict[tuple[int, int], str]  # (row, column) -> text of non-empty cells


def read_tables_file(path: Path) -> list[Grid]:
    """Read all tables of a file. The suffix (.html, .md, .json) or the content determines the format.

    JSON is a list of rows (lists, or objects by column), a list of such tables, an object with `cells`
    (row, column, text), or a table of docling.

    Raises:
        InputError: the file cannot be read or does not contain a table.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error}). Check the path.") from None
    try:
        if path.suffix.lower() == ".json" or text.lstrip()[:1] in ("[", "{"):
            grids = _parse_json(json.loads(text))
        elif "<t" in text.lower():
            grids = _parse_html(text)
        else:
            grids = _parse_markdown(text)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not a table ({error!r}). Expected HTML, Markdown or JSON.") from None
    grids = [grid for grid in grids if grid]
    if not grids:
        raise InputError(f"{path}: does not contain a table. Expected HTML, Markdown or JSON.")
    return grids


def _parse_json(value: Any) -> list[Grid]:
    """The grids of an object, of a list of tables or of a list of rows."""
    if isinstance(value, dict):
        return _parse_object(value)
    if value and _contains_tables(value):
        return [grid for table in value for grid in _parse_json(table)]
    if value and all(isinstance(row, dict) for row in value):
        columns = list(dict.fromkeys(name for row in value for name in row))
        value = [columns, *([row.get(name, "") for name in columns] for row in value)]
    return [_grid({(r, c): text for r, row in enumerate(value) for c, text in enumerate(row)})]


def _parse_object(value: dict[str, Any]) -> list[Grid]:
    """The grids of an object with tables, rows or cells. Raises ValueError if it lacks all of them."""
    value = value.get("data", value) if isinstance(value.get("data"), dict) else value
    if "tables" in value:
        return [grid for table in value["tables"] for grid in _parse_json(table)]
    if "rows" in value:
        return _parse_json(value["rows"])
    cells = value.get("cells", value.get("table_cells"))
    if cells is None:
        raise ValueError("neither rows nor cells")
    places = (("row", "start_row_offset_idx"), ("column", "start_col_offset_idx"))
    return [_grid({tuple(cell.get(ours, cell.get(theirs)) for ours, theirs in places): cell["text"] for cell in cells})]


def _contains_tables(parts: list[Any]) -> bool:
    """Whether all parts of a list are objects of a table, or all are lists of rows."""
    if all(isinstance(part, dict) and {"rows", "cells", "data"} & part.keys() for part in parts):
        return True
    return all(isinstance(part, list) and part and isinstance(part[0], list | dict) for part in parts)


def _parse_markdown(text: str) -> list[Grid]:
    grids: list[Grid] = []
    number = -1
    for line in [*text.splitlines(), ""]:
        if "|" not in line:
            number = -1
            continue
        if number < 0:
            grids.append({})
            number = 0
        cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
        if all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells):
            continue
        texts = {(number, column): cell.replace("\\|", "|").replace("<br>", "") for column, cell in enumerate(cells)}
        grids[-1] |= _grid(texts)
        number += 1
    return grids


def _parse_html(text: str) -> list[Grid]:
    reader = _HtmlTables()
    reader.feed(text)
    return [_grid(cells) for cells in reader.tables]


class _HtmlTables(HTMLParser):
    """Collects cells by place. The text of a cell that spans several places is in the first one."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[dict[tuple[int, int], str]] = []
        self.taken: set[tuple[int, int]] = set()
        self.row = -1
        self.place: tuple[int, int] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table" or (tag == "tr" and not self.tables):
            self.tables.append({})
            self.taken, self.row = set(), -1
        if tag == "tr":
            self.row += 1
        elif tag in ("td", "th"):
            spans = {name: int(value or 1) for name, value in attrs if name in ("rowspan", "colspan")}
            column = 0
            while (self.row, column) in self.taken:
                column += 1
            place = self.place = (self.row, column)
            self.taken |= {
                (self.row + down, column + right)
                for down in range(min(spans.get("rowspan", 1), 1000))
                for right in range(min(spans.get("colspan", 1), 1000))
            }
            self.tables[-1][place] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self.place = None

    def handle_data(self, data: str) -> None:
        if self.place is not None:
            self.tables[-1][self.place] += data


def _grid(cells: dict[Any, Any]) -> Grid:
    grid: Grid = {}
    for (row, column), value in cells.items():
        text = value.get("text", "") if isinstance(value, dict) else value
        text = " ".join(str("" if text is None else text).split())
        if text:
            grid[int(row), int(column)] = text
    return grid
