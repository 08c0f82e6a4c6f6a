"""Reference ranges and results as numbers: `0-5.0`, `<1.7mmol/L`, `2.0-4，0`, `男:0-15 女:0-20`.

Reads what laboratories print and what slips in when people type or a machine reads it. It judges nothing
(`normality.py` does).
"""

import math
import re
import unicodedata
from dataclasses import dataclass

_WORDS = (  # longest first, so that 不小于 is not read as 小于
    *((word, "≥") for word in ("大于或等于", "大于等于", "不小于", "不低于", "不少于", ">=", "=>", "≧", "⩾")),
    *((word, "≤") for word in ("小于或等于", "小于等于", "不大于", "不高于", "不超过", "不多于", "<=", "=<", "≦", "⩽")),
    *((word, "<") for word in ("小于", "低于", "少于", "﹤", "〈", "‹")),
    *((word, ">") for word in ("大于", "高于", "超过", "﹥", "〉", "›")),
)
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−─－﹣ー"), "-") | dict.fromkeys(map(ord, "～∼〜˜"), "~")
# ×10^9/L, *10E9/L, 10^9/L: a power of ten belongs to the unit; only × or ^ tells it from a number.
_POWER = re.compile(r"(?:[×xX*·]\s*10\s*[\^*Ee]?|10\s*\^)\s*(?P<exponent>-?\d{1,2})(?!\d*\.)")
_UNIT_DIGITS = re.compile(r"/\s*(?:1\.73\s*m[2²]?|24\s*h|\d+\s*(?:h|HP|LP|小时))", re.IGNORECASE)
_TITRE = re.compile(r"(^|[<>≤≥~-])\s*1:(\d+)")  # 1:320 is a dilution; the higher the number, the more there is
_MASKED = {ord(str(digit)): chr(0xE000 + digit) for digit in range(10)} | {ord("."): "\ue00a", ord("-"): "\ue00b"}
_UNMASKED = {ord(masked): chr(plain) for plain, masked in _MASKED.items()}
_NUMBER = r"\d+(?:\.\d+)?"
_SIGNED = rf"[+-]?{_NUMBER}"
_SCIENTIFIC = re.compile(  # 5.0E+02 is a number; in 3.5-9.5E9/L the power belongs to the unit
    rf"(?<![\d.Ee]){_NUMBER}(?![\d.]|[Ee][+-]?\d)\s*[-~]+\s*{_NUMBER}[Ee]"
    r"|(?P<number>(?<![\d.])\d(?:\.\d+)?[Ee][+-]?\d{1,2})(?![\d.])"
)
_RANGE = re.compile(
    rf"(?P<low>(?<![\d.A-Za-z/^])-?{_NUMBER})\s*[^\d\s<>≤≥~:;,+()-]{{0,8}}?\s*(?:-{{1,2}}|~{{1,2}}|至|到)\s*(?P<high>{_SIGNED})"
    rf"|(?P<sign>[<>≤≥])\s*(?P<bound>{_SIGNED})"
    rf"|(?P<before>(?<![\d.A-Za-z/^]){_NUMBER})\s*[^\d\s<>≤≥~:;,-]{{0,8}}?(?P<word>以下|以内|以上)"
)


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
    """An interval and what stands before it (男, 健康人群, 缺乏; "" where nothing does)."""

    label: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class ParsedRange:
    """All intervals of a range cell and the unit after the last of them ("" where none)."""

    intervals: tuple[LabelledInterval, ...]
    unit: str
    slips: tuple[str, ...] = ()  # what was read as something else than is written


def plain(text: str) -> str:
    """`text` with full-width forms, dashes and comparison words in one spelling, white space single."""
    text = unicodedata.normalize("NFKC", text.translate(_DASHES)).translate(_DASHES)
    for word, sign in _WORDS:
        text = text.replace(word, sign)
    return " ".join(text.split())


def repair_number_slips(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` (plain) with slips inside numbers repaired, and what was repaired: `4,0`, `26/0-40`, `437.`0`, `1. 5`.

    A comma before exactly three digits separates thousands; any other comma between digits is a decimal point.
    """
    repaired = re.sub(r"(?<![\d.])(\d{1,3}(?:,\d{3})+)(?![\d,])", lambda match: match[1].replace(",", ""), text)
    slips = []
    for pattern, replacement, name in (
        (r"(?<=[\d.])['`´’‘\"^]+(?=[.\d])", "", "a stray quote in a number"),
        (r"(?<=\d),(?=\d)", ".", "a comma for a decimal point"),
        (r"(?<=\d)[。·](?=\d)", ".", "another dot for a decimal point"),
        (r"(?<=\d)\.\s+(?=\d)|(?<=\d)\s+\.(?=\d)", ".", "a space in a number"),
        (r"^(\d+)/(\d{1,2})(?=\s*[-~]+\s*\d)", r"\1.\2", "a slash for a decimal point"),
        (r"(?<=\d)\.\.(?=\d)", ".", "two decimal points"),
        (
            r"(?<=\d)[oO](?=[\d\s.~-]|$)|(?<=\d\.)[oO](?=[\d\s~-]|$)|(?<![A-Za-z])[oO](?=\.\d|-\d)",
            "0",
            "the letter O for a zero",
        ),
        (r"(?<![A-Za-z\d])[lI|](?=\d*\.?\d)", "1", "a letter for a one"),
        (r"(?<=\d)\s*一\s*(?=\d)", "-", "the character 一 for a dash"),
    ):
        if name.startswith("a stray") and re.search(r"10\^", repaired):
            continue  # there ^ is no slip
        changed = re.sub(pattern, replacement, repaired)
        if changed != repaired:
            slips.append(name)
            repaired = changed
    return repaired, tuple(slips)


def parse_range(text: str) -> ParsedRange:
    """Every interval in a range cell, in its order; none where the cell holds no range of numbers."""
    text, slips = repair_number_slips(plain(text))
    text = _mask_unit_numbers(_TITRE.sub(r"\1\2", _write_out(text)))
    found, end = [], 0
    for match in _RANGE.finditer(text):
        interval = _interval(match)
        if interval is None:
            return ParsedRange((), "", slips)
        found.append(LabelledInterval(_label(text[end : match.start()], bool(found)), interval))
        end = match.end()
    if not found:
        return ParsedRange((), "", slips)
    tail = text[end:]
    if len(found) > 1 and not found[0].label and (last := _label(tail, True)):  # <20不足 20-100充足: labels follow
        labels = [*(entry.label for entry in found[1:]), last]
        found = [LabelledInterval(label, entry.interval) for label, entry in zip(labels, found, strict=True)]
        tail = re.split(r"[\u4e00-\u9fff]", tail)[0]
    return ParsedRange(tuple(_intersect_two_sides(found)), _unit(tail), slips)


def parse_number(text: str) -> tuple[str, float, str, tuple[str, ...]] | None:
    """(comparison sign or "", number, unit, slips) of a result (`<0.01`, `1:320`, `16.8秒`), else None."""
    text, slips = repair_number_slips(plain(text))
    text = _mask_unit_numbers(_TITRE.sub(r"\1\2", _write_out(text)))
    match = re.fullmatch(rf"(?P<sign>[<>≤≥]?)\s*(?P<number>{_SIGNED})(?P<unit>\D*)", text)
    if not match or re.search(r"[<>≤≥~]|-$", match["unit"]):
        return None
    return match["sign"], float(match["number"]), _unit(match["unit"]), slips


def read_unit(text: str) -> str:
    """The unit of a column of units as `parse_range` gives it: 10*9/L is ×10^9/L."""
    return _unit(_mask_unit_numbers(plain(text)))


def _interval(match: re.Match[str]) -> Interval | None:
    if match["sign"]:
        bound, is_upper = float(match["bound"]), match["sign"] in "<≤"
        is_open = match["sign"] in "<>"
        return Interval(high=bound, high_open=is_open) if is_upper else Interval(low=bound, low_open=is_open)
    if match["word"]:
        bound = float(match["before"])
        return Interval(low=bound) if match["word"] == "以上" else Interval(high=bound)
    low, high = float(match["low"]), float(match["high"])
    return Interval(low, high) if low <= high else None  # 10-5: one of the two is wrong, nobody knows which


def _intersect_two_sides(found: list[LabelledInterval]) -> list[LabelledInterval]:
    """`>3.5 <5.5` is one range where nothing but a connecting word stands between its two ends."""
    if len(found) != 2 or found[1].label.strip("且和及并,; ") != "":
        return found
    one, other = sorted((entry.interval for entry in found), key=lambda interval: interval.low == -math.inf)
    if not (math.isinf(one.high) and math.isfinite(one.low) and math.isinf(other.low) and math.isfinite(other.high)):
        return found
    if one.low > other.high:
        return found  # two ranges that leave out the middle
    return [LabelledInterval(found[0].label, Interval(one.low, other.high, one.low_open, other.high_open))]


def _label(between: str, is_later: bool) -> str:
    """The words before an interval; after an earlier one its unit goes first, up to the first Chinese character."""
    label = between.strip(" ,;:()[]【】")
    if is_later:
        chinese = re.search(r"[\u4e00-\u9fff]", label)
        label = label[chinese.start() :] if chinese else ""
    return label.strip(" ,;:()[]【】")


def _unit(text: str) -> str:
    return "".join(text.split()).strip(",;:()[]→").replace("µ", "μ").translate(_UNMASKED)


def _write_out(text: str) -> str:
    """`text` with numbers such as 5.0E+02 written out: 500; a power behind the second end of a range alone stays."""
    return _SCIENTIFIC.sub(
        lambda match: f"{float(match['number']):.12f}".rstrip("0").rstrip(".") if match["number"] else match[0], text
    )


def _mask_unit_numbers(text: str) -> str:
    """`text` with the digits of units (10^9/L, /1.73m2) out of the way of the number patterns."""
    text = _UNIT_DIGITS.sub(lambda match: match[0].translate(_MASKED), text)
    return _POWER.sub(lambda match: f"×10^{match['exponent']}".translate(_MASKED), text)
