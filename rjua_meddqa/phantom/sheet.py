"""A white sheet for text, rules and pictures that records the box of every text."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw

from rjua_meddqa.fonts import load_font
from rjua_meddqa.phantom import raised_digits
from rjua_meddqa.schema import Box

INK, PAPER = 25, 255
BURNED_IN = 235  # letters on a picture
MARGIN = 70  # pixels. A cropped photo may lose it
LEADING = 1.65  # row height in character heights


@dataclass(frozen=True)
class _Text:
    x: float
    y: float
    text: str
    size: int
    row: Hashable  # adjacent texts of the same row form a line
    is_vertical: bool = False


class Sheet:
    """Collects texts and rules from top to bottom, then draws them.

    Attributes:
        width: in pixels.
        y: the top of the next row, which the caller moves.
    """

    def __init__(self, width: int, font: Path) -> None:
        self.width, self.font = width, font
        self.y: float = 0
        self._texts: list[_Text] = []
        self._lines: list[tuple[float, float, float, float, int]] = []
        self._pictures: list[tuple[int, int, Image.Image]] = []
        self._overlays: list[tuple[int, int, Image.Image]] = []

    def measure(self, text: str, size: int) -> float:
        """Width of `text` in pixels."""
        return raised_digits.measure(text, self.font, size)

    def text(self, x: float, text: str, size: int, dy: float = 0, row: Hashable = None) -> float:
        """Put `text` at (x, y + dy) and return its right edge. Texts with the same y, or the same `row`, are a line."""
        self._texts.append(_Text(x, self.y + dy, text, size, self.y if row is None else row))
        return x + self.measure(text, size)

    def vertical(self, x: float, y: float, text: str, size: int) -> None:
        """Put `text` so that it reads upwards, its upper left corner at (x, y)."""
        self._texts.append(_Text(x, y, text, size, f"vertical {x}", is_vertical=True))

    def centred(self, text: str, size: int) -> None:
        """Put `text` in the centre of the row."""
        self.text((self.width - self.measure(text, size)) / 2, text, size)

    def picture(self, x: float, y: float, image: Image.Image) -> None:
        """Put a grey image below the text. Text on it is drawn in a light grey."""
        self._pictures.append((round(x), round(y), image))

    def overlay(self, x: float, y: float, image: Image.Image) -> None:
        """Put a grey image over the text, like ink: white pixels are transparent."""
        self._overlays.append((round(x), round(y), image))

    def lowest_picture(self) -> int:
        """The bottom of the lowest picture, 0 without pictures."""
        return max((y + image.height for _, y, image in self._pictures), default=0)

    def rule(self, left: float, right: float, thickness: int = 2) -> None:
        """A horizontal line at y."""
        self._lines.append((left, self.y, right, self.y, thickness))

    def column_rule(self, x: float, top: float, bottom: float) -> None:
        """A vertical line."""
        self._lines.append((x, top, x, bottom, 1))

    def wrap(self, text: str, size: int, width: float) -> list[str]:
        """Break `text` into lines of at most `width` pixels. A line does not start with a punctuation mark."""
        lines, line = [], ""
        for character in text:
            if line and self.measure(line + character, size) > width and character not in "，。；、：）)":
                lines.append(line)
                line = ""
            line += character
        return [*lines, line] if line else lines

    def wrap_cell(self, text: str, size: int, width: float) -> list[str]:
        """Like `wrap`, but numbers and Latin words are broken only if they are longer than a line."""
        lines, line = [], ""
        for piece in re.findall(r"[A-Za-z0-9.]+-?\s*|\S\s*", text):
            if line and self.measure((line + piece).rstrip(), size) > width and piece[0] not in "，。；、：）):":
                lines.append(line.rstrip())
                line = ""
            line += piece
        lines = [*lines, line.rstrip()] if line else lines
        return [part for line in lines for part in self.wrap(line, size, max(width, 3 * size))]

    def reading_order(self) -> tuple[tuple[str, ...], ...]:
        """The texts of each row, in the order in which they were put."""
        rows: list[tuple[Hashable, list[str]]] = []
        for text in self._texts:
            if rows and rows[-1][0] == text.row:
                rows[-1][1].append(text.text)
            else:
                rows.append((text.row, [text.text]))
        return tuple(tuple(texts) for _, texts in rows)

    def draw(self, height: int) -> tuple[Image.Image, list[Box]]:
        """Draw the sheet as a grey image. Returns it and the boxes of all texts in their order."""
        image = Image.new("L", (self.width, height), PAPER)
        for x, y, picture in self._pictures:
            image.paste(picture, (x, y))
        pen = ImageDraw.Draw(image)
        for left, top, right, bottom, thickness in self._lines:
            pen.line((left, top, right, bottom), fill=INK, width=thickness)
        boxes = [self._draw_up(image, text) if text.is_vertical else self._draw_text(pen, text) for text in self._texts]
        for x, y, overlay in self._overlays:
            area = (x, y, x + overlay.width, y + overlay.height)
            image.paste(ImageChops.darker(image.crop(area), overlay), area[:2])
        return image, boxes

    def _draw_text(self, pen: ImageDraw.ImageDraw, text: _Text) -> Box:
        is_burned_in = any(
            x <= text.x < x + picture.width and y <= text.y < y + picture.height for x, y, picture in self._pictures
        )
        fill = BURNED_IN if is_burned_in else INK
        edges = raised_digits.draw_text(pen, text.x, text.y, text.text, self.font, text.size, fill)
        return _rectangle(edges, text.text)

    def _draw_up(self, image: Image.Image, text: _Text) -> Box:
        font = load_font(self.font, text.size)
        left, top, right, bottom = font.getbbox(text.text)
        strip = Image.new("L", (round(right - left), round(bottom - top)), PAPER)
        ImageDraw.Draw(strip).text((-left, -top), text.text, font=font, fill=INK)
        strip = strip.transpose(Image.Transpose.ROTATE_90)
        x, y = round(text.x), round(text.y)
        image.paste(strip, (x, y))
        corners = ((x, y + strip.height), (x, y), (x + strip.width, y), (x + strip.width, y + strip.height))
        return Box(corners, text.text)


def _rectangle(edges: Sequence[float], text: str) -> Box:
    left, top, right, bottom = edges
    return Box(((left, top), (right, top), (right, bottom), (left, bottom)), text)
