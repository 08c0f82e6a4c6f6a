"""Decides whether a result is normal from the printed result, its reference range and the printed arrow.

The verdict is one of IS_NORMAL_VALUES (paper, Section 4.2.1). A wrong 是 is worse than 无法判断. A verdict is not given
without a range, with a doubtful range, or when groups that the page leaves open disagree.
"""

import re
from math import inf
from typing import NamedTuple

from rjua_meddqa.annotation.groups import ANYONE, Patient, excludes, is_understood, unknown_trait
from rjua_meddqa.annotation.intervals import LabelledInterval
from rjua_meddqa.annotation.number_text import is_dilution, plain
from rjua_meddqa.annotation.ranges import ParsedRange, parse_number, parse_range
from rjua_meddqa.annotation.result_units import is_unit, read_unit, same_scale
from rjua_meddqa.annotation.word_results import judge_words, polarity
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, MISSING, NORMAL, UNDECIDED
from rjua_meddqa.vocabulary import VOCABULARY

_ARROWS = {"↑": HIGH, "⬆": HIGH, "▲": HIGH, "△": HIGH, "↓": LOW, "⬇": LOW, "▼": LOW, "▽": LOW}
_ARROW = re.compile("[" + "".join(_ARROWS) + r"]+|(?<=[\d\s])[(（]?(?:HH|LL|H|偏高|升高|高|偏低|降低|低)[)）]?$")
_ARROW_SIGN = re.compile("[" + "".join(_ARROWS) + "]+")
_SHARES = {"%": 0.01, "‰": 0.001}
_LARGEST_FRACTION = 1.5  # activities such as 120% are written as 1.2

# Labels that name a state: "缺乏: <20" contains results that are too low.
_STATES = {
    verdict: VOCABULARY["states"][name].split() for name, verdict in (("low", LOW), ("high", HIGH), ("normal", NORMAL))
}
_STATE_MARKS = {mark: verdict for verdict, marks in {HIGH: "高 H HH", LOW: "低 L LL"}.items() for mark in marks.split()}
_FLAG_WORDS = _STATE_MARKS | {"偏高": HIGH, "升高": HIGH, "偏低": LOW, "降低": LOW}

_IN_DOUBT = re.compile("可疑|临界|灰区")  # 0.9-1.1可疑
_STRAY_STROKE = re.compile(r"\s*[lI|｜丨](?=[\d.])")  # a border of the table or a 1: 2.5 or 12.5
_GROUPED = re.compile(r"(?<![\d.,])([1-9]\d{0,2}),(?=\d{3}(?![\d,.]))")

# <5.0×10^2IU/mL is 500. ×10^9/L, followed by nothing but the volume, is a unit of both result and range.
_POWER_OF_A_NUMBER = re.compile(r"(?:×10\^-?\d+|E[+-]?\d+)(?!\d)(?!/|$)")
_TIMES_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*[×xX*]\s*10\s*[\^*]?\s*(\d{1,2})(?![\d.]|\s*/)")
_HAS_POWER = re.compile(rf"{_TIMES_POWER.pattern}|\dE[+-]?\d")

Entries = tuple[LabelledInterval, ...]


class Judgement(NamedTuple):
    """A verdict, one of IS_NORMAL_VALUES, and its reason."""

    verdict: str
    reason: str


def judge(result: str, reference: str, flag: str = "", unit: str = "", patient: Patient = ANYONE) -> Judgement:
    """Judge `result` by `reference`, the printed range with or without a unit.

    Both may contain full-width signs, any dash, units and the slips that `ranges.py` repairs. An arrow printed in the
    result or flag column decides where the numbers do not, but never without a range. The verdict is open if numbers
    and arrow contradict each other, since one of them was misread. An arrow in the range cell decides nothing.

    Args:
        flag: the row's text in the flag column (`↑`, `H`, `L`, `偏低`). Other words are ignored.
        unit: the row's text in the unit column, used for result and range if these lack a unit of their own.
        patient: the page's patient, for ranges by group. Unknown traits keep all groups.

    Examples:
        >>> judge("5.2", "3.5-9.5").verdict
        '是'
        >>> judge("9.9", "3.5-9.5").verdict
        '否(偏高)'
        >>> judge("5.2", "").verdict
        '无法判断'
    """
    result, arrow = split_arrow(result)
    stray = _ARROW_SIGN.search(reference)
    reference = _ARROW_SIGN.sub("", reference).strip()
    if is_blank(result):
        return Judgement(UNDECIDED, "no result")
    if is_blank(reference):
        return Judgement(UNDECIDED, "no range")
    if _STRAY_STROKE.match(result) or _STRAY_STROKE.match(reference):
        return Judgement(UNDECIDED, "a number begins with a stroke, which may be a table border or a one")
    result, reference = _write_powers(result, reference)
    judgement = _judge_text(result, reference, unit, patient)
    with_points = [_GROUPED.sub(r"\1.", plain(text)) for text in (result, reference)]
    if with_points != [plain(result), plain(reference)] and re.search(r"\d\.\d", result + " " + reference):
        # 1,015 beside 1.005-1.030 is 1015, or 1.015 with a slip
        other = _judge_text(with_points[0], with_points[1], unit, patient)
        if other.verdict != judgement.verdict:
            return Judgement(UNDECIDED, "a comma before three digits may be a decimal point")
    direction = arrow or _direction(flag)
    if judgement.verdict == UNDECIDED and direction and _all_contradict(result, reference, direction):
        return Judgement(UNDECIDED, f"numbers contradict the printed arrow: {judgement.reason}")
    judgement = _weigh(judgement, direction)
    if stray and judgement.verdict != _direction(stray[0]):
        return Judgement(UNDECIDED, f"an arrow in the range: {judgement.reason}")
    if judgement.verdict == NORMAL and "*" in (result.strip()[-1:], flag.strip()):
        return Judgement(UNDECIDED, f"an asterisk marks the result: {judgement.reason}")
    return judgement


def _judge_text(result: str, reference: str, unit: str, patient: Patient) -> Judgement:
    parsed = parse_range(reference, unit)
    if parsed.doubts:
        if parsed.is_truncated() and (band := _judge_by_band(result, parsed)):
            return band
        return Judgement(UNDECIDED, f"the range is doubtful: {'; '.join(parsed.doubts)}")
    if parsed.intervals:
        return _judge_number(result, reference, unit, parsed, patient)
    return Judgement(*judge_words(result, reference))


def _judge_by_band(result: str, parsed: ParsedRange) -> Judgement | None:
    """A verdict by one of several named bands (缺乏:<20 不足:20-30 充足:) whose last one is cut off. Never 是.

    Bands do not overlap, so the missing one cannot change the verdict for a result in a complete band.
    """
    number, states = parse_number(result), [_state(entry.label) for entry in parsed.intervals]
    if number is None or number[0] or number[2] or len(states) < 2 or not all(states) or NORMAL in states:
        return None
    held = {s for s, entry in zip(states, parsed.intervals, strict=True) if entry.interval.holds(number[1])}
    return Judgement(held.pop(), "in a range with a named state, others are cut off") if len(held) == 1 else None


def _write_powers(result: str, reference: str) -> tuple[str, str]:
    """Write 1.2×10^3 as 1200 if both cells have a power of ten that is not part of a unit such as 10^9/L."""
    texts = plain(result), plain(reference)
    if not all(map(_HAS_POWER.search, texts)) or not re.match(r"[^\d]*[<>≤≥]", texts[1]) or "-" in texts[1]:
        return result, reference
    one, other = (_TIMES_POWER.sub(lambda m: f"{float(m[1]) * 10 ** int(m[2]):.12g}", text) for text in texts)
    return one, other


def _all_contradict(result: str, reference: str, direction: str) -> bool:
    """Whether every interval of a doubtful range contradicts the printed arrow."""
    number, intervals = parse_number(result), parse_range(reference).intervals
    if number is None or not intervals:
        return False
    return all(entry.interval.compare(number[0], number[1]) not in (direction, UNDECIDED) for entry in intervals)


def _weigh(judgement: Judgement, direction: str) -> Judgement:
    """Combine a judgement with the printed arrow."""
    verdict, reason = judgement
    if not direction or verdict in (direction, ABNORMAL):
        return judgement
    if verdict == UNDECIDED:
        return Judgement(direction, f"the arrow decides ({reason})")
    return Judgement(UNDECIDED, f"the printed arrow means {direction}, the numbers {verdict}: {reason}")


def split_arrow(text: str) -> tuple[str, str]:
    """Split off an arrow or flag and return it as 否(偏高), 否(偏低) or "". `5.6↑`, `↓ 1.2`, `5.6 H`, `5.6 偏高`."""
    match = _ARROW.search(text.strip())
    if not match:
        return text.strip(), ""
    rest = _ARROW.sub("", text.strip()).strip()
    return rest, _direction(match[0])


def _direction(flag: str) -> str:
    """Return 否(偏高) or 否(偏低) for an arrow or a flag word, "" for anything else."""
    mark = flag.strip(" ()（）*").upper()
    return _FLAG_WORDS.get(mark) or _ARROWS.get(mark[:1], "")


def is_blank(text: str) -> bool:
    """Whether a cell is empty or contains a word for empty (无, dashes of a blank form field)."""
    return text.strip() in ("", MISSING, "/", "--", "---", "----", "—", "——")


def _judge_number(result: str, reference: str, unit: str, parsed: ParsedRange, patient: Patient) -> Judgement:
    entries = tuple(entry for entry in parsed.intervals if not excludes(entry.label, patient))
    if not entries:
        groups = ", ".join(entry.label for entry in parsed.intervals)
        return Judgement(UNDECIDED, f"the patient is in none of the groups: {groups}")
    if len(entries) < len(parsed.intervals) and not all(entry.label for entry in entries):
        return Judgement(UNDECIDED, "a range without a name beside those of other groups")
    missing = unknown_trait(entries[0].label, patient) if len(entries) == 1 else ""
    judgement = _judge_by_numbers(result, reference, unit, parsed.unit, entries)
    # A result outside the only age group of a cell is abnormal. A result inside is normal for that age alone.
    if missing and (judgement.verdict == NORMAL or missing != "age"):
        return Judgement(UNDECIDED, f"the page does not state the patient's {missing}: {entries[0].label}")
    return judgement


def _judge_by_numbers(result: str, reference: str, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    number = parse_number(result)
    if number is None:
        label = entries[0].label or unit_of_range  # 阴性(<1.0), <1.0(阴性)
        if len(entries) == 1 and polarity(result) and polarity(label) == "negative":
            return Judgement(*judge_words(result, label))
        return _judge_span(parse_range(result), unit, unit_of_range, entries)
    sign, value, own_unit, _ = number
    if doubt := _number_doubt(result, reference, value, own_unit, unit, unit_of_range, entries):
        return Judgement(UNDECIDED, doubt)
    word = polarity(own_unit)
    own_unit = "" if word else own_unit
    judgement = _judge_scales(sign, value, read_unit(own_unit or unit), unit_of_range, entries)
    if word and judgement.verdict != UNDECIDED and (word == "negative") != (judgement.verdict == NORMAL):
        return Judgement(UNDECIDED, f"a number that is called {word}: {judgement.reason}")
    return judgement


def _judge_scales(sign: str, value: float, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    """Judge a number that may be a fraction while its range is in per cent, or the reverse. Both must agree."""
    judgement = _judge_value(sign, value, unit, unit_of_range, entries)
    other = _read_on_other_scale(value, unit, unit_of_range, entries)
    if other is not None and _judge_value(sign, round(other, 9), "", "", entries).verdict != judgement.verdict:
        return Judgement(UNDECIDED, "one of result and range is in per cent, the other may be a fraction")
    return judgement


def _read_on_other_scale(value: float, unit: str, unit_of_range: str, entries: Entries) -> float | None:
    """Return the number that `value` means if it is a fraction and the range is not, or the reverse, if plausible."""
    own, ranges = (_SHARES.get(text[:1], 1.0) for text in (unit, unit_of_range))
    bounds = [bound for entry in entries for bound in (entry.interval.low, entry.interval.high)]
    finite = [abs(bound) for bound in bounds if abs(bound) != inf] or [0.0]
    if not unit and not unit_of_range:
        is_plausible, other = value <= 1 and 20 <= min(finite) <= max(finite) <= 150, 100 * value
    elif unit and unit_of_range:
        is_plausible, other = own != ranges, value * own / ranges
    elif unit:
        is_plausible, other = own != 1 and max(finite) <= _LARGEST_FRACTION, value * own
    else:
        other = value / ranges
        is_far_above = max(bounds) < inf and other > 10 * max(finite)
        is_plausible = ranges != 1 and value <= (_LARGEST_FRACTION if max(finite) > 40 else 1) and not is_far_above
    return other if is_plausible else None


def _number_doubt(
    result: str, reference: str, value: float, own_unit: str, unit: str, unit_of_range: str, entries: Entries
) -> str:
    """Why a number in a result cell and the numbers of its range may not be comparable, or ""."""
    if is_dilution(result) != is_dilution(reference):
        return "one of result and range is a dilution"
    if polarity(own_unit) == "undecided":
        return f"a number that is called {own_unit}"
    if value < 0 and all(entry.interval.low >= 0 for entry in entries):
        return "a dash before the result, where no value is below 0"
    if own_unit and unit and not same_scale(read_unit(own_unit), read_unit(unit)):
        return f"units differ: {own_unit} and {unit}"
    own_unit = "" if polarity(own_unit) else own_unit
    if not is_unit(own_unit, unit_of_range or read_unit(unit)) or plain(result).count("(") != plain(result).count(")"):
        return f"{own_unit!r} behind the result is not a unit"
    if unit_of_range != read_unit(unit) and not is_unit(unit_of_range, "S"):
        return f"{unit_of_range!r} behind the range is not a unit"
    if unit_of_range in _STATE_MARKS and unit_of_range not in (own_unit, read_unit(unit)):
        return f"{unit_of_range!r} behind the range may be a mark"
    return ""


def _judge_span(result: ParsedRange, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    """Judge a result such as `0-1/HP`, all of which has to be normal, high or low."""
    spans = [(entry.interval.low, entry.interval.high) for entry in result.intervals if not entry.label]
    if result.doubts or len(spans) != 1 or len(result.intervals) != 1 or inf in map(abs, spans[0]):
        return Judgement(UNDECIDED, "the range is a number, the result is not")
    ends = [_judge_value("", value, result.unit or read_unit(unit), unit_of_range, entries) for value in spans[0]]
    if len({end.verdict for end in ends}) == 1:
        return ends[0]
    return Judgement(UNDECIDED, "only part of the result lies in the range")


def _judge_value(sign: str, value: float, unit: str, unit_of_range: str, entries: Entries) -> Judgement:
    if not same_scale(unit, unit_of_range):
        return Judgement(UNDECIDED, f"units differ: {unit or 'none'} and {unit_of_range or 'none'}")
    if not unit and _POWER_OF_A_NUMBER.match(unit_of_range):
        return Judgement(UNDECIDED, f"the range counts in {unit_of_range}, the result may not")
    states = [_state(entry.label) for entry in entries]
    if NORMAL in states or (any(states) and all(states)):
        return _judge_by_states(sign, value, entries, states)
    for entry in entries:
        if not is_understood(entry.label, is_alone=len(entries) == 1):
            return Judgement(UNDECIDED, f"{entry.label!r} may not name healthy people")
    verdicts = {entry.interval.compare(sign, value) for entry in entries}
    shown = "; ".join(f"{entry.label} {entry.text}".strip() for entry in entries)
    if len(verdicts) > 1:
        return Judgement(UNDECIDED, f"ranges by group disagree: {shown}")
    verdict = verdicts.pop()
    where = {HIGH: "above", LOW: "below", NORMAL: "in"}.get(verdict, "not comparable with")
    return Judgement(verdict, f"{sign}{value:g} is {where} {shown}")


def _judge_by_states(sign: str, value: float, entries: Entries, states: list[str]) -> Judgement:
    """Judge by ranges with named states. Those called normal decide alone if they agree."""
    if any(_IN_DOUBT.search(entry.label) and entry.interval.holds(value) for entry in entries):
        return Judgement(UNDECIDED, "in a range between normal and not")
    pairs = list(zip(entries, states, strict=True))
    normal = {entry.interval.compare(sign, value) for entry, state in pairs if state == NORMAL}
    if len(normal) == 1:
        return Judgement(normal.pop(), "by the range called normal")
    held = {state for entry, state in pairs if not sign and entry.interval.holds(value)}
    if len(held) == 1 and not normal:
        return Judgement(held.pop(), "in a range with a named state")
    return Judgement(UNDECIDED, "no range with a named state contains it")


def _state(label: str) -> str:
    """Return LOW, NORMAL or HIGH for a label that names a state, "" for a group of people or no label."""
    if label in _STATE_MARKS:
        return _STATE_MARKS[label]
    return next(
        (v for v, states in _STATES.items() if any(label.startswith(s) or label.endswith(s) for s in states)), ""
    )
