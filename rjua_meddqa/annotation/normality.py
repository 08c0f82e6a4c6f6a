"""Whether a result is normal, from what stands on the page: the result, its reference range and the printed arrow.

The verdict is one of IS_NORMAL_VALUES (paper, Section 4.2.1). A wrong 是 is worse than 无法判断: without a range, by a
doubtful one, and where the groups that the page leaves open disagree, there is no verdict. Nothing is guessed.
"""

import re
from math import inf
from typing import NamedTuple

from rjua_meddqa.annotation.groups import ANYONE, Patient, excludes, is_understood, unsaid
from rjua_meddqa.annotation.number_text import is_dilution
from rjua_meddqa.annotation.ranges import LabelledInterval, ParsedRange, parse_number, parse_range, plain, read_unit
from rjua_meddqa.annotation.result_units import is_unit, same_scale
from rjua_meddqa.annotation.word_results import judge_words, polarity
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, MISSING, NORMAL, UNDECIDED

_ARROWS = {"↑": HIGH, "⬆": HIGH, "▲": HIGH, "△": HIGH, "↓": LOW, "⬇": LOW, "▼": LOW, "▽": LOW}
_ARROW = re.compile("[" + "".join(_ARROWS) + r"]+|(?<=[\d\s])[(（]?(?:HH|LL|H|偏高|升高|高|偏低|降低|低)[)）]?$")
_FLAG_WORDS = {"H": HIGH, "HH": HIGH, "偏高": HIGH, "升高": HIGH, "高": HIGH}
_FLAG_WORDS |= {"L": LOW, "LL": LOW, "偏低": LOW, "降低": LOW, "低": LOW}

# What a range's label says about those in it: "缺乏: <20" holds results that are too low.
_LOW_STATES = ("缺乏", "不足", "缺陷", "低下", "偏低", "降低", "减低", "减少")
_NORMAL_STATES = ("正常", "充足", "充分", "理想", "合适", "适宜", "健康成人", "可接受", "阴性")
_HIGH_STATES = ("边缘升高", "升高", "偏高", "增高", "过量", "过高", "中毒", "增多")

_IN_DOUBT = re.compile("可疑|临界|灰区")  # 0.9-1.1可疑
_STRAY_STROKE = re.compile(r"\s*[lI|｜丨](?=[\d.])")  # a table's line or a 1: 2.5 or 12.5
_GROUPED = re.compile(r"(?<![\d.,])([1-9]\d{0,2}),(?=\d{3}(?![\d,.]))")

# <5.0×10^2IU/mL is 500; ×10^9/L, where nothing but the volume follows, is a unit of both result and range
_POWER_OF_A_NUMBER = re.compile(r"(?:×10\^-?\d+|E[+-]?\d+)(?!\d)(?!/|$)")


Entries = tuple[LabelledInterval, ...]


class Judgement(NamedTuple):
    """A verdict, one of IS_NORMAL_VALUES, and why."""

    verdict: str
    reason: str


def judge(result: str, reference: str, flag: str = "", unit: str = "", patient: Patient = ANYONE) -> Judgement:
    """Judge `result` by `reference` (the range as printed, with or without unit).

    Both may carry full-width signs, any dash, units, an arrow and the slips that `ranges.py` reads. A doubtful range
    gives no verdict. A printed arrow decides where the numbers leave it open, never where there is no range; numbers
    and an arrow that contradict each other give no verdict: one of them was misread.

    Args:
        flag: what a column of flags says (`↑`, `H`, `L`, `偏低`); other words count for nothing.
        unit: what a column of units says; it holds for result and range where these have none of their own.
        patient: whom the page is about, for ranges by group; what it does not say leaves all groups in.
    """
    result, arrow = split_arrow(result)
    reference, arrow_of_range = split_arrow(reference)
    if is_blank(result):
        return Judgement(UNDECIDED, "no result")
    if is_blank(reference):
        return Judgement(UNDECIDED, "no range")
    if _STRAY_STROKE.match(result) or _STRAY_STROKE.match(reference):
        return Judgement(UNDECIDED, "a number begins with a stroke: the line of a table, or a one")
    judgement = _judge_text(result, reference, unit, patient)
    with_points = [_GROUPED.sub(r"\1.", plain(text)) for text in (result, reference)]
    if with_points != [plain(result), plain(reference)] and re.search(r"\d\.\d", result + " " + reference):
        # 1,015 beside 1.005-1.030 is 1015, or 1.015 with a slip
        other = _judge_text(*with_points, unit, patient)
        if other.verdict != judgement.verdict:
            return Judgement(UNDECIDED, "a comma before three digits may be a decimal point")
    judgement = _weigh(judgement, arrow or arrow_of_range or _direction(flag))
    if judgement.verdict == NORMAL and "*" in (result.strip()[-1:], flag.strip()):
        return Judgement(UNDECIDED, f"an asterisk marks the result: {judgement.reason}")
    return judgement


def _judge_text(result: str, reference: str, unit: str, patient: Patient) -> Judgement:
    parsed = parse_range(reference, unit)
    if parsed.doubts:
        if parsed.is_truncated() and (band := _band_of(result, parsed)):
            return band
        return Judgement(UNDECIDED, f"the range is doubtful: {'; '.join(parsed.doubts)}")
    if parsed.intervals:
        return _judge_number(result, reference, unit, parsed, patient)
    return Judgement(*judge_words(result, reference))


def _band_of(result: str, parsed: ParsedRange) -> Judgement | None:
    """A verdict by the first of several bands with a name each (缺乏:<20 不足:20-30 充足:), the last cut off.

    Bands do not overlap: what is missing changes nothing for a result in a whole one. Never 是.
    """
    number, states = parse_number(result), [_state(entry.label) for entry in parsed.intervals]
    if number is None or number[0] or number[2] or len(states) < 2 or not all(states) or NORMAL in states:
        return None
    held = {s for s, entry in zip(states, parsed.intervals, strict=True) if entry.interval.holds(number[1])}
    return Judgement(held.pop(), "in a range named after its state, others are cut off") if len(held) == 1 else None


def _weigh(judgement: Judgement, direction: str) -> Judgement:
    """A judgement beside the printed arrow."""
    verdict, reason = judgement
    if not direction or verdict in (direction, ABNORMAL):
        return judgement
    if verdict == UNDECIDED:
        return Judgement(direction, f"the arrow decides ({reason})")
    return Judgement(UNDECIDED, f"the printed arrow says {direction}, the numbers {verdict}: {reason}")


def split_arrow(text: str) -> tuple[str, str]:
    """`text` without its arrow or flag, and 否(偏高), 否(偏低) or "" for it. `5.6↑`, `↓ 1.2`, `5.6 H`, `5.6 偏高`."""
    match = _ARROW.search(text.strip())
    if not match:
        return text.strip(), ""
    rest = _ARROW.sub("", text.strip()).strip()
    return rest, _direction(match[0])


def _direction(flag: str) -> str:
    """否(偏高) or 否(偏低) for an arrow or a flag's word, "" for anything else."""
    mark = flag.strip(" ()（）*").upper()
    return _FLAG_WORDS.get(mark) or _ARROWS.get(mark[:1], "")


def is_blank(text: str) -> bool:
    """Whether a cell says that nothing is there (空, 无, dashes of a blank form field)."""
    return text.strip() in ("", MISSING, "/", "--", "---", "----", "—", "——")


def _judge_number(result: str, reference: str, unit: str, parsed: ParsedRange, patient: Patient) -> Judgement:
    entries = tuple(entry for entry in parsed.intervals if not excludes(entry.label, patient))
    if not entries:
        groups = ", ".join(entry.label for entry in parsed.intervals)
        return Judgement(UNDECIDED, f"the patient is in none of the groups: {groups}")
    missing = unsaid(entries[0].label, patient) if len(entries) == 1 else ""
    judgement = _judge_by_numbers(result, reference, unit, parsed.unit, entries)
    # outside of the only age that a cell names is abnormal as far as it says; within it is normal for that age alone
    if missing and (judgement.verdict == NORMAL or missing != "age"):
        return Judgement(UNDECIDED, f"the page does not say the patient's {missing}: {entries[0].label}")
    return judgement


def _judge_by_numbers(result: str, reference: str, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    number = parse_number(result)
    if number is None:
        label = entries[0].label or unit_of_range  # 阴性(<1.0), <1.0(阴性)
        if len(entries) == 1 and polarity(result) and polarity(label) == "negative":
            return Judgement(*judge_words(result, label))
        return _judge_span(parse_range(result), unit, unit_of_range, entries)
    if is_dilution(result) != is_dilution(reference):
        return Judgement(UNDECIDED, "one of result and range is a dilution")
    sign, value, own_unit, _ = number
    if polarity(own_unit) in ("positive", "undecided"):
        return Judgement(UNDECIDED, f"a number that is called {own_unit}")
    if value < 0 and all(entry.interval.low >= 0 for entry in entries):
        return Judgement(UNDECIDED, "a dash before the result, where none is below 0")
    if own_unit and unit and not same_scale(read_unit(own_unit), read_unit(unit)):
        return Judgement(UNDECIDED, f"units differ: {own_unit} and {unit}")
    own_unit = "" if polarity(own_unit) else own_unit
    if not is_unit(own_unit, unit_of_range or read_unit(unit)) or plain(result).count("(") != plain(result).count(")"):
        return Judgement(UNDECIDED, f"{own_unit!r} behind the result is no unit")
    if unit_of_range != read_unit(unit) and not is_unit(unit_of_range, "S"):
        return Judgement(UNDECIDED, f"{unit_of_range!r} behind the range is no unit")
    if (
        not (own_unit or unit)
        and unit_of_range.startswith("%")
        and 0 < value <= 1 < min(entry.interval.low for entry in entries)
    ):
        return Judgement(UNDECIDED, "the range is in per cent, the result may be a fraction")
    return _judge_value(sign, value, read_unit(own_unit or unit), unit_of_range, entries)


def _judge_span(result: ParsedRange, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    """A result such as `0-1/HP`: all of it is normal, or all of it is high."""
    spans = [(entry.interval.low, entry.interval.high) for entry in result.intervals if not entry.label]
    if result.doubts or len(spans) != 1 or len(result.intervals) != 1 or inf in map(abs, spans[0]):
        return Judgement(UNDECIDED, "the result is no number, the range is one")
    ends = [_judge_value("", value, result.unit or read_unit(unit), unit_of_range, entries) for value in spans[0]]
    if len({end.verdict for end in ends}) == 1:
        return ends[0]
    return Judgement(UNDECIDED, "only part of the result lies in the range")


def _judge_value(sign: str, value: float, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    if not same_scale(unit, unit_of_range):
        return Judgement(UNDECIDED, f"units differ: {unit or 'none'} and {unit_of_range or 'none'}")
    if not unit and _POWER_OF_A_NUMBER.match(unit_of_range):
        return Judgement(UNDECIDED, f"the range counts in {unit_of_range}, the result may not")
    if unit.startswith("%") and not unit_of_range and all(entry.interval.high <= 1 for entry in entries):
        return Judgement(UNDECIDED, "the result is in per cent, the range may be a fraction")
    states = [_state(entry.label) for entry in entries]
    if NORMAL in states or (any(states) and all(states)):
        return _judge_by_states(sign, value, entries, states)
    for entry in entries:
        if not is_understood(entry.label, is_alone=len(entries) == 1):
            return Judgement(UNDECIDED, f"{entry.label!r} may be no name of those who are well")
    verdicts = {_compare(sign, value, entry) for entry in entries}
    shown = "; ".join(f"{entry.label} {entry.text}".strip() for entry in entries)
    if len(verdicts) > 1:
        return Judgement(UNDECIDED, f"ranges by group disagree: {shown}")
    verdict = verdicts.pop()
    where = {HIGH: "above", LOW: "below", NORMAL: "in"}.get(verdict, "not comparable with")
    return Judgement(verdict, f"{sign}{value:g} is {where} {shown}")


def _judge_by_states(sign: str, value: float, entries: Entries, states: list[str]) -> Judgement:
    """By ranges that are named after what they mean; those called normal decide alone where they agree."""
    if any(_IN_DOUBT.search(entry.label) and entry.interval.holds(value) for entry in entries):
        return Judgement(UNDECIDED, "in a range between normal and not")
    normal = {_compare(sign, value, entry) for entry, state in zip(entries, states, strict=True) if state == NORMAL}
    if len(normal) == 1:
        return Judgement(normal.pop(), "by the range called normal")
    held = {state for entry, state in zip(entries, states, strict=True) if not sign and entry.interval.holds(value)}
    if len(held) == 1 and not normal:
        return Judgement(held.pop(), "in a range named after its state")
    return Judgement(UNDECIDED, "no range named after a state holds it")


def _compare(sign: str, value: float, entry: LabelledInterval) -> str:
    """A number, or all numbers below or above one (`<0.01`), against one interval."""
    interval = entry.interval
    if interval.is_below(value) and sign in ("", "<", "≤"):
        return LOW
    if interval.is_above(value) and sign in ("", ">", "≥"):
        return HIGH
    if not sign:
        return NORMAL
    if sign in ("<", "≤"):
        if sign == "<" and value == interval.low:
            return LOW
        # a range from 0 has no lower side that a result could leave
        is_open_below = interval.low == -inf or (interval.low == 0 and not interval.low_open)
        fits = value < interval.high or (value == interval.high and (sign == "<" or not interval.high_open))
        return NORMAL if is_open_below and fits else UNDECIDED
    if sign == ">" and value == interval.high:
        return HIGH
    fits = value > interval.low or (value == interval.low and (sign == ">" or not interval.low_open))
    return NORMAL if interval.high == inf and fits else UNDECIDED


def _state(label: str) -> str:
    """LOW, NORMAL or HIGH where a label names a state, "" where it names a group of people or nothing."""
    for states, verdict in ((_LOW_STATES, LOW), (_HIGH_STATES, HIGH), (_NORMAL_STATES, NORMAL)):
        if any(label.startswith(state) or label.endswith(state) for state in states):
            return verdict
    return ""
