"""Encodes report images for a model by one size rule, which is part of the run's settings.

Upright PNG and JPEG files within the size limit are sent unchanged. Other images are opened with
`restoration/images.py`, reduced to `longest_side` pixels (never enlarged; Lanczos) and encoded as JPEG of quality 95.
"""

import io
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.llm.chat import Image
from medvqa_core.pillow_errors import PILLOW_ERRORS
from rjua_meddqa.restoration.images import open_report

LONGEST_SIDE, SMALLEST_SIDE = 1536, 28  # pixels: the default, and a patch of the usual encoders
JPEG_QUALITY = 95
MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg"}
_EXIF_ORIENTATION = 0x0112


@dataclass(frozen=True)
class ImageRule:
    """The size limit of images.

    Raises:
        ConfigError: the longest side is below SMALLEST_SIDE pixels.
    """

    longest_side: int = LONGEST_SIDE

    def __post_init__(self) -> None:
        if self.longest_side < SMALLEST_SIDE:
            raise ConfigError(f"longest side {self.longest_side}: must be at least {SMALLEST_SIDE} pixels")

    def __str__(self) -> str:
        return f"longest side at most {self.longest_side} pixels, never enlarged, else JPEG {JPEG_QUALITY}"

    def encode(self, path: Path) -> Image:
        """Return the encoded image of `path`. Raises InputError if it cannot be read."""
        found = self._read_unchanged(path)
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

    def _read_unchanged(self, path: Path) -> Image | None:
        """Return the file itself if it meets the rule, else None."""
        from PIL import Image as PillowImage

        try:
            data = path.read_bytes()
            with PillowImage.open(io.BytesIO(data)) as image:
                upright = image.getexif().get(_EXIF_ORIENTATION, 1) == 1
                plain = image.mode in ("RGB", "L") and getattr(image, "n_frames", 1) == 1
                if image.format in MEDIA_TYPES and upright and plain and max(image.size) <= self.longest_side:
                    image.load()  # raises for a truncated file
                    return Image(data, MEDIA_TYPES[image.format])
        except OSError as error:
            if not path.is_file():
                raise InputError(f"{path}: cannot be read ({error.strerror or error}). Check the path") from None
        except PILLOW_ERRORS:
            pass  # open_report raises with the reason
        return None
