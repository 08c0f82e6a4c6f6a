"""A white sheet that text and lines are put on, and that knows the box of every piece of text on it.

The font comes from a package of the system, such as Debian's `fonts-noto-cjk` or `fonts-wqy-microhei`.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from medvqa_core.errors import ConfigError
from rjua_meddqa.schema import Box

FONT_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/Library/Fonts",
    "/Library/Fonts",
)
FONT_NAMES = (
    "NotoSansCJK-Regular",
    "NotoSansSC-Regular",
    "SourceHanSansSC-Regular",
    "wqy-microhei",
    "wqy-zenhei",
    "PingFang",
)
INK, PAPER = 25, 255


def find_font(font: Path | None = None) -> Path:
    """`font` itself, or the first Chinese font of FONT_NAMES below the usual folders.

    Raises:
        ConfigError: no such file, one without Chinese characters, or none found.
    """
    if font is not None:
        if not font.is_file():
            raise ConfigError(f"font {font}: no such file; pass a .ttf, .otf or .ttc file with Chinese characters")
        if not _has_chinese(font):
            raise ConfigError(f"font {font}: it has no Chinese characters; name another file with --font")
        return font
    folders = [Path(folder).expanduser() for folder in FONT_FOLDERS]
    files = sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("*.[ot]t[cf]"))
    for name in FONT_NAMES:
        for path in files:
            if path.stem == name:
                return path
    raise ConfigError(
        f"no Chinese font below {', '.join(FONT_FOLDERS[:3])}; install the Debian package fonts-noto-cjk "
        "(or fonts-wqy-microhei), or name a font file with --font"
    )


def _has_chinese(font: Path) -> bool:
    """Whether two characters look different: what a font has not, it draws as the same empty box."""
    masks = [bytes(load_font(font, 32).getmask(character)) for character in "检验"]
    return masks[0] != masks[1]


@functools.cache
def _face(path: Path) -> int:
    """Which face of a font collection has the simplified forms (Noto's first one has the Japanese); else the first."""
    for index in itertools.count():
        try:
            family, _ = ImageFont.truetype(str(path), 16, index=index).getname()
        except OSError:
            return 0
        if " SC" in (family or ""):
            return index


@functools.lru_cache(maxsize=64)
def load_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """The font at `size` pixels. Raises ConfigError where the file is no font."""
    try:
        return ImageFont.truetype(str(path), size, index=_face(path))
    except OSError as error:
        raise ConfigError(f"font {path}: cannot be read ({error}); name another file with --font") from None


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
