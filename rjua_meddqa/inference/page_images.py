"""A report image as a model gets it: one rule of size, stated in the run's settings, each file encoded once.

A PNG or JPEG file that is upright and within the size goes as it is, byte for byte. Any other is read as everywhere
(`restoration/images.py`), reduced so that its longest side is `longest_side` pixels (never enlarged; Lanczos), and
written as JPEG of quality 95.
"""

import io
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.llm.chat import Image
from medvqa_core.pillow_errors import PILLOW_ERRORS
from rjua_meddqa.restoration.images import open_report

LONGEST_SIDE, SMALLEST_SIDE = 1536, 28  # pixels: default, and a patch of the usual encoders
JPEG_QUALITY = 95
MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg"}
_EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True)
class ImageRule:
    """How large an image is sent.

    Raises:
        ConfigError: a longest side below SMALLEST_SIDE pixels.
    """

    longest_side: int = LONGEST_SIDE

    def __post_init__(self) -> None:
        if self.longest_side < SMALLEST_SIDE:
            raise ConfigError(f"longest side {self.longest_side}: at least {SMALLEST_SIDE} pixels are needed")

    def __str__(self) -> str:
        return f"longest side at most {self.longest_side} pixels, never enlarged, else JPEG {JPEG_QUALITY}"

    def encode(self, path: Path) -> Image:
        """The bytes that are sent of `path`. Raises InputError where it is no image that can be read."""
        found = self._as_it_is(path)
        if found is not None:
            return found
        from PIL.Image import Resampling

        pixels = open_report(path).pixels
        longest = max(pixels.size)
        if longest > self.longest_side:
            width, height = (max(1, round(side * self.longest_side / longest)) for side in pixels.size)
            pixels = pixels.resize((width, height), Resampling.LANCZOS)
        written = io.BytesIO()
        pixels.save(written, "JPEG", quality=JPEG_QUALITY)
        return Image(written.getvalue(), MEDIA_TYPES["JPEG"])

    def _as_it_is(self, path: Path) -> Image | None:
        """The file itself where the rule leaves it alone; None where it does not, or says so best (`open_report`)."""
        from PIL import Image as PillowImage

        try:
            data = path.read_bytes()
            with PillowImage.open(io.BytesIO(data)) as image:
                upright = image.getexif().get(_EXIF_ORIENTATION, 1) == 1
                plain = image.mode in ("RGB", "L") and getattr(image, "n_frames", 1) == 1
                if image.format in MEDIA_TYPES and upright and plain and max(image.size) <= self.longest_side:
                    image.load()  # a file that is cut off is no image
                    return Image(data, MEDIA_TYPES[image.format])
        except OSError as error:
            if not path.is_file():
                raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None
        except PILLOW_ERRORS:
            pass  # open_report names the reason
        return None
