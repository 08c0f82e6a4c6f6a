"""A sample of question-answer pairs that people rate, and their ratings.

    <review>/manifest.json       kind "review", governance class, strata, raters, order of each rater
    <review>/items.json          a list of {item, indication, findings, question, answer, images}
    <review>/images/item-001-1.jpg   the items' images
    <review>/for_raters/NAME/    the files for one rater: sheet.csv, sheet.xlsx, tasks.json, labelling.xml
    <review>/ratings/NAME.jsonl  a log of the rater's edits (`medvqa_core/edit_log.py`)
    <review>/ratings.csv         rater,item,correctness,...: written by the import for `cxr agreement`
    <review>/key.json            the answer behind each item and its inclusion probability; not for raters

Items have numbers in a shuffled order ("item-001") that do not reveal study, model or verdict. Every rater has an own
order. Sheets, Label Studio and the browser page all use `open_review`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.edit_log import Edit, EditLog
from medvqa_core.errors import InputError, quote_value
from medvqa_core.files import MANIFEST, join_under
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_json, read_manifest, read_object
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict, find_problems

KIND, FORMAT = "review", 1
ITEMS, KEY, RATINGS, RATINGS_CSV, FOR_RATERS = "items.json", "key.json", "ratings", "ratings.csv", "for_raters"
COMMENT, MARK, MARKS = "comment", "mark", ("", "flagged", "skipped")
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
        self._logs: dict[str, EditLog] = {}

    def order(self, rater: str) -> tuple[str, ...]:
        """The ids of all items in the order of `rater`. Raises InputError for an unknown rater."""
        self._check_rater(rater)
        return self._orders[rater]

    def item(self, item: str) -> ReviewItem:
        """Raises InputError for an unknown item."""
        if item not in self._by_id:
            raise InputError(
                f"{self.folder}: unknown item {quote_value(item)}. Expected {self.items[0].item} to "
                f"{self.items[-1].item}."
            )
        return self._by_id[item]

    def image_paths(self, item: str) -> list[Path]:
        """The image files of an item. Empty for a sample without images."""
        return [join_under(self.folder, path, str(self.folder / ITEMS)) for path in self.item(item).images]

    def ratings(self, rater: str) -> dict[str, Verdict]:
        """The ratings of `rater` so far, by item, perhaps incomplete. Raises InputError if the file is damaged."""
        states = self._states(rater)
        found = {item: {name: state[name] for name in DIMENSIONS if state.get(name)} for item, state in states.items()}
        return {item: verdict for item, verdict in sorted(found.items()) if verdict}

    def comments(self, rater: str) -> dict[str, str]:
        """The comments of `rater`, by item."""
        return {item: text for item, state in sorted(self._states(rater).items()) if (text := state.get(COMMENT))}

    def marks(self, rater: str) -> dict[str, str]:
        """The marks of `rater` ("flagged" or "skipped"), by item."""
        return {item: mark for item, state in self._states(rater).items() if (mark := state.get(MARK))}

    def history(self, rater: str, item: str) -> list[tuple[Edit, dict[str, Any]]]:
        """The edits of an item by `rater`, oldest first, each with the fields after it."""
        log = self._log(rater)
        return [(edit, log.state(item, edit.version)) for edit in log.history(item)]

    def save_rating(
        self,
        rater: str,
        item: str,
        ratings: Mapping[str, str],
        comment: str | None = None,
        base: int | None = None,
        mark: str | None = None,
    ) -> None:
        """Record a rating. It is on disk when this returns.

        Args:
            ratings: dimension -> category (`DIMENSIONS`), or "" to remove a rating.
            comment: free text. "" removes the comment, None keeps it.
            base: the version of the item that was shown. None: the current one.
            mark: one of MARKS. None keeps it.

        Raises:
            EditConflictError: the rater has saved the item elsewhere since `base`.
            InputError: the rater, item, dimension, category or mark is unknown.
            OutputError: the file cannot be written.
        """
        self._check_rating(rater, item, ratings, mark)
        if not (ratings or mark is not None or comment is not None):
            raise InputError(f"rater {rater!r}, item {item!r}: the rating is empty")
        state = {**ratings, **{name: text for name, text in ((COMMENT, comment), (MARK, mark)) if text is not None}}
        self._log(rater).append(item, rater, base, state)

    def save_ratings(
        self, rater: str, ratings: Mapping[str, Mapping[str, str]], comments: Mapping[str, str] | None = None
    ) -> None:
        """Record the ratings of several items, if all are valid. Raises as `save_rating`."""
        for item, verdict in ratings.items():
            self._check_rating(rater, item, verdict)
            if not verdict:
                raise InputError(f"rater {rater!r}, item {item!r}: the rating is empty")
        for item, verdict in ratings.items():
            self.save_rating(rater, item, verdict, (comments or {}).get(item))

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
            raise InputError(f"{self.folder}: unknown rater {quote_value(rater)}. Expected {', '.join(self.raters)}.")

    def _check_rating(self, rater: str, item: str, ratings: Mapping[str, str], mark: str | None = None) -> None:
        self._check_rater(rater)
        self.item(item)
        chosen = {name: category for name, category in ratings.items() if category or name not in DIMENSIONS}
        problems = [problem for problem in find_problems(chosen) if not problem.endswith(" is missing")]
        if mark is not None and mark not in MARKS:
            problems.append(f"mark {quote_value(mark)} is unknown. Expected one of {', '.join(MARKS[1:])}, or nothing")
        if problems:
            raise InputError(f"rater {rater!r}, item {item!r}: {'; '.join(problems)}")

    def _states(self, rater: str) -> dict[str, dict[str, Any]]:
        log = self._log(rater)
        return {item: log.state(item) for item in log.items()}

    def _log(self, rater: str) -> EditLog:
        """The rater's edits, with those that others have appended since the last call."""
        self._check_rater(rater)
        if rater not in self._logs:
            if (earlier := self.folder / RATINGS / f"{rater}.json").exists():
                raise InputError(f"{earlier} has ratings of an earlier version. Enter them in a sheet and import it.")
            self._logs[rater] = EditLog(self.folder / RATINGS / f"{rater}.jsonl", RATINGS, self.governance)
        self._logs[rater].refresh()
        return self._logs[rater]


def open_review(folder: Path) -> Review:
    """Open the sample in `folder`.

    Raises:
        InputError: the sample is missing or damaged.
        GovernanceError: it does not have a governance class.
    """
    manifest = read_manifest(folder, _REMEDY, KIND, FORMAT, ("orders", "strata"))
    for rater in manifest["orders"]:
        if not re.fullmatch(_RATER, rater):  # samples may be untrusted, and the name becomes a path
            raise InputError(f"{folder / MANIFEST}: {quote_value(rater)} is not a valid rater name. {_REMEDY}")
    found = read_json(folder / ITEMS, _REMEDY)
    try:
        items = tuple(ReviewItem(**{**entry, "images": tuple(entry["images"])}) for entry in found)
        ids = sorted(item.item for item in items)
    except (TypeError, KeyError):
        raise InputError(f"{folder / ITEMS} is not a list of review items. {_REMEDY}") from None
    if not items or any(sorted(order) != ids for order in manifest["orders"].values()):
        raise InputError(f"{folder}: {ITEMS} and the raters' orders have different items. {_REMEDY}")
    return Review(folder, manifest, items)
