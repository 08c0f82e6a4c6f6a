"""Radiograph files: shapes, grey values by file type, fast against full decoding, and every kind of bad file."""

import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from medvqa_core.errors import InputError, one_line
from mimic_cxr_vqa.images import FILM_SIDE, check_image, read_film, read_image, to_gray


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


def difference(left: np.ndarray, right: np.ndarray) -> int:
    assert left.shape == right.shape
    return int(np.abs(left.astype(int) - right.astype(int)).max())


def test_without_a_size_the_pixels_of_the_file_come_back(tmp_path):
    pixels = film(90, 70)
    array = read_image(save(pixels, tmp_path / "a.png"))
    assert array.dtype == np.uint8 and array.flags.writeable
    np.testing.assert_array_equal(array, pixels)


def test_a_size_squeezes_into_a_square(tmp_path):
    path = save(np.repeat([[0], [255]], [60, 60], axis=0).repeat(40, axis=1).astype(np.uint8), tmp_path / "a.png")
    array = read_image(path, size=32)
    assert array.shape == (32, 32)
    assert (array[:12] == 0).all() and (array[-12:] == 255).all()  # height 120 and width 40 both fill the square


def test_exact_is_the_plain_way_to_the_last_bit(tmp_path):
    path = save(film(700, 500), tmp_path / "a.jpg", quality=95)
    plain = np.asarray(Image.open(path).convert("RGB").resize((96, 96)))[..., 0]
    np.testing.assert_array_equal(read_image(path, size=96, exact=True), plain)


@pytest.mark.parametrize(("height", "width"), [(1536, 1600), (1545, 1537), (3056, 2544)])
def test_the_fast_way_stays_within_a_few_grey_levels(tmp_path, height, width):
    path = save(film(height, width), tmp_path / "a.jpg", quality=95)
    fast, exact = read_image(path, size=384), read_image(path, size=384, exact=True)
    assert 0 < difference(fast, exact) <= 4  # above 0: the file was decoded at a fraction
    assert np.abs(fast.astype(int) - exact).mean() < 0.5


@pytest.mark.parametrize(("height", "width"), [(760, 700), (3000, 767), (100, 90)])
def test_the_fast_way_never_decodes_below_the_size_asked_for(tmp_path, height, width):
    path = save(film(height, width), tmp_path / "a.jpg", quality=95)  # half of the shorter side is less than 384
    np.testing.assert_array_equal(read_image(path, size=384), read_image(path, size=384, exact=True))


@pytest.mark.parametrize("size", [None, 100])
def test_a_colour_jpeg_gives_its_luma(tmp_path, size):
    gray = film(400, 300, noise=1)
    path = save(np.stack([gray, gray // 2, 255 - gray], axis=-1), tmp_path / "a.jpg", quality=98)
    assert difference(read_image(path, size), read_image(path, size, exact=True)) <= 3
    expected = (0.299 * gray + 0.587 * (gray // 2) + 0.114 * (255 - gray)).round().astype(np.uint8)
    assert difference(read_image(path), expected) <= 8


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P"])
def test_every_way_of_storing_the_same_grey_reads_the_same(tmp_path, mode):
    gray = Image.fromarray(film(30, 40))
    image = gray.convert(mode)
    if mode.endswith("A"):
        image.putalpha(Image.new("L", gray.size, 7))  # nearly transparent: the grey beneath counts
    np.testing.assert_array_equal(read_image(save(image, tmp_path / "a.png")), np.asarray(gray))


def test_one_bit_images_are_black_and_white(tmp_path):
    path = save(Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert("1"), tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(path), [[0, 255], [255, 0]])


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    values = np.array([[0, 128, 129, 257], [300, 32768, 65278, 65535]], np.uint16)
    path = save(values, tmp_path / "a.png")
    assert Image.open(path).mode == "I;16"
    np.testing.assert_array_equal(read_image(path), [[0, 0, 1, 1], [1, 128, 254, 255]])


@pytest.mark.parametrize("mode", ["F", "I", "HSV"])
def test_pixels_without_a_known_range_are_refused(mode):
    with pytest.raises(InputError, match=f"image scan 3 has pixels of type '{mode}'; allowed: .*; convert it"):
        to_gray(Image.new(mode, (2, 2)), "scan 3")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "is absent"),
        (b"", "has zero bytes"),
        (b"<html>log in first</html>", "starts with b'<htm'"),
        (b"\0" * 128 + b"DICM" + b"\0" * 99, "is a DICOM file"),
        (encoded(film(64, 64), "JPEG")[:-2], "is cut off .* JPEG end marker"),
        (encoded(film(64, 64), "JPEG")[:200], "is cut off .* JPEG end marker"),
        (encoded(film(64, 64), "PNG")[:500], "is cut off .* PNG end marker"),
        (encoded(film(8, 8), "GIF"), "starts with b'GIF8'.*allowed are JPEG and PNG"),
    ],
)
def test_a_bad_file_is_named_with_its_reason_and_remedy(tmp_path, content, reason):
    path = tmp_path / "p10" / "a.jpg"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"image {path} {reason}.*; .*download it") as caught:
        read_image(path, size=32)
    assert one_line(caught.value) == str(caught.value)
    assert str(caught.value).startswith(f"image {path} {check_image(path)}")


def test_a_folder_is_not_an_image(tmp_path):
    assert check_image(tmp_path) == "is a folder, not an image file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    path = save(film(8, 8), tmp_path / "a.png")
    path.chmod(0)
    assert "Permission denied" in check_image(path)


def test_truncation_is_an_error_even_where_pillow_was_told_to_accept_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(film(200, 200), "JPEG")[:3000])
    with pytest.raises(InputError, match="is cut off after 3000 bytes"):
        read_image(path)


def test_a_jpeg_of_no_height_is_an_error(tmp_path):
    content = bytearray(encoded(film(16, 16), "JPEG"))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = bytes(4)  # height and width
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"image {path} cannot be decoded"):
        read_image(path)


def test_padding_after_the_end_marker_is_fine(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(film(32, 32), "JPEG") + bytes(100))
    assert check_image(path) is None
    assert read_image(path).shape == (32, 32)


def test_the_check_reads_head_and_tail_only(tmp_path):
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
def test_damaged_files_give_an_array_or_an_input_error(tmp_path, kind, damage):
    content = bytearray(encoded(film(48, 40), kind))
    for place in damage.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = damage.draw(st.integers(0, 255))
    path = tmp_path / "a.img"
    path.write_bytes(content[: damage.draw(st.integers(0, len(content)))] if damage.draw(st.booleans()) else content)
    try:
        array = read_image(path, size=16)
    except InputError as error:
        assert str(path) in str(error)
    else:
        assert array.shape == (16, 16)


def shrunk_first(path: Path, folder: Path, side: int) -> Image.Image:
    """What the released models read: the whole picture shrunk and stored, then decoded from that file."""
    with Image.open(path) as image:
        gray = image.convert("L")
    scale = side / min(gray.size)
    small = gray.resize([round(length * scale) for length in gray.size], Image.Resampling.BICUBIC)
    small.save(folder / "shrunk.png")
    with Image.open(folder / "shrunk.png") as image:
        image.load()
        return image


@pytest.mark.parametrize("size", [(1300, 1100), (1031, 2050), (640, 701), (513, 512)])
def test_a_film_decoded_at_a_fraction_is_the_one_shrunk_first_but_for_a_few_grey_levels(tmp_path, size):
    path = save(film(*size), tmp_path / "a.jpg", quality=95)
    found, expected = read_film(path), shrunk_first(path, tmp_path, FILM_SIDE)
    assert min(found.size) == FILM_SIDE and found.size == expected.size and found.mode == "L"
    apart = np.abs(np.asarray(found).astype(int) - np.asarray(expected).astype(int))
    assert apart.mean() <= 1.0 and apart.max() <= 8  # the noise's standard deviation is 4


def test_a_film_of_another_scale_would_be_noticed(tmp_path):
    """The measure above fails for a picture that is off by one pixel of the full-size film's eighth."""
    path = save(film(1300, 1100, noise=12.0), tmp_path / "a.jpg", quality=95)
    expected = np.asarray(shrunk_first(path, tmp_path, FILM_SIDE)).astype(int)
    moved = np.roll(np.asarray(read_film(path)).astype(int), 2, axis=1)
    assert np.abs(moved - expected).mean() > 2.0


def test_films_without_a_fraction_are_shrunk_too_and_small_ones_stay(tmp_path):
    found = read_film(save(film(1500, 1200), tmp_path / "a.png"), 300)
    assert found.size == (300, 375)
    np.testing.assert_array_equal(read_film(save(film(90, 70), tmp_path / "b.png")), film(90, 70))
    pixels = film(64, 80)
    assert read_film(save(pixels, tmp_path / "c.jpg", quality=95)).size == (80, 64)
    whole = read_film(save(film(1300, 1100), tmp_path / "d.jpg"), side=None)
    np.testing.assert_array_equal(whole, read_image(tmp_path / "d.jpg"))


def test_a_film_is_grey_from_bytes_and_colours_and_turned_as_exif_says(tmp_path):
    pixels = film(40, 60)
    colour = np.stack([pixels] * 3, axis=-1)
    assert difference(np.asarray(read_film(encoded(colour, "PNG"))), pixels) == 0
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    path = save(pixels, tmp_path / "a.jpg", quality=100, exif=exif)
    found = np.asarray(read_film(path))
    assert found.shape == (60, 40)
    assert difference(found, np.rot90(read_image(path), -1)) == 0
    large = save(film(700, 1200), tmp_path / "b.jpg", quality=95, exif=exif)
    assert read_film(large, 200).size == (200, 343)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xffbroken", b"GIF89a and so on"])
def test_a_film_that_cannot_be_read_names_its_path_or_place(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"image .*a\.jpg cannot be decoded .*copy or download it again"):
        read_film(path)
    with pytest.raises(InputError, match="image 2 of study 7 cannot be decoded"):
        read_film(content, where="image 2 of study 7")
    with pytest.raises(InputError, match="absent.jpg cannot be decoded .*download it"):
        read_film(tmp_path / "absent.jpg")
