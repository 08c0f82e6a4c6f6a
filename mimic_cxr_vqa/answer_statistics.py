"""Statistics of answers by category: length, type, broken rules, contradictions with the label, and failures.

`cxr stats` counts the rows of a release, and `cxr status` the answers of a build in progress.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_core.text_tables import align
from mimic_cxr_vqa.answer_types import CLOSED, answer_type
from mimic_cxr_vqa.generation.answer_keys import answer_keys, hex_keys, iterate_rows, open_answers, read_lint
from mimic_cxr_vqa.generation.lint import find_flags
from mimic_cxr_vqa.schema import CATEGORIES, LABEL_CONFLICT
from mimic_cxr_vqa.workspace import Workspace

WARNING = "relative:"  # a warning about words of comparison, not a broken rule
ALL = "all"
_DIGITS = str.maketrans("0123456789", "##########")


@dataclass
class AnswerCounts:
    """Counts of one category.

    Attributes:
        words: of all answers together.
        rules: rule of `generation.lint` -> answers that break it.
        contradicting: answers that contradict their label.
        reasons: why questions lack an answer, with digits as # to group similar failures.
    """

    answers: int = 0
    closed: int = 0
    words: int = 0
    longest: int = 0
    flagged: int = 0
    contradicting: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, answer: str, lint: Iterable[str]) -> None:
        """Count one answer with the rules and flags in its provenance."""
        words, noted = len(answer.split()), list(lint)
        broken = [rule for rule in noted if rule != LABEL_CONFLICT and not rule.startswith(WARNING)]
        self.answers, self.words, self.longest = self.answers + 1, self.words + words, max(self.longest, words)
        self.closed += answer_type(answer) == CLOSED
        self.flagged += bool(broken)
        self.contradicting += LABEL_CONFLICT in noted
        self.rules.update(rule for rule in noted if rule != LABEL_CONFLICT)

    def fail(self, reason: str) -> None:
        """Count a question without an answer."""
        self.reasons[reason.translate(_DIGITS)] += 1


@dataclass
class AnswerStatistics:
    """Counts by category and for `all`, and the distinct words (lower case, without outer punctuation)."""

    categories: dict[str, AnswerCounts] = field(default_factory=lambda: {n: AnswerCounts() for n in (*CATEGORIES, ALL)})
    vocabulary: set[str] = field(default_factory=set)

    def add(self, category: str, answer: str | None, lint: Iterable[str], reason: str = "") -> None:
        """Count one question by its answer, or by the reason for not having one."""
        for counts in (self.categories[category], self.categories[ALL]):
            if answer is None:
                counts.fail(reason)
            else:
                counts.add(answer, lint)
        self.vocabulary.update(word.strip(".,;:!?()[]\"'") for word in (answer or "").lower().split())
        self.vocabulary.discard("")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "distinct_words": len(self.vocabulary),
            "categories": {
                name: {**vars(c), "rules": dict(c.rules), "reasons": dict(c.reasons)}
                for name, c in self.categories.items()
            },
        }


def count_rows(batches: Iterable[pa.Table | pa.RecordBatch]) -> AnswerStatistics:
    """Count rows of `schema.QA_SCHEMA`. Broken rules are only known for rows with provenance."""
    found = AnswerStatistics()
    for batch in track(batches, "Counting answers"):
        lint: list[list[str]] = [[]] * len(batch)
        if "provenance" in batch.schema.names:
            lint = [(row or {}).get("lint") or [] for row in batch["provenance"].to_pylist()]
        for category, answer, noted in zip(
            batch["category"].to_pylist(), batch["answer"].to_pylist(), lint, strict=True
        ):
            found.add(category, answer, noted)
    return found


def count_workspace(workspace: Workspace, governance: Governance) -> AnswerStatistics:
    """Count the answers and failures of a build so far. Raises InputError if there are none."""
    found = AnswerStatistics()
    with open_answers(workspace, governance) as store:
        keys = hex_keys(answer_keys(workspace, store.settings, save=False))
        labels = iterate_rows(workspace, "questions", "category", "label_value")
        for key, (category, label) in track(zip(keys, labels, strict=True), "Counting", total=len(keys)):
            record = store.find(key)
            if record is not None and record.answer is not None:
                noted = [*read_lint(record, store), *find_flags(record.answer, category, label)]
                found.add(category, record.answer, noted)
            elif record is not None:
                found.add(category, None, (), record.error or "")
    return found


def format_statistics(found: AnswerStatistics) -> str:
    """Return a table by category, the most frequent broken rules and failures, as plain text."""
    heads = ["Category", "Answers", "Words", "Longest", "Open", "Closed", "Flagged", "Contradict", "Failed"]
    rows = [heads]
    for name, counts in found.categories.items():
        mean = f"{counts.words / counts.answers:.1f}" if counts.answers else "-"
        shown = (counts.answers - counts.closed, counts.closed, counts.flagged, counts.contradicting)
        failed = sum(counts.reasons.values())
        rows.append([name, f"{counts.answers:,}", mean, str(counts.longest), *(f"{n:,}" for n in (*shown, failed))])
    whole = found.categories[ALL]
    text = [f"Answers by category\n\n{align(rows, line=True)}\n\ndistinct words: {len(found.vocabulary):,}"]
    for title, counted, by in (("Rule", whole.rules, "rules"), ("No answer because", whole.reasons, "reasons")):
        listed = [[title, "Questions", "Mostly in"]]
        for name, count in counted.most_common(12):
            most = max(CATEGORIES, key=lambda category: getattr(found.categories[category], by)[name])
            listed.append([name, f"{count:,}", most])
        if len(listed) > 1:
            text.append(align(listed, (0, 2), line=True))
    return "\n\n".join(text) + "\n"
