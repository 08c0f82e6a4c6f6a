"""Radiograph files as 8-bit grey images of the size that models read, with a cheap check beforehand.

A radiograph is decoded to one grey channel. libjpeg decodes a JPEG at 1/2, 1/4 or 1/8 of its size (Pillow's `draft`)
where that is enough, which changes pixels by a few grey levels (`benchmarks/images.py`). Resizing is bicubic with
antialiasing, Pillow's default.

Cropping, normalisation and augmentation belong to the models' processors. DICOM is not supported.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from medvqa_core.errors import InputError
from medvqa_core.pillow_errors import PILLOW_ERRORS

# Formats with their first bytes and end markers. Others are not opened, so that fewer decoders see foreign files.
SIGNATURES = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n"}
END_MARKERS = {"JPEG": b"\xff\xd9", "PNG": b"IEND"}
FILM_SIDE = 512  # pixels of the shorter side, as in the files of the released models
TAIL = 4096  # bytes; some converters pad a file after its end marker

EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


def read_film(source: Path | bytes, side: int | None = FILM_SIDE, where: str | None = None) -> Image.Image:
    """Read a radiograph as grey and shrink its shorter side to `side`, as both models expect it.

    Args:
        source: a file, or its bytes.
        side: pixels of the shorter side. Smaller images keep their size. None decodes in full.
        where: name of the image in errors. Default: its path.

    Returns:
        An image of mode L, rotated by its EXIF orientation as `datasets` does.

    Raises:
        InputError: the file is absent, empty, truncated, not an image, or of a pixel type without a known range.
    """
    where = where or ("an image" if isinstance(source, bytes) else f"image {source}")
    remedy = "build the rows again from whole files"
    if not isinstance(source, bytes):
        remedy = "copy or download it again" if Path(source).exists() else "check the image root, or download it"
    try:
        with Image.open(
            io.BytesIO(source) if isinstance(source, bytes) else source, formats=tuple(SIGNATURES)
        ) as image:
            size = image.size
            drafted = image.draft("L", (side, side)) if side and image.format == "JPEG" else None
            # The part that is covered by pixels: a side that is not a multiple of the fraction is padded.
            box = drafted[1] if drafted else None
            image.load()
    except PILLOW_ERRORS as error:
        raise InputError(f"{where} cannot be decoded ({error}); {remedy}") from error
    gray = to_gray(image, where.removeprefix("image "))
    if side is not None and min(size) > side:
        wanted = [max(1, round(length * side / min(size))) for length in size]
        gray = gray.resize(wanted, Image.Resampling.BICUBIC, box, reducing_gap=3.0)
    return ImageOps.exif_transpose(gray)


def check_image(path: Path) -> str | None:
    """Check an image file by its first and last bytes. Damage in the middle is not found.

    Returns:
        The problem, worded to follow the path ("is absent", "has zero bytes", …), or None.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            head = file.read(132)
            length = file.seek(0, 2)
            file.seek(max(0, length - TAIL))
            tail = file.read()
    except FileNotFoundError:
        return "is absent"
    except IsADirectoryError:
        return "is a folder, not an image file"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if length == 0:
        return "has zero bytes"
    kind = next((kind for kind, start in SIGNATURES.items() if head.startswith(start)), None)
    if kind is None:
        found = "is a DICOM file" if head[128:] == b"DICM" else f"starts with {head[:4]!r}"
        return f"{found}. Allowed are {' and '.join(SIGNATURES)} files"
    if END_MARKERS[kind] not in tail:
        return f"is truncated after {length} bytes: its {kind} end marker is missing"
    return None


def to_gray(image: Image.Image, where: str) -> Image.Image:
    """Convert `image` to mode L: 16-bit values are scaled, colours weighted as ITU-R 601 luma, transparency ignored.

    Args:
        where: name of the image in errors.

    Raises:
        InputError: the mode (32-bit integers, floats, Lab, …) does not have a fixed range of grey.
    """
    if image.mode == "L":
        return image
    if image.mode in EIGHT_BIT_MODES:
        return image.convert("L")
    if image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    allowed = "8-bit grey, palette or colour and 16-bit grey"
    raise InputError(
        f"image {where} has pixels of type {image.mode!r} (supported: {allowed}). Convert it to 8-bit grey"
    )
