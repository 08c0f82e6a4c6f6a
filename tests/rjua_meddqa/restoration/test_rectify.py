"""Rectification: maps that can be undone, the page found, turned, straightened and levelled, and never made worse."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from meddqa_words import SIZE, TABLE_COLOUR, WORDS, WordEngine, draw_words, photograph
from PIL import Image, ImageDraw

from rjua_meddqa.restoration.dewarping import Dewarping, fit_dewarping, mean_slope
from rjua_meddqa.restoration.esra import restore
from rjua_meddqa.restoration.outline import find_outline
from rjua_meddqa.restoration.rectify import (
    from_corners,
    mean_score,
    rectify,
    rotation,
    skew_angle,
    turn_image,
    turning,
)
from rjua_meddqa.restoration.transform import Transform
from rjua_meddqa.schema import Box

WIDTH, HEIGHT = SIZE
LINES = [" ".join(WORDS[start : start + 3]) for start in range(0, 48, 3)]


def words_of(page) -> list[str]:
    return [" ".join(text.split()) for text in restore(page.boxes).text.split("\n")]


def engine_boxes(image) -> dict[str, Box]:
    return {box.text: box for box in WordEngine().read(image)}


points = st.lists(st.tuples(st.floats(0, 2000), st.floats(0, 2000)), min_size=1, max_size=6)
shaken = st.floats(-250, 250)


@given(points, st.lists(shaken, min_size=8, max_size=8), st.floats(-40, 40), st.sampled_from([0, 90, 180, 270]))
def test_there_and_back_is_nothing(some, shake, angle, direction):
    square = [(0, 0), (2000, 0), (2000, 2000), (0, 2000)]
    corners = [(x + shake[2 * i], y + shake[2 * i + 1]) for i, (x, y) in enumerate(square)]
    seen = from_corners(corners)
    both = turning(direction, 2000, 2000).then(seen).then(rotation(angle, seen.width, seen.height))
    (g, h, i) = both.rows[2]
    assume(all(g * x + h * y + i > 0.05 for x, y in some))
    for (x, y), (u, v) in zip(some, both.inverse(both.forward(some)), strict=True):
        assert math.isclose(x, u, abs_tol=1e-4) and math.isclose(y, v, abs_tol=1e-4)


coefficient = st.floats(-0.2, 0.2)


@given(points, st.tuples(coefficient, coefficient, coefficient, coefficient, coefficient))
def test_dewarping_there_and_back_is_nothing(some, coefficients):
    dewarping = Dewarping(2000, 1500, coefficients)
    for (x, y), (u, v) in zip(some, dewarping.inverse(dewarping.forward(some)), strict=True):
        assert x == u and math.isclose(y, v, abs_tol=1e-4)


@pytest.mark.parametrize("direction", [0, 90, 180, 270])
def test_turning_moves_points_as_it_moves_pixels(direction):
    image = Image.new("RGB", (70, 40))
    image.putpixel((12, 5), (255, 0, 0))
    turn = turning(direction, 70, 40)
    turned = turn_image(image, direction)
    assert turned.size == (turn.width, turn.height)
    ((x, y),) = turn.forward([(12.5, 5.5)])  # the middle of that pixel
    assert turned.getpixel((int(x), int(y))) == (255, 0, 0)
    assert np.array_equal(np.asarray(turn.warp(image)), np.asarray(turned))


def test_corners_go_to_the_corners_of_the_page():
    corners = ((100, 150), (900, 80), (950, 1300), (60, 1250))
    transform = from_corners(corners)
    expected = ((0, 0), (transform.width, 0), (transform.width, transform.height), (0, transform.height))
    np.testing.assert_allclose(transform.forward(corners), expected, atol=1e-6)
    assert transform.width == round(math.dist(corners[2], corners[3]))  # the longer of the upper and lower edge
    assert from_corners(((0, 0), (10, 0), (20, 0), (30, 0))) is None


def test_a_warp_shows_what_the_map_says():
    page = draw_words()
    transform = rotation(7, *SIZE)
    found, expected = engine_boxes(transform.warp(page)), engine_boxes(page)
    for text, box in expected.items():
        np.testing.assert_allclose(found[text].points, transform.forward(box.points), atol=2.5)
    assert skew_angle(transform) == pytest.approx(-7)


def test_a_good_page_is_read_once_and_left_alone():
    engine = WordEngine()
    page = rectify(draw_words(), engine)
    assert engine.readings == page.readings == 1
    assert page.transform == Transform.identity(*SIZE) and page.direction == 0 and page.angle == 0
    assert page.boxes == page.original_boxes and words_of(page) == LINES


@pytest.mark.parametrize("turned_by", [90, 180, 270])
def test_the_direction_is_found(turned_by):
    image = turn_image(draw_words(), turned_by)
    page = rectify(image, WordEngine())
    assert page.direction == (360 - turned_by) % 360
    assert words_of(page) == LINES and mean_score(page.boxes) > 0.9
    originals = {box.text: (box.left, box.top, box.right, box.bottom) for box in page.original_boxes}
    for text, box in engine_boxes(image).items():
        np.testing.assert_allclose(originals[text], (box.left, box.top, box.right, box.bottom), atol=1.5)


@pytest.mark.parametrize("angle", [-25, -12, -3, -1, 1, 4, 20])
def test_a_page_that_lies_askew_is_rotated(angle):
    lying = Transform.identity(*SIZE).then(rotation(angle, *SIZE))
    page = rectify(lying.warp(draw_words()), WordEngine())
    assert page.angle == pytest.approx(angle, abs=0.4)
    assert words_of(page) == LINES and mean_slope(page.boxes) < math.tan(math.radians(0.5))


CORNERS = ((180, 120), (1000, 220), (1080, 900), (90, 860))


def test_a_page_seen_from_an_angle_is_straightened_and_cropped():
    photo = photograph(draw_words(), CORNERS, (1200, 1000))
    page = rectify(photo, WordEngine())
    assert page.outline is not None and len(page.outline.corners()) == 4
    np.testing.assert_allclose(page.outline.quadrangle(), CORNERS, atol=6)
    assert words_of(page) == LINES
    scale_x, scale_y = page.transform.width / WIDTH, page.transform.height / HEIGHT
    expected = engine_boxes(draw_words())
    for box in page.boxes:
        flat = [(x * scale_x, y * scale_y) for x, y in expected[box.text].points]
        np.testing.assert_allclose(box.points, flat, atol=12)
    found = engine_boxes(photo)
    for box in page.original_boxes:
        assert box.left == pytest.approx(found[box.text].left, abs=4)
        assert box.bottom == pytest.approx(found[box.text].bottom, abs=4)


def test_upside_down_and_from_an_angle_at_once():
    photo = turn_image(photograph(draw_words(), CORNERS, (1200, 1000)), 180)
    page = rectify(photo, WordEngine())
    assert page.direction == 180 and words_of(page) == LINES


class WorseWhenWarped(WordEngine):
    """Reads the photo well, and half as much of anything of another size."""

    def read(self, image):
        boxes = super().read(image)
        return boxes if image.size == (1200, 1000) else boxes[::2]


def test_a_second_reading_that_is_worse_is_not_taken():
    photo = photograph(draw_words(), CORNERS, (1200, 1000))
    page = rectify(photo, WorseWhenWarped())
    assert page.readings == 2
    assert words_of(page) == LINES  # all words, and still straightened


class NeverSure(WordEngine):
    """As on a blurred page: low scores everywhere, whichever way it is turned."""

    def read(self, image):
        return [Box(box.points, box.text, 0.6) for box in super().read(image)]


def test_a_page_that_reads_badly_every_way_stays_as_it_is():
    page = rectify(draw_words(), NeverSure())
    assert page.direction == 0 and page.readings == 4 and words_of(page) == LINES


def test_an_image_without_text_is_an_empty_page():
    page = rectify(Image.new("RGB", (300, 200), "white"), WordEngine())
    assert page.boxes == page.original_boxes == () and page.direction == 0 and page.angle == 0


def test_text_beside_the_paper_stays_on_the_page():
    photo = photograph(draw_words(), ((260, 100), (1100, 100), (1100, 900), (260, 900)), (1200, 1000))
    draw = ImageDraw.Draw(photo)
    draw.rectangle((20, 950, 160, 972), fill=(10, 60, 5))
    draw.rectangle((20, 950, 42, 972), fill=(230, 10, 10))
    page = rectify(photo, WordEngine())
    assert len(page.boxes) == 49 and page.outline is not None
    assert all(box.left >= -1 and box.right <= page.transform.width + 1 for box in page.boxes)
    assert all(box.top >= -1 and box.bottom <= page.transform.height + 1 for box in page.boxes)


def test_shadows_are_no_edges_of_paper():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    shade = 0.35 + 0.65 / (1 + np.exp((x + y - 1100) / 60))[..., None]  # falls to a third over some 300 pixels
    image = Image.fromarray((np.asarray(draw_words()) * shade).astype(np.uint8))
    assert find_outline(image, []) is None


@pytest.mark.parametrize(
    ("corners", "seen", "edges"),
    [
        (((100, 80), (1100, 90), (1090, 900), (110, 910)), 4, 4),
        (((100, -200), (1100, -200), (1090, 900), (110, 910)), 2, 3),  # cut off above
        (((-300, -200), (1100, -200), (1090, 900), (-300, 910)), 1, 2),  # above and on the left
    ],
)
def test_corners_that_the_photo_cuts_off_are_not_counted(corners, seen, edges):
    photo = photograph(Image.new("RGB", SIZE, (240, 240, 235)), corners, (1200, 1000))
    outline = find_outline(photo, [])
    assert len(outline.corners()) == seen and sum(outline.edges) == edges


def test_paper_that_fills_the_image_has_no_outline():
    assert find_outline(draw_words(), []) is None
    assert find_outline(Image.new("RGB", (400, 300), TABLE_COLOUR), []) is None


def test_what_leaves_the_text_outside_is_no_page():
    photo = photograph(
        Image.new("RGB", SIZE, "white"), ((300, 400), (1100, 400), (1100, 900), (300, 900)), (1200, 1000)
    )
    far = Box(((10, 10), (200, 10), (200, 30), (10, 30)), "beside the paper")
    assert find_outline(photo, []) is not None and find_outline(photo, [far]) is None


def curled(draw_noise: float = 0.0) -> tuple[list[Box], Dewarping]:
    """The boxes of a page whose lines bend down to the right, more so at its foot."""
    bend = Dewarping(WIDTH, HEIGHT, (0.01, 0.12, 0.05, 0.05, 0.03))
    noise = np.random.default_rng(0)
    boxes = []
    for box in WordEngine().read(draw_words()):
        moved = bend.inverse(box.points)
        boxes.append(Box(tuple((x, y + draw_noise * noise.standard_normal()) for x, y in moved), box.text))
    return boxes, bend


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_curled_lines_are_levelled(noise):
    boxes, bend = curled(noise)
    found = fit_dewarping(boxes, WIDTH, HEIGHT)
    levelled = [found.move(box) for box in boxes]
    assert mean_slope(levelled) < 0.3 * mean_slope(boxes) + 0.02 * noise
    np.testing.assert_allclose(found.coefficients[:2], bend.coefficients[:2], atol=0.02 + 0.03 * noise)
    assert [" ".join(text.split()) for text in restore(levelled).text.split("\n")] == LINES


def test_dewarping_leaves_level_pages_and_few_boxes_alone():
    level = WordEngine().read(draw_words())
    assert not any(fit_dewarping(level, WIDTH, HEIGHT).coefficients)
    boxes, _ = curled()
    assert not any(fit_dewarping(boxes[:8], WIDTH, HEIGHT).coefficients)
    assert not any(fit_dewarping([], WIDTH, HEIGHT).coefficients)
