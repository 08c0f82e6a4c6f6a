"""Leave-one-out: asks for each item of a table after removing it from the page.

These are the hardest unanswerable questions, since the page has similar items with a number each. Any answer but 无 is
wrong. Items are also asked for with their row in place, which penalises an engine that always answers 无. Language
models read the restored text without the item's lines.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from medvqa_core.metrics.meddqa_scores import abstains
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.rules import answer_from_draft
from rjua_meddqa.schema import MISSING, TABLE, Page, TableRow

ALIKE = 0.6  # smallest similarity of a drafted item and the annotated one with its result


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Counts over tables, and wrong answers.

    Attributes:
        asked: items asked for after their removal. `wrong` of them got a value.
        held: items in the draft. `found` of them got their own value.
        examples: (item asked for, answer).
        failed: questions without an answer. They count neither as wrong nor as found.
    """

    asked: int = 0
    wrong: int = 0
    held: int = 0
    found: int = 0
    examples: tuple[tuple[str, str], ...] = ()
    failed: int = 0

    def __add__(self, other: "LeaveOneOut") -> "LeaveOneOut":
        return LeaveOneOut(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __str__(self) -> str:
        rate = f"{self.wrong / self.asked:.1%}" if self.asked else "none asked"
        return (
            f"leave-one-out: {self.asked:,} items removed from their pages and asked for; {self.wrong:,} ({rate}) got "
            f"another item's value; left in, {self.found:,} of {self.held:,} items get their own value"
            + (f"; {self.failed:,} questions failed" if self.failed else "")
        )


def leave_one_out(drafted: Draft, table: Sequence[TableRow]) -> LeaveOneOut:
    """Ask for each item of the annotated `table`, with and without its row in `drafted`."""
    result = LeaveOneOut()
    for row in table:
        own = _own_rows(row, drafted.table)
        rest = Draft((), tuple(other for other in drafted.table if other not in own))
        answer = _ask(row.item, rest)
        wrong = answer != MISSING
        found = bool(own) and _ask(row.item, drafted) in {other.result for other in own}
        result += LeaveOneOut(1, wrong, bool(own), found, ((row.item, answer),) if wrong else ())
    return result


def leave_one_out_pages(pairs: Iterable[tuple[Draft, Sequence[TableRow]]]) -> LeaveOneOut:
    """`leave_one_out` over pages."""
    result = LeaveOneOut()
    for drafted, table in pairs:
        result += leave_one_out(drafted, table)
    return result


@dataclass(frozen=True)
class TextCase:
    """An item of a page's table, asked for on the page's text with and without the item's lines."""

    row: TableRow
    without: DocumentRequest
    whole: DocumentRequest


def text_cases(page: Page, table: Sequence[TableRow]) -> list[TextCase]:
    """Return a case for each item whose name occurs in lines of the page."""
    lines = page.restored.text.split("\n")
    cases = []
    for number, row in enumerate(table):
        name = fold(row.item)
        kept = [line for line in lines if name not in fold(line)]
        if not name or len(kept) == len(lines):
            continue
        rest = replace(page, restored=replace(page.restored, text="\n".join(kept)))
        asked = partial(DocumentRequest, question=_question(row.item), task=TABLE, answer_type="single_span")
        without = asked(f"{page.image}-{number}-without", Path(page.image), page=rest)
        cases.append(TextCase(row, without, asked(f"{page.image}-{number}-whole", Path(page.image), page=page)))
    return cases


def count_case(case: TextCase, without: str | None, whole: str | None) -> LeaveOneOut:
    """Count the answers to a case. None is a failed question."""
    wrong = without is not None and not abstains(without)
    found = whole is not None and fold(case.row.result) in fold(whole)
    examples = ((case.row.item, without),) if wrong and without is not None else ()
    return LeaveOneOut(
        int(without is not None), int(wrong), int(whole is not None), int(found), examples, [without, whole].count(None)
    )


def _question(item: str) -> str:
    return f"{item}的结果是多少?"


def _ask(item: str, drafted: Draft) -> str:
    return answer_from_draft(_question(item), TABLE, "single_span", drafted)


def _own_rows(row: TableRow, drafted: Sequence[TableRow]) -> list[TableRow]:
    """Return the drafted rows of the annotated item: those with its name, else the most similar one with its result."""
    named = [other for other in drafted if fold(other.item) == fold(row.item)]
    return named or list(_most_alike(row, drafted))


def _most_alike(row: TableRow, drafted: Sequence[TableRow]) -> Iterator[TableRow]:
    same = [other for other in drafted if fold(other.result) == fold(row.result)]
    best = max(same, key=lambda other: similarity(fold(other.item), fold(row.item)), default=None)
    if best is not None and similarity(fold(best.item), fold(row.item)) >= ALIKE:
        yield best
