"""A white sheet that text and lines are put on, and that knows the box of every piece of text on it."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from rjua_meddqa.fonts import load_font
from rjua_meddqa.schema import Box

INK, PAPER = 25, 255


class Sheet:
    """Collects text and lines from the top down, then draws them.

    Attributes:
        width: of the sheet in pixels.
        y: where the next row starts; whoever lays out moves it.
    """

    def __init__(self, width: int, font: Path) -> None:
        self.width, self.font, self.y = width, font, 0
        self._texts: list[tuple[float, float, str, int]] = []
        self._lines: list[tuple[float, float, float, float, int]] = []

    def measure(self, text: str, size: int) -> float:
        """Width of `text` in pixels."""
        return load_font(self.font, size).getlength(text)

    def text(self, x: float, text: str, size: int, dy: float = 0) -> float:
        """Put `text` at (x, y + dy); returns where it ends."""
        self._texts.append((x, self.y + dy, text, size))
        return x + self.measure(text, size)

    def centred(self, text: str, size: int) -> None:
        """Put `text` in the middle of the row."""
        self.text((self.width - self.measure(text, size)) / 2, text, size)

    def rule(self, left: float, right: float, thickness: int = 2) -> None:
        """A horizontal line at y."""
        self._lines.append((left, self.y, right, self.y, thickness))

    def column_rule(self, x: float, top: float, bottom: float) -> None:
        """A vertical line."""
        self._lines.append((x, top, x, bottom, 1))

    def wrap(self, text: str, size: int, width: float) -> list[str]:
        """`text` in lines of at most `width` pixels, broken between characters; no line starts with a stop."""
        lines, line = [], ""
        for character in text:
            if line and self.measure(line + character, size) > width and character not in "，。；、：）)":
                lines.append(line)
                line = ""
            line += character
        return [*lines, line] if line else lines

    def draw(self, height: int) -> tuple[Image.Image, list[Box]]:
        """The sheet as a grey image (width, height) and the box of every text, in the order in which they were put."""
        image = Image.new("L", (self.width, height), PAPER)
        pen = ImageDraw.Draw(image)
        for left, top, right, bottom, thickness in self._lines:
            pen.line((left, top, right, bottom), fill=INK, width=thickness)
        boxes = []
        for x, y, text, size in self._texts:
            font = load_font(self.font, size)
            pen.text((x, y), text, font=font, fill=INK)
            boxes.append(_rectangle(pen.textbbox((x, y), text, font=font), text))
        return image, boxes


def _rectangle(edges: Sequence[float], text: str) -> Box:
    left, top, right, bottom = edges
    return Box(((left, top), (right, top), (right, bottom), (left, bottom)), text)
