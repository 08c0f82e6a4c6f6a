"""Finding accuracy: does an answer say of its finding what the row's label says? What is said counts, not the wording.

The rule
--------
1. Rows that count: label value `positive` or `negative`, any category but Heart. All six questions of these 14
   categories ask whether the finding is there ("What evidence of Edema is present?" too: the answer may be none).
   Heart's label says only that the report has the word "heart". `uncertain` and `not_mentioned` rows have no truth to
   compare with: how their answers spread is counted, nothing is scored.
2. What an answer says (`answer_polarity`): a leading "Yes" or "No" is set aside, and the rest is read like a report by
   `mimic_cxr_vqa.labeling.mentions` (words of the finding, negation and doubt around them). If the rest speaks of
   the category it decides; else a doubt ("possibly"); else the leading word; else a denial without a name ("none is
   seen"). If leading word and rest contradict each other, or nothing speaks, the answer is `undecided`.
   No Finding is positive where nothing is wrong, as its label: "Yes, there is an effusion" is negative.
3. An answer is right if its polarity is the label. `uncertain` and `undecided` answers are wrong, and counted. A row
   whose answer failed (None) is not scored, and counted.
4. `accuracy` is the share of right rows. `balanced_accuracy` is the mean, over the categories that have both labels,
   of the mean recall of the two: an answer that ignores the images gets 0.5 there, however frequent each label is.
   `majority` is the accuracy of answering every category with its commoner label.

A right answer can be read wrongly and a reference answer can contradict its label, so the references are scored by the
same rule: that is a model's ceiling.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, analyse
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES, NO_FINDING

UNDECIDED = "undecided"
POLARITIES = (POSITIVE, NEGATIVE, UNCERTAIN, UNDECIDED)
SCORED_LABELS = (POSITIVE, NEGATIVE)

_OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
_LEAD = re.compile(r"\W*(yes|no)\W*?(?:[,.;:!]\s*|$)", re.IGNORECASE)  # "No," but not "No effusion is seen"
# A model with a vocabulary of words writes "and / or", where a reference has "and/or".
_SLASH = re.compile(r" ?/ ?")
_CANNOT_SAY = re.compile(r"\bcan ?not be confirmed (?:n?or|and) (?:excluded|ruled out)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:none|nothing|absent|negative)\b|\bno (?:such )?(?:evidence|signs?|indications?|abnormal\w*|findings?)\b|"
    r"\bnot (?:\w+ )?(?:seen|present|visible|evident|identified|observed|detected|apparent)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(r"\bpossibl[ey]\b|\buncertain\b|\bequivocal\b|\bindeterminate\b|\bmaybe\b", re.IGNORECASE)
_ALL_NORMAL = re.compile(r"\b(?:normal|unremarkable|clear)\b", re.IGNORECASE)
_ABNORMAL = re.compile(r"\babnormal\w*|\bfindings?\b", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # references are read again with every condition, and answers repeat
def answer_polarity(answer: str, category: str) -> str:
    """`positive`, `negative`, `uncertain` or `undecided`: what `answer` says of `category` (rule 2 of the module).

    Raises:
        ConfigError: `category` is none of the 15, or Heart, whose label says nothing of a finding.
    """
    if category not in CATEGORIES or category == HEART:
        allowed = ", ".join(name for name in CATEGORIES if name != HEART)
        raise ConfigError(f"category {category!r} has no polarity to read; allowed: {allowed}")
    answer = _SLASH.sub("/", answer)
    if _CANNOT_SAY.search(answer):
        return UNCERTAIN
    lead = _LEAD.match(answer)
    rest = answer[lead.end() :] if lead else answer
    said = _leading_word(lead[1], category) if lead else None
    found = _no_finding(analyse(rest), rest) if category == NO_FINDING else analyse(rest).polarity(category)
    if found == NOT_MENTIONED and _DOUBTED.search(rest):
        return UNCERTAIN
    if found == NOT_MENTIONED:
        return said or (NEGATIVE if category != NO_FINDING and _DENIED.search(rest) else UNDECIDED)
    if said and found == _OPPOSITE[said]:
        return UNDECIDED
    return found


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


def _leading_word(word: str, category: str) -> str:
    """What "yes" or "no" says: every question but those of No Finding asks for what its label calls positive."""
    yes = word.lower() == "yes"
    return POSITIVE if yes != (category == NO_FINDING) else NEGATIVE


def _no_finding(analysis: Analysis, text: str) -> str:
    """No Finding: the abnormalities that are named decide; without any, the words "abnormal", "findings", "normal"."""
    if analysis.abnormal(POSITIVE):
        return NEGATIVE
    if analysis.abnormal(UNCERTAIN):
        return UNCERTAIN
    if _DENIED.search(text) or _ALL_NORMAL.search(_ABNORMAL.sub("", text)):
        return POSITIVE
    if _ABNORMAL.search(text):
        return NEGATIVE
    denied = any(mention.polarity == NEGATIVE for found in analysis.mentions.values() for mention in found)
    return POSITIVE if denied else NOT_MENTIONED  # "no effusion or pneumothorax"


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
