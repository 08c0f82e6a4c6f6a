"""Radiograph files as 8-bit grey arrays, read fast, with a cheap check beforehand.

A radiograph is grey, so it is decoded to one channel and resized once; whoever needs three channels repeats the small
result. For a JPEG the fast way also lets libjpeg decode at 1/2, 1/4 or 1/8 of the size (Pillow's `draft`), never below
the size asked for. It moves pixels by a few grey levels (`benchmarks/images.py` says by how many); `exact=True` decodes
in full. Resizing is bicubic with antialiasing, Pillow's default, in both.

Models read films of about 512 pixels, as the released ones did from files shrunk beforehand (`read_film`).

Not here: cropping, normalisation and augmentation (the models' processors), DICOM.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from medvqa_core.errors import InputError
from medvqa_core.pillow_errors import PILLOW_ERRORS

# Format -> how such a file starts, and what ends it. Nothing else is opened: fewer decoders see files from outside.
SIGNATURES = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n"}
END_MARKERS = {"JPEG": b"\xff\xd9", "PNG": b"IEND"}
FILM_SIDE = 512  # pixels of the shorter side; what the released models' files were shrunk to
TAIL = 4096  # bytes; some converters pad a file after its end marker

EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


def read_image(path: Path, size: int | None = None, exact: bool = False) -> np.ndarray:
    """Read a radiograph as grey.

    Args:
        size: side of the square that the image is squeezed into; None keeps the file's own size.
        exact: decode a JPEG in full before resizing, as published pipelines do, instead of at a fraction of its size.

    Returns:
        uint8 array (H, W), or (size, size). 16-bit files are scaled by 255 / 65535; transparency and EXIF orientation
        are ignored.

    Raises:
        InputError: the file is absent, empty, cut off, no image, or of a pixel type without a known range.
    """
    path = Path(path)
    reason = check_image(path)
    if reason is not None:
        raise InputError(f"image {path} {reason}; {_remedy(path)}")
    image, _, box = _decode(path, size, exact, f"image {path}", _remedy(path))
    gray = to_gray(image, str(path))
    if size is not None:
        gray = gray.resize((size, size), Image.Resampling.BICUBIC, box)
    return np.array(gray)


def read_film(source: Path | bytes, side: int | None = FILM_SIDE, where: str | None = None) -> Image.Image:
    """Read a radiograph as grey, its shorter side shrunk to `side`; the way into both models.

    A JPEG is decoded at the smallest of 1/1, 1/2, 1/4 and 1/8 of its size that is not below `side`, then resized. That
    equals shrinking the whole picture first and reading it back, but for a few grey levels where neighbours differ by
    many; everything downstream works with fractions of the sides, so it does the same to both.

    Args:
        source: a file, or its bytes.
        side: pixels of the shorter side; smaller images stay as they are. None decodes in full.
        where: how errors call it; None: by its path.

    Returns:
        Mode L, turned as its EXIF orientation says, which `datasets` does too.

    Raises:
        InputError: as `read_image`.
    """
    is_file = not isinstance(source, bytes)
    where = where or (f"image {source}" if is_file else "an image")
    remedy = _remedy(Path(source)) if is_file else "build the rows again from whole files"
    image, size, box = _decode(source if is_file else io.BytesIO(source), side, side is None, where, remedy)
    gray = to_gray(image, where.removeprefix("image "))
    if side is not None and min(size) > side:
        wanted = [max(1, round(length * side / min(size))) for length in size]
        gray = gray.resize(wanted, Image.Resampling.BICUBIC, box, reducing_gap=3.0)
    return ImageOps.exif_transpose(gray)


def check_image(path: Path) -> str | None:
    """Say what is wrong with an image file, from its first and last bytes alone.

    Returns:
        The reason, worded to follow the path ("is absent", "has zero bytes", …), or None. None does not promise that
        the file decodes: damage in the middle shows only then.
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
        return f"{found}; allowed are {' and '.join(SIGNATURES)} files"
    if END_MARKERS[kind] not in tail:
        return f"is cut off after {length} bytes: its {kind} end marker is missing"
    return None


def to_gray(image: Image.Image, where: str) -> Image.Image:
    """`image` in mode L; 16-bit values are scaled, colours weighed as ITU-R 601 luma, transparency ignored.

    Args:
        where: what the image is called in an error.

    Raises:
        InputError: the mode (32-bit integers, floats, Lab, …) has no fixed range of grey.
    """
    if image.mode == "L":
        return image
    if image.mode in EIGHT_BIT_MODES:
        return image.convert("L")
    if image.mode.startswith("I;16"):
        values = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    allowed = "8-bit grey, palette or colour and 16-bit grey"
    raise InputError(f"image {where} has pixels of type {image.mode!r}; allowed: {allowed}; convert it to 8-bit grey")


def _decode(
    source: Path | io.BytesIO, size: int | None, exact: bool, where: str, remedy: str
) -> tuple[Image.Image, tuple[int, int], tuple[float, ...] | None]:
    """The decoded image, the size (width, height) of the file's, and the part that its pixels cover (None: all of it).

    A side that is no multiple of the fraction is rounded up, so the last pixel of a reduced image is partly padding.
    """
    box = None
    try:
        with Image.open(source, formats=tuple(SIGNATURES)) as image:
            whole = image.size
            if not exact and image.format == "JPEG":
                drafted = image.draft("L", (size, size) if size else None)
                box = drafted[1] if drafted else None
            image.load()
            return image, whole, box  # the pixels outlive the file
    except PILLOW_ERRORS as error:
        raise InputError(f"{where} cannot be decoded ({error}); {remedy}") from error


def _remedy(path: Path) -> str:
    return "copy or download it again" if path.exists() else "download it, or name the right image root"
