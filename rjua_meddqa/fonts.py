"""Fonts with Chinese characters: named, installed (Debian's `fonts-noto-cjk`, …), or the bundled one.

The bundled font has the characters of synthetic reports and of the sample only (`font_writer.py`).
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from PIL import ImageFont

from medvqa_core.errors import ConfigError

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
BUNDLED = Path(__file__).parent / "font" / "MedVQAReportSans-Regular.otf"
OTHER_FONT_NAMES = ("NotoSerifCJK-Regular", "NotoSansCJK-Bold", "SourceHanSerifSC-Regular")  # of hard pages


def find_font(font: Path | None = None) -> Path:
    """Return `font` itself, else the first installed font of FONT_NAMES, else the bundled one.

    Raises:
        ConfigError: the file does not exist or has no Chinese characters.
    """
    if font is None:
        files = _font_files()
        return next((path for name in FONT_NAMES for path in files if path.stem == name), BUNDLED)
    if not font.is_file():
        raise ConfigError(f"font {font}: no such file. Pass a .ttf, .otf or .ttc file with Chinese characters.")
    if not _has_chinese(font):
        raise ConfigError(f"font {font}: Chinese characters are missing. Pass another file as --font.")
    return font


def find_fonts(named: Sequence[Path] = ()) -> list[Path]:
    """Return the fonts `named`, or all installed Chinese fonts, that of `find_font` first. Raises like `find_font`."""
    if named:
        return [find_font(font) for font in named]
    first = find_font()
    if first == BUNDLED:
        return [BUNDLED]
    files = [path for path in _font_files() if path.stem in (*FONT_NAMES, *OTHER_FONT_NAMES)]
    return [first, *sorted({path.stem: path for path in files if path.stem != first.stem}.values())]


def _font_files() -> list[Path]:
    folders = [Path(folder).expanduser() for folder in FONT_FOLDERS]
    return sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("*.[ot]t[cf]"))


def _has_chinese(font: Path) -> bool:
    """Whether two characters differ. Missing characters are all drawn as the same box."""
    masks = [bytes(load_font(font, 32).getmask(character)) for character in "检验"]
    return masks[0] != masks[1]


def lacking(font: Path, text: str) -> str:
    """The characters of `text` that the bundled font lacks, "" for other fonts."""
    if font != BUNDLED:
        return ""
    box = bytes(load_font(font, 32).getmask("\U0010fffd"))
    return "".join(sorted({c for c in text if c.isprintable() and bytes(load_font(font, 32).getmask(c)) == box}))


@functools.cache
def _face(path: Path) -> int:
    """The face of a font collection with the simplified forms, else the first (Noto's first is Japanese)."""
    for index in itertools.count():
        try:
            family, _ = ImageFont.truetype(str(path), 16, index=index).getname()
        except OSError:
            return 0
        if " SC" in (family or ""):
            return index
    raise AssertionError("itertools.count does not end")


@functools.lru_cache(maxsize=64)
def load_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    """Load a font at `size` pixels. Raises ConfigError if the file is not a font."""
    try:
        return ImageFont.truetype(str(path), size, index=_face(path))
    except OSError as error:
        raise ConfigError(f"font {path}: cannot be read ({error}). Pass another file as --font.") from None
