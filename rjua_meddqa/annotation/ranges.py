"""Reference ranges and results as numbers: `0-5.0`, `<1.7mmol/L`, `2.0-4，0`, `男:0-15 女:0-20`.

Every character of a range cell has to be a bound, a unit, the name of a group or a note: what is left over, cut off or
run together is a doubt, and nobody should judge by a doubtful range. This file judges nothing (`normality.py` does).
"""

import math
import re
from dataclasses import dataclass

from rjua_meddqa.annotation.groups import AGE, WEEKS
from rjua_meddqa.annotation.number_text import (
    NUMBER,
    has_mixed_commas,
    is_followed_by_exponent,
    mask,
    plain,
    repair_number_slips,
    unit_of,
    unmask,
    write_out,
)
from rjua_meddqa.annotation.range_labels import LOST, Piece, assign_labels

_SIGNED = rf"[+-]?{NUMBER}"
_END = r"(?![\d])"
_RANGE = re.compile(
    rf"(?P<low>(?<![\d.A-Za-z/^])[+-]?{NUMBER})\s*[^\d\s<>≤≥~:;,+()-]{{0,8}}?\s*(?P<dash>-{{1,2}}|~{{1,2}}|至|到)\s*(?P<high>{_SIGNED}){_END}"
    rf"|(?P<sign>[<>≤≥])\s*(?P<bound>{_SIGNED}){_END}"
    rf"|(?P<before>(?<![\d.A-Za-z/^]){NUMBER})\s*[^\d\s<>≤≥~:;,-]{{0,8}}?(?P<word>以下|以内|以上)"
)
_ORDINAL = re.compile(r"\d\s*(?:型|期|级)|\d+\s*°C")
_LOST_UNIT = re.compile(r"\d\s?/[Ll](?![Pp])|\d\s?9/d[Ll]|\d{2}1U/|\d\s1U/")  # 115-1509/L, 0-401U/L
_CUT_OFF = "the range is cut off"
_SUFFIXES = ("103", "106", "109", "1012", "10")  # what a unit such as 10^9/L leaves at the end of a bound


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`; an open end is not part of it (`<5.0`)."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def is_below(self, value: float) -> bool:
        """Whether `value` lies below the interval."""
        return value < self.low or (self.low_open and value == self.low)

    def is_above(self, value: float) -> bool:
        """Whether `value` lies above the interval."""
        return value > self.high or (self.high_open and value == self.high)

    def holds(self, value: float) -> bool:
        return not self.is_below(value) and not self.is_above(value)


@dataclass(frozen=True, slots=True)
class LabelledInterval:
    """An interval and what it is for (男, 18-60岁, 健康人群, 缺乏; "" where nothing says); `text` as printed."""

    label: str
    interval: Interval
    text: str = ""


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """All intervals of a range cell and their unit ("" where none).

    Attributes:
        slips: what was read as something else than is written.
        doubts: why the cell may not mean what the intervals say; empty for one that was read to the last character.
    """

    intervals: tuple[LabelledInterval, ...]
    unit: str
    slips: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def is_truncated(self) -> bool:
        """Whether all doubts are about what is missing at the end: 缺乏:<20 不足:20-30 充足:."""
        return bool(self.doubts) and all(doubt == _CUT_OFF or doubt.endswith(LOST) for doubt in self.doubts)


def parse_range(text: str, unit: str = "") -> ParsedRange:
    """Every interval in a range cell, in its order; none where the cell holds no range of numbers.

    Args:
        unit: what a column of units says.
    """
    doubts = ["commas for thousands and for decimals"] if has_mixed_commas(plain(text)) else []
    text, slips = repair_number_slips(plain(text))
    if is_followed_by_exponent(text):
        doubts.append("a bound runs into the digits of its unit")
    masked = write_out(text)
    if re.search(r"\d\.[A-Za-z]", masked):
        doubts.append("a letter behind a point")
    if _LOST_UNIT.search(masked):
        doubts.append("a bound may end in a letter of its unit: 9/L for g/L, 1U/L for IU/L")
    aged = _mask_groups(masked)
    if not _RANGE.search(aged) and "岁" in aged:
        return ParsedRange((), "", slips, (*doubts, "ages, and no range"))
    text = aged if _RANGE.search(aged) else masked  # 3-7天 alone is a range of days
    pieces, end = [], 0
    for match in _RANGE.finditer(text):
        interval = _interval(match)
        if interval is None:  # 10-5: one of the two is wrong, nobody knows which
            return ParsedRange((), "", slips, (*doubts, "the bounds are the wrong way round"))
        if "×" in match[0]:
            doubts.append("a power of ten behind each bound")
        pieces.append(Piece(text[end : match.start()], interval, unmask(match[0]).strip()))
        end = match.end()
    if not pieces:
        return ParsedRange((), "", slips, tuple(doubts))
    tail = text[end:]
    doubts += _leftovers([*(piece.before for piece in pieces), tail])
    pieces = _intersect_two_sides(pieces)
    labels, units, found = assign_labels(pieces, tail)
    known = {read_unit(written) for written in (*units, unit) if written}
    if len(known) > 1 and not any(_goes_on(one, other) for one in known for other in known if one != other):
        doubts.append(f"several units: {', '.join(sorted(known))}")
    own = next((written for written in reversed(units) if written), unit)
    intervals = tuple(
        LabelledInterval(label, piece.interval, piece.text) for label, piece in zip(labels, pieces, strict=True)
    )
    doubts += [*found, *_run_in_bounds(intervals, read_unit(own)), *_lost_points(intervals)]
    return ParsedRange(intervals, read_unit(own), slips, tuple(dict.fromkeys(doubts)))


def parse_number(text: str) -> tuple[str, float, str, tuple[str, ...]] | None:
    """(comparison sign or "", number, unit, slips) of a result (`<0.01`, `1:320`, `16.8秒`), else None."""
    text, slips = repair_number_slips(plain(text))
    match = re.fullmatch(rf"(?P<sign>[<>≤≥]?)\s*(?P<number>{_SIGNED})(?P<unit>\D*)", write_out(text))
    if not match or re.search(r"[<>≤≥~+±]|^\s*\.|-$", match["unit"]) or is_followed_by_exponent(text):
        return None
    return match["sign"], float(match["number"]), unit_of(match["unit"]), slips


def read_unit(text: str) -> str:
    """A unit in one spelling: 10*9/L, 10E9/L and 109/L are ×10^9/L."""
    return unit_of(write_out(plain(unmask(text))))


def _interval(match: re.Match[str]) -> Interval | None:
    if match["sign"]:
        bound, is_upper = float(match["bound"]), match["sign"] in "<≤"
        is_open = match["sign"] in "<>"
        return Interval(high=bound, high_open=is_open) if is_upper else Interval(low=bound, low_open=is_open)
    if match["word"]:
        bound = float(match["before"])
        return Interval(low=bound) if match["word"] == "以上" else Interval(high=bound)
    low, high = float(match["low"]), float(match["high"])
    if low < 0 and match["dash"] == "--" and low <= -abs(high) and match["high"][0].isdigit():
        high = -high  # -3--1: the second of the two dashes is a sign, for all that is known
    return Interval(low, high) if low <= high else None


def _mask_groups(text: str) -> str:
    """`text` with ages, weeks of pregnancy and stages out of the way: they name groups and are no ranges."""
    for pattern in (WEEKS, AGE, _ORDINAL):
        text = pattern.sub(lambda match: mask(match[0], is_name=True), text)
    return text


def _leftovers(chunks: list[str]) -> list[str]:
    """Doubts by what stands between, before and behind the ranges of a cell."""
    doubts = []
    text, last = " ".join(chunks), chunks[-1]
    if re.search(r"\d", text):
        doubts.append("a number that belongs to no range")
    elif re.search(r"[<>≤≥~+]|(?<![A-Za-z\u4e00-\u9fff])-|-(?![A-Za-z\u4e00-\u9fff])", text):
        doubts.append("a sign without its number")
    if re.match(r"\s*[.,]", last) or re.search(r"[-,:、/(\[]\s*$", last):
        doubts.append(_CUT_OFF)
    if any(text.count(one) != text.count(other) for one, other in ("()", "[]")):
        doubts.append("a bracket without its other half")
    return doubts


def _intersect_two_sides(pieces: list[Piece]) -> list[Piece]:
    """`>3.5 <5.5` is one range where nothing but a connecting word stands between its two ends."""
    if len(pieces) != 2 or pieces[1].before.strip("且和及并,; ") != "":
        return pieces
    one, other = sorted((piece.interval for piece in pieces), key=lambda interval: interval.low == -math.inf)
    if not (math.isinf(one.high) and math.isfinite(one.low) and math.isinf(other.low) and math.isfinite(other.high)):
        return pieces
    if one.low > other.high:
        return pieces  # two ranges that leave out the middle
    both = Interval(one.low, other.high, one.low_open, other.high_open)
    return [Piece(pieces[0].before, both, f"{pieces[0].text} {pieces[1].text}")]


def _run_in_bounds(intervals: tuple[LabelledInterval, ...], unit: str) -> list[str]:
    """A doubt where an upper bound ends in the digits of a power of ten, and is a bound without them too: 4-1010."""
    if unit and not unit.startswith("×10^"):
        return []
    for entry in intervals:
        written = re.search(rf"{NUMBER}$", entry.text)
        for suffix in _SUFFIXES:
            rest = written[0].removesuffix(suffix) if written else ""
            if written and rest != written[0] and re.fullmatch(NUMBER, rest) and float(rest) > entry.interval.low:
                return [f"{entry.text}: the bound may end in the digits of its unit"]
    return []


def _lost_points(intervals: tuple[LabelledInterval, ...]) -> list[str]:
    """A doubt where a whole upper bound, far from a lower one with decimals, is a bound with a point too: 3.5-95."""
    for entry in intervals:
        match = re.fullmatch(r"\d+\.\d+\D+(\d+[1-9])", entry.text)
        if match and entry.interval.high / 10 > entry.interval.low > entry.interval.high / 30:
            return [f"{entry.text}: the bound may have lost its point"]
    return []


def _goes_on(one: str, other: str) -> bool:
    """Whether two spellings are of one unit: case aside, or one goes on where the other ends (mg/L, μg/mlFEUmg/L)."""
    one, other = (unit.lower().replace("μ", "u").replace("秒", "s") for unit in (one, other))
    return one.startswith(other) or other.startswith(one)
