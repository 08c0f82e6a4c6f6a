"""ESRA: the equations by hand, every character once and in reading order, bad boxes, and the check of table rows."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa.restoration.esra import character_width, cluster_starts, restore, same_line
from rjua_meddqa.schema import Box


def box(text, left, top, right, bottom):
    return Box(((left, top), (right, top), (right, bottom), (left, bottom)), text)


# Height 20, middle 20. With r = 0.15: e1 = 3; the second clause wants a middle between 10 + e2 and 30 - e2.
FIRST = box("a", 0, 10, 50, 30)


@pytest.mark.parametrize(
    ("top", "bottom", "same"),
    [
        (16, 36, True),  # 16 + 3 < 20
        (17, 37, False),  # 17 + 3 = 20 is not below 20; middle 27 is not below 30 - 3
        (17, 35, True),  # middle 26 lies between 12.7 and 27.3
        (18, 38, False),
        (14, 200, True),  # the first clause asks only where the next box starts
        (22, 24, True),  # a small box inside: 10.3 < 23 < 29.7
        (28, 30, True),  # middle 29 < 30 - 0.3
        (29, 31, False),  # middle 30
    ],
)
def test_equation_3_by_hand(top, bottom, same):
    assert same_line(FIRST, box("b", 60, top, 90, bottom)) is same
    down = 5000  # the place on the page plays no part, as it would with heights in equation 3
    moved = [box("", 0, 10 + down, 50, 30 + down), box("", 60, top + down, 90, bottom + down)]
    assert same_line(*moved) is same


def test_r_pulls_lines_apart():
    boxes = [FIRST, box("b", 60, 17, 90, 35)]
    assert restore(boxes).text == "a b"
    assert restore(boxes, r=0.5).text == "a\nb"


def test_equations_5_and_6_by_hand():
    boxes = [
        box("大标题", 0, 0, 180, 60),  # three characters of 60 pixels: not the body
        box("项目", 0, 100, 40, 120),
        box("结果值", 180, 101, 240, 121),
        box("ab", 0, 140, 24, 159),
        box("cd", 25, 141, 45, 160),
        box("ef", 40, 142, 60, 161),
    ]
    # heights 60 | 20, 20 | 19, 19, 19: the last cluster has 6 characters on 64 pixels, the middle one 5 on 100
    assert character_width([boxes]) == pytest.approx(64 / 6)
    spaces = round(140 / (64 / 6) * 0.7)
    assert spaces == 9
    assert restore(boxes).text == f"大标题\n项目{' ' * 9}结果值\nab cd ef"  # never fewer than one space


def test_absolute_layout_keeps_columns_below_each_other():
    boxes = [
        box("abcdefghij", 10, 0, 110, 18),  # the line with most characters: 14 on 140 pixels
        box("1.10", 210, 0, 250, 18),
        box("abc", 10, 30, 40, 48),
        box("14.0", 210, 30, 250, 48),
        box("↑", 252, 30, 262, 48),
        box("  x", 210, 60, 240, 78),
    ]
    assert restore(boxes, layout="absolute").text.split("\n") == [
        "abcdefghij" + " " * 10 + "1.10",
        "abc" + " " * 17 + "14.0" + " ↑",
        " " * 20 + "  x",
    ]


coordinate = st.floats(-50, 3000, allow_nan=False).map(lambda value: round(value, 2))
length = st.floats(1, 400).map(lambda value: round(value, 2))
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), max_size=8)
random_boxes = st.lists(
    st.builds(lambda t, x, y, w, h: box(t, x, y, x + w, y + h), texts, coordinate, coordinate, length, length),
    max_size=25,
)


@given(random_boxes, st.sampled_from(["paper", "absolute"]), st.floats(0, 1), st.floats(0, 1))
def test_every_character_of_every_box_is_there_in_reading_order(boxes, layout, r, factor):
    restored = restore(boxes, r=r, l=factor, layout=layout)
    in_lines = [item for line in restored.lines for item in line]
    assert sorted(map(repr, in_lines)) == sorted(map(repr, boxes))
    lines = restored.text.split("\n") if boxes else []
    assert len(lines) == len(restored.lines)
    for line, text in zip(restored.lines, lines, strict=True):
        assert text.replace(" ", "") == "".join(item.text for item in line).replace(" ", "")
        assert all(a.left <= b.left for a, b in pairwise(line))
    tops = [min(item.top for item in line) for line in restored.lines]
    assert tops == sorted(tops)


@given(random_boxes, st.randoms(use_true_random=False))
def test_the_order_of_the_boxes_plays_no_part(boxes, draw):
    shuffled = list(boxes)
    draw.shuffle(shuffled)
    assert restore(shuffled) == restore(boxes)


@given(st.lists(st.floats(0.5, 1000), min_size=1, max_size=60).map(sorted), st.integers(1, 5))
def test_clusters_are_a_fixed_point_of_k_means(values, k):
    starts = cluster_starts(values, k)
    assert starts[0] == 0 and starts == sorted({*starts}) and len(starts) <= k
    groups = [values[a:b] for a, b in pairwise([*starts, len(values)])]
    means = [math.fsum(group) / len(group) for group in groups]
    for group, mean in zip(groups, means, strict=True):
        for value in group:
            assert abs(value - mean) <= min(abs(value - other) for other in means) + 1e-9 * value


def test_three_heights_make_three_clusters():
    assert cluster_starts([10, 10, 11, 20, 20.5, 21, 60, 61], 3) == [0, 3, 6]
    assert cluster_starts([5, 5, 5], 3) == [0]


def test_nothing_gives_nothing():
    assert restore([]).text == "" and restore([]).lines == ()
    assert restore([box("", 0, 0, 5, 5)]).text == ""


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (box("a", 0, 5, 9, 5), r"box 1: width 9, height 0"),
        (box("a", 4, 5, 4, 9), r"box 1: width 0"),
        (box("a", 0, float("nan"), 9, 9), "box 1: .*finite"),
        (box("a", 0, 0, float("inf"), 9), "finite"),
        (box("a", 2e12, 0, 2e12 + 9, 9), "box 1: .*1,000,000"),
    ],
)
def test_bad_boxes_are_named(bad, match):
    with pytest.raises(InputError, match=match):
        restore([FIRST, bad])


@pytest.mark.parametrize(
    "parameters", [{"r": -0.1}, {"r": float("nan")}, {"l": 1.1}, {"layout": "html"}, {"r": 2, "l": 0.7}]
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ConfigError, match="ESRA"):
        restore([FIRST], **parameters)


def test_a_slanted_box_counts_with_all_its_corners():
    slanted = replace(FIRST, points=((0, 12), (50, 10), (50, 28), (0, 30)))
    assert restore([slanted, box("b", 60, 16, 90, 36)]).text == "a b"


def test_a_large_page_keeps_its_rows():
    page = [box("文字", 100 * (i % 30), 30 * (i // 30), 100 * (i % 30) + 60, 30 * (i // 30) + 20) for i in range(9000)]
    assert [len(line) for line in restore(page).lines] == [30] * 300
