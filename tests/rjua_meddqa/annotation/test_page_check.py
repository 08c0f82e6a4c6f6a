"""An annotation against its page: what the page does not hold is told, what the layout alone got wrong is not."""

import pytest
from meddqa_boxes import box, lines

from rjua_meddqa.annotation.checking import check_annotations
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.page_check import PageText, check_page, page_text
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.schema import NORMAL, Annotation, TableRow

FIELDS = [(0, "姓名："), (200, "性别：男"), (400, "采样时间：2023-04-17")]
TABLE = [
    [(0, "项目"), (300, "结果"), (450, "参考区间")],
    [(0, "总胆红素"), (300, "12.5"), (450, "5.0-21.0")],
    [(0, "直接胆红素"), (300, "3.1"), (450, "0-6.8")],
]
PAGE = page_text(lay_out(lines([FIELDS]) + lines(TABLE, top=60)))
VALUES = (("姓名", "无"), ("性别", "男"), ("采样时间", "2023-04-17"))
ROWS = (TableRow("总胆红素", "12.5", "5.0-21.0", NORMAL), TableRow("直接胆红素", "3.1", "0-6.8", NORMAL))


def found(values=VALUES, rows=ROWS, page=PAGE):
    return [(kind, where) for kind, where, _ in check_page(values, rows, page)]


def test_a_true_annotation_has_no_finding():
    assert found() == []


@pytest.mark.parametrize(
    ("place", "value"), [(1, "女"), (2, "2023-04-18"), (2, "2023-04-1"), (2, "2023-4-17x"), (0, "王某某")]
)
def test_a_value_that_the_page_does_not_hold_beside_its_key(place, value):
    values = [(key, value if place == number else old) for number, (key, old) in enumerate(VALUES)]
    assert found(values) == [("not_on_page", f"kv {place + 1}")]


def test_a_value_that_was_left_out():
    assert found([*VALUES[:2], ("采样时间", "无")]) == [("not_on_page", "kv 3")]


@pytest.mark.parametrize(
    "row",
    [
        TableRow("总胆红素", "13.5", "5.0-21.0", NORMAL),
        TableRow("总胆红素", "12.5", "5.0-27.0", NORMAL),
        TableRow("总胆红素", "3.1", "5.0-21.0", NORMAL),  # of the row below
        TableRow("总胆红素", "2.5", "5.0-21.0", NORMAL),  # a part of the number
        TableRow("网织红细胞", "12.5", "5.0-21.0", NORMAL),
    ],
)
def test_a_row_that_the_page_does_not_hold(row):
    findings = found(rows=[row, ROWS[1]])
    assert ("not_on_page", "table row 1") in findings and all(where != "table row 2" for _, where in findings)


def test_a_row_of_the_page_that_the_table_lacks():
    assert found(rows=ROWS[:1]) == [("missing_row", "table")]
    assert found(rows=ROWS[1:]) == [("missing_row", "table")]


def test_a_mistake_of_the_draft_alone_raises_no_alarm():
    """The draft glued two fields and mixed up two rows; the lines hold what was annotated."""
    draft = Draft(
        (("性别", "男采样时间：2023-04-17"),),
        (TableRow("总胆红素", "3.1", "0-6.8", NORMAL), TableRow("直接胆红素", "12.5", "5.0-21.0", NORMAL)),
    )
    assert found(page=PageText(draft, PAGE.lines)) == []
    assert found(page=PageText(Draft((), ()), PAGE.lines)) == []


def test_spellings_of_signs_and_wrapped_words_raise_no_alarm():
    page = page_text(lay_out([box("临床诊断:前列腺增", 0, 0), box("生，尿频(夜间)", 90, 24), *lines(TABLE, top=80)]))
    rows = (TableRow("总胆红素", "12.5", "5.0～21.0", NORMAL), ROWS[1])
    assert found((("临床诊断", "前列腺增生，尿频（夜间）"),), rows, page) == []
    assert found((("临床诊断", "前列腺增生，尿频（夜间）3次"),), rows, page) == [("not_on_page", "kv 1")]


@pytest.mark.parametrize(("sex", "kinds"), [({}, ["contradiction"]), ({"性别": "女"}, ["not_on_page"])])
def test_a_verdict_is_checked_for_the_patient_that_the_page_names(sex, kinds):
    """Left out by the annotation, the page's 性别 counts; where the two contradict each other, neither does."""
    row = [(0, "肌酐"), (300, "100"), (450, "男:57-111 女:41-81")]
    page = page_text(lay_out(lines([FIELDS]) + lines([TABLE[0], row], top=60)))
    rows = (TableRow("肌酐", "100", "男:57-111 女:41-81", "否(偏高)"),)
    annotation = Annotation("1", "a.png", tuple(sex.items()), rows, "Laboratory", "pdf", "high")
    found = [finding.kind for finding in check_annotations([annotation], lambda _: page).findings]
    assert [kind for kind in found if kind != "missing_line"] == kinds
