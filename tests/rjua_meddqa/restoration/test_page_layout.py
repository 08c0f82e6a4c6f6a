"""The page's lines: wrapped cells go on in their row, margins and pictures go to the end, nothing is lost."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_boxes import box, lines
from PIL import Image, ImageDraw, ImageFilter

from rjua_meddqa.annotation.drafts import draft
from rjua_meddqa.fonts import find_font
from rjua_meddqa.phantom.difficulties import Difficulty
from rjua_meddqa.phantom.page import draw_page
from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.restoration.page_layout import lay_out
from rjua_meddqa.restoration.pictures import boxes_on_pictures
from rjua_meddqa.schema import Box

HEADER = [(0, "项目"), (300, "结果"), (450, "参考区间")]
TOP_ALIGNED = [
    box("低密度脂蛋白胆", 0, 40),
    box("2.49", 300, 40),
    box("男:2.1-", 450, 40),
    box("固醇(LDL-C)", 0, 64),
    box("3.4mmol/L", 450, 64),
    box("尿酸(UA)", 0, 100),
    box("428", 300, 100),
    box("208-420", 450, 100),
]
CENTRED = [TOP_ALIGNED[0], box("2.49", 300, 52), *TOP_ALIGNED[2:]]  # the result between the two lines of its name


def words_of(text):
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize("table", [TOP_ALIGNED, CENTRED])
def test_a_wrapped_cell_goes_on_in_its_row(table):
    page = lines([HEADER]) + table
    assert words_of(lay_out(page).text) == [
        ["项目", "结果", "参考区间"],
        ["低密度脂蛋白胆固醇(LDL-C)", "2.49", "男:2.1-3.4mmol/L"],
        ["尿酸(UA)", "428", "208-420"],
    ]
    assert len(lay_out(page, join_wraps=False).lines) > 3
    assert lay_out(page, join_wraps=False) == restore(page)


def test_the_absolute_layout_is_the_released_one_unless_asked():
    page = lines([HEADER]) + TOP_ALIGNED
    assert lay_out(page, layout="absolute") == restore(page, layout="absolute")
    joined = lay_out(page, layout="absolute", join_wraps=True)
    assert "低密度脂蛋白胆固醇(LDL-C)" in joined.text


def test_text_and_draft_agree_on_the_rows():
    restored = lay_out(lines([HEADER]) + CENTRED)
    for row, line in zip(draft(restored).table, restored.body[1:], strict=True):
        assert "".join(b.text for b in line) == row.item + row.result + row.range


def test_a_line_up_the_margin_ends_no_table_and_shifts_no_range():
    up = Box(((600, 20), (622, 20), (622, 160), (600, 160)), "第1页共1页")
    page = [*lines([HEADER]), *TOP_ALIGNED, up]
    restored = lay_out(page)
    assert restored.beside == 1 and restored.text.splitlines()[-1] == "第1页共1页"
    assert draft(restored) == draft(lay_out(page[:-1]))
    assert [row.range for row in draft(restored).table] == ["男:2.1-3.4mmol/L", "208-420"]


def test_what_lies_on_a_picture_goes_to_the_end_and_into_no_field():
    page = [
        box("超声所见：", 0, 0),
        box("右肾见强回声，", 20, 30),
        box("D1 21mm", 400, 30),
        box("后方伴声影。", 20, 60),
    ]
    assert draft(lay_out(page, [2])).key_values == (("超声所见", "右肾见强回声，后方伴声影。"),)
    assert lay_out(page, [2]).text.splitlines()[-1] == "D1 21mm"


def test_two_rows_that_esra_takes_for_one_are_parted():
    """Tight and crooked: each box begins less than 7 pixels below another one, so that ESRA never cuts."""
    rows = [box("尿素", 0, 40), box("5.1", 300, 42), box("3.1-8.0", 450, 48), box("肌酐", 0, 54), box("79", 300, 58)]
    page = [*lines([HEADER]), *rows, box("57-97", 450, 60), box("尿酸", 0, 100), box("300", 300, 100)]
    assert len(restore(page).lines) == 3
    found = lay_out(page)
    assert [line[0].text for line in found.lines] == ["项目", "尿素", "肌酐", "尿酸"]


TEXTS = st.sampled_from(["项目", "结果", "参考区间", "尿素", "5.1", "3.1-8.0", "姓名：", "阴性", "mmol/L", "↑"])
BOXES = st.lists(st.builds(box, TEXTS, st.integers(0, 900), st.integers(0, 900), st.integers(8, 40)), max_size=25)


@given(BOXES, st.sets(st.integers(0, 24)))
def test_every_box_is_in_one_line_once(boxes, on_picture):
    restored = lay_out(boxes, on_picture)
    assert Counter(map(id, (b for line in restored.lines for b in line))) == Counter(map(id, boxes))
    assert Counter("".join(restored.text.split())) == Counter("".join(b.text for b in boxes))


@pytest.fixture(scope="module")
def font():
    return find_font()


def test_letters_burned_into_a_picture_are_told_from_text(font):
    pages = (draw_page(8, number, font, True) for number in range(8, 80, 13))
    for page in pages:
        assert Difficulty.SCAN in page.difficulties
        found = boxes_on_pictures(page.image.convert("RGB"), page.boxes)
        burned = {"L", "R", "LK", "DR 12:30", "FR 45Hz", "D1 21.3mm", "10cm", "MI 0.8", "TIs 0.4"}
        expected = [number for number, b in enumerate(page.boxes) if b.text in burned]
        assert found == expected, page.annotation.img_path


def test_letters_in_the_light_corner_of_a_picture_are_told_from_text():
    """A sector on white paper: the picture is not dark in its upper corners. It may be tilted."""
    image = Image.new("L", (800, 800), 250)
    draw = ImageDraw.Draw(image)
    draw.rectangle((300, 240, 700, 600), fill=60)
    draw.polygon([(300, 240), (420, 240), (300, 380)], fill=250)
    boxes = [
        box("10cm", 310, 260),
        box("12:30", 500, 400),
        box("膀胱壁光整，未见占位", 20, 260),
        box("前列腺增大", 400, 640),
    ]
    assert boxes_on_pictures(image.convert("RGB"), boxes) == [0, 1]
    tilted = image.rotate(-12, center=(0, 0), fillcolor=250).convert("RGB")
    below = [box("前列腺体积增大", 130, 670), box("12:30", 390, 500)]
    assert boxes_on_pictures(tilted, below) == [1]


def test_pages_without_a_picture_have_no_text_on_one(font):
    """A stamp, the table that a photo lies on, and a dark bar behind a table's heading are no pictures."""
    for number in (1, 2, 3, 7):
        page = draw_page(11, number, font, True)
        assert boxes_on_pictures(page.image.convert("RGB"), page.boxes) == []
    bar = Image.new("RGB", (800, 600), "white")
    pen = ImageDraw.Draw(bar)
    pen.rectangle((20, 100, 780, 140), fill=(40, 40, 90))
    bar = bar.filter(ImageFilter.GaussianBlur(1))
    assert boxes_on_pictures(bar, [box("项目", 30, 110), box("结果", 300, 110), box("白细胞", 30, 160)]) == []
    assert boxes_on_pictures(bar, []) == []
