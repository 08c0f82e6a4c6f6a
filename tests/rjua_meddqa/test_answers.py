"""The format of answers, and the released `answer_length`."""

import pytest
from meddqa_data import BLOOD, NORMAL

from rjua_meddqa import answers
from rjua_meddqa.released import read_questions
from rjua_meddqa.schema import IS_NORMAL_VALUES, TableRow


def row(is_normal: str) -> TableRow:
    return TableRow("钾", "3.1", "3.5-5.3", is_normal)


@pytest.mark.parametrize(("value", "written"), [("", "无"), ("  ", "无"), ("无", "无"), ("血清 ", "血清 ")])
def test_a_missing_value_is_written_wu_and_others_stay_as_they_are(value, written):
    assert answers.write_value(value) == written
    assert answers.is_missing(value) == (written == "无")


def test_parts_are_joined_by_semicolons():
    assert answers.join_parts(["9.4", ""]) == "9.4;无"


@pytest.mark.parametrize("value", IS_NORMAL_VALUES)
def test_the_five_values_are_read_as_they_are(value):
    assert answers.read_is_normal(value) == value


@pytest.mark.parametrize(
    ("value", "read"), [("是)", "是"), (" 是 ", "是"), ("否（偏高）", "否(偏高)"), ("否( 偏低 )", "否(偏低)")]
)
def test_slips_of_the_pen_are_read(value, read):
    assert answers.read_is_normal(value) == read


@pytest.mark.parametrize("value", ["", "也许", "否(偏", "是否", "yes"])
def test_what_cannot_be_read_is_none_and_never_a_guess(value):
    assert answers.read_is_normal(value) is None
    assert answers.write_status(row(value)) is None


@pytest.mark.parametrize(
    ("value", "status"),
    [("是", "正常"), ("否", "异常"), ("否(偏高)", "异常"), ("否(偏低)", "异常"), ("无法判断", "无法判断")],
)
def test_status_words(value, status):
    assert answers.write_status(row(value)) == status


def test_items_out_of_range():
    assert answers.write_abnormal(BLOOD.table) == "钾(K)"
    assert answers.write_abnormal(BLOOD.table * 2) == "钾(K);钾(K)"
    assert answers.write_abnormal(NORMAL.table) == "无异常结果"
    assert answers.write_abnormal([row("无法判断")]) == "无异常结果"


def test_released_lengths_follow_the_rule_but_for_the_ages_of_one_image(real_data):
    """In that image, the age was replaced by 无 after its length had been counted."""
    rows = read_questions(real_data / "rjua_samples" / "sampled_image_content_vqa.json")
    differing = [row for row in rows if len(row.answer) != row.answer_length]
    assert len(rows) == 133 and len(differing) == 4
    assert {row.img_path for row in differing} == {"sample3.png"}
    assert all("年龄" in row.question and row.answer_length - len(row.answer) == 2 for row in differing)
