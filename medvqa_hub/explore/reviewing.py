"""Rate a review sample on the page: blinded items in the rater's own order, saved after each rating.

Raters only see the content of `items.json` and their own ratings. `cxr review import` reads the saved ratings.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS
from mimic_cxr_vqa.judging.review import COMMENT, MARK, Review

LONGEST_COMMENT = 4000  # characters


class ReviewView:
    """A sample as its raters see it.

    Args:
        rater: the only rater. None lets each rater of the sample rate.

    Raises:
        InputError: the sample does not have this rater.
    """

    def __init__(self, review: Review, rater: str | None = None) -> None:
        if rater is not None and rater not in review.raters:
            raise InputError(f"rater {rater!r} is unknown. {review.folder} has {', '.join(review.raters)}.")
        self._review = review
        self._raters = review.raters if rater is None else (rater,)

    @property
    def governance(self) -> Governance:
        return self._review.governance

    def describe(self) -> dict[str, Any]:
        """Raters, dimensions and categories."""
        return {
            "folder": self._review.folder.name,
            "items": len(self._review.items),
            "raters": list(self._raters),
            "dimensions": [
                {
                    "name": dimension.name,
                    "title": dimension.title,
                    "asks": dimension.asks,
                    "categories": [{"name": name, "means": means} for name, means in dimension.meanings.items()],
                }
                for dimension in DIMENSIONS.values()
            ],
        }

    def item(self, rater: str, number: int | None = None) -> dict[str, Any]:
        """The item with a number (from 1) in the rater's order. The default is the first without all ratings.

        Raises:
            InputError: the rater or number is unknown.
        """
        order, ratings, marks = self._order(rater), self._review.ratings(rater), self._review.marks(rater)
        done = [len(ratings.get(item, {})) == len(DIMENSIONS) for item in order]
        if number is None:
            open_items = [n for n, item in enumerate(order) if not done[n] and marks.get(item) != "skipped"]
            number = (open_items or [n for n, is_done in enumerate(done) if not is_done] or [len(order) - 1])[0] + 1
        if not 1 <= number <= len(order):
            raise InputError(f"item {number} does not exist. The sample has 1 to {len(order)}.")
        item = self._review.item(order[number - 1])
        return {
            "number": number,
            "item": item.item,
            "done": done,
            **{name: getattr(item, name) for name in ("indication", "findings", "question", "answer")},
            "images": len(item.images),
            **self._saved(rater, item.item),
        }

    def save(self, rater: str, item: str, edit: Mapping[str, Any]) -> dict[str, Any]:
        """Save ratings of an item. Returns all that is saved of it, and whether it is complete.

        Args:
            edit: base (the version that was shown), and what was changed: ratings, comment, or mark.

        Raises:
            EditConflictError: the rater has saved the item elsewhere since `base`.
            InputError: the rater, item, dimension or category is unknown, or the comment is too long.
            OutputError: the ratings cannot be written.
        """
        self._order(rater)
        ratings, comment, mark, base = (edit.get(name) for name in ("ratings", "comment", "mark", "base"))
        ratings = {} if ratings is None else ratings
        texts = (
            [*ratings.values(), *(text for text in (comment, mark) if text is not None)]
            if isinstance(ratings, dict)
            else [0]
        )
        if not isinstance(base, int) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{item}: expected the version (base) that was edited, ratings, comment and mark as texts")
        if comment is not None and len(comment) > LONGEST_COMMENT:
            raise InputError(f"the comment has {len(comment):,} characters. The limit is {LONGEST_COMMENT:,}.")
        self._review.save_rating(rater, item, ratings, comment, base, mark)
        saved = self._saved(rater, item)
        return {**saved, "is_done": len(saved["ratings"]) == len(DIMENSIONS)}

    def _saved(self, rater: str, item: str) -> dict[str, Any]:
        history = self._review.history(rater, item)
        state = history[-1][1] if history else {}
        return {
            "ratings": {name: state[name] for name in DIMENSIONS if state.get(name)},
            **{name: state.get(name, "") for name in (COMMENT, MARK)},
            "version": len(history),
            "history": [{"version": edit.version, "time": edit.time, "state": state} for edit, state in history],
        }

    def image(self, rater: str, item: str, number: int) -> Path:
        """The file of an item's image. Raises InputError if it does not exist."""
        self._order(rater)
        paths = self._review.image_paths(item)
        if not 0 <= number < len(paths):
            raise InputError(f"{item} has {len(paths)} images, so that number {number} does not exist")
        return paths[number]

    def _order(self, rater: str) -> tuple[str, ...]:
        if rater not in self._raters:
            raise InputError(f"rater {rater!r} may not rate here. Expected {', '.join(self._raters)}.")
        return self._review.order(rater)
