"""Rating sheets: which rater put which item into which category, per dimension.

Wide: `rater,item,<dimension>,…`, one row per rater and item. Long: `rater,item,dimension,rating`. `number` is read as
`item`. Empty cells are missing ratings.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError

# The four dimensions of MIMIC-CXR-VQA (paper, Table 3), worst category first, under the sheets' and the judge's names.
_CORRECTNESS = ("Incorrect", "Correct")
_CONSISTENCY = ("Inconsistent", "Partially Consistent", "Fully Consistent")
_COMPLETENESS = ("Incomplete", "Partially Complete", "Complete")
_RELEVANCE = ("Incorrect and Misleading", "Non-essential but Correct", "Essential")
KNOWN_ORDERS = {
    "correctness": _CORRECTNESS,
    "consistency": _CONSISTENCY,
    "consistency_with_report": _CONSISTENCY,
    "completeness": _COMPLETENESS,
    "answer_completeness": _COMPLETENESS,
    "relevance": _RELEVANCE,
    "clinical_relevance": _RELEVANCE,
}
_SYNONYMS = {"complete answer": "complete"}  # "Complete Answer" in the raters' sheets
_ITEM_NAMES = ("item", "number")

Ratings = dict[tuple[str, str], str]


@dataclass
class RatingSheet:
    """`ratings[dimension][rater, item]` is a category of `orders[dimension]`. `ignored` lists unknown dimensions."""

    ratings: dict[str, Ratings] = field(default_factory=dict)
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def read_ratings(path: Path | str, orders: Mapping[str, Iterable[str]] | None = None) -> RatingSheet:
    """Read a CSV file of ratings.

    Args:
        orders: categories of a dimension, worst first; overrides and extends KNOWN_ORDERS.

    Raises:
        InputError: the file is missing or not CSV in UTF-8, or as `collect_ratings`.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows = [(f"{path}, line {reader.line_num}", row) for row in reader]
            return collect_ratings(rows, reader.fieldnames or [], orders, str(path))
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}. Give a CSV file with the columns rater,item,<dimension>…"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error


def collect_ratings(
    rows: Iterable[tuple[str, Mapping[Any, Any]]],
    columns: Iterable[str],
    orders: Mapping[str, Iterable[str]] | None = None,
    where: str = "ratings",
) -> RatingSheet:
    """Collect the ratings of rows (each with its place, for messages) by dimension.

    Raises:
        InputError: a column is missing or repeated, a row has too many cells, a rater judged an item twice, a category
            is unknown, or ratings are missing.
        ConfigError: an order of fewer than two categories.
    """
    known = KNOWN_ORDERS | {name: _check_order(name, tuple(order)) for name, order in (orders or {}).items()}
    by_name = _index_columns(columns, where)
    rater, item = by_name["rater"], next(by_name[name] for name in _ITEM_NAMES if name in by_name)
    is_long = {"dimension", "rating"} <= set(by_name)
    rated = {} if is_long else {name: column for name, column in by_name.items() if column not in (rater, item)}
    sheet = RatingSheet(ignored=[name for name in rated if name not in known])

    def read_cells(row: Mapping[Any, Any]) -> dict[str, Any]:
        if is_long:
            return {_strip(row[by_name["dimension"]]).lower(): row[by_name["rating"]]}
        return {name: row[column] for name, column in rated.items()}

    for place, row in rows:
        if any(row.get(None) or ()):  # the csv module's key for cells beyond the last column
            raise InputError(f"{place}: more cells than columns. Put a cell that contains a comma in double quotes")
        for dimension, cell in read_cells(row).items():
            value = _strip(cell)
            if value and dimension in known:
                who = _strip(row[rater]), _strip(row[item])
                _add_rating(sheet, dimension, known[dimension], who, value, place)
            elif value and dimension not in sheet.ignored:
                sheet.ignored.append(dimension)
    if not sheet.ratings:
        unknown = f" Pass --order 'NAME=worst,…,best' for {', '.join(sheet.ignored)}." if sheet.ignored else ""
        raise InputError(f"{where}: no column is a rating dimension with known categories.{unknown}")
    return sheet


def _check_order(name: str, order: tuple[str, ...]) -> tuple[str, ...]:
    if len(order) < 2:
        raise ConfigError(f"order of {name!r}: {len(order)} categories. Expected at least 2, worst first")
    return order


def _strip(cell: Any) -> str:
    return (cell or "").strip()


def _index_columns(columns: Iterable[str], where: str) -> dict[str, str]:
    """The columns by their names in lower case. Raises InputError for repeated or missing ones."""
    by_name: dict[str, str] = {}
    for column in filter(None, columns):
        name = column.strip().lower()
        if name in by_name:
            raise InputError(f"{where}: two columns are named {name!r}. Rename one")
        by_name[name] = column
    if "rater" not in by_name or not any(name in by_name for name in _ITEM_NAMES):
        found = ", ".join(by_name) or "none"
        raise InputError(f"{where}: columns rater and item (or number) are needed. It has {found}")
    return by_name


def _add_rating(
    sheet: RatingSheet, dimension: str, order: tuple[str, ...], who: tuple[str, str], value: str, place: str
) -> None:
    if not all(who):
        raise InputError(f"{place}: rater or item is empty")
    ratings = sheet.ratings.setdefault(dimension, {})
    if who in ratings:
        raise InputError(f"{place}: rater {who[0]!r} judged item {who[1]!r} twice on {dimension}")
    ratings[who] = find_category(value, order, f"{place}, {dimension}")
    sheet.orders[dimension] = order


def parse_order(text: str) -> tuple[str, tuple[str, ...]]:
    """`"dimension=worst,…,best"` -> (dimension, categories). Raises ConfigError for another form."""
    name, equals, categories = text.partition("=")
    order = tuple(part.strip() for part in categories.split(","))
    if not equals or not name.strip() or len(order) < 2 or not all(order):
        raise ConfigError(f"order {text!r}: write dimension=worst,…,best, for example quality=poor,fair,good")
    return name.strip().lower(), order


def find_category(value: str, order: tuple[str, ...], place: str) -> str:
    """The category of `order` that a cell names, in any case. Raises InputError for another value."""
    folded = value.lower()
    for wanted in (folded, _SYNONYMS.get(folded)):
        for category in order:
            if category.lower() == wanted:
                return category
    raise InputError(f"{place}: category {value!r} is unknown. Allowed: {', '.join(order)}")
