"""The measures of a whole page, by hand-counted cases."""

import random

from meddqa_boxes import box
from page_text import PageText, compare_page, edits
from row_check import edit_distance

TRUE = [("项目", "结果"), ("白细胞", "5.60")]
BOXES = [box("项目", 0, 0), box("结果", 200, 0), box("白细胞", 0, 30), box("5.60", 200, 30)]


def test_a_page_that_is_right_has_no_error():
    right = compare_page("项目  结果\n白细胞 ５.60", [BOXES[:2], BOXES[2:]], TRUE, BOXES)
    assert right == PageText(characters=11, edits=0, rows=2, split=0, merged=0) and right.error_rate == 0


def test_a_page_on_one_line_in_the_order_of_columns_is_merged_and_costs_its_moves():
    """项目白细胞结果5.60 for 项目结果白细胞5.60: two characters out of one place and into another."""
    wrong = compare_page("项目白细胞结果5.60", [[BOXES[0], BOXES[2], BOXES[1], BOXES[3]]], TRUE, BOXES)
    assert wrong == PageText(11, 4, rows=2, split=0, merged=2)


def test_every_box_on_its_own_line_splits_its_row():
    assert compare_page("项目\n结果\n白细胞\n5.60", [[b] for b in BOXES], TRUE, BOXES) == PageText(11, 0, 2, 2, 0)


def test_what_was_not_read_costs_its_characters_and_is_no_row():
    assert compare_page("白细胞 5.60", [BOXES[2:]], TRUE, BOXES) == PageText(11, 4, 1, 0, 0)


def test_rows_of_two_tables_may_share_a_line():
    right = [box("尿素", 500, 5), box("4.1", 700, 5)]
    done = compare_page("项目结果尿素4.1", [[*BOXES[:2], *right]], [TRUE[0], ("尿素", "4.1")], [*BOXES[:2], *right])
    assert (done.split, done.merged) == (0, 0)


def test_edits_are_the_edit_distance():
    draw = random.Random(0)
    for _ in range(200):
        a, b = ("".join(draw.choices("abc", k=draw.randint(0, 9))) for _ in range(2))
        assert edits(a, b) == edit_distance(a, b), (a, b)
