"""The patient of a page, and the groups that a page rules out."""

import pytest

from rjua_meddqa.annotation.groups import ANYONE, Patient, excludes, read_age, read_patient
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.schema import HIGH, LOW, NORMAL, UNDECIDED


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("50岁", (50, 51)),
        ("50", (50, 51)),
        (" 50 岁", (50, 51)),
        ("3月", (0.25, 4 / 12)),
        ("1岁6月", (1.5, 1.5 + 1 / 12)),
        ("50-60岁", (50, 61)),
        ("50～60岁", (50, 61)),
        ("无", None),
        ("1975-03-02", None),
        ("500", None),
    ],
)
def test_ages(text, age):
    assert read_age(text) == (pytest.approx(age) if age else None)


def test_the_patient_of_a_page():
    assert read_patient([("性别", "男"), ("年龄", "50岁"), ("诊断", "膀胱肿瘤")]) == Patient("男", (50, 51))
    assert read_patient([("性别", "无"), ("年龄", "无")]) == ANYONE
    assert read_patient([("性别", "男"), ("患者性别", "女")]).sex == ""  # one of the two was misread
    expecting = read_patient([("性别", "女"), ("临床诊断", "妊娠12周")])
    assert expecting.is_pregnant and expecting.weeks == (12, 13)
    assert not read_patient([("性别", "男"), ("临床诊断", "妊娠12周")]).is_pregnant
    assert read_patient([("年龄", "5岁"), ("患者年龄", "50岁")]) == ANYONE
    assert read_patient([("月经周期", "黄体期")]).phase == "黄体"


@pytest.mark.parametrize("diagnosis", ["早孕？", "不孕症", "产后", "异位妊娠", "妊娠可能", "妊娠糖尿病史"])
def test_no_pregnancy_is_taken_for_granted(diagnosis):
    assert not read_patient([("性别", "女"), ("临床诊断", diagnosis)]).is_pregnant


@pytest.mark.parametrize(
    ("label", "page", "is_out"),
    [
        ("女", [("性别", "男")], True),
        ("女", [], False),
        ("卵泡期", [("性别", "男")], True),
        ("卵泡期", [("性别", "女")], False),
        ("卵泡期", [("性别", "女"), ("月经周期", "黄体期")], True),
        ("非孕", [("性别", "女"), ("临床诊断", "妊娠12周")], True),
        ("孕早期", [("性别", "女"), ("临床诊断", "妊娠12周")], False),
        ("孕晚期", [("性别", "女"), ("临床诊断", "妊娠12周")], True),
        ("孕20-28周", [("性别", "女"), ("临床诊断", "妊娠12周")], True),
        ("<40岁", [("年龄", "40岁")], True),
        ("≤40岁", [("年龄", "40岁")], False),
        ("60岁以上", [("年龄", "59岁")], True),
        ("儿童", [("年龄", "16岁")], False),  # laboratories differ
        ("成人", [("年龄", "16岁")], False),
        ("成人", [("年龄", "5岁")], True),
        ("男60岁以上", [("性别", "男"), ("年龄", "50岁")], True),
        ("健康人群", [("性别", "男"), ("年龄", "50岁")], False),
    ],
)
def test_groups_that_a_page_rules_out(label, page, is_out):
    assert excludes(label, read_patient(page)) == is_out


def test_phases_and_pregnancy_decide_where_the_page_says_them():
    cell = "卵泡期:2.5-10.2 黄体期:1.5-9.1 绝经期:23-116.3"
    assert judge("10", cell, patient=read_patient([("性别", "女"), ("月经周期", "卵泡期")])).verdict == NORMAL
    assert judge("10", cell, patient=read_patient([("性别", "女"), ("月经周期", "绝经")])).verdict == LOW
    assert judge("10", cell, patient=read_patient([("性别", "女")])).verdict == UNDECIDED
    pregnant = read_patient([("性别", "女"), ("临床诊断", "妊娠10周")])
    assert judge("3", "非孕:0.3-4.2 孕早期:0.1-2.5 孕中期:0.2-3.0", patient=pregnant).verdict == HIGH


def test_the_reason_names_the_group():
    verdict, reason = judge("18", "男:0-15 女:0-20", patient=Patient("男"))
    assert verdict == HIGH and "男" in reason and "女" not in reason
