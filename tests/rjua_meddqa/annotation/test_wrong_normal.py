"""Never 是 for a value outside every group: generated cells in the spellings that laboratories and readers produce."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rjua_meddqa.annotation.draft_rows import judge_row, printed_row, quadruplet
from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.schema import HIGH, LOW, NORMAL

NUMBER, SCIENTIFIC = re.compile(r"\d+(?:\.\d+)?"), re.compile(r"\d(?:\.\d+)?E-?\d+")
POWERS = [
    "10*9/L",
    "10E9/L",
    "10⁹/L",
    "10~9/L",
    "10^9/L",
    "109/L",
    "×10^9/L",
    "X10*9/L",
    "x10⁹/L",
    "*10^12/L",
    "1012/L",
]
PLAIN_UNITS = ["", "mmol/L", "μg/ml", "g/L", "U/L", "%", "秒", "ng/mL", "mL/min/1.73m2", "/HP", "mg/24h", "mm/1h"]
DASHES = ["-", "--", "~", "～", "－", "—", "–", " - ", "至"]
GROUPS = [  # (first, second): names of two groups that no patient of the page's settles unless it says so
    ("男", "女"),
    ("男性", "女性"),
    ("成人", "儿童"),
    ("<40岁", "≥40岁"),
    ("18-60岁", "60岁以上"),
    ("卵泡期", "黄体期"),
    ("非孕", "孕早期"),
    ("健康人群", "高危人群"),
]
PAGES = [
    [],
    [("性别", "男")],
    [("性别", "女"), ("年龄", "35岁")],
    [("年龄", "72岁")],
    [("年龄", "5岁"), ("性别", "男")],
]

decimals = st.integers(0, 2)
numbers = st.tuples(st.integers(0, 99999), decimals).map(lambda pair: f"{pair[0] / 10 ** pair[1]:.{pair[1]}f}")
bounds = st.tuples(numbers, numbers).map(lambda pair: tuple(sorted(pair, key=float)))
dashes, units, pages = st.sampled_from(DASHES), st.sampled_from([*POWERS, *PLAIN_UNITS]), st.sampled_from(PAGES)


def is_outside(value: str, *spans: tuple[str, str]) -> bool:
    return all(not float(low) <= float(value) <= float(high) for low, high in spans)


def spell(label: str, span: tuple[str, str], dash: str, style: str) -> str:
    written = f"{span[0]}{dash}{span[1]}"
    return {"colon": f"{label}:{written}", "blank": f"{label} {written}", "behind": f"{written}({label})"}[style]


@settings(max_examples=400)
@given(numbers, bounds, dashes, units, st.sampled_from(["own column", "glued", "blank", "cell"]))
@example("30.0", ("4", "10"), "-", "10*9/L", "glued")
@example("512", ("100", "300"), "-", "109/L", "glued")
@example("30.0", ("4", "10"), "-", "10E9/L", "own column")
@example("30.0", ("4", "10"), "-", "1012/L", "glued")
def test_a_value_outside_its_range_is_never_normal_wherever_the_unit_stands(value, span, dash, unit, where):
    limits = span[0] + dash + span[1]
    if where == "own column":
        verdict = judge(value, limits, unit=unit).verdict
    elif where == "cell":  # from the cells to the file and read again there
        row = judge_row(printed_row("x", value, limits, unit), read_patient([]))
        verdict = row.is_normal
        again = judge(value, quadruplet(row).range).verdict
        assert not (is_outside(value, span) and again == NORMAL)
    else:
        verdict = judge(value, limits + (" " if where == "blank" else "") + unit).verdict
    if is_outside(value, span):
        assert verdict != NORMAL


@settings(max_examples=400)
@given(
    numbers,
    bounds,
    bounds,
    dashes,
    st.sampled_from(GROUPS),
    st.sampled_from(["colon", "blank", "behind"]),
    units,
    pages,
)
def test_a_value_outside_every_group_is_never_normal(value, one, other, dash, names, style, unit, page):
    cell = f"{spell(names[0], one, dash, style)} {spell(names[1], other, dash, style)}"
    verdict = judge(value, cell, unit=unit, patient=read_patient(page)).verdict
    if is_outside(value, one, other):
        assert verdict != NORMAL
    if not is_outside(value, one) and not is_outside(value, other):
        assert verdict not in (HIGH, LOW)


@settings(max_examples=300)
@given(numbers, bounds, bounds, st.sampled_from(GROUPS), st.sampled_from(["colon", "behind"]), units, st.data())
def test_a_cut_cell_never_makes_a_value_normal_that_no_group_holds(value, one, other, names, style, unit, data):
    """Truncated at any character: what is left may be a shorter range, and no wider one."""
    cell = f"{spell(names[0], one, '-', style)} {spell(names[1], other, '-', style)}"
    cut = cell[: data.draw(st.integers(0, len(cell)))]
    if is_outside(value, one, other) and judge(value, cut, unit=unit).verdict == NORMAL:
        # the cut went through a bound: 3.5-9.5 -> 3.5-9. What remains must hold the value by its own reading.
        assert any(float(low) <= float(value) for low, _ in (one, other))
        assert float(value) <= max(float(one[1]), float(other[1]))


@settings(max_examples=300)
@given(numbers, bounds, units, st.integers(1, 3))
def test_wrapped_ranges_joined_with_a_blank(value, span, unit, keep):
    """A range that wraps inside a number and is joined with a blank is refused or means what it meant."""
    low, high = span
    if len(high) <= keep:
        return
    verdict = judge(value, f"{low}-{high[:keep]} {high[keep:]}", unit=unit).verdict
    if is_outside(value, span):
        assert verdict != NORMAL


@settings(max_examples=200)
@given(
    st.tuples(numbers, numbers), st.integers(1, 120), numbers, st.sampled_from(["<{}岁 {}", "{}岁以上 {}", "≥{}岁: {}"])
)
def test_an_age_is_no_range(_, age, value, spelling):
    """`<40岁 0.9` gives ages and one number: neither is a range that a result could lie in."""
    assert judge(value, spelling.format(age, "0.9")).verdict != NORMAL


NOT_NORMAL = [  # (result, range): found by attacking the rules
    ("25", "20-30岁"),
    ("1.5", "1.2×10^3-2.0×10^3"),
    ("25+", "0-25"),
    ("0.01阳性", "<1"),
    ("0.01(+)", "<1"),
    ("9.", "3-9"),
    ("-", "-"),
    ("0.9", "0.9"),
    ("见报告", "见报告"),
    ("1/2", "1/2"),
    ("900", "0,500-1,200"),
    ("5", "3.5-9.5 (4-10)"),
    ("9.8", "4.0-10.010*9/L"),
    ("110", "90-120/60-80"),
    ("0", "-3--1"),
    ("2.4", "<40岁 0.9"),
]


@pytest.mark.parametrize(("result", "reference"), NOT_NORMAL)
def test_what_attacks_found(result, reference):
    assert judge(result, reference).verdict != NORMAL


@settings(max_examples=500)
@given(st.text(alphabet="0123456789.,-~<>:/^*()男女岁E ", max_size=14), numbers)
def test_normal_needs_bounds_that_are_printed(text, value):
    """Whatever a cell says: 是 only where the value lies between numbers that its digits make up."""
    if judge(value, text).verdict != NORMAL:
        return
    printed = [float(number) for point in ("", ".") for number in NUMBER.findall(text.replace(",", point))]
    printed += [float(number) for number in SCIENTIFIC.findall(text)]
    assert ">" in text or any(float(value) <= number for number in printed)
    assert "<" in text or any(float(value) >= number for number in printed)
