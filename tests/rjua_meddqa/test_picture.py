"""The picture of a page: boxes in the colour of their line, texts at their columns."""

import numpy as np
import pytest
from meddqa_boxes import box
from PIL import Image, ImageColor

from medvqa_hub.cli import run
from rjua_meddqa import fonts
from rjua_meddqa.fonts import find_font
from rjua_meddqa.page_picture import (
    COLOURS,
    HEIGHT,
    MARGIN,
    WIDEST_PAGE,
    WIDEST_TEXT,
    draw_page_picture,
    write_page_picture,
)
from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.restoration.pages import Page


@pytest.fixture(scope="module")
def font():
    return find_font()


def make_page(boxes, size, originals=None, image="page.png") -> Page:
    boxes = tuple(boxes)
    return Page(image, *size, boxes, tuple(originals or boxes), 0, 0.0, "high", "", "pdf", restore(boxes))


def white(path, size):
    Image.new("RGB", size, "white").save(path)
    return path


def places(picture: Image.Image, colour: str) -> np.ndarray:
    """(x, y) of the pixels of exactly this colour."""
    found = (np.asarray(picture) == ImageColor.getrgb(colour)).all(axis=2)
    return np.argwhere(found)[:, ::-1]


def test_each_line_has_its_colour_on_the_page_and_in_the_text(tmp_path, font):
    boxes = [box("姓名", 40, 40), box("50岁", 200, 40), box("结果", 40, 100)]
    picture = draw_page_picture(make_page(boxes, (400, 200)), white(tmp_path / "page.png", (400, 200)), font)
    left = 400 + MARGIN  # where the page ends
    for colour, y in zip(COLOURS[:2], (40, 100), strict=True):
        points = places(picture, colour)
        on_page = points[points[:, 0] < left] - MARGIN
        assert abs(on_page[:, 1].max() - (y + 20)) <= 1 and on_page[:, 1].min() >= y - 2
        assert (points[:, 0] > left).any(), "its text is missing"
    first = places(picture, COLOURS[0])
    on_page = first[first[:, 0] < left] - MARGIN
    assert abs(on_page[:, 0].max() - 240) <= 1  # 50岁 is 40 pixels wide and starts at 200
    assert len(places(picture, COLOURS[2])) == 0


def test_boxes_are_those_on_the_original_image(tmp_path, font):
    """Boxes are drawn on the original image, not on the rectified one."""
    turned = [box("姓名", 300, 150)]
    page = make_page([box("姓名", 10, 10)], (400, 200), turned)
    points = places(draw_page_picture(page, white(tmp_path / "page.png", (400, 200)), font), COLOURS[0])
    on_page = points[points[:, 0] < 400 + MARGIN] - MARGIN
    assert on_page[:, 0].min() >= 300 - 20 and on_page[:, 1].min() >= 148


@pytest.mark.parametrize("size", [(8000, 400), (300, 9000)])
def test_the_picture_stays_small_whatever_the_page(size, tmp_path, font):
    rows = [box("项目" * 60, 0, 30 * row) for row in range(60)]
    picture = draw_page_picture(make_page(rows, size), white(tmp_path / "page.png", size), font)
    assert picture.width <= WIDEST_PAGE + WIDEST_TEXT + 3 * MARGIN
    assert picture.height <= HEIGHT + 2 * MARGIN


def test_missing_characters_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fonts, "FONT_FOLDERS", (str(tmp_path),) * 3)
    image = white(tmp_path / "page.png", (400, 200))
    write_page_picture(make_page([box("血红蛋白", 0, 0)], (400, 200)), image, tmp_path / "out.png")
    assert capsys.readouterr().err == ""
    write_page_picture(make_page([box("血红龘", 0, 0)], (400, 200)), image, tmp_path / "out.png")
    assert "1 characters of page.png are drawn as boxes" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_draws_a_report(tmp_path, font, capsys):
    from rjua_meddqa import SAMPLE_DIR

    out = tmp_path / "new" / "page.png"
    image = SAMPLE_DIR / "images" / "report0012.png"
    assert run(["meddqa", "picture", "--image", str(image), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out.replace("\n", "")
    with Image.open(out) as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(10**6)}
        assert picture.width > picture.height / 2
    assert {ImageColor.getrgb(colour) for colour in COLOURS} <= colours
    assert out.stat().st_size < 300_000
