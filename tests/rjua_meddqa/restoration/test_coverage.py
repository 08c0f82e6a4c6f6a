"""Pages that cannot be read are named, readable ones are not; the type of an image is told by how it looks."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from rjua_meddqa.fonts import find_font
from rjua_meddqa.phantom.page import draw_page
from rjua_meddqa.restoration.coverage import share_read, share_washed_out
from rjua_meddqa.restoration.quality import find_type, judge_readable


@pytest.fixture(scope="module")
def pages():
    font = find_font()
    return [draw_page(31, number, font, number % 2 == 0) for number in range(1, 9)]


def photo_of(pages):
    return next(page for page in pages if page.annotation.image_type == "photo")


def test_readable_pages_are_readable(pages):
    for page in pages:
        image = page.image.convert("RGB")
        assert share_read(image, page.boxes) > 0.97, page.annotation.img_path
        assert judge_readable(image, page.boxes) is None


def test_print_that_no_box_covers_is_missed(pages):
    page = photo_of(pages)
    image = page.image.convert("RGB")
    half = page.boxes[: len(page.boxes) // 2]
    assert share_read(image, half) < 0.75
    quality, reason = judge_readable(image, half)
    assert quality == "unreadable" and "of the print was read" in reason
    assert share_read(image, []) == 0


def test_little_confidence_is_unreadable(pages):
    page = photo_of(pages)
    mirrored = [replace(box, score=0.78) for box in page.boxes]
    quality, reason = judge_readable(page.image.convert("RGB"), mirrored)
    assert quality == "unreadable" and "confidence of 0.78" in reason


def test_glare_is_told_from_white_paper(pages):
    """Of a photo in which paper is not white; where it is, glare leaves nothing to see."""
    page = pages[2]
    assert page.annotation.image_type == "photo"
    grey = np.asarray(page.image, dtype=float)
    height, width = grey.shape
    y, x = np.mgrid[0:height, 0:width]
    spot = np.exp(-((((x - width * 0.5) / (width * 0.4)) ** 2 + ((y - height * 0.45) / (height * 0.4)) ** 2) ** 2))
    glaring = Image.fromarray((grey + (255 - grey) * np.clip(1.5 * spot, 0, 1)).astype(np.uint8)).convert("RGB")
    left = [b for b in page.boxes if spot[min(int(b.top), height - 1), min(int(b.left), width - 1)] < 0.3]
    assert share_washed_out(page.image.convert("RGB"), page.boxes) < 0.05
    assert share_washed_out(glaring, left) > 0.2
    for other in pages:
        assert share_washed_out(other.image.convert("RGB"), other.boxes) < 0.05


@pytest.mark.parametrize("background", [225, 242])
def test_white_surfaces_of_a_screenshot_and_a_window_are_not_glare(pages, background):
    """Empty cards on a grey screen, and a bright window beside paper that is not white."""
    page = photo_of(pages)
    paper = np.minimum(np.asarray(page.image.convert("L")), background)
    height, width = paper.shape
    screen = np.full((2 * height, width), background, np.uint8)
    screen[:height] = paper
    screen[height + 40 : -40, 40:-40] = 255
    beside = np.full((height, 2 * width), 120, np.uint8)
    beside[:, :width] = paper
    beside[:, width + 20 :] = 255
    for grey in (screen, beside):
        image = Image.fromarray(grey).convert("RGB")
        assert share_washed_out(image, page.boxes) < 0.05


@pytest.mark.parametrize("paper", [225, 240])
def test_white_areas_without_text_beside_or_below_it_are_not_glare(pages, paper):
    """A screen whose background fades to white, a bright desk, and an empty lower half in the light."""
    page = photo_of(pages)
    text = np.minimum(np.asarray(page.image.convert("L")), paper)
    height, width = text.shape
    down = np.concatenate([np.linspace(paper, 255, height // 3), np.full(height - height // 3, 255)])
    across = np.concatenate([np.linspace(paper, 255, width // 5), np.full(width - width // 5, 255)])
    below = np.repeat(down[:, None], width, axis=1)
    falling = np.repeat(np.minimum(255, np.linspace(paper, 290, height))[:, None], width, axis=1)
    beside = np.repeat(across[None], height, axis=0)
    for parts, axis in (((text, below), 0), ((text, falling), 0), ((text, beside), 1)):
        image = Image.fromarray(np.concatenate(parts, axis=axis).astype(np.uint8)).convert("RGB")
        assert share_washed_out(image, page.boxes) < 0.05
        assert judge_readable(image, page.boxes) is None
    assert share_washed_out(image, []) == 0


def test_the_type_of_an_image_is_told_by_how_it_looks(pages):
    for page in pages:
        guess = find_type(page.image.convert("RGB"), 0.0)
        assert (guess == "photo") == (page.annotation.image_type == "photo")
    drawn = next(page for page in pages if page.annotation.image_type != "photo").image.convert("RGB")
    assert find_type(drawn, 0.02) == "photo", "its lines are crooked"
    assert find_type(drawn.resize((800, 1400)), 0.0) == "screenshot"
    assert find_type(drawn.resize((1600, 1000)), 0.0) == "pdf"
