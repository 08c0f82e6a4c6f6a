"""Differences that a clinician would not accept, whatever the length of the text, and those that do not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rjua_meddqa.annotation.text_differences import count_errors, find_differences, letters

LONG = "前列腺体积增大，左侧外周带见片状低信号，直径约16mm，未见强化。口服比卡鲁胺50mg，盆腔未见肿大淋巴结。"


def differences(written, printed=LONG, part=""):
    return [(found.written, found.printed) for found in find_differences(letters(written), letters(printed), part)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("左侧", "右侧", [("右", "左")]),
        ("未见强化", "见强化", [("", "未")]),
        ("16mm", "1.6mm", [(".", "")]),
        ("16mm", "16cm", [("c", "m")]),
        ("50mg", "500mg", [("0", "")]),
        ("比卡鲁胺", "氟卡鲁胺", [("氟", "比")]),
        ("增大", "缩小", [("缩小", "增大")]),
        ("，未见强化", "", [("", "未见强化")]),
        ("低信号", "高信号", [("高", "低")]),
    ],
)
def test_differences_that_matter_in_a_long_text(old, new, expected):
    assert differences(LONG.replace(old, new, 1)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("，", ","),
        ("。", "\n"),
        ("未见", "末见"),
        ("片状", "斤状"),
        ("直径", "1.直径"),
        ("mm", "MM"),
        ("盆腔", "盆 腔"),
    ],
)
def test_differences_that_do_not_matter(old, new):
    assert differences(LONG.replace(old, new)) == []


def test_every_difference_matters_in_a_short_text():
    assert differences("王芳", "王方") == [("芳", "方")]
    assert differences("男", "女") == [("男", "女")]


def test_a_part_does_not_end_within_a_number_or_word():
    assert differences("12", "12.5 mmol", "start") != []
    assert differences("5", "12.5 mmol", "inside") != []
    assert differences("12.5mm", "12.5mmol", "start") != []
    assert differences("12.5", "12.5 mmol", "start") == []
    assert differences("未见强化", part="inside") == []


@given(st.text("左右未见肾12.5mg阴阳，。", max_size=30), st.text("左右未见肾12.5mg阴阳，。", max_size=30))
def test_alignment_explains_both_texts(one, other):
    """Equal texts have no difference, and a text without differences has the same numbers."""
    one, other = letters(one), letters(other)
    assert find_differences(one, one) == [] and count_errors(one, one) == 0
    if not find_differences(one, other):
        assert [c for c in one if c.isdigit()] == [c for c in other if c.isdigit()]
