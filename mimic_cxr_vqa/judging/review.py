"""A sample of question-answer pairs that people rate, and their ratings.

    <review>/manifest.json       kind "review", governance class, strata, raters, order of each rater
    <review>/items.json          a list of {item, indication, findings, question, answer, images}
    <review>/images/item-001-1.jpg   the items' images
    <review>/for_raters/NAME/    the files for one rater: sheet.csv, sheet.xlsx, tasks.json, labelling.xml
    <review>/ratings/NAME.json   {"ratings": {item: {dimension: category}}, "comments": {item: text}}
    <review>/ratings.csv         rater,item,correctness,...: written by the import for `cxr agreement`
    <review>/key.json            the answer behind each item and its inclusion probability; not for raters

Items have numbers in a shuffled order ("item-001") that do not reveal study, model or verdict. Every rater has an own
order. Sheets, Label Studio and the browser page all use `open_review`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from medvqa_core.errors import InputError, show
from medvqa_core.files import MANIFEST, join_under, make_folder, output_errors
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_json, read_manifest, read_object, write_json
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, find_problems

KIND, FORMAT = "review", 1
ITEMS, KEY, RATINGS, RATINGS_CSV, FOR_RATERS = "items.json", "key.json", "ratings", "ratings.csv", "for_raters"
_REMEDY = "Export the sample again: medvqa-hub cxr review export"


@dataclass(frozen=True)
class ReviewItem:
    """One pair as raters see it. `images` are paths below the review folder."""

    item: str
    indication: str | None
    findings: str
    question: str
    answer: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyEntry:
    """The facts about an item that raters do not see.

    Attributes:
        stratum: the part of the pairs that it was drawn from, "all" in a simple random sample.
        inclusion_probability: the share of that part that was drawn.
    """

    item: str
    qa_id: str
    study_id: int
    stratum: str
    inclusion_probability: float


_RATER = r"\w[\w.-]{0,63}"


class Review:
    """An exported sample, opened by `open_review`."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], items: tuple[ReviewItem, ...]) -> None:
        self.folder, self.items = folder, items
        self.governance: Governance = parse(manifest["governance"], str(folder))
        self.raters: tuple[str, ...] = tuple(manifest["orders"])
        self.strata: dict[str, int] = dict(manifest["strata"])  # stratum -> pairs that it was drawn from
        self.judge: str | None = manifest.get("judge")  # whose verdicts define the strata, if any
        self._orders = {rater: tuple(order) for rater, order in manifest["orders"].items()}
        self._by_id = {item.item: item for item in items}

    def order(self, rater: str) -> tuple[str, ...]:
        """The ids of all items in the order of `rater`. Raises InputError for an unknown rater."""
        self._check_rater(rater)
        return self._orders[rater]

    def item(self, item: str) -> ReviewItem:
        """Raises InputError for an unknown item."""
        if item not in self._by_id:
            raise InputError(
                f"{self.folder}: unknown item {show(item)}. Expected {self.items[0].item} to {self.items[-1].item}."
            )
        return self._by_id[item]

    def image_paths(self, item: str) -> list[Path]:
        """The image files of an item. Empty for a sample without images."""
        return [join_under(self.folder, path, str(self.folder / ITEMS)) for path in self.item(item).images]

    def ratings(self, rater: str) -> dict[str, Verdict]:
        """The ratings of `rater` so far, by item, perhaps incomplete. Raises InputError if the file is damaged."""
        return self._read(rater)["ratings"]

    def comments(self, rater: str) -> dict[str, str]:
        """The comments of `rater`, by item."""
        return self._read(rater)["comments"]

    def save_rating(self, rater: str, item: str, ratings: Mapping[str, str], comment: str | None = None) -> None:
        """Save a rating to disk, replacing an earlier one.

        Args:
            ratings: dimension -> category (`DIMENSIONS`), for one or more of the four dimensions.
            comment: free text. "" removes the comment, None keeps it.

        Raises:
            InputError: the rater, item, dimension or category is unknown, or `ratings` is empty.
            OutputError: the file cannot be written.
        """
        self.save_ratings(rater, {item: ratings}, {} if comment is None else {item: comment})

    def save_ratings(
        self, rater: str, ratings: Mapping[str, Mapping[str, str]], comments: Mapping[str, str] | None = None
    ) -> None:
        """Save the ratings of several items at once. Raises as `save_rating`."""
        self._check_rater(rater)
        for item, verdict in ratings.items():
            self.item(item)
            problems = [problem for problem in find_problems(verdict) if not problem.endswith(" is missing")]
            if problems or not verdict:
                raise InputError(f"rater {rater!r}, item {item!r}: {'; '.join(problems) or 'the rating is empty'}")
        with self._lock():
            kept = self._read(rater)
            for item, verdict in ratings.items():
                merged = kept["ratings"].get(item, {}) | dict(verdict)
                kept["ratings"][item] = {name: merged[name] for name in DIMENSIONS if name in merged}
            kept["comments"] |= {item: text for item, text in (comments or {}).items()}
            tidy = {
                "ratings": dict(sorted(kept["ratings"].items())),
                "comments": {item: text for item, text in sorted(kept["comments"].items()) if text},
            }
            write_json(self._path(rater), tidy, private=self.governance.private)

    def key(self) -> dict[str, KeyEntry]:
        """The answer behind each item. Raises InputError if the key is missing or damaged."""
        path = self.folder / KEY
        try:
            entries = [KeyEntry(**entry) for entry in read_object(path, _REMEDY)["items"]]
        except (KeyError, TypeError):
            raise InputError(f"{path} is not the key of a review sample. {_REMEDY}") from None
        if {entry.item for entry in entries} != set(self._by_id):
            raise InputError(f"{path} and {ITEMS} have different items. {_REMEDY}")
        return {entry.item: entry for entry in entries}

    def _check_rater(self, rater: str) -> None:
        if rater not in self.raters:
            raise InputError(f"{self.folder}: unknown rater {show(rater)}. Expected {', '.join(self.raters)}.")

    def _path(self, rater: str) -> Path:
        return self.folder / RATINGS / f"{rater}.json"

    def _read(self, rater: str) -> dict[str, dict]:
        self._check_rater(rater)
        path = self._path(rater)
        if not path.exists():
            return {"ratings": {}, "comments": {}}
        found = read_object(path, "restore the file, or delete it and import the ratings again")
        parts: dict[str, Any] = {name: found.get(name) for name in ("ratings", "comments")}
        if not all(isinstance(part, dict) for part in parts.values()) or not set(parts["ratings"]) <= set(self._by_id):
            raise InputError(f"{path} does not have ratings of this sample. Delete it and import the ratings again.")
        return parts

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Serialise concurrent saves, also between processes."""
        folder = make_folder(self.folder / RATINGS, private=self.governance.private)
        with output_errors(folder), FileLock(folder / ".lock"):
            yield


def open_review(folder: Path) -> Review:
    """Open the sample in `folder`.

    Raises:
        InputError: the sample is missing or damaged.
        GovernanceError: it does not have a governance class.
    """
    manifest = read_manifest(folder, _REMEDY, KIND, FORMAT, ("orders", "strata"))
    for rater in manifest["orders"]:
        if not re.fullmatch(_RATER, rater):  # samples may be untrusted, and the name becomes a path
            raise InputError(f"{folder / MANIFEST}: {show(rater)} is not a valid rater name. {_REMEDY}")
    found = read_json(folder / ITEMS, _REMEDY)
    try:
        items = tuple(ReviewItem(**{**entry, "images": tuple(entry["images"])}) for entry in found)
        ids = sorted(item.item for item in items)
    except (TypeError, KeyError):
        raise InputError(f"{folder / ITEMS} is not a list of review items. {_REMEDY}") from None
    if not items or any(sorted(order) != ids for order in manifest["orders"].values()):
        raise InputError(f"{folder}: {ITEMS} and the raters' orders have different items. {_REMEDY}")
    return Review(folder, manifest, items)
