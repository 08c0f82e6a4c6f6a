"""Rating sheets: which rater put which item into which category, per dimension, from CSV rows of either shape.

Wide: `rater,item,<dimension>,…`, one row per rater and item. Long: `rater,item,dimension,rating`. `number` is read as
`item`. An empty cell is a missing rating.
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
_SYNONYMS = {"complete answer": "complete"}  # people's sheets say "Complete Answer"
_ITEM_NAMES = ("item", "number")

Ratings = dict[tuple[str, str], str]


@dataclass
class RatingSheet:
    """`ratings[dimension][rater, item]` is a category of `orders[dimension]`; `ignored` columns have no order."""

    ratings: dict[str, Ratings] = field(default_factory=dict)
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def read_ratings(path: Path | str, orders: Mapping[str, Iterable[str]] | None = None) -> RatingSheet:
    """Read a CSV file of ratings.

    Args:
        orders: categories of a dimension, worst first; overrides and extends KNOWN_ORDERS.

    Raises:
        InputError: the file is missing or no CSV in UTF-8, or see `collect_ratings`.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows = [(f"{path}, line {reader.line_num}", row) for row in reader]
            return collect_ratings(rows, reader.fieldnames or [], orders, str(path))
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; give a CSV file with the columns rater,item,<dimension>…"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error


def collect_ratings(
    rows: Iterable[tuple[str, Mapping[Any, Any]]],
    columns: Iterable[str],
    orders: Mapping[str, Iterable[str]] | None = None,
    where: str = "ratings",
) -> RatingSheet:
    """Sort rows (each with its place, for messages) by dimension.

    Raises:
        InputError: a column is missing or there twice, a row has more cells than columns, no dimension has a known
            order, a rater judged an item twice, an unknown category, or no rating at all.
        ConfigError: an order of fewer than two categories.
    """
    known = {name: tuple(order) for name, order in {**KNOWN_ORDERS, **(orders or {})}.items()}
    for name, order in known.items():
        if len(order) < 2:
            raise ConfigError(f"order of {name!r}: {len(order)} categories; at least 2, worst first")
    by_name: dict[str, str] = {}
    for column in filter(None, columns):
        name = column.strip().lower()
        if name in by_name:
            raise InputError(f"{where}: two columns are named {name!r}; one of them would be lost")
        by_name[name] = column
    item = next((by_name[name] for name in _ITEM_NAMES if name in by_name), None)
    if "rater" not in by_name or item is None:
        raise InputError(
            f"{where}: columns rater and item (or number) are needed; it has {', '.join(by_name) or 'none'}"
        )
    rater = by_name["rater"]
    long = {"dimension", "rating"} <= set(by_name)
    sheet = RatingSheet()
    if not long:
        names = [name for name in by_name if by_name[name] not in (rater, item)]
        sheet.ignored = [name for name in names if name not in known]
    for place, row in rows:
        if any(row.get(None) or ()):  # the csv module's place for cells beyond the last column
            raise InputError(f"{place}: more cells than columns; put a cell that holds a comma in double quotes")
        cells = {by_name["dimension"]: by_name["rating"]} if long else {n: by_name[n] for n in names if n in known}
        for name, column in cells.items():
            dimension = (row[name] or "").strip().lower() if long else name
            value = (row[column] or "").strip()
            if not value:
                continue
            if dimension not in known:
                if dimension not in sheet.ignored:
                    sheet.ignored.append(dimension)
                continue
            who = ((row[rater] or "").strip(), (row[item] or "").strip())
            if not all(who):
                raise InputError(f"{place}: rater or item is empty")
            ratings = sheet.ratings.setdefault(dimension, {})
            if who in ratings:
                raise InputError(f"{place}: rater {who[0]!r} judged item {who[1]!r} twice on {dimension}")
            ratings[who] = find_category(value, known[dimension], f"{place}, {dimension}")
            sheet.orders[dimension] = known[dimension]
    if not sheet.ratings:
        unordered = (
            f"; without a known order: {', '.join(sheet.ignored)} (name it with --order)" if sheet.ignored else ""
        )
        raise InputError(f"{where}: no ratings of a dimension whose categories are known{unordered}")
    return sheet


def parse_order(text: str) -> tuple[str, tuple[str, ...]]:
    """`"dimension=worst,…,best"` -> (dimension, categories). Raises ConfigError where it has another form."""
    name, equals, categories = text.partition("=")
    order = tuple(part.strip() for part in categories.split(","))
    if not equals or not name.strip() or len(order) < 2 or not all(order):
        raise ConfigError(f"order {text!r}: write dimension=worst,…,best, for example quality=poor,fair,good")
    return name.strip().lower(), order


def find_category(value: str, order: tuple[str, ...], place: str) -> str:
    """The category of `order` that a cell means, whatever its case. Raises InputError where it means none."""
    folded = value.lower()
    for wanted in (folded, _SYNONYMS.get(folded)):
        for category in order:
            if category.lower() == wanted:
                return category
    raise InputError(f"{place}: category {value!r} is unknown; allowed: {', '.join(order)}")
