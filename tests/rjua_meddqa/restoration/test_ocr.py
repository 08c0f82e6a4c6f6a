"""Images of any kind become upright RGB, or a clear error; boxes go to JSON and back; RapidOCR reads, offline."""

import json
import sys
from contextlib import ExitStack

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from rapidocr.inference_engine.onnxruntime import ONNXRuntimeError

from medvqa_core.errors import ConfigError, InputError
from rjua_meddqa.restoration import images, ocr
from rjua_meddqa.restoration.images import _OWN_SIZE_LIMIT, find_images, open_report
from rjua_meddqa.restoration.ocr import RapidOcrEngine, boxes_from_json, read_boxes, write_boxes
from rjua_meddqa.restoration.outline import load_cv2
from rjua_meddqa.schema import Box

BOX = Box(((1.5, 2.25), (30.0, 2.0), (30.0, 12.0), (1.0, 12.5)), "总胆红素 7.6", 0.98765)


@pytest.mark.parametrize(
    "value",
    [
        [[[1.5, 2.25], [30, 2], [30, 12], [1, 12.5]], "总胆红素 7.6", 0.98765],
        [[[1.5, 2.25], [30, 2], [30, 12], [1, 12.5]], "总胆红素 7.6", "0.98765"],
        {"points": [[1.5, 2.25], [30, 2], [30, 12], [1, 12.5]], "text": "总胆红素\n7.6", "score": 0.98765},
    ],
)
def test_boxes_of_other_tools(value):
    assert boxes_from_json([value], "x") == [BOX]


def test_two_points_are_a_rectangle_and_the_score_may_be_absent():
    assert boxes_from_json([[[[1, 2], [5, 9]], "a"]], "x") == [Box(((1, 2), (5, 2), (5, 9), (1, 9)), "a", 1.0)]


CORNERS = [[0, 0], [9, 0], [9, 9], [0, 9]]


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"boxes": []}, "boxes, found dict"),
        ([[CORNERS, "a"], [CORNERS[:3], "a", 1]], "box 1: 3 points"),
        ([[[[0, 0], [9, 0], [9, 0], [0, 0]], "a", 1]], "box 0: width 9, height 0"),
        ([[[[0, 0], [9, 0], [9, float("nan")], [0, 9]], "a", 1]], "finite"),
        ([[CORNERS, "a", float("nan")]], "score nan"),
        ([[CORNERS, 7, 1]], "text of type int"),
        ([[CORNERS]], "box 0: ValueError"),
        ([{"text": "a"}], "KeyError"),
        ([3], "box 0"),
        ([[[[0, 0], [10**400, 0], [9, 9], [0, 9]], "a", 1]], "box 0: OverflowError"),
        ([[[1, 2, 3, 4], "a", 1]], "box 0"),
    ],
)
def test_bad_boxes_are_named(values, match):
    with pytest.raises(InputError, match=match):
        boxes_from_json(values, "page.json")


@pytest.mark.parametrize("text", ["", "{", '[[1, "a"'])
def test_files_that_are_no_json(tmp_path, text):
    (tmp_path / "page.json").write_text(text)
    with pytest.raises(InputError, match="page.json"):
        read_boxes(tmp_path / "page.json")
    with pytest.raises(InputError, match="none.json"):
        read_boxes(tmp_path / "none.json")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    ocr._load_rapidocr.cache_clear()
    with pytest.raises(ConfigError, match=r"pip install.*\[ocr\]"):
        RapidOcrEngine().read(Image.new("RGB", (60, 60)))
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ConfigError, match=r"needs cv2.*pip install.*\[ocr\]"):
        load_cv2()


@pytest.mark.slow
def test_rapidocr_reads_a_line_and_says_nothing(capfd):
    page = Image.new("RGB", (640, 200), "white")
    font = ImageFont.load_default(size=36)
    ImageDraw.Draw(page).text((40, 30), "Bilirubin 17.6", fill="black", font=font)
    ImageDraw.Draw(page).text((40, 120), "Glucose", fill="black", font=font)
    boxes = sorted(RapidOcrEngine().read(page), key=lambda box: box.top)
    assert "".join(box.text for box in boxes).replace(" ", "") == "Bilirubin17.6Glucose"
    assert abs(boxes[0].left - 40) < 8 and boxes[0].top < 55 < boxes[0].bottom
    assert RapidOcrEngine().read(Image.new("RGB", (300, 200), "white")) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1), (1, 900)])
def test_rapidocr_takes_any_shape(size):
    assert RapidOcrEngine().read(Image.new("RGB", size, (250, 250, 250))) == []


@pytest.mark.parametrize(
    ("failure", "becomes"),
    [
        (ONNXRuntimeError("bad shape"), InputError),
        (cv2.error("bad depth"), InputError),
        (ValueError("x"), InputError),
        (MemoryError(), InputError),
        (NameError("x"), NameError),
    ],
)
def test_failures_of_the_engine_are_the_images_and_our_mistakes_stay_ours(monkeypatch, failure, becomes):
    def read(_):
        raise failure

    monkeypatch.setattr(ocr, "_load_rapidocr", lambda *_: read)
    with pytest.raises(becomes):
        RapidOcrEngine().read(Image.new("RGB", (60, 60)))


def left_black(size=(80, 40)) -> Image.Image:
    """White, its left half black."""
    image = Image.new("L", size, 255)
    image.paste(0, (0, 0, size[0] // 2, size[1]))
    return image


def saved(path, image, **options):
    image.save(path, **options)
    return path


def transparent(mode: str) -> Image.Image:
    """`left_black`, whose white half is not painted but transparent."""
    image = Image.new("RGBA", (80, 40), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 40, 40))
    return image.convert(mode)


def palette_with_transparency(path):
    image = Image.new("P", (80, 40), 1)
    image.putpalette([0, 0, 0, 200, 30, 30])
    image.paste(0, (0, 0, 40, 40))
    image.save(path, transparency=1)
    return path


def sixteen_bits(path):
    Image.fromarray((np.asarray(left_black()).astype(np.uint16) << 8) + 200).save(path)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: saved(folder / "a.png", left_black()),
        lambda folder: saved(folder / "a.png", left_black().convert("1")),
        lambda folder: saved(folder / "a.png", left_black().convert("P")),
        lambda folder: saved(folder / "a.jpg", left_black().convert("CMYK"), quality=95),
        lambda folder: saved(folder / "a.jpg", left_black().convert("RGB"), quality=95),
        lambda folder: saved(folder / "a.tif", left_black().convert("CMYK")),
        lambda folder: saved(folder / "a.webp", left_black().convert("RGB"), lossless=True),
        lambda folder: saved(folder / "a.png", transparent("RGBA")),
        lambda folder: saved(folder / "a.png", transparent("LA")),
        lambda folder: palette_with_transparency(folder / "a.png"),
        lambda folder: sixteen_bits(folder / "a.png"),
        lambda folder: sixteen_bits(folder / "a.tif"),
    ],
)
def test_every_kind_of_pixel_becomes_rgb(write, tmp_path):
    image = open_report(write(tmp_path))
    assert (image.width, image.height, image.factor) == (80, 40, 1)
    assert image.pixels.mode == "RGB" and image.pixels.size == (80, 40)
    pixels = np.asarray(image.pixels).astype(int)
    assert pixels[:, :36].max() < 30 and pixels[:, 44:].min() > 225


# How a camera that notes this orientation has stored the upright picture: 6 wants a turn right, so it was turned left.
STORED_BY = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_90",
    7: "TRANSVERSE",
    8: "ROTATE_270",
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_their_camera_says(orientation, tmp_path):
    stored = left_black()
    if orientation != 1:
        stored = stored.transpose(Image.Transpose[STORED_BY[orientation]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = open_report(saved(tmp_path / "a.png", stored, exif=exif))
    assert (image.width, image.height) == image.pixels.size == (80, 40)
    assert np.array_equal(np.asarray(image.pixels)[..., 0], np.asarray(left_black()))


@pytest.mark.parametrize(("name", "mode", "factor"), [("a.jpg", "RGB", 4), ("a.png", "L", 5), ("a.png", "1", 5)])
def test_a_side_of_20_000_pixels_is_reduced_by_a_whole_factor(tmp_path, name, mode, factor):
    image = open_report(saved(tmp_path / name, left_black((20_000, 5_000)).convert(mode)))
    assert (image.width, image.height) == (20_000, 5_000)
    width = 20_000 // factor
    assert image.factor == factor and image.pixels.size == (width, 5_000 // factor)
    pixels = np.asarray(image.pixels)[..., 0].astype(int)
    assert pixels[:, : width // 2 - 9].max() < 30 and pixels[:, width // 2 + 9 :].min() > 225


@pytest.mark.parametrize(
    ("size", "factor"),
    [
        ((1080, 12_000), 1),  # a stitched screenshot keeps its pixels
        ((1999, 20_000), 1),
        ((2000, 20_000), 2),
        ((3, 60_000), 3),  # to LONGEST
        ((1080, 4_000), 1),
        ((4_000, 4_000), 2),
    ],
)
@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_strip_is_reduced_by_its_width(tmp_path, name, size, factor):
    image = open_report(saved(tmp_path / name, Image.new("L", size, 255)))
    assert (image.width, image.height) == size
    assert image.factor in (factor, 4) if size[0] == 3 else image.factor == factor  # JPEG knows 1, 2, 4 and 8
    assert image.pixels.size == tuple(-(-side // image.factor) for side in size)


def test_bands_join_without_a_seam(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "BAND_ROWS", 7)
    ramp = Image.fromarray(np.add.outer(np.arange(4003), np.arange(2500)).astype(np.uint8))
    image = open_report(saved(tmp_path / "a.png", ramp))
    assert image.factor == 2 and image.pixels.size == (1250, 2002)
    assert np.array_equal(np.asarray(image.pixels)[..., 0], np.asarray(ramp.reduce(2)))


def test_too_many_bytes_of_pixels_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_DECODED", 5_000_000)
    with pytest.raises(InputError, match="4000 x 3000 .*mode L .* 0.0 GB"):
        open_report(saved(tmp_path / "a.png", left_black((4000, 3000))))
    jpeg = open_report(saved(tmp_path / "a.jpg", left_black((4000, 3000))))  # decoded at half its size
    assert jpeg.factor == 2 and jpeg.pixels.size == (2000, 1500)
    with pytest.raises(InputError, match="4000 x 3000 .*JPEG"):
        open_report(saved(tmp_path / "b.jpg", left_black((4000, 3000)), progressive=True))
    small = open_report(saved(tmp_path / "c.jpg", left_black((1600, 1000)).convert("RGB"), progressive=True))
    assert small.factor == 1  # 4:2:0: 3 bytes a pixel, 4.8 million


def two_pages(path):
    left_black().save(path, save_all=True, append_images=[left_black()])
    return path


def cut(path):
    Image.effect_noise((300, 300), 50).save(path)
    path.write_bytes(path.read_bytes()[:9000])
    return path


def written(path, content: bytes):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda folder: folder / "none.png", r"none.png: cannot be opened \(No such file"),
        (lambda folder: folder, "cannot be opened"),
        (lambda folder: written(folder / "a.png", b""), "empty"),
        (lambda folder: written(folder / "a.png", b"no image at all, only words"), "not a readable image"),
        (lambda folder: written(folder / "a.jpg", b"%PDF-1.7 ..."), "PDF.* pdftoppm"),
        (lambda folder: written(folder / "a.jpg", b"\0\0\0\x18ftypheic\0\0"), "HEIC.* heif-convert"),
        (lambda folder: two_pages(folder / "a.tif"), "2 pages in one image"),
        (lambda folder: cut(folder / "a.png"), "a.png"),
        (lambda folder: cut(folder / "a.jpg"), "a.jpg"),
    ],
)
def test_what_is_no_image_is_named(write, match, tmp_path):
    with pytest.raises(InputError, match=match):
        open_report(write(tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of what it skips
def test_damaged_images_never_end_in_another_error(tmp_path):
    """Every byte position of small files of each kind, damaged: an image or an InputError comes out."""
    for suffix in ("png", "jpg", "tif", "bmp", "webp", "gif"):
        whole = saved(tmp_path / f"a.{suffix}", left_black((24, 16)).convert("RGB")).read_bytes()
        for position in range(0, len(whole), max(1, len(whole) // 60)):
            for value in (0xFF, whole[position] ^ 0x55):
                damaged = whole[:position] + bytes([value]) + whole[position + 1 :]
                try:
                    assert open_report(written(tmp_path / f"b.{suffix}", damaged)).pixels.mode == "RGB"
                except InputError as error:
                    assert f"b.{suffix}" in str(error)


def test_images_of_a_folder(tmp_path):
    for name in ("b.PNG", "a.jpeg", "notes.txt", "c.pdf", "d.heic"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in find_images(tmp_path)] == ["a.jpeg", "b.PNG", "c.pdf", "d.heic"]
    with pytest.raises(InputError, match="none|folder"):
        find_images(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no image"):
        find_images(tmp_path / "empty")


def test_written_boxes_are_plain_json(tmp_path):
    write_boxes(tmp_path / "page.json", [BOX])
    assert json.loads((tmp_path / "page.json").read_text(encoding="utf-8")) == [
        {"points": [[1.5, 2.25], [30.0, 2.0], [30.0, 12.0], [1.0, 12.5]], "text": "总胆红素 7.6", "score": 0.98765}
    ]


def test_pillow_s_own_limit_is_back_once_the_last_reader_is_done():
    """Two threads that read at once may leave in either order: the limit is not lost."""
    limit = Image.MAX_IMAGE_PIXELS
    assert limit is not None
    first, second = ExitStack(), ExitStack()
    first.enter_context(_OWN_SIZE_LIMIT)
    second.enter_context(_OWN_SIZE_LIMIT)
    first.close()
    assert Image.MAX_IMAGE_PIXELS is None
    second.close()
    assert limit == Image.MAX_IMAGE_PIXELS
