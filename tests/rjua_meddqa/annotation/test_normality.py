"""Normal or not, from what is printed: every spelling of a range, slips, groups, words, arrows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rjua_meddqa.annotation.normality import judge, split_arrow
from rjua_meddqa.annotation.ranges import parse_number, parse_range
from rjua_meddqa.answers import read_is_normal
from rjua_meddqa.released import read_annotations
from rjua_meddqa.schema import ABNORMAL, HIGH, IS_NORMAL_VALUES, LOW, NORMAL, UNDECIDED

CASES = [
    # plain, with units, with every dash
    ("5.6", "3.9-6.1", NORMAL),
    ("3.9", "3.9-6.1", NORMAL),
    ("6.1", "3.9-6.1mmol/L", NORMAL),
    ("6.2", "3.9~6.1mmol/L", HIGH),
    ("3.8", "3.9～6.1", LOW),
    ("3.8", "3.9--6.1", LOW),
    ("7", "3.9—6.1", HIGH),
    ("７．０", "３．９－６．１", HIGH),
    ("5", "3.9 至 6.1", NORMAL),
    ("9.4", "30mg/L-50mg/L", LOW),
    ("97.00", "80%-120%", NORMAL),
    ("14.0", "11-14.5秒；以INR结果作临床判断依据", NORMAL),
    # one side
    ("0.97", "≤0.5μg/mlFEUmg/L", HIGH),
    ("0.5", "≤0.5", NORMAL),
    ("5.0", "<5.0", HIGH),
    ("4.9", "＜5.0", NORMAL),
    ("95", "≥90mL/min/1.73m2", NORMAL),
    ("60", ">=90", LOW),
    ("90", ">90", LOW),
    ("6", "小于5", HIGH),
    ("9", "5以下", HIGH),
    ("3", "不低于2.5", NORMAL),
    ("4.5", "＞3.5,＜5.5", NORMAL),
    ("6", ">3.5 且 <5.5", HIGH),
    # results that are comparisons
    ("<0.01", "0-4", NORMAL),
    ("<0.01", "0.27-4.2", LOW),
    ("<5", "3-10", UNDECIDED),
    (">100", "0-50", HIGH),
    (">100", "≥90", NORMAL),
    (">5", "0-10", UNDECIDED),
    ("<1", "-3~3", UNDECIDED),
    ("<5.0", "<5.0", NORMAL),
    # negative numbers, dilutions, thousands, powers of ten
    ("-3", "-3~3", NORMAL),
    ("4", "-3--+3", HIGH),
    ("-4.1", "-3-3", LOW),
    ("1:320", "<1:100", HIGH),
    ("1:80", "<1:100", NORMAL),
    ("1,200", "0-300", HIGH),
    ("3.2", "3.5-9.5×10^9/L", LOW),
    ("3.2×10^9/L", "3.5-9.5*10^9/L", LOW),
    ("4.5", "4.0-10.0 X10*9/L", NORMAL),
    ("1.2×10^3", "0-500", UNDECIDED),
    ("3.2×10^12/L", "3.5-9.5×10^9/L", UNDECIDED),
    ("3", "0-5/HP", NORMAL),
    ("15", "0-20mm/1h", NORMAL),
    # units that differ cannot be compared
    ("15mg/L", "0-10mg/dL", UNDECIDED),
    ("15mg/L", "0-10mg/L", HIGH),
    ("16.8s", "14.0-21.0秒", NORMAL),
    # slips
    ("5", "2.0-4，0g/L", HIGH),
    ("38.4", "26/0-40.0秒", NORMAL),
    ("437.`0", "246-652mg/L", NORMAL),
    ("0.3", "O.1-0.5", NORMAL),
    ("3", "10-5", UNDECIDED),
    ("5", "3. 5-9. 5", NORMAL),
    ("5", "3.5-9..5", UNDECIDED),
    ("5", "0-1O", NORMAL),
    ("5", "0-l0", NORMAL),
    ("5", "0一10", NORMAL),
    # numbers with a power of ten, as for viruses
    ("320", "<5.0E+02", NORMAL),
    ("2.35E+04", "<5.0E2IU/mL", HIGH),
    ("<1.00E+02", "<1.00E+02IU/mL", NORMAL),
    ("0.002", "1.5E-3-2.5E-3", NORMAL),
    ("3.2", "3.5-9.5E9/L", LOW),
    ("320", "<5.0×10^2IU/mL", UNDECIDED),  # 500, or five hundreds
    # counts under the microscope
    ("0-1/HP", "0-3/HP", NORMAL),
    ("5-8", "0-3/HP", HIGH),
    ("2-4", "0-3", UNDECIDED),
    ("<5", "3-10/HP", UNDECIDED),
    # groups decide where they agree
    ("1.5", "男:0-15 女:0-20", NORMAL),
    ("18", "男:0-15 女:0-20", UNDECIDED),
    ("25", "男:0-15;女:0-20", HIGH),
    ("5.26", "健康人群:<3.4 高危人群:<2.59 极高危人群:<2.07mmol/L", HIGH),
    ("3", "健康人群:<3.4 高危人群:<2.59", UNDECIDED),
    ("120", "130-175g/L(男) 115-150g/L(女)", UNDECIDED),
    ("5", "成人:3.5-9.5 儿童:4-12", NORMAL),
    # ranges named after what they mean
    ("9.4", "缺乏：<20 不足：20-30", LOW),
    ("25", "缺乏：<20 不足：20-30 充足：>30", LOW),
    ("35", "缺乏：<20 不足：20-30 充足：>30", NORMAL),
    ("35", "缺乏：<20 不足：20-30充足：", UNDECIDED),
    ("6.2", "正常:<5.7 糖尿病前期:5.7-6.4 糖尿病:≥6.5", HIGH),
    ("50", "<20不足 20-100正常 >100中毒", NORMAL),
    ("150", "<20不足 20-100正常 >100中毒", HIGH),
    ("0.5", "阴性:<1.0 阳性:≥1.0", NORMAL),
    ("1.5", "<1.0阴性;≥1.0阳性", HIGH),
    # words
    ("阴性", "阴性", NORMAL),
    ("阴性", "<1.0(阴性)", NORMAL),
    ("阳性", "<1.0(阴性)", ABNORMAL),
    ("阴性(-)", "阴性", NORMAL),
    ("-", "阴性(-)", NORMAL),
    ("+", "阴性", ABNORMAL),
    ("弱阳性", "阴性", ABNORMAL),
    ("2+", "-", ABNORMAL),
    ("±", "阴性", UNDECIDED),
    ("阴性", "阳性", ABNORMAL),
    ("淡黄色", "淡黄色", NORMAL),
    ("淡黄色", "淡黄色-黄色", NORMAL),
    ("清", "淡黄色", UNDECIDED),
    ("阴性", "阴性(<1.0)", NORMAL),
    ("0.5", "阴性(<1.0)", NORMAL),
    ("-", "0-5", UNDECIDED),
    ("见报告", "0-5", UNDECIDED),
    # arrows: numbers are stronger, no range stays undecided
    ("7.31↑", "<5.72", HIGH),
    ("↓ 1.2", "3-5", LOW),
    ("5.6↑", "3.9-6.1", UNDECIDED),
    ("18↑", "男:0-15 女:0-20", HIGH),
    ("18 H", "男:0-15 女:0-20", HIGH),
    ("18", "↓男:20-25 女:0-20", UNDECIDED),  # an arrow in the range cell decides nothing
    ("18↑", "", UNDECIDED),
    ("阳性↑", "阴性", ABNORMAL),  # 否 and an arrow do not contradict each other
    ("18↑", "无", UNDECIDED),
    # nothing there
    ("", "0-5", UNDECIDED),
    ("无", "0-5", UNDECIDED),
    ("5", "--", UNDECIDED),
    ("5", "0.5", UNDECIDED),
    ("5", "见说明", UNDECIDED),
]


@pytest.mark.parametrize(("result", "reference", "verdict"), CASES)
def test_cases(result, reference, verdict):
    judgement = judge(result, reference)
    assert judgement.verdict == verdict, judgement.reason


numbers = st.decimals(0, 9999, places=2).map(lambda number: f"{number:f}")
dashes = st.sampled_from(["-", "--", "~", "～", "－", "—", "–", "−", " - ", "至"])
units = st.sampled_from(["", "mmol/L", "μg/ml", "g/L", "U/L", "%", "×10^9/L", "秒", " ng/mL", "mL/min/1.73m2", "/HP"])


@given(numbers, numbers, numbers, dashes, units)
def test_a_range_means_the_same_in_every_spelling(low, high, value, dash, unit):
    low, high = sorted((low, high), key=float)
    expected = LOW if float(value) < float(low) else HIGH if float(value) > float(high) else NORMAL
    assert judge(value, f"{low}{dash}{high}{unit}").verdict == expected
    wide = str.maketrans("0123456789.", "０１２３４５６７８９．")
    assert judge(value.translate(wide), f"{low}{dash}{high}{unit}".translate(wide)).verdict == expected


@given(numbers, numbers, st.sampled_from(["<", "≤", ">", "≥", "＜", "<=", ">="]))
def test_one_sided_ranges_split_the_line_in_two(bound, value, sign):
    verdict = judge(value, sign + bound).verdict
    below = float(value) < float(bound) or (value == bound and sign in ("≤", "<="))
    above = float(value) > float(bound) or (value == bound and sign in ("≥", ">="))
    if sign in ("<", "≤", "＜", "<="):
        assert verdict == (NORMAL if below else HIGH)
    else:
        assert verdict == (NORMAL if above else LOW)


@given(numbers, numbers, numbers, numbers, numbers)
def test_two_groups_decide_only_where_both_do(a, b, c, d, value):
    (a, b), (c, d) = sorted((a, b), key=float), sorted((c, d), key=float)
    alone = {judge(value, f"{a}-{b}").verdict, judge(value, f"{c}-{d}").verdict}
    both = judge(value, f"男:{a}-{b} 女:{c}-{d}").verdict
    assert both == (alone.pop() if len(alone) == 1 else UNDECIDED)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_gets_a_verdict_and_a_reason(result, reference):
    judgement = judge(result, reference)
    assert judgement.verdict in IS_NORMAL_VALUES and judgement.reason


@given(st.text(alphabet="0123456789.,-~<>≤≥/^×:() 男女mgL阴性+↑", max_size=20))
def test_no_bound_is_invented(text):
    for entry in parse_range(text).intervals:
        assert entry.interval.low <= entry.interval.high
        assert not (math.isinf(entry.interval.low) and math.isinf(entry.interval.high))


def test_what_was_repaired_is_said():
    assert parse_range("2.0-4，0").slips == ("a comma for a decimal point",)
    assert parse_range("1,000-2,000").slips == () and parse_range("1,000-2,000").intervals[0].interval.high == 2000
    assert parse_number("437.`0")[1:4:2] == (437.0, ("a stray quote in a number",))
    assert parse_range("1.2-2.4").slips == ()


def test_arrows_are_taken_off():
    assert split_arrow("7.31 ↑") == ("7.31", HIGH)
    assert split_arrow("↓1.2") == ("1.2", LOW)
    assert split_arrow("1.2 H") == ("1.2", HIGH)
    assert split_arrow("1.2 L") == ("1.2 L", "")  # litres, as likely
    assert split_arrow("阴性") == ("阴性", "")


@pytest.mark.parametrize(
    ("flag", "verdict"),
    [
        ("H", HIGH),
        ("(H)", HIGH),
        ("L", UNDECIDED),  # 18 is low for nobody
        ("高", HIGH),
        ("*", UNDECIDED),
        ("N", UNDECIDED),
        ("阳性", UNDECIDED),
    ],
)
def test_a_flag_of_its_own_column_decides_what_numbers_leave_open(flag, verdict):
    assert judge("18", "男:0-15 女:0-20", flag).verdict == verdict
    contradicts = verdict == HIGH  # one of number and flag was misread
    assert judge("98", "130-175g/L", flag).verdict == (UNDECIDED if contradicts else LOW)  # no flag is taken for a unit
    assert judge("98", "", flag).verdict == UNDECIDED
    assert judge("22", "男:25-30 女:20-25", "↓").verdict == LOW


def test_agrees_with_the_annotators(real_data):
    rows = [
        row
        for annotation in read_annotations(real_data / "rjua_samples" / "sampled_image_content_kv_table_annotation.csv")
        for row in annotation.table
    ]
    verdicts = [(judge(row.result, row.range).verdict, read_is_normal(row.is_normal)) for row in rows]
    decided = [(verdict, written) for verdict, written in verdicts if verdict != UNDECIDED]
    assert len(decided) == 47
    assert sum(verdict == written for verdict, written in decided) >= 0.95 * len(decided)
