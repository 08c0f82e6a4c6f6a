"""Radiograph files: sizes, grey values by file type, reduced against full decoding, and damaged files."""

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from medvqa_core.errors import InputError
from mimic_cxr_vqa.images import FILM_SIDE, check_image, read_film, to_gray


def film(height: int, width: int, noise: float = 4.0) -> np.ndarray:
    """A smooth bright blob on a slope, with noise: uint8 (height, width)."""
    y, x = np.mgrid[0:height, 0:width]
    values = 40 + 80 * y / height + 90 * np.exp(-(((x / width - 0.5) / 0.2) ** 2) - ((y / height - 0.5) / 0.3) ** 2)
    return (values + np.random.default_rng(0).normal(0, noise, values.shape)).clip(0, 255).astype(np.uint8)


def save(image: Image.Image | np.ndarray, path: Path, **options) -> Path:
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def encoded(image: np.ndarray, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind)
    return buffer.getvalue()


def read(path: Path, side: int | None = None) -> np.ndarray:
    return np.asarray(read_film(path, side)).astype(int)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P"])
def test_grey_is_read_alike_from_every_mode(tmp_path, mode):
    gray = Image.fromarray(film(30, 40))
    image = gray.convert(mode)
    if mode.endswith("A"):
        image.putalpha(Image.new("L", gray.size, 7))  # transparency is ignored
    np.testing.assert_array_equal(read(save(image, tmp_path / "a.png")), np.asarray(gray))


def test_one_bit_and_sixteen_bit_images_are_scaled(tmp_path):
    image = Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert("1")
    np.testing.assert_array_equal(read(save(image, tmp_path / "a.png")), [[0, 255], [255, 0]])
    path = save(np.array([[0, 128, 129, 257], [300, 32768, 65278, 65535]], np.uint16), tmp_path / "b.png")
    assert Image.open(path).mode == "I;16"
    np.testing.assert_array_equal(read(path), [[0, 0, 1, 1], [1, 128, 254, 255]])


def test_colours_become_luma(tmp_path):
    gray = film(400, 300, noise=1)
    path = save(np.stack([gray, gray // 2, 255 - gray], axis=-1), tmp_path / "a.jpg", quality=98)
    expected = (0.299 * gray + 0.587 * (gray // 2) + 0.114 * (255 - gray)).round()
    assert np.abs(read(path) - expected).max() <= 8


@pytest.mark.parametrize("mode", ["F", "I", "HSV"])
def test_pixels_without_a_known_range_are_refused(mode):
    with pytest.raises(InputError, match=f"image scan 3 .*'{mode}'.*Convert it"):
        to_gray(Image.new(mode, (2, 2)), "scan 3")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "is absent"),
        (b"", "has zero bytes"),
        (b"<html>log in first</html>", "starts with b'<htm'"),
        (b"\0" * 128 + b"DICM" + b"\0" * 99, "is a DICOM file"),
        (encoded(film(64, 64), "JPEG")[:-2], "JPEG end marker"),
        (encoded(film(64, 64), "JPEG")[:200], "truncated after 200 bytes"),
        (encoded(film(64, 64), "PNG")[:500], "PNG end marker"),
        (encoded(film(8, 8), "GIF"), "JPEG and PNG"),
        (encoded(film(32, 32), "JPEG") + bytes(100), None),  # padding after the end marker
    ],
)
def test_check_names_the_problem(tmp_path, content, reason):
    path = tmp_path / "a.jpg"
    if content is not None:
        path.write_bytes(content)
    assert reason in check_image(path) if reason else check_image(path) is None


def test_folders_and_unreadable_files_are_named(tmp_path):
    assert check_image(tmp_path) == "is a folder, not an image file"
    if os.geteuid():  # root may read everything
        path = save(film(8, 8), tmp_path / "a.png")
        path.chmod(0)
        assert "Permission denied" in check_image(path)


def test_check_reads_head_and_tail_only(tmp_path):
    path = tmp_path / "a.jpg"
    with open(path, "wb") as file:
        file.write(b"\xff\xd8\xff\xe0")
        file.seek(64 * 2**20)
        file.write(b"\xff\xd9")
    tracemalloc.start()
    try:
        assert check_image(path) is None
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["JPEG", "PNG"]), damage=st.data())
def test_damaged_files_give_an_image_or_an_input_error(tmp_path, kind, damage):
    content = bytearray(encoded(film(48, 40), kind))
    for place in damage.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = damage.draw(st.integers(0, 255))
    path = tmp_path / "a.img"
    path.write_bytes(content[: damage.draw(st.integers(0, len(content)))] if damage.draw(st.booleans()) else content)
    try:
        assert read_film(path, 16).mode == "L"
    except InputError as error:
        assert str(path) in str(error)


def shrunk_first(path: Path, folder: Path, side: int) -> np.ndarray:
    """The input of the released models: the whole image shrunk and stored, then decoded from that file."""
    with Image.open(path) as image:
        gray = image.convert("L")
    scale = side / min(gray.size)
    gray.resize([round(length * scale) for length in gray.size], Image.Resampling.BICUBIC).save(folder / "shrunk.png")
    with Image.open(folder / "shrunk.png") as image:
        return np.asarray(image).astype(int)


@pytest.mark.parametrize("size", [(1300, 1100), (1031, 2050), (640, 701), (513, 512)])
def test_reduced_decoding_differs_by_a_few_grey_levels(tmp_path, size):
    path = save(film(*size), tmp_path / "a.jpg", quality=95)
    found, expected = read(path, FILM_SIDE), shrunk_first(path, tmp_path, FILM_SIDE)
    assert min(found.shape) == FILM_SIDE and found.shape == expected.shape
    apart = np.abs(found - expected)
    assert apart.mean() <= 1.0 and apart.max() <= 8  # the noise's standard deviation is 4


def test_a_shift_of_two_pixels_fails_that_measure(tmp_path):
    path = save(film(1300, 1100, noise=12.0), tmp_path / "a.jpg", quality=95)
    moved = np.roll(read(path, FILM_SIDE), 2, axis=1)
    assert np.abs(moved - shrunk_first(path, tmp_path, FILM_SIDE)).mean() > 2.0


def test_the_shorter_side_is_shrunk_and_small_images_are_kept(tmp_path):
    assert read_film(save(film(1500, 1200), tmp_path / "a.png"), 300).size == (300, 375)
    assert read_film(save(film(200, 400), tmp_path / "wide.png"), 300).size == (400, 200)
    np.testing.assert_array_equal(read(save(film(90, 70), tmp_path / "b.png"), FILM_SIDE), film(90, 70))
    assert read_film(save(film(64, 80), tmp_path / "c.jpg", quality=95)).size == (80, 64)
    path = save(film(1300, 1100), tmp_path / "d.jpg")
    np.testing.assert_array_equal(read(path), np.asarray(Image.open(path)))


def test_bytes_colours_and_exif_orientation(tmp_path):
    pixels = film(40, 60)
    np.testing.assert_array_equal(read(encoded(np.stack([pixels] * 3, axis=-1), "PNG")), pixels)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    path = save(pixels, tmp_path / "a.jpg", quality=100, exif=exif)
    np.testing.assert_array_equal(read(path), np.rot90(np.asarray(Image.open(path)), -1))
    large = save(film(700, 1200), tmp_path / "b.jpg", quality=95, exif=exif)
    assert read_film(large, 200).size == (200, 343)


def no_height() -> bytes:
    content = bytearray(encoded(film(16, 16), "JPEG"))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = bytes(4)  # height and width
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xffbroken", b"GIF89a and so on", no_height()])
def test_an_image_that_cannot_be_decoded_is_named(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.jpg .*copy or download"):
        read_film(path)
    with pytest.raises(InputError, match="image 2 of study 7"):
        read_film(content, where="image 2 of study 7")
    with pytest.raises(InputError, match="absent.jpg .*download it"):
        read_film(tmp_path / "absent.jpg")
