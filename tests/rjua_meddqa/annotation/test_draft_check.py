"""Drafts against annotations, counted by hand."""

from rjua_meddqa.annotation.draft_check import DraftCheck, check_draft
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.schema import Annotation, TableRow


def annotated(key_values=(), table=()) -> Annotation:
    return Annotation("1", "a.png", tuple(key_values), tuple(table), "Laboratory", "pdf", "high")


def rows(*cells: str) -> tuple[TableRow, ...]:
    return tuple(TableRow(*cell.split("|")) for cell in cells)


def test_equal_is_all_found():
    table = rows("钾(K)|3.1|3.5-5.3|否(偏低)", "钠|140|137-147|是")
    values = (("性别", "女"), ("年龄", "41岁"))
    assert check_draft(Draft(values, table), annotated(values, table)) == DraftCheck(2, 2, 2, 2, 2, 2, 2, 2)


def test_values_that_are_not_there_do_not_count():
    values = (("姓名", "无"), ("床号", ""), ("性别", "女"), ("性别", "女"))
    found = check_draft(Draft((("姓名", "无"), ("床号", "")), ()), annotated(values))
    assert (found.key_values, found.key_values_found) == (1, 0)


def test_spelling_is_forgiven_in_long_values_and_not_in_short_ones():
    long = "前列腺癌治疗后改变，盆底多发淋巴结，请结合病史复查"
    values = (("诊断：", long), ("性别", "女"), ("床号", "22床"))
    drafted = (("诊断", long.replace("，", ",").replace("复查", "\n复杳")), ("性别", "男"), ("床号", "23床"))
    found = check_draft(Draft(drafted, ()), annotated(values))
    assert (found.key_values, found.key_values_found, found.key_values_exact) == (3, 1, 0)


def test_a_row_needs_its_result_and_a_like_item():
    table = rows("总胆固醇(CHOL)|4.1|<5.2|是", "甘油三酯|1.0|<1.7|是", "钾|3.1|3.5-5.3|否(偏低)", "钠|140|137-147|是")
    drafted = rows(
        "总胆固酵(CHOL)|４.1|<5.2mmol/L|是",  # one character misread, another range
        "甘油三酯|10|<1.7|否(偏高)",  # the result is another
        "钾|3.1|3.5-5.3|是",  # the verdict is another
        "氯|140|137-147|是",  # the item is another
    )
    found = check_draft(Draft((), drafted), annotated(table=table))
    assert (found.rows, found.rows_found, found.rows_with_range, found.rows_with_verdict) == (4, 2, 1, 1)


def test_one_drafted_row_is_not_two_annotated_ones():
    found = check_draft(Draft((), rows("钾|3.1|无|无法判断")), annotated(table=rows(*["钾|3.1|无|无法判断"] * 2)))
    assert (found.rows, found.rows_found, found.drafted_rows) == (2, 1, 1)


def test_counts_add_up():
    assert DraftCheck(1, 1, 0, 2, 1, 1, 0, 3) + DraftCheck(4, 3, 2, 1, 1, 0, 1, 1) == DraftCheck(5, 4, 2, 3, 2, 1, 1, 4)
