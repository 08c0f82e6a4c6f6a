"""A picture of a page: the image with its boxes on the left, the restored text on the right.

The boxes and the text of a line have the same colour and number. The text is monospaced as in a terminal, where a
Chinese character takes two columns.
"""

import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from medvqa_core.files import atomic_file
from rjua_meddqa.fonts import find_font, lacking, load_font
from rjua_meddqa.restoration.images import open_report
from rjua_meddqa.restoration.ocr import RapidOcrEngine
from rjua_meddqa.restoration.pages import Page, restore_page
from rjua_meddqa.schema import Box

HEIGHT = 1000  # pixels of the page at most. The text may be higher
WIDEST_PAGE, WIDEST_TEXT = 820, 960
LARGEST, SMALLEST = 22, 9  # pixels of two columns of text
FACE = 0.92  # size of the letters in two columns. Digits are wider than half a Chinese character
MARGIN = 24
COLOURS = ("#0b6e99", "#b3541e", "#4d7c0f", "#86198f", "#be123c", "#3f4fa8")  # of the lines, in turn
PAPER, FRAME, NUMBER = "white", "#d4d4d4", "#8a8a8a"
PALETTE = 256  # colours of the file, to save space


def write_page_picture(page: Page, image: Path, path: Path, font: Path | None = None) -> Path:
    """Write the picture of `page` as a PNG.

    Args:
        image: the file of the page.
        font: with Chinese characters. By default, `fonts.find_font` finds one. Characters that the bundled font lacks
            are drawn as boxes, with a warning on standard error.

    Raises:
        ConfigError: `font` has no Chinese characters.
        InputError: the image cannot be read.
        OutputError: `path` cannot be written.
    """
    font = find_font(font)
    if boxes := lacking(font, page.restored.text):
        print(
            f"{len(boxes)} characters of {image.name} are drawn as boxes, because the bundled font lacks them. Install "
            "fonts-noto-cjk, or pass a font as --font.",
            file=sys.stderr,
        )
    picture = draw_page_picture(page, image, font).quantize(
        PALETTE, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    with atomic_file(path) as file:
        picture.save(file, format="PNG", optimize=True)
    return path


def picture_image(image: Path, path: Path, font: Path | None = None) -> Path:
    """Restore an image and write its picture. Raises like `write_page_picture`, and without the extra `ocr`."""
    find_font(font)  # fail before OCR
    return write_page_picture(restore_page(image, RapidOcrEngine()), image, path, font)


def draw_page_picture(page: Page, image: Path, font: Path | None = None) -> Image.Image:
    """Draw the RGB picture for `write_page_picture`, with its exceptions."""
    font = find_font(font)
    left, right = _draw_boxes(page, image, font), _draw_text(page.restored.text.split("\n"), font)
    size = (left.width + right.width + 3 * MARGIN, max(left.height, right.height) + 2 * MARGIN)
    picture = Image.new("RGB", size, PAPER)
    picture.paste(left, (MARGIN, MARGIN))
    picture.paste(right, (left.width + 2 * MARGIN, MARGIN))
    return picture


def _draw_boxes(page: Page, path: Path, font: Path) -> Image.Image:
    """Draw the pale original image with the outlines of the boxes and the numbers of the lines."""
    source = open_report(path).pixels
    scale = min(HEIGHT / page.height, WIDEST_PAGE / page.width, 1.0)
    size = (max(1, round(page.width * scale)), max(1, round(page.height * scale)))
    image = source.resize(size, Image.Resampling.LANCZOS)
    image = Image.blend(Image.new("RGB", size, PAPER), image, 0.7)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(_original_lines(page)):
        colour = COLOURS[number % len(COLOURS)]
        for box in line:
            corners = [(x * scale, y * scale) for x, y in box.points]
            pen.line([*corners, corners[0]], fill=colour, width=2)
        x, y = (value * scale for value in line[0].points[0])
        label = load_font(font, 12)
        pen.text((max(0, x - 3), y), str(number + 1), font=label, fill=colour, anchor="rt" if x > 18 else "lb")
    pen.rectangle((0, 0, size[0] - 1, size[1] - 1), outline=FRAME)
    return image


def _original_lines(page: Page) -> list[list[Box]]:
    """The page's lines, with the boxes of the original image."""
    originals = {id(box): original for box, original in zip(page.boxes, page.original_boxes, strict=True)}
    return [[originals[id(box)] for box in line] for line in page.restored.lines]


def _draw_text(lines: Sequence[str], font: Path) -> Image.Image:
    """Draw numbered lines in their colours, as large as HEIGHT and WIDEST_TEXT allow. Long lines end with "…"."""
    gutter = len(str(len(lines))) + 2  # columns of the number
    lines = [_cut(line, 2 * WIDEST_TEXT // SMALLEST - gutter) for line in lines]
    columns = gutter + max(map(_columns, lines), default=0)
    size = min(LARGEST, 2 * WIDEST_TEXT // columns, round(HEIGHT / (1.5 * max(len(lines), 1))))
    size = max(size, SMALLEST)
    half, pitch = size / 2, round(1.5 * size)
    image = Image.new("RGB", (round(columns * half), max(pitch * len(lines), 1)), PAPER)
    pen = ImageDraw.Draw(image)
    small = load_font(font, max(round(0.7 * size), 7))
    for number, line in enumerate(lines):
        middle, colour = (number + 0.5) * pitch, COLOURS[number % len(COLOURS)]
        pen.text(((gutter - 1.5) * half, middle), str(number + 1), font=small, fill=NUMBER, anchor="rm")
        for piece in re.finditer(r"\S+", line):
            left, width = (gutter + _columns(line[: piece.start()])) * half, _columns(piece[0]) * half
            face = _fitting_face(piece[0], width, font, round(FACE * size))
            pen.text((left, middle), piece[0], font=face, fill=colour, anchor="lm")
    return image


def _fitting_face(text: str, width: float, font: Path, size: int) -> ImageFont.FreeTypeFont:
    """Load the font at `size` pixels, or smaller so that `text` fits into `width`."""
    needed = load_font(font, size).getlength(text)
    return load_font(font, size if needed <= width else max(int(size * width / needed), 5))


def _cut(line: str, columns: int) -> str:
    if _columns(line) <= columns:
        return line
    while _columns(line) > columns - 1:
        line = line[:-1]
    return line + "…"


def _columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)
