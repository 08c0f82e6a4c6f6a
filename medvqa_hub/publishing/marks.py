"""How images, archives and ids of MIMIC's range look in bytes and in texts: what the last look at a push looks for.

What stands here is what a mistake leaves. Whoever hides something on purpose (encrypted, spread over weights, spelt
in other letters) is not found out.
"""

import mmap
import re

import pyarrow as pa
import pyarrow.compute as pc

from medvqa_core.errors import GovernanceError

# Long enough not to stand in random weights by chance.
_IMAGES = (
    b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", b"\xff\xd8\xff\xee\x00\x0eAdobe",
    b"\xff\xd8\xff\xdb\x00\x43\x00", b"\xff\xd8\xff\xdb\x00\x84\x00", b"GIF89a", b"GIF87a", b"WEBPVP8",
    b"\x00" * 100 + b"DICM",
)  # fmt: skip
_STARTS = (  # of images, archives and pickles
    b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf",
    b"\x80\x04",
)  # fmt: skip
_BASE64 = (  # PNG, JPEG, GIF, WebP, DICOM
    r"data:image|iVBORw0KGgo|/9j/[247][A-Za-z0-9+/]{6}|R0lGOD[dl]|UklGR[A-Za-z0-9+/]{6}XRUJQVlA4|A{60}BESUNN"
)
_NAMED_ID = r"(?:^|[^0-9A-Za-z])(?:[pP]1[0-9]{7}|[sS]5[0-9]{7})(?:$|[^0-9])"
_BARE_ID = re.compile(  # neither a part of a number, nor the first or last part of a UUID
    r"(?<![0-9A-Za-z.])(?<![0-9a-f]{4}-)(?:1[0-9]{7}|5[0-9]{7})(?![0-9A-Za-z]|\.[0-9]|-[0-9a-f]{4}-)"
)
_SIZES = re.compile(r'"(?:total_size|total_parameters)": [0-9]+')  # of a weights index: no ids


def found(name: str, what: str) -> GovernanceError:
    """The error for a file of this name; `what` quotes nothing of it."""
    return GovernanceError(f"{name} is not pushed: {what}; nothing was uploaded. Take it out, and push again")


def refuse_bytes(content: mmap.mmap, name: str) -> None:
    """Raise where a file begins as an image, an archive or a pickle does, or holds an image anywhere."""
    if content[:8].startswith(_STARTS):
        raise found(name, "it begins as an image, an archive or a pickle does")
    if any(content.find(mark) >= 0 for mark in _IMAGES) or _holds_exif(content):
        raise found(name, "it holds the bytes of an image")


def _holds_exif(content: mmap.mmap) -> bool:
    """A JPEG with Exif data: two bytes of length stand between its mark and the word."""
    place = content.find(b"\xff\xd8\xff\xe1")
    while place >= 0:
        if content[place + 6 : place + 10] == b"Exif":
            return True
        place = content.find(b"\xff\xd8\xff\xe1", place + 1)
    return False


def refuse_words(text: str, name: str, bare: bool = True) -> None:
    """Raise where a text holds an id of MIMIC's range, or an image.

    Args:
        bare: numbers that stand alone count too; not in rows, where any number may stand.
    """
    if re.search(_NAMED_ID, text, re.MULTILINE) or (bare and _BARE_ID.search(_SIZES.sub("", text))):
        raise found(name, "it holds what may be a patient or study id of MIMIC's range")
    if re.search(_BASE64, text):
        raise found(name, "it holds an image as text")


def holds_named_id(values: pa.Array) -> bool:
    """Whether a text of a column names a patient or study of MIMIC's range."""
    return _any(values, _NAMED_ID)


def holds_image_text(values: pa.Array) -> bool:
    """Whether a text of a column holds an image as base64."""
    return _any(values, _BASE64)


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern), min_count=0).as_py())
