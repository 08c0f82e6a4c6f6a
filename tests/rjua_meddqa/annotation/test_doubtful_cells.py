"""Cells that a careful reader leaves undecided, and what stands next to them: one case for each rule that refuses."""

import pytest

from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.schema import HIGH, LOW, NORMAL, UNDECIDED


@pytest.mark.parametrize(
    ("result", "reference", "page", "verdict"),
    [
        ("8", "卵泡期:3.5-12.5", [], UNDECIDED),
        ("8", "卵泡期:3.5-12.5", [("性别", "女"), ("月经周期", "卵泡期")], NORMAL),
        ("30", "绝经后:25.8-134.8", [("性别", "女")], UNDECIDED),
        ("5", "妊娠期<5.1", [("性别", "女")], UNDECIDED),
        ("5", "妊娠期<5.1", [("性别", "女"), ("诊断", "妊娠12周")], NORMAL),
        ("1200", "非妊娠<5", [], UNDECIDED),
        ("120", "男:130-175", [], UNDECIDED),
        ("120", "男:130-175", [("性别", "男")], LOW),
        ("160", "男性130-175", [("性别", "女性")], UNDECIDED),
        ("18", "50岁 0-20", [], UNDECIDED),
        ("18", "(>50Y)0-20", [], UNDECIDED),
        ("18", "(>50Y)0-20", [("年龄", "62岁")], NORMAL),
        ("50", "绝经前:<70", [("性别", "女"), ("月经状况", "绝经")], UNDECIDED),
        ("50", "绝经前:<70 绝经后:<40", [("性别", "女"), ("月经状况", "绝经")], HIGH),
        ("10", "男:1.5-12.4 卵泡期:3.5-12.5", [("性别", "女")], UNDECIDED),
    ],
)
def test_a_range_for_one_group_alone_needs_a_page_that_names_it(result, reference, page, verdict):
    assert judge(result, reference, patient=read_patient(page)).verdict == verdict


@pytest.mark.parametrize(
    ("result", "reference", "verdict"),
    [
        ("1.5", "阳性≥1", UNDECIDED),
        ("阳性", "阳性≥1", UNDECIDED),
        ("30", "高危>20", UNDECIDED),
        ("7.0", "糖尿病:≥6.5", UNDECIDED),
        ("1.0", "<0.9阴性 0.9-1.1可疑 >1.1阳性", UNDECIDED),
        ("1.8", "<0.9阴性 0.9-1.1可疑 >1.1阳性", HIGH),
        ("2", "健康人群:<3.4 高危人群:<2.59", NORMAL),
        ("26", "超重:24-28", UNDECIDED),
        ("35", "超重:>24 肥胖:>28", UNDECIDED),
        ("95", "轻度:60-89 中度:30-59", UNDECIDED),
        ("1:500", "高风险≥1:270", UNDECIDED),
        ("8", "保护性抗体≥10", UNDECIDED),
        ("9", "餐后:<7.8", UNDECIDED),
        ("5.3", "空腹:3.9-6.1", NORMAL),
        ("12", "空腹:3.9-6.1 餐后:<7.8", HIGH),
        ("110", "六十岁以上:107-141", UNDECIDED),
        ("140", "健康人群:130-175", NORMAL),
    ],
)
def test_a_range_of_those_who_are_not_well_makes_nothing_normal(result, reference, verdict):
    assert judge(result, reference).verdict == verdict


@pytest.mark.parametrize(
    ("result", "reference", "verdict"),
    [
        ("155", "115-1509/L", UNDECIDED),  # 115-150g/L
        ("45", "0-401U/L", UNDECIDED),  # 0-40IU/L
        ("30", "0-41U/L", NORMAL),
        ("45", "0-40 1U/L", UNDECIDED),
        ("3", "0-9/HP", NORMAL),
        ("4.5", "4.30-5.80×10^12/L", NORMAL),
        ("52", "3.5-95", UNDECIDED),  # 3.5-9.5
        ("1.2", "0.5-10", NORMAL),
        ("l2.5", "3.5-9.5", UNDECIDED),
        ("2", "|1-35", UNDECIDED),
        ("0.56", "40-75%", UNDECIDED),
        ("0.3", "0-1%", NORMAL),
        ("1,015", "1.005-1.030", UNDECIDED),
        ("1.015", "1,005-1,030", UNDECIDED),
        ("1,250", "0-1,000", HIGH),
        ("5.2 *", "3.5-9.5", UNDECIDED),
        ("12.8 *", "3.5-9.5", HIGH),
        ("阴性", "阴性/阳性", UNDECIDED),
        ("A型", "A型、B型、O型、AB型", UNDECIDED),
        ("5.2", "3.S-9.5", UNDECIDED),
        ("1S", "11-14.5", UNDECIDED),  # 15
        ("13S", "11-14.5s", NORMAL),
        ("5.2(溶血)", "3.5-9.5", UNDECIDED),
        ("5.2 A", "3.5-9.5", UNDECIDED),
        ("5OO", "100-300", UNDECIDED),
        ("7D", "60-100", UNDECIDED),
        ("98 .", "60-100", UNDECIDED),
        ("5.2)", "3.5-9.5", UNDECIDED),
        ("5.2=", "3.5-9.5", UNDECIDED),
        ("5.2/L", "3.5-9.5", UNDECIDED),
        ("5.2×", "3.5-9.5", UNDECIDED),
        ("5.2", "3.5-9.5E", UNDECIDED),
        ("13", "11-14.5S", NORMAL),
        ("-5.2", "3.5-9.5", UNDECIDED),
        ("5.2?", "3.5-9.5", UNDECIDED),
        ("5.2秒", "3.5-9.5", NORMAL),
        ("8个/HP", "0-5", HIGH),
        ("弱阳性", "阴性/弱阳性", NORMAL),
    ],
)
def test_misread_characters(result, reference, verdict):
    assert judge(result, reference).verdict == verdict


def test_an_asterisk_in_the_column_of_flags_marks_a_result():
    assert judge("5.2", "3.5-9.5", "*").verdict == UNDECIDED
    assert judge("12.8", "3.5-9.5", "*").verdict == HIGH
