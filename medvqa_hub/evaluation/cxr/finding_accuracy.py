"""Finding accuracy: whether the polarity of an answer is the label of its row.

1. Rows with the label value `positive` or `negative` count, in all categories except Heart, whose label only means that
   the report has the word "heart". The other label values are not scored, but their answers are counted.
2. `mimic_cxr_vqa.labeling.answer_polarity` reads an answer as positive, negative, uncertain or undecided.
3. An answer is right if its polarity is the label. Failed answers (None) are counted and not scored.
4. `accuracy` is the share of right rows. `balanced_accuracy` is the mean recall of both labels, averaged over the
   categories that have both. It is 0.5 for a model that ignores the images. `majority` is the accuracy of answering
   every category with its more frequent label.

The references are scored by the same rule, which gives the ceiling of a model. Rows whose reference contradicts its
label (`label_conflict`) can be left out (`without_conflicts`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from medvqa_core.errors import InputError
from mimic_cxr_vqa.labeling.answer_polarity import UNDECIDED, answer_polarity
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, POSITIVE, UNCERTAIN
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES

POLARITIES = (POSITIVE, NEGATIVE, UNCERTAIN, UNDECIDED)
SCORED_LABELS = (POSITIVE, NEGATIVE)


def score_findings(answers: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Finding accuracy of `answers` (None: failed) to `rows` with `category` and `label_value`.

    Returns:
        `accuracy`, `balanced_accuracy` and `majority` (None without rows), the numbers of scored `rows`, `uncertain`,
        `undecided` and `failed` answers, the same with recalls `by_category`, and `spread`, the number of answers by
        label value and polarity.

    Raises:
        InputError: their numbers differ, or a category or label value is unknown.
    """
    if len(answers) != len(rows):
        raise InputError(f"There are {len(answers)} answers for {len(rows)} rows. Each row needs an answer or None.")
    counts: dict[str, Counter] = defaultdict(Counter)  # category -> (label value, polarity or None) -> rows
    for answer, row in zip(answers, rows, strict=True):
        category, label = row["category"], row["label_value"]
        if category not in CATEGORIES or label not in LABEL_VALUES.values():
            raise InputError(f"Category {category!r} or label value {label!r} is unknown. Build the release again.")
        if category != HEART:
            counts[category][label, None if answer is None else answer_polarity(answer, category)] += 1
    by_category = {name: _score(counts[name]) for name in CATEGORIES if name in counts}
    total = _score(sum(counts.values(), Counter()))
    balanced = [scores["balanced_accuracy"] for scores in by_category.values()]
    balanced = [score for score in balanced if score is not None]
    commoner = sum(max(_count_rows(counts[name], label) for label in SCORED_LABELS) for name in counts)
    return {
        "accuracy": total["accuracy"],
        "balanced_accuracy": fmean(balanced) if balanced else None,
        "majority": commoner / total["rows"] if total["rows"] else None,
        **{name: total[name] for name in ("rows", "uncertain", "undecided", "failed")},
        "by_category": by_category,
        "spread": {
            label: {found: sum(c[label, found] for c in counts.values()) for found in POLARITIES}
            for label in LABEL_VALUES.values()
        },
    }


def _count_rows(counts: Counter, label: str) -> int:
    return sum(counts[label, polarity] for polarity in POLARITIES)


def _score(counts: Counter) -> dict[str, Any]:
    """Metrics from the number of rows by (label value, polarity or None)."""
    rows = {label: _count_rows(counts, label) for label in SCORED_LABELS}
    total = sum(rows.values())
    recalls = {label: counts[label, label] / rows[label] if rows[label] else None for label in SCORED_LABELS}
    known = [recall for recall in recalls.values() if recall is not None]
    return {
        "accuracy": sum(counts[label, label] for label in SCORED_LABELS) / total if total else None,
        "balanced_accuracy": fmean(known) if len(known) == len(recalls) else None,
        "majority": max(rows.values()) / total if total else None,
        "recall": recalls,
        "rows": total,
        "uncertain": sum(counts[label, UNCERTAIN] for label in SCORED_LABELS),
        "undecided": sum(counts[label, UNDECIDED] for label in SCORED_LABELS),
        "failed": sum(counts[label, None] for label in SCORED_LABELS),
    }


def without_conflicts(
    answers: Sequence[str | None], rows: Sequence[Mapping[str, Any]]
) -> tuple[list[str | None], list[Mapping[str, Any]]]:
    """`answers` and `rows` without the rows with the flag `label_conflict`."""
    kept = [(answer, row) for answer, row in zip(answers, rows, strict=True) if not row.get("label_conflict")]
    return [answer for answer, _ in kept], [row for _, row in kept]
