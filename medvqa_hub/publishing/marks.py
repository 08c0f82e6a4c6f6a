"""Patterns of images, archives and MIMIC ids in bytes and texts, for the scan before a push.

They find mistakes, not data that somebody hides on purpose.
"""

import mmap
import re

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import GovernanceError

# Long enough not to occur in weights by chance.
_IMAGES = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", b"\xff\xd8\xff\xee\x00\x0eAdobe",
    b"\xff\xd8\xff\xdb\x00\x43\x00", b"\xff\xd8\xff\xdb\x00\x84\x00", b"GIF89a", b"GIF87a", b"WEBPVP8",
    b"\x00" * 100 + b"DICM",
)  # fmt: skip
_STARTS = (  # first bytes of images, archives and pickles
    b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf",
    b"\x80\x04",
)  # fmt: skip
_BASE64 = (  # PNG, JPEG, GIF, WebP, DICOM
    r"data:image|iVBORw0KGgo|/9j/[247][A-Za-z0-9+/]{6}|R0lGOD[dl]|UklGR[A-Za-z0-9+/]{6}XRUJQVlA4|A{60}BESUNN"
)
_NAMED_ID = r"(?:^|[^0-9A-Za-z])(?:[pP]1[0-9]{7}|[sS]5[0-9]{7})(?:$|[^0-9])"
_BARE_ID = re.compile(  # not a part of a number or UUID
    r"(?<![0-9A-Za-z.])(?<![0-9a-f]{4}-)(?:1[0-9]{7}|5[0-9]{7})(?![0-9A-Za-z]|\.[0-9]|-[0-9a-f]{4}-)"
)
_SIZES = re.compile(  # in a weights index, and in the `dataset_info` of a card
    r'"(?:total_size|total_parameters)": [0-9]+|^ *(?:num_bytes|num_examples|download_size|dataset_size): [0-9]+$',
    re.MULTILINE,
)


def scan_error(name: str, what: str) -> GovernanceError:
    """The error for a file. `what` must not quote its content."""
    return GovernanceError(f"{name} cannot be pushed: {what}. Nothing was uploaded. Remove it and push again.")


def check_bytes(content: mmap.mmap, name: str, may_hold_images: bool = False) -> None:
    """Raise if a file begins like an image, an archive or a pickle, or contains an image."""
    if content[:8].startswith(_STARTS):
        raise scan_error(name, "it is an image, an archive or a pickle")
    if not may_hold_images and (any(content.find(mark) >= 0 for mark in _IMAGES) or _holds_exif(content)):
        raise scan_error(name, "it contains the bytes of an image")


def _holds_exif(content: mmap.mmap) -> bool:
    """Whether there is a JPEG with Exif data. Two bytes of length are between the marker and the word."""
    place = content.find(b"\xff\xd8\xff\xe1")
    while place >= 0:
        if content[place + 6 : place + 10] == b"Exif":
            return True
        place = content.find(b"\xff\xd8\xff\xe1", place + 1)
    return False


def check_text(text: str, name: str, bare: bool = True) -> None:
    """Raise if a text contains an id in MIMIC's range, or an image.

    Args:
        bare: also check numbers without the letter p or s. Rows may contain any number.
    """
    if re.search(_NAMED_ID, text, re.MULTILINE) or (bare and _BARE_ID.search(_SIZES.sub("", text))):
        raise scan_error(name, "it contains a possible patient or study id in MIMIC's range")
    if re.search(_BASE64, text):
        raise scan_error(name, "it contains an image as text")


def holds_named_id(values: pa.Array) -> bool:
    """Whether a text of a column contains a patient or study id in MIMIC's range."""
    return _any(values, _NAMED_ID)


def holds_image_text(values: pa.Array) -> bool:
    """Whether a text of a column contains an image as base64."""
    return _any(values, _BASE64)


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern), min_count=0).as_py())
