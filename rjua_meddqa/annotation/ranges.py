"""Reference ranges and results as numbers: `0-5.0`, `<1.7mmol/L`, `2.0-4，0`, `男:0-15 女:0-20`.

Every character of a range cell has to be a bound, a unit, a group's name or a note. Anything left over, cut off or run
together is reported as a doubt, and `normality.py` does not judge by a doubtful range.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from rjua_meddqa.annotation.groups import AGE, WEEKS
from rjua_meddqa.annotation.intervals import Interval, LabelledInterval
from rjua_meddqa.annotation.number_text import (
    NUMBER,
    has_mixed_commas,
    is_followed_by_exponent,
    mask,
    plain,
    repair_number_slips,
    unmask,
    write_out,
)
from rjua_meddqa.annotation.range_labels import LOST_RANGE, Piece, assign_labels
from rjua_meddqa.annotation.result_units import fold_unit, read_unit, strip_unit

_SIGNED = rf"[+-]?{NUMBER}"
_END = r"(?![\d])"
_RANGE = re.compile(
    rf"(?P<low>(?<![\d.A-Za-z/^])[+-]?{NUMBER})\s*[^\d\s<>≤≥~:;,+()-]{{0,8}}?\s*(?P<dash>-{{1,2}}|~{{1,2}}|至|到)\s*(?P<high>{_SIGNED}){_END}"
    rf"|(?P<sign>[<>≤≥])\s*(?P<bound>{_SIGNED}){_END}"
    rf"|(?P<before>(?<![\d.A-Za-z/^]){NUMBER})\s*[^\d\s<>≤≥~:;,-]{{0,8}}?(?P<word>以下|以内|以上)"
)
_ORDINAL = re.compile(r"\d\s*(?:型|期|级)|\d+\s*°C")
_AFTER_HOURS = re.compile(r"(?:餐后|服糖后)\s*\d+\s*(?:h|小时|分钟)")
_LOST_UNIT = re.compile(r"\d\s?/[Ll](?![Pp])|\d\s?9/d[Ll]|\d{2}1U/|\d\s1U/")  # 115-1509/L, 0-401U/L
_CUT_OFF = "the range is cut off"
_SUFFIXES = ("103", "106", "109", "1012", "10")  # remains of a unit such as 10^9/L at the end of a bound


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """All intervals of a range cell and their unit ("" for none).

    Attributes:
        slips: repairs made in numbers.
        doubts: reasons why the cell may not mean what the intervals state. Empty when every character was understood.
    """

    intervals: tuple[LabelledInterval, ...]
    unit: str
    slips: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def is_truncated(self) -> bool:
        """Whether all doubts are about a missing end: 缺乏:<20 不足:20-30 充足:."""
        return bool(self.doubts) and all(doubt == _CUT_OFF or doubt.endswith(LOST_RANGE) for doubt in self.doubts)


def parse_range(text: str, unit: str = "") -> ParsedRange:
    """Parse every interval of a range cell, in order. The list is empty for a cell without a range of numbers.

    Args:
        unit: the row's text in the unit column.
    """
    doubts = ["commas for thousands and for decimals"] if has_mixed_commas(plain(text)) else []
    text, slips = repair_number_slips(plain(text))
    masked = write_out(text)
    doubts += _number_doubts(text, masked)
    aged = _mask_groups(masked)
    if not _RANGE.search(aged) and "岁" in aged:
        return ParsedRange((), "", slips, (*doubts, "ages, and no range"))
    text = aged if _RANGE.search(aged) else masked  # 3-7天 alone is a range of days
    pieces, end = [], 0
    for match in _RANGE.finditer(text):
        interval = _interval(match)
        if interval is None:  # 10-5: one of the two bounds is wrong
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
    labels, units, label_doubts = assign_labels(pieces, tail)
    own = next((written for written in reversed(units) if written), unit)
    intervals = tuple(
        LabelledInterval(label, piece.interval, piece.text) for label, piece in zip(labels, pieces, strict=True)
    )
    doubts += [*_unit_doubts([*units, unit]), *label_doubts, *_run_in_bounds(intervals, read_unit(own))]
    doubts += _lost_points(intervals)
    return ParsedRange(intervals, read_unit(own), slips, tuple(dict.fromkeys(doubts)))


def _number_doubts(text: str, masked: str) -> list[str]:
    """Doubts about where the numbers of a cell end."""
    found = [
        (is_followed_by_exponent(text), "a bound runs into the digits of its unit"),
        (re.search(r"\d\.[A-Za-z]", masked), "a letter behind a point"),
        (_LOST_UNIT.search(masked), "a bound may end in a letter of its unit: 9/L for g/L, 1U/L for IU/L"),
    ]
    return [doubt for is_found, doubt in found if is_found]


def _unit_doubts(written: Sequence[str]) -> list[str]:
    known = {read_unit(unit) for unit in written if unit}
    # One may continue another: mg/L, μg/mlFEUmg/L
    if len(known) > 1 and not any(fold_unit(b).startswith(fold_unit(a)) for a, b in permutations(known, 2)):
        return [f"several units: {', '.join(sorted(known))}"]
    return []


def parse_number(text: str) -> tuple[str, float, str, tuple[str, ...]] | None:
    """Return (comparison sign or "", number, unit, slips) of a result (`<0.01`, `1:320`, `16.8秒`), or None."""
    text, slips = repair_number_slips(plain(text))
    match = re.fullmatch(rf"(?P<sign>[<>≤≥]?)\s*(?P<number>{_SIGNED})(?P<unit>\D*)", write_out(text))
    if not match or re.search(r"[<>≤≥~+±]|^\s*\.|-$", match["unit"]) or is_followed_by_exponent(text):
        return None
    return match["sign"], float(match["number"]), strip_unit(match["unit"]), slips


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
        high = -high  # -3--1: the second of the two dashes is read as a sign
    return Interval(low, high) if low <= high else None


def _mask_groups(text: str) -> str:
    """Mask ages, weeks of pregnancy and stages in `text`: they name groups and are not ranges."""
    for pattern in (WEEKS, AGE, _ORDINAL, _AFTER_HOURS):
        text = pattern.sub(lambda match: mask(match[0], is_name=True), text)
    return text


def _leftovers(chunks: list[str]) -> list[str]:
    """Doubts about the text between, before and behind the ranges of a cell."""
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
    """Join `>3.5 <5.5` into one range when only a connecting word separates the two ends."""
    if len(pieces) != 2 or pieces[1].before.strip("且和及并,; ") != "":
        return pieces
    one, other = sorted((piece.interval for piece in pieces), key=lambda interval: interval.low == -math.inf)
    if not (math.isinf(one.high) and math.isfinite(one.low) and math.isinf(other.low) and math.isfinite(other.high)):
        return pieces
    if one.low > other.high:
        return pieces  # two ranges on both sides of a gap
    both = Interval(one.low, other.high, one.low_open, other.high_open)
    return [Piece(pieces[0].before, both, f"{pieces[0].text} {pieces[1].text}")]


def _run_in_bounds(intervals: tuple[LabelledInterval, ...], unit: str) -> list[str]:
    """Report an upper bound that ends in the digits of a power of ten and is a bound without them too: 4-1010."""
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
    """Report a whole upper bound that fits a lower bound with decimals better with a decimal point: 3.5-95."""
    for entry in intervals:
        match = re.fullmatch(r"\d+\.\d+\D+(\d+[1-9])", entry.text)
        if match and entry.interval.high / 10 > entry.interval.low > entry.interval.high / 30:
            return [f"{entry.text}: the bound may have lost its point"]
    return []
