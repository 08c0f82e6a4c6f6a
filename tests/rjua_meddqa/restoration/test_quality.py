"""The two sensors of Appendix B, on outlines by hand and on drawn photos."""

import pytest
from meddqa_words import SIZE, WordEngine, draw_words, photograph
from PIL import Image

from medvqa_core.errors import ConfigError
from rjua_meddqa.restoration.outline import Outline, find_outline
from rjua_meddqa.restoration.quality import edge_angle, judge_quality, judge_type, text_spread
from rjua_meddqa.restoration.rectify import rectify


@pytest.mark.parametrize(
    ("points", "edges", "angle"),
    [
        (((0, 0), (100, 0), (100, 100), (0, 100)), (True,) * 4, 0),
        (((20, 0), (80, 0), (100, 100), (0, 100)), (True,) * 4, 22.62),  # 2 atan(20 / 100) left against right
        (((0, 0), (100, 20), (100, 80), (0, 100)), (True,) * 4, 22.62),  # upper against lower
        (((50, 0), (100, 50), (50, 100), (0, 50)), (True,) * 4, 0),  # lies askew: edges are still parallel
        (((20, 0), (80, 0), (100, 100), (0, 100)), (True, False, True, True), 0),  # the right edge is cut off
    ],
)
def test_angle_between_opposite_edges(points, edges, angle):
    assert edge_angle(Outline(points, edges)) == pytest.approx(angle, abs=0.01)


@pytest.mark.parametrize(
    ("corners", "quality", "reason"),
    [
        (((180, 120), (1000, 160), (1080, 900), (120, 860)), "high", "edges of the paper differ by "),
        (((330, 120), (870, 120), (1080, 900), (120, 900)), "low", "skewed: edges of the paper differ by 30.1 degrees"),
        (((100, -200), (1100, -200), (1090, 900), (110, 910)), "low", "incomplete: 2 of 4 corners"),
    ],
)
def test_photos(corners, quality, reason):
    page = rectify(photograph(draw_words(), corners, (1200, 1000)), WordEngine())
    judged = judge_quality(page)
    assert judged[0] == quality and judged[1].startswith(reason)


def test_a_page_that_fills_the_image_is_judged_by_its_text():
    page = rectify(draw_words(), WordEngine())
    assert judge_quality(page) == ("high", "lines of text (paper fills the image) differ by 0.0 degrees")
    assert text_spread(page) == 0


def test_an_image_without_text_is_low():
    assert judge_quality(rectify(Image.new("RGB", SIZE, "white"), WordEngine())) == ("low", "no text was read")


def test_only_photos_can_be_low():
    assert judge_type("photo") is None
    assert judge_type("pdf")[0] == judge_type("screenshot")[0] == "high"
    with pytest.raises(ConfigError, match="'scan'.*pdf, photo, screenshot"):
        judge_type("scan")


def test_a_corner_that_simplifying_rounds_off_is_drawn_out():
    """The left edge of this page was cut short by one corner, so that the page was taken to fill the image."""
    from rjua_meddqa import SAMPLE_DIR
    from rjua_meddqa.restoration.ocr import read_boxes

    with Image.open(SAMPLE_DIR / "images" / "report0004.jpg") as image:
        outline = find_outline(image.convert("RGB"), read_boxes(SAMPLE_DIR / "boxes" / "report0004.json"))
    assert len(outline.corners()) == 4
    assert edge_angle(outline) > 15  # the annotation says low
