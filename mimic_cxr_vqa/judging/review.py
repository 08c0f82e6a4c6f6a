"""A sample of question-answer pairs that people rate: the folder that holds it, and its ratings.

    <review>/manifest.json       kind "review", governance class, how the sample was drawn, raters, order of each rater
    <review>/items.json          what raters see: a list of {item, indication, findings, question, answer, images}
    <review>/images/item-001-1.jpg   the items' images, under names that tell nothing
    <review>/for_raters/NAME/    what a rater is handed: sheet.csv, sheet.xlsx, tasks.json, labelling.xml
    <review>/ratings/NAME.json   {"ratings": {item: {dimension: category}}, "comments": {item: text}}
    <review>/ratings.csv         rater,item,correctness,…: what `cxr agreement` reads (written by the import)
    <review>/key.json            which item is which answer, and with what probability it was drawn; not for raters

An item is known by its number in a shuffled order ("item-001"), which tells neither study nor model nor verdict. Every
rater has an order of their own. `open_review(folder)` is the way in for sheets, Label Studio and the browser page.
"""

import fcntl
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, show
from medvqa_core.files import MANIFEST, join_under, make_folder, output_errors
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_json, read_manifest, read_object, write_json
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, find_problems

KIND, FORMAT = "review", 1
ITEMS, KEY, RATINGS, RATINGS_CSV, FOR_RATERS = "items.json", "key.json", "ratings", "ratings.csv", "for_raters"
_REMEDY = "export the sample again: medvqa-hub cxr review export"


@dataclass(frozen=True)
class ReviewItem:
    """What a rater sees of one pair; `images` are paths below the review folder."""

    item: str
    indication: str | None
    findings: str
    question: str
    answer: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeyEntry:
    """What raters are not told of an item.

    Attributes:
        stratum: the part of the pairs that it was drawn from; "all" in a plain sample.
        inclusion_probability: share of that part's pairs that was drawn.
    """

    item: str
    qa_id: str
    study_id: int
    stratum: str
    inclusion_probability: float


_RATER = r"\w[\w.-]{0,63}"


class Review:
    """An exported sample. `open_review` makes one."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], items: tuple[ReviewItem, ...]) -> None:
        self.folder, self.items = folder, items
        self.governance: Governance = parse(manifest["governance"], str(folder))
        self.raters: tuple[str, ...] = tuple(manifest["orders"])
        self.strata: dict[str, int] = dict(manifest["strata"])  # stratum -> pairs that it was drawn from
        self.judge: str | None = manifest.get("judge")  # whose verdicts the strata are; None: a plain sample
        self._orders = {rater: tuple(order) for rater, order in manifest["orders"].items()}
        self._by_id = {item.item: item for item in items}

    def order(self, rater: str) -> tuple[str, ...]:
        """The ids of all items in the order in which `rater` is to see them. Raises InputError for an unknown rater."""
        self._check_rater(rater)
        return self._orders[rater]

    def item(self, item: str) -> ReviewItem:
        """Raises InputError for an unknown item."""
        if item not in self._by_id:
            raise InputError(
                f"{self.folder}: no item {show(item)}; it has {self.items[0].item} to {self.items[-1].item}"
            )
        return self._by_id[item]

    def image_paths(self, item: str) -> list[Path]:
        """The image files of an item; none where the sample was exported without images."""
        return [join_under(self.folder, path, str(self.folder / ITEMS)) for path in self.item(item).images]

    def ratings(self, rater: str) -> dict[str, Verdict]:
        """What `rater` said so far, by item; dimensions may be missing. Raises InputError where the file is damaged."""
        return self._read(rater)["ratings"]

    def comments(self, rater: str) -> dict[str, str]:
        """What `rater` noted beside the ratings, by item."""
        return self._read(rater)["comments"]

    def save_rating(self, rater: str, item: str, ratings: Mapping[str, str], comment: str | None = None) -> None:
        """Keep what `rater` says of `item`; it is on disk once this returns. What was said before is replaced.

        Args:
            ratings: dimension -> category (`DIMENSIONS`), one or more of the four.
            comment: free text; "" removes one, None leaves it as it is.

        Raises:
            InputError: an unknown rater, item, dimension or category, or no rating at all.
            OutputError: it cannot be written.
        """
        self.save_ratings(rater, {item: ratings}, {} if comment is None else {item: comment})

    def save_ratings(
        self, rater: str, ratings: Mapping[str, Mapping[str, str]], comments: Mapping[str, str] | None = None
    ) -> None:
        """Keep what `rater` says of several items, all or nothing; otherwise as `save_rating`."""
        self._check_rater(rater)
        for item, verdict in ratings.items():
            self.item(item)
            problems = [problem for problem in find_problems(verdict) if not problem.endswith(" is missing")]
            if problems or not verdict:
                raise InputError(f"rater {rater!r}, item {item!r}: {'; '.join(problems) or 'no rating'}")
        with self._alone():
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
        """Which answer each item is. Raises InputError where the key is missing or damaged."""
        path = self.folder / KEY
        try:
            entries = [KeyEntry(**entry) for entry in read_object(path, _REMEDY)["items"]]
        except (KeyError, TypeError):
            raise InputError(f"{path}: no key of a review sample; {_REMEDY}") from None
        if {entry.item for entry in entries} != set(self._by_id):
            raise InputError(f"{path}: its items are not those of {ITEMS}; {_REMEDY}")
        return {entry.item: entry for entry in entries}

    def _check_rater(self, rater: str) -> None:
        if rater not in self.raters:
            raise InputError(f"{self.folder}: no rater {show(rater)}; it has {', '.join(self.raters)}")

    def _path(self, rater: str) -> Path:
        return self.folder / RATINGS / f"{rater}.json"

    def _read(self, rater: str) -> dict[str, dict]:
        self._check_rater(rater)
        path = self._path(rater)
        if not path.exists():
            return {"ratings": {}, "comments": {}}
        found = read_object(path, "restore the file, or delete it and import the ratings again")
        parts = {name: found.get(name) for name in ("ratings", "comments")}
        if not all(isinstance(part, dict) for part in parts.values()) or not set(parts["ratings"]) <= set(self._by_id):
            raise InputError(f"{path}: no ratings of this sample; delete it and import the ratings again")
        return parts

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two who save for one rater at the same moment do so one after the other."""
        folder = make_folder(self.folder / RATINGS, private=self.governance.private)
        with output_errors(folder), open(folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def open_review(folder: Path) -> Review:
    """The sample in `folder`.

    Raises:
        InputError: there is none, or it is damaged.
        GovernanceError: it names no governance class.
    """
    manifest = read_manifest(folder, _REMEDY, KIND, FORMAT, ("orders", "strata"))
    for rater in manifest["orders"]:
        if not re.fullmatch(_RATER, rater):  # a sample may come from elsewhere, and files are named by it
            raise InputError(f"{folder / MANIFEST}: {show(rater)} is no name of a rater; {_REMEDY}")
    found = read_json(folder / ITEMS, _REMEDY)
    try:
        items = tuple(ReviewItem(**{**entry, "images": tuple(entry["images"])}) for entry in found)
        ids = sorted(item.item for item in items)
    except (TypeError, KeyError):
        raise InputError(f"{folder / ITEMS}: no items of a review sample; {_REMEDY}") from None
    if not items or any(sorted(order) != ids for order in manifest["orders"].values()):
        raise InputError(f"{folder}: {ITEMS} and the raters' orders do not name the same items; {_REMEDY}")
    return Review(folder, manifest, items)
