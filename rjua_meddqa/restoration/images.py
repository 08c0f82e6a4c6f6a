"""Opens report images of any kind as upright RGB of bounded size.

Upright means rotated according to the EXIF orientation. "Pixels of the original image" always refer to the image as a
viewer shows it, after that rotation.
"""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.errors import InputError, one_line
from medvqa_core.pillow_errors import PILLOW_ERRORS

if TYPE_CHECKING:
    from PIL import Image

WORK_SIDE = 2000  # pixels: longer images are reduced by an integer factor to between this and twice this size
STRIP_SHAPE = 2  # longer strips are reduced like an image of this aspect ratio, so that their text stays readable
LONGEST = 24_000  # pixels that a strip may keep
MAX_DECODED = 1_300_000_000  # bytes. Only JPEG can be reduced while it is decoded.
BAND_ROWS = 512  # rows converted at once
SUFFIXES = (".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
FOREIGN_KINDS = (  # (position, bytes, format and how to convert it)
    (0, b"%PDF", "a PDF. Make an image of each page first, for example: pdftoppm -r 150 -png FILE page"),
    (4, b"ftyp", "a HEIC or AVIF photo. Convert it first, for example: heif-convert FILE photo.jpg"),
)
_TURNS = {  # EXIF orientation -> name of the Pillow transpose that undoes it
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


@dataclass(frozen=True)
class ReportImage:
    """`pixels` is the upright RGB image to work on. One of its pixels is `factor` x `factor` of the original's."""

    pixels: "Image.Image"
    factor: int
    width: int  # of the original, pixels
    height: int


def open_report(path: Path) -> ReportImage:
    """Read an image with bounded memory, as 8-bit RGB with transparent parts in white.

    Raises:
        InputError: the file is missing, damaged, not an image, has several pages, or more than MAX_DECODED bytes of
            pixels.
    """
    from PIL import Image, UnidentifiedImageError

    _check_format(path)
    try:
        with _OWN_SIZE_LIMIT, Image.open(path) as image:
            if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":  # MPO: a phone's preview as second frame
                raise InputError(
                    f"{path}: {getattr(image, 'n_frames', 1)} pages in one image. Save each as a separate file"
                )
            width, height = image.size
            orientation = image.getexif().get(0x0112, 1)
            wanted = _factor(image.size)
            coefficients = _coefficient_bytes(image)
            image.draft(None, (width // wanted, height // wanted))  # has no effect except for JPEG
            _check_size(path, (width, height), image, coefficients)
            drafted = max(1, round(max(width, height) / max(image.size)))
            pixels, reduced = _reduce_to_rgb(image)
    except UnidentifiedImageError:
        raise InputError(f"{path}: not a readable image. Supported are PNG, JPEG, TIFF, BMP, WebP and GIF") from None
    except PILLOW_ERRORS as error:
        raise InputError(
            f"{path}: the image cannot be read ({one_line(error)}). Get it again or leave it out"
        ) from error
    if orientation in _TURNS:
        pixels = pixels.transpose(Image.Transpose[_TURNS[orientation]])
    if orientation in (5, 6, 7, 8):
        width, height = height, width
    return ReportImage(pixels, drafted * reduced, width, height)


def find_images(folder: Path) -> list[Path]:
    """Return the image files of a folder, sorted by name. PDF and HEIC files are included so that they are reported.

    Subfolders are not searched, since pages are identified by file name.

    Raises:
        InputError: the folder is missing or lacks an image.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Expected the folder of the report images")
    suffixes = (*SUFFIXES, ".pdf", ".heic", ".heif")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)
    if not found:
        raise InputError(f"{folder}: no image found. Supported file endings are {', '.join(SUFFIXES)}")
    return found


def _check_format(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}). Check the path") from None
    if not start:
        raise InputError(f"{path}: empty file. Get it again or leave it out")
    for position, mark, what in FOREIGN_KINDS:
        if start[position : position + len(mark)] == mark:
            raise InputError(f"{path} is {what}")


class _OwnSizeLimit:
    """Replaces Pillow's limit, which counts the pixels before a JPEG is reduced. `_check_size` counts decoded bytes.

    The limit is global, and threads read images at once. The last one restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: int | None = None

    def __enter__(self) -> None:
        from PIL import Image

        with self._lock:
            if self._inside == 0:
                self._limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            self._inside += 1

    def __exit__(self, *problem: object) -> None:
        from PIL import Image

        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                Image.MAX_IMAGE_PIXELS = self._limit


_OWN_SIZE_LIMIT = _OwnSizeLimit()


def _factor(size: tuple[int, int]) -> int:
    """Return the factor by which an image of `size` is reduced."""
    longest, shortest = max(size), min(size)
    return max(1, min(longest, STRIP_SHAPE * shortest) // WORK_SIDE, -(-longest // LONGEST))


def _coefficient_bytes(image: "Image.Image") -> int:
    """Return the bytes of a progressive JPEG's coefficients, which are held at full size. 0 for other images."""
    if not image.info.get("progressive"):
        return 0
    samplings = [(across, down) for _, across, down, _ in getattr(image, "layer")]  # noqa: B009 - Pillow's stubs do not know it
    full = max(across for across, _ in samplings) * max(down for _, down in samplings)
    return 2 * image.width * image.height * sum(across * down for across, down in samplings) // full


def _check_size(path: Path, original: tuple[int, int], image: "Image.Image", coefficients: int) -> None:
    depth = 4 if image.mode in ("I", "F") else 2 if image.mode.startswith("I;16") else 1
    size = max(coefficients, image.width * image.height * len(image.getbands()) * depth)
    if size > MAX_DECODED:
        raise InputError(
            f"{path}: {original[0]} x {original[1]} pixels in mode {image.mode} would take {size / 1e9:.1f} GB, "
            f"allowed are {MAX_DECODED / 1e9:.1f}. Save it smaller or as a JPEG that is not progressive"
        )


def _reduce_to_rgb(image: "Image.Image") -> tuple["Image.Image", int]:
    from PIL import Image

    factor = _factor(image.size)
    rows = factor * max(1, BAND_ROWS // factor)
    result = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
    for top in range(0, image.height, rows):
        band = _to_rgb(image.crop((0, top, image.width, min(top + rows, image.height))))
        result.paste(band.reduce(factor) if factor > 1 else band, (0, top // factor))
    return result, factor


def _to_rgb(image: "Image.Image") -> "Image.Image":
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I"):  # 16-bit grey
        image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
