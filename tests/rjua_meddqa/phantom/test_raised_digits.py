"""Superscript digits that the font lacks are drawn as small raised digits."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from rjua_meddqa.fonts import BUNDLED, load_font
from rjua_meddqa.phantom.raised_digits import draw_text, measure

SIZE = 40


def drawn(text):
    image = Image.new("L", (300, 100), 255)
    edges = draw_text(ImageDraw.Draw(image), 10, 10, text, BUNDLED, SIZE, fill=0)
    return np.array(image) < 128, edges


def rows_of_ink(ink):
    rows = np.flatnonzero(ink.any(axis=1))
    return rows[0], rows[-1]


@pytest.mark.parametrize("digit, raised", [("0", "⁰"), ("9", "⁹")])
def test_a_raised_digit_is_a_smaller_digit_at_the_top_of_the_line(digit, raised):
    ink, (left, top, right, bottom) = drawn(f"10{raised}/L")
    plain, _ = drawn(f"10{digit}/L")
    place = slice(round(10 + measure("10", BUNDLED, SIZE)), round(10 + measure(f"10{raised}", BUNDLED, SIZE)))
    first, last = rows_of_ink(ink[:, place])
    plain_first, plain_last = rows_of_ink(plain[:, round(10 + measure("10", BUNDLED, SIZE)) :][:, : SIZE // 2])
    assert abs(first - rows_of_ink(drawn("10")[0])[0]) <= 1
    assert 0.5 < (last - first) / (plain_last - plain_first) < 0.75
    assert measure(f"10{raised}/L", BUNDLED, SIZE) < measure(f"10{digit}/L", BUNDLED, SIZE)
    ys, xs = np.nonzero(ink)
    assert left - 1 <= xs.min() and xs.max() <= right + 1 and top - 1 <= ys.min() and ys.max() <= bottom + 1


def test_the_raised_nine_looks_like_a_nine():
    ink, _ = drawn("⁹")
    small = Image.new("L", (300, 100), 255)
    ImageDraw.Draw(small).text((10, 10), "9", font=load_font(BUNDLED, round(SIZE * 0.62)), fill=0)
    nine = np.array(small) < 128
    crop = [part[np.ix_(part.any(axis=1), part.any(axis=0))] for part in (ink, nine)]
    assert np.array_equal(*crop)


@pytest.mark.parametrize("text", ["白细胞计数 3.5-9.5×10^9/L", "10¹²/L ↑", "m²"])
def test_other_text_is_drawn_as_pillow_draws_it(text):
    ink, edges = drawn(text)
    image = Image.new("L", (300, 100), 255)
    pen, face = ImageDraw.Draw(image), load_font(BUNDLED, SIZE)
    pen.text((10, 10), text, font=face, fill=0)
    assert np.array_equal(ink, np.array(image) < 128) and edges == pen.textbbox((10, 10), text, font=face)
    assert measure(text, BUNDLED, SIZE) == face.getlength(text)
