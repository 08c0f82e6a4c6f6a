"""`cxr review import`: read filled sheets and Label Studio exports into the sample's ratings.

If a rating is unknown, duplicate, contradictory or missing, all such problems are reported and nothing is imported.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import atomic_file
from medvqa_core.metrics.ratings import find_category
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.review import COMMENT, RATINGS_CSV, Review
from mimic_cxr_vqa.judging.review_sheets import read_sheet
from mimic_cxr_vqa.judging.review_tasks import read_export


@dataclass
class ImportedRatings:
    """The ratings and comments in the files, by rater and item, and the `problems` and `missing` ratings as lines."""

    ratings: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    comments: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def import_ratings(
    review: Review, files: Sequence[Path], allow_missing: bool = False, replace: bool = False
) -> ImportedRatings:
    """Import the ratings of `files` into `review` and write its `ratings.csv`. Without files only write the latter.

    Args:
        allow_missing: import although ratings are missing.
        replace: let ratings replace earlier, different ones of the same rater.

    Returns:
        The contents of the files. Nothing was imported if it has problems, or missing ratings that are not allowed.

    Raises:
        InputError: a file cannot be read.
        OutputError: the ratings cannot be written.
    """
    found = collect(review, files, replace)
    if found.problems or (found.missing and not allow_missing):
        return found
    for rater, ratings in sorted(found.ratings.items()):
        review.save_ratings(rater, ratings, found.comments.get(rater))
    write_ratings_csv(review)
    return found


def collect(review: Review, files: Iterable[Path], replace: bool = False) -> ImportedRatings:
    """Read `files` and compare them with the sample and its ratings, without writing anything."""
    found = ImportedRatings()
    items = {item.item for item in review.items}
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files:
        rows = read_export(path) if path.suffix.lower() == ".json" else read_sheet(path)
        for place, cells in rows:
            rater, item = cells["rater"], cells["item"]
            if rater not in review.raters:
                found.problems.append(
                    f"{place}: rater {quote_value(rater)} is unknown. Expected {', '.join(review.raters)}."
                )
            elif item not in items:
                found.problems.append(f"{place}: item {quote_value(item)} is unknown in this sample")
            else:
                found.ratings.setdefault(rater, {})  # a rater with an empty sheet counts too
                verdict = _read_verdict(cells, place, found.problems)
                if not verdict:
                    continue
                places[rater, item].append(place)
                if len(places[rater, item]) == 1:
                    found.ratings[rater][item] = verdict
                    found.comments.setdefault(rater, {})[item] = cells.get(COMMENT, "")
    found.problems += [
        f"{rater}, {item}: rated {len(where)} times ({'; '.join(where)}). Keep one"
        for (rater, item), where in sorted(places.items())
        if len(where) > 1
    ]
    _compare_with_kept(review, found, replace)
    return found


def write_ratings_csv(review: Review) -> int:
    """Write all ratings as `rater,item,<dimensions>` and return the number of rows. Raises OutputError."""
    rows = [
        [rater, item, *(verdict.get(name, "") for name in DIMENSIONS)]
        for rater in review.raters
        for item, verdict in sorted(review.ratings(rater).items())
    ]
    with atomic_file(review.folder / RATINGS_CSV, "w", private=review.governance.private) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["rater", "item", *DIMENSIONS])
        writer.writerows(rows)
    return len(rows)


def _read_verdict(cells: dict[str, str], place: str, problems: list[str]) -> Verdict:
    verdict = {}
    for name, dimension in DIMENSIONS.items():
        if value := cells.get(name, ""):
            try:
                verdict[name] = find_category(value, dimension.categories, f"{place}, {name}")
            except InputError as error:
                problems.append(str(error))
    return verdict


def _compare_with_kept(review: Review, found: ImportedRatings, replace: bool) -> None:
    """Add the ratings that contradict stored ones, and those that the raters of the files still miss."""
    raters = sorted(found.ratings) or [rater for rater in review.raters if review.ratings(rater)]
    for rater in raters:
        kept, sent = review.ratings(rater), found.ratings.get(rater, {})
        if not replace:
            found.problems += [
                f"{rater}, {item}: {name} was {kept[item][name]!r} and is {category!r} now. Use --replace to accept it."
                for item, verdict in sorted(sent.items())
                for name, category in verdict.items()
                if kept.get(item, {}).get(name, category) != category
            ]
        for item in sorted(review.order(rater)):
            both = kept.get(item, {}) | sent.get(item, {})
            lacking = [name for name in DIMENSIONS if name not in both]
            if lacking:
                found.missing.append(f"{rater}, {item}: {', '.join(lacking)} missing")
