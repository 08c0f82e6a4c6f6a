"""Finding accuracy: does an answer say of its finding what the row's label says? What is said counts, not the wording.

The rule
--------
1. Rows that count: label value `positive` or `negative`, any category but Heart. All six questions of these 14
   categories ask whether the finding is there ("What evidence of Edema is present?" too: the answer may be none).
   Heart's label says only that the report has the word "heart". `uncertain` and `not_mentioned` rows have no truth to
   compare with: how their answers spread is counted, nothing is scored.
2. What an answer says is read by `mimic_cxr_vqa.labeling.answer_polarity`: positive, negative, uncertain or undecided.
3. An answer is right if its polarity is the label. `uncertain` and `undecided` answers are wrong, and counted. A row
   whose answer failed (None) is not scored, and counted.
4. `accuracy` is the share of right rows. `balanced_accuracy` is the mean, over the categories that have both labels,
   of the mean recall of the two: an answer that ignores the images gets 0.5 there, however frequent each label is.
   `majority` is the accuracy of answering every category with its commoner label.

A right answer can be read wrongly and a reference answer can contradict its label, so the references are scored by the
same rule: that is a model's ceiling. Rows whose reference contradicts its label (`label_conflict`) can be left out
(`without_conflicts`).
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
    """Finding accuracy of `answers` (None: failed) to `rows` (with `category` and `label_value`), by the module's rule.

    Returns:
        `accuracy`, `balanced_accuracy` and `majority` (None where there is no row for them), the counts `rows`
        (scored), `uncertain`, `undecided` and `failed` among the rows that count; `by_category` with the same metrics
        and the recalls; `spread`: {label value: {polarity: answers}} over all rows but Heart's.

    Raises:
        InputError: the two differ in number, or a row has no category or label value of the schema.
    """
    if len(answers) != len(rows):
        raise InputError(f"{len(answers)} answers for {len(rows)} rows; there must be one, or None, for each row")
    counts: dict[str, Counter] = defaultdict(Counter)  # category -> (label value, polarity or None) -> rows
    for answer, row in zip(answers, rows, strict=True):
        category, label = row["category"], row["label_value"]
        if category not in CATEGORIES or label not in LABEL_VALUES.values():
            raise InputError(f"a row has category {category!r} and label value {label!r}; build the release again")
        if category != HEART:
            counts[category][label, None if answer is None else answer_polarity(answer, category)] += 1
    by_category = {name: _score(counts[name]) for name in CATEGORIES if name in counts}
    total = _score(sum(counts.values(), Counter()))
    balanced = [scores["balanced_accuracy"] for scores in by_category.values()]
    balanced = [score for score in balanced if score is not None]
    commoner = sum(max(_rows_of(counts[name], label) for label in SCORED_LABELS) for name in counts)
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


def _rows_of(counts: Counter, label: str) -> int:
    """Scored rows with that label."""
    return sum(counts[label, polarity] for polarity in POLARITIES)


def _score(counts: Counter) -> dict[str, Any]:
    """Metrics of one category, or of all together, from {(label value, polarity or None): rows}."""
    rows = {label: _rows_of(counts, label) for label in SCORED_LABELS}
    total = sum(rows.values())
    recalls = {label: counts[label, label] / rows[label] if rows[label] else None for label in SCORED_LABELS}
    both = None not in recalls.values()
    return {
        "accuracy": sum(counts[label, label] for label in SCORED_LABELS) / total if total else None,
        "balanced_accuracy": fmean(recalls.values()) if both else None,
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
    """`answers` and `rows` without the rows that carry the flag `label_conflict`."""
    kept = [(answer, row) for answer, row in zip(answers, rows, strict=True) if not row.get("label_conflict")]
    return [answer for answer, _ in kept], [row for _, row in kept]
