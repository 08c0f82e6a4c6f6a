"""SwinVED's training augmentation: seeded, inside its limits, and each warp where its numbers say."""

import numpy as np
import pytest
import torch
from PIL import Image
from swin_ved import augmenting_swin_ved as augmenting
from swin_ved.augmenting_swin_ved import FILL, augment, shift_scale_rotate, warp_perspective
from swin_ved_tiny import tiny_processor


def spot(x: int, y: int, side: int = 100) -> Image.Image:
    """A white 5 x 5 square around (x, y) on black."""
    pixels = np.zeros((side, side), np.uint8)
    pixels[y - 2 : y + 3, x - 2 : x + 3] = 255
    return Image.fromarray(pixels)


def centre(image: Image.Image) -> tuple[float, float]:
    """Centre of what is brighter than the fill."""
    rows, columns = np.nonzero(np.asarray(image) > 150)
    return float(columns.mean()), float(rows.mean())


def test_the_same_seed_gives_the_same_picture():
    processor = tiny_processor()[0]
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120), dtype=np.uint8))

    def draw(**arguments) -> torch.Tensor:
        return processor(images=[[image, image]], augment=True, **arguments)["pixel_values"]

    first = draw(seed=1)
    assert first.shape == (1, 3, 3, 64, 64)
    assert torch.equal(first, draw(seed=1))
    assert not torch.equal(first, draw(seed=2))
    assert not torch.equal(first[0, 0], first[0, 1])  # each image has its own draw
    torch.manual_seed(7)
    from_torch = [draw(), draw()]
    assert not torch.equal(*from_torch)
    torch.manual_seed(7)
    assert torch.equal(draw(), from_torch[0])
    assert not torch.equal(first, processor(images=[[image, image]])["pixel_values"])


def test_about_half_of_the_pictures_get_each_change():
    grey = Image.new("L", (64, 64), 200)
    moved = brightened = 0
    for seed in range(400):
        pixels = np.asarray(augment(grey, 64, 64, np.random.default_rng(seed)))
        brightened += pixels.max() != 200
        moved += len(np.unique(pixels)) > 1  # some corner was uncovered and filled
    assert 0.4 < brightened / 400 < 0.6
    assert 0.3 < moved / 400 < 0.6  # a shift of nearly nothing uncovers nothing


def test_contrast_and_brightness_stay_within_a_fifth():
    values = set()
    for seed in range(300):
        image = augment(Image.new("L", (64, 64), 100), 64, 64, np.random.default_rng(seed))
        values.add(np.asarray(image)[32, 32])
    assert min(values) >= 100 * 0.8 - 51 - 1
    assert max(values) <= 100 * 1.2 + 51 + 1
    assert max(values) - min(values) > 60


def test_shift_moves_right_and_down_by_a_fraction():
    x, y = centre(shift_scale_rotate(spot(50, 50), (0.1, 0.05), scale=1, degrees=0))
    assert (x, y) == pytest.approx((60, 55), abs=0.6)


def test_rotation_is_counter_clockwise_about_the_centre():
    x, y = centre(shift_scale_rotate(spot(80, 50), (0, 0), scale=1, degrees=90))
    assert (x, y) == pytest.approx((50, 20), abs=1.1)


def test_scale_is_about_the_centre_and_uncovers_the_fill():
    smaller = shift_scale_rotate(spot(90, 50), (0, 0), scale=0.5, degrees=0)
    assert centre(smaller) == pytest.approx((70, 50), abs=0.8)
    assert np.asarray(smaller)[5, 5] == FILL
    color = shift_scale_rotate(Image.new("RGB", (40, 40)), (0, 0), scale=0.5, degrees=0)
    assert color.getpixel((1, 1)) == (FILL, FILL, FILL)


def test_perspective_takes_the_inner_corners_to_the_outer_ones():
    insets = np.array([(0.2, 0.1), (0.1, 0.1), (0.1, 0.2), (0.05, 0.05)])
    for corner, (x, y) in {(20, 10): (0, 0), (90, 10): (100, 0), (90, 80): (100, 100), (5, 95): (0, 100)}.items():
        moved = centre(warp_perspective(spot(*corner), insets))
        assert moved == pytest.approx((x, y), abs=4.5)  # about half of the square is cut off
    unchanged = warp_perspective(spot(30, 60), np.zeros((4, 2)))
    assert np.array_equal(np.asarray(unchanged), np.asarray(spot(30, 60)))


def test_the_perspective_and_the_crop_are_drawn(monkeypatch):
    """A grey ramp's left edge, with all other changes off: cut off by the crop, by the warp, by neither."""
    ramp = Image.fromarray(np.tile(np.arange(100, dtype=np.uint8), (100, 1)))
    for name, value in {"SHIFT": 0, "SCALE": (0, 0), "DEGREES": 0, "CONTRAST": 0}.items():
        monkeypatch.setattr(augmenting, name, value)

    def edges(resize_size: int) -> set[int]:
        draws = (augment(ramp, resize_size, 100, np.random.default_rng(seed)) for seed in range(60))
        return {int(np.asarray(picture)[50, 1]) for picture in draws}

    assert len(edges(100)) > 4  # the warp moves the edge inwards
    monkeypatch.setattr(augmenting, "PERSPECTIVE", 0)
    assert edges(100) == {1}
    assert len(edges(150)) > 15  # of 51 places to cut, two for each grey level and a half
    corners = {np.asarray(augment(ramp.rotate(90), 150, 100, np.random.default_rng(s)))[1, 50] for s in range(60)}
    assert len(corners) > 15  # up and down too


def test_no_picture_is_mirrored():
    image = Image.fromarray(np.tile(np.linspace(0, 255, 64).astype(np.uint8), (64, 1)))
    for seed in range(60):
        pixels = np.asarray(augment(image, 64, 64, np.random.default_rng(seed)), float)
        assert pixels[20:44, 44:54].mean() > pixels[20:44, 10:20].mean() + 20
