"""Contents of synthetic laboratory reports: invented panels of items with units, ranges and plausible values.

A range is two numbers, an upper limit, a word, or nothing. Values lie clearly inside or clearly outside their range,
which makes `is_normal` exact.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rjua_meddqa.phantom.contents import CONTENTS
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, MISSING, NORMAL, UNDECIDED, TableRow

NEGATIVE, POSITIVE = "阴性", ("阳性(+)", "阳性(++)", "弱阳性")
OUTSIDE = 0.25  # share of items out of range


@dataclass(frozen=True)
class Item:
    """One laboratory item.

    Attributes:
        low, high: the range. If only `low` is None, it is an upper limit. If both are None, `expected` decides.
        expected: the word of a normal result, "" if the report prints no range.
        digits: decimals of results and limits.
        when_high, when_low: title of the context for a result out of range, "" for none.
    """

    name: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    digits: int = 1
    expected: str = ""
    when_high: str = ""
    when_low: str = ""

    def draw(self, draw: random.Random) -> TableRow:
        """Draw a row as annotators write it, with the unit in the range."""
        if self.high is None:
            return self._draw_word(draw)
        state = draw.choices((NORMAL, HIGH, LOW), (1 - OUTSIDE, OUTSIDE * 0.7, OUTSIDE * 0.3 * bool(self.low)))[0]
        low = self.low or 0.0
        span, step = self.high - low, 10**-self.digits
        if state == HIGH:
            value = self.high + max(2 * step, span * draw.uniform(0.15, 1.2))
        elif state == LOW:
            value = max(0.0, low - max(2 * step, low * draw.uniform(0.1, 0.5)))
        else:
            value = low + span * draw.uniform(0.1, 0.9)
        return TableRow(self.name, self.number(value), self.printed_range(), state)

    def _draw_word(self, draw: random.Random) -> TableRow:
        if not self.expected:
            return TableRow(self.name, self.number(draw.uniform(60, 120)), MISSING, UNDECIDED)
        if draw.random() < OUTSIDE:
            return TableRow(self.name, draw.choice(POSITIVE), self.expected, ABNORMAL)
        return TableRow(self.name, self.expected, self.expected, NORMAL)

    def number(self, value: float) -> str:
        """Format a value with this item's decimals."""
        return f"{value:.{self.digits}f}"

    def printed_range(self) -> str:
        """The range as annotators write it: limits and unit without a space."""
        if self.high is None:
            return self.expected or MISSING
        return (self.limits(self.low, self.high) if self.low is not None else f"<{self.high:g}") + self.unit

    def limits(self, low: float, high: float) -> str:
        """Format two limits with this item's decimals."""
        return f"{self.number(low)}-{self.number(high)}"

    def outcome(self, row: TableRow) -> str:
        """The title of the context for `row`, or ""."""
        return {HIGH: self.when_high, LOW: self.when_low}.get(row.is_normal, "")


WHOLES: dict[str, list[str]] = CONTENTS["wholes"]
SHARES: list[str] = CONTENTS["shares"]
PANELS = {name: tuple(Item(**item) for item in items) for name, items in CONTENTS["panels"].items()}
SPECIMENS: dict[str, str] = CONTENTS["specimens"]
SERUM = "血清"  # specimen of the other panels


def draw_rows(items: Sequence[Item], draw: random.Random) -> list[TableRow]:
    """Draw a row for each item, again until no part is more than its whole."""
    while True:
        rows = [item.draw(draw) for item in items]
        if _is_possible(rows):
            return rows


def _is_possible(rows: Sequence[TableRow]) -> bool:
    results = {row.item: row.result for row in rows}
    sums = [(float(results[whole]), parts) for whole, parts in WHOLES.items() if whole in results]
    return all(sum(float(results.get(part, 0)) for part in parts) <= whole for whole, parts in [*sums, (100.0, SHARES)])
