"""Items: a neighbour's value is never given; what readers misread is found all the same."""

import pytest
from meddqa_siblings import SIBLINGS

from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.annotation.items import find_row, item_score
from rjua_meddqa.inference.rules import answer_from_draft
from rjua_meddqa.phantom.panels import PANELS
from rjua_meddqa.released import read_annotations
from rjua_meddqa.schema import MISSING, TABLE, TABLE_NR, TableRow


def table(*names: str) -> tuple[TableRow, ...]:
    return tuple(TableRow(name, str(number), "0-100", "是") for number, name in enumerate(names))


def leave_one_out(rows: tuple[TableRow, ...]) -> tuple[list[str], list[str]]:
    """Items that get another item's value when their row is removed, and items that do not get their own value."""

    def ask(item: str, held: tuple[TableRow, ...]) -> str:
        return answer_from_draft(f"{item}的结果是多少?", TABLE, "single_span", Draft((), held))

    wrong = [row.item for row in rows if ask(row.item, tuple(r for r in rows if r.item != row.item)) != MISSING]
    results = {name: {row.result for row in rows if row.item == name} for name in (row.item for row in rows)}
    return wrong, [row.item for row in rows if ask(row.item, rows) not in results[row.item]]


@pytest.mark.parametrize("family", SIBLINGS, ids=lambda family: family[0])
def test_no_sibling_is_taken_for_the_item_that_is_missing(family):
    assert leave_one_out(table(*family)) == ([], [])


def test_all_tables_at_hand_together():
    annotations = list(read_annotations(SAMPLE_DIR / "annotations.csv"))
    assert sum(len(a.table) for a in annotations) >= 70
    assert all(leave_one_out(tuple(a.table)) == ([], []) for a in annotations)
    every = table(*dict.fromkeys(item.name for panel in PANELS.values() for item in panel))
    assert leave_one_out(every)[0] == []


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        ("总胆红素(TBIL)", "*总胆红素（TBIL）"),
        ("总胆红素(TBIL)", "总胆红素"),
        ("总胆红素", "总胆红素(TBIL)"),
        ("TBIL", "总胆红素(TBIL)"),
        ("甘油三酯(TG)", "甘油三脂(TG)"),
        ("国际标准化比率", "国际标淮化比率"),
        ("白球比例(A/G)", "白球比例(A:G)"),
        ("纤维蛋白原", "纤维蛋白原定量"),
        ("D-二聚体", "D—二聚体"),
        ("纤维蛋白(原)降解产物", "纤维蛋白原降解产物"),
        ("抗凝血酶III", "抗凝血酶ⅢⅢ"),
        ("eGFR-EPICr", "eGFR-EPI Cr"),
        ("葡萄糖(GLUC)", "葡萄糖(6LUC)"),
        ("低密度脂蛋白胆固醇(LDL-C)", "低密度脂蛋白胆固(LDL-C)"),
    ],
)
def test_one_item_in_two_spellings(asked, printed):
    rows = table("甲胎蛋白", printed, "癌胚抗原")
    assert find_row(asked, rows) == rows[1]
    assert 0 < item_score(asked, printed) <= 1


def test_where_two_rows_could_be_meant_neither_is():
    assert find_row("国际标准化比率", table("国际标淮化比率", "国际标隹化比率")) is None
    assert find_row("国际标准化比率", table("国际标淮化比率", "国际标准化比率")).result == "1"
    assert find_row("甲", ()) is None


@pytest.mark.parametrize(
    "question", ["尿白细胞计数的结果是否异常?", "尿白细胞计数是否异常?", "图片里的尿白细胞计数正常吗？"]
)
def test_a_longer_name_is_not_the_shorter_one_in_it(question):
    drafted = Draft((), table("白细胞计数", "红细胞计数"))
    assert answer_from_draft(question, TABLE_NR, "single_nr", drafted) == "无法判断"
    present = Draft((), table("白细胞计数", "尿白细胞计数"))
    assert answer_from_draft(question, TABLE_NR, "single_nr", present) == "正常"


def test_two_items_of_which_one_is_missing():
    drafted = Draft((), table("总胆红素", "白蛋白"))
    said = answer_from_draft("总胆红素和白蛋白的结果和参考范围分别是多少?", TABLE, "multi_span", drafted)
    assert said == "总胆红素,0,0-100;白蛋白,1,0-100"
    said = answer_from_draft("直接胆红素和白蛋白的结果和参考范围分别是多少?", TABLE, "multi_span", drafted)
    assert "0,0-100" not in said.replace("1,0-100", "")


def test_an_item_of_no_row_is_missing():
    rows = table("总胆红素", "直接胆红素")
    assert answer_from_draft("间接胆红素的结果是多少?", TABLE, "single_span", Draft((), rows)) == MISSING
