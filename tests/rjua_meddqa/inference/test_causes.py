"""Why an answer is wrong: a case by hand for each cause, and the cause that a careless rule would give instead."""

import pytest

from rjua_meddqa.inference.causes import (
    ABSTAINED,
    COLUMN,
    CUT,
    FORMAT,
    HALLUCINATED,
    INCOMPLETE,
    MISREAD,
    OTHER,
    ROW,
    find_cause,
)
from rjua_meddqa.schema import Annotation, TableRow

PAGE = """\
姓名：李某    性别：女    床号：    送检医生：王
检查所见：膀胱壁增厚，内见多发结节，
最大者直径2.5cm，边缘不规则。
钾(K)    3.10   3.5-5.3mmol/L
钠(Na)   140    137-147mmol/L"""
ANNOTATION = Annotation(
    idx="1",
    img_path="a.png",
    key_values=(
        ("姓名", "李某"),
        ("性别", "女"),
        ("床号", "无"),
        ("送检医生", "王"),
        ("检查所见", "膀胱壁增厚，内见多发结节，最大者直径2.5cm，边缘不规则。"),
    ),
    table=(TableRow("钾(K)", "3.10", "3.5-5.3mmol/L", "否(偏低)"), TableRow("钠(Na)", "140", "137-147mmol/L", "是")),
    report_type="Laboratory",
    image_type="pdf",
    image_quality="high",
)
FINDINGS = "检查所见是什么？"
RESULT, RANGE, ROW_ASKED = "钾(K)的检测结果是多少?", "钾(K)的参考范围是什么?", "钾(K)的结果和参考范围分别是多少?"


@pytest.mark.parametrize(
    "question, task, answer_type, prediction, cause",
    [
        (RESULT, "table_qa", "single_span", "3.1", FORMAT),
        (RANGE, "table_qa", "single_span", "3.5–5.3 mmol / L", FORMAT),
        ("检查所见是什么？", "entity_qa", "single_entity", "膀胱壁增厚内见多发结节最大者直径2.50cm边缘不规则", FORMAT),
        (RESULT, "table_qa", "single_span", "无", ABSTAINED),
        ("姓名是什么？", "entity_qa", "single_entity", "报告中没有写", ABSTAINED),
        (FINDINGS, "entity_qa", "single_entity", "膀胱壁增厚，内见多发结节", CUT),
        (FINDINGS, "entity_qa", "single_entity", "膀胱壁增厚", INCOMPLETE),
        (FINDINGS, "entity_qa", "single_entity", "最大者直径2.5cm", INCOMPLETE),
        (RANGE, "table_qa", "single_span", "3.5-5.3", INCOMPLETE),
        (ROW_ASKED, "table_qa", "multi_span", "3.10", INCOMPLETE),
        (RESULT, "table_qa", "single_span", "3.5-5.3mmol/L", COLUMN),
        (RESULT, "table_qa", "single_span", "140", ROW),
        (RANGE, "table_qa", "single_span", "137-147mmol/L", ROW),
        (ROW_ASKED, "table_qa", "multi_span", "3.10;137-147mmol/L", ROW),
        ("性别是什么？", "entity_qa", "single_entity", "王", ROW),
        ("床号是什么？", "entity_qa", "single_entity", "12床", HALLUCINATED),
        (RESULT, "table_qa", "single_span", "4.77", HALLUCINATED),
        ("氯(Cl)的结果是多少?", "table_qa", "single_span", "101", HALLUCINATED),  # the table has no such item
        (RANGE, "table_qa", "single_span", "3.5-5.8mmol/L", MISREAD),
        (RESULT, "table_qa", "single_span", "31.1", MISREAD),  # neither a part of 3.10 nor its form
        ("钾(K)该指标的检查结果是否异常?", "table_nr_qa", "single_nr", "正常", OTHER),
    ],
)
def test_each_cause(question, task, answer_type, prediction, cause):
    answer = "x"  # the annotation says what is right
    assert find_cause(question, answer, task, answer_type, prediction, ANNOTATION, PAGE) == cause


def test_a_part_of_a_number_is_no_part_of_the_value():
    question = "钠(Na)的检测结果是多少?"
    assert find_cause(question, "140", "table_qa", "single_span", "14", ANNOTATION, PAGE) != INCOMPLETE


def test_without_a_page_the_annotation_alone_says_what_stands_there():
    assert find_cause(FINDINGS, "x", "entity_qa", "single_entity", "膀胱壁增厚，内见多发结节", ANNOTATION) == INCOMPLETE
    assert find_cause(RESULT, "x", "table_qa", "single_span", "膀胱壁增厚", ANNOTATION) == OTHER
    assert find_cause(RESULT, "x", "table_qa", "single_span", "3.11", None) == OTHER


def test_a_line_break_in_the_annotated_value_is_a_line_end():
    from dataclasses import replace

    broken = replace(ANNOTATION, key_values=(("检查所见", "膀胱壁增厚，\n内见多发结节"),))
    assert find_cause(FINDINGS, "x", "entity_qa", "single_entity", "膀胱壁增厚，", broken) == CUT
