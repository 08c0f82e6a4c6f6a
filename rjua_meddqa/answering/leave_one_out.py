"""Leave-one-out: each item of a table is taken from its page's draft and asked for; what comes back is another's value.

The hardest unanswerable questions: the page holds the item's neighbours, alike in name and with a number each. An
answer other than 无 is wrong. That the same item is found where it is left in is counted beside it: who answers 无
to everything is never wrong.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.report_words import fold, similarity
from rjua_meddqa.answering.rules import answer_from_draft
from rjua_meddqa.schema import MISSING, TABLE, TableRow

ALIKE = 0.6  # of a drafted item and the annotated one that has its result


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Counts over tables, and what was answered wrongly.

    Attributes:
        asked: items asked for after they were taken out; `wrong` of them got a value.
        held: items that the draft holds; `found` of them got their own value.
        examples: (item asked for, what was answered).
    """

    asked: int = 0
    wrong: int = 0
    held: int = 0
    found: int = 0
    examples: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: "LeaveOneOut") -> "LeaveOneOut":
        return LeaveOneOut(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __str__(self) -> str:
        rate = f"{self.wrong / self.asked:.1%}" if self.asked else "none asked"
        return (
            f"leave-one-out: {self.asked:,} items taken from their pages and asked for; another item's value was given "
            f"to {self.wrong:,} ({rate}); left in, {self.found:,} of {self.held:,} drafted items get their own value"
        )


def leave_one_out(drafted: Draft, table: Sequence[TableRow]) -> LeaveOneOut:
    """Ask for each item of `table`, the annotation, with and without its row in `drafted`."""
    result = LeaveOneOut()
    for row in table:
        own = _own_rows(row, drafted.table)
        rest = Draft((), tuple(other for other in drafted.table if other not in own))
        said = _ask(row.item, rest)
        wrong = said != MISSING
        found = bool(own) and _ask(row.item, drafted) in {other.result for other in own}
        result += LeaveOneOut(1, wrong, bool(own), found, ((row.item, said),) if wrong else ())
    return result


def leave_one_out_of_all(pairs: Iterable[tuple[Draft, Sequence[TableRow]]]) -> LeaveOneOut:
    """`leave_one_out` over pages."""
    result = LeaveOneOut()
    for drafted, table in pairs:
        result += leave_one_out(drafted, table)
    return result


def _ask(item: str, drafted: Draft) -> str:
    return answer_from_draft(f"{item}的结果是多少?", TABLE, "single_span", drafted)


def _own_rows(row: TableRow, drafted: Sequence[TableRow]) -> list[TableRow]:
    """Drafted rows of the annotated item: of its name, else the one most alike with its result."""
    named = [other for other in drafted if fold(other.item) == fold(row.item)]
    return named or list(_most_alike(row, drafted))


def _most_alike(row: TableRow, drafted: Sequence[TableRow]) -> Iterator[TableRow]:
    same = [other for other in drafted if fold(other.result) == fold(row.result)]
    best = max(same, key=lambda other: similarity(fold(other.item), fold(row.item)), default=None)
    if best is not None and similarity(fold(best.item), fold(row.item)) >= ALIKE:
        yield best
