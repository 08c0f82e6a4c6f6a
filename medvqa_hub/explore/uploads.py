"""Uploaded images for Ask, kept in memory and written to a private file only while an engine reads them.

An upload must be a PNG or JPEG that can be decoded, with limits on bytes and pixels.
"""

import io
import secrets
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from medvqa_core.errors import InputError, one_line
from medvqa_core.pillow_errors import PILLOW_ERRORS
from medvqa_hub.explore.guarding import MOST_UPLOAD
from medvqa_hub.explore.pictures import detect_media_type
from mimic_cxr_vqa.images import SIGNATURES

MOST_PIXELS = 64_000_000  # a radiograph has about 8 million, a photo up to 50 million
KEPT = 4  # uploads


class Uploads:
    """Images by random names. Thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes) -> str:
        """Store an image. Returns its name.

        Raises:
            InputError: the image is not a PNG or JPEG, is too large, or cannot be decoded.
        """
        check_upload(data)
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[name] = data
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return name

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Yield the image as a temporary file. Raises InputError if the name is unknown."""
        with self._lock:
            data = self._kept.get(name)
        if data is None:
            raise InputError(
                f"the image is no longer available, since only the last {KEPT} uploads are kept. Choose it again."
            )
        with tempfile.TemporaryDirectory(prefix="medvqa-ask-") as folder:  # mode 0700, and removed at exit too
            path = Path(folder) / f"image{'.png' if data.startswith(SIGNATURES['PNG']) else '.jpg'}"
            path.write_bytes(data)
            yield path


def check_upload(data: bytes) -> None:
    """Raise InputError if the image is too large or cannot be decoded."""
    if len(data) > MOST_UPLOAD:
        raise InputError(f"the image has more than {MOST_UPLOAD >> 20} MiB. Save a smaller copy.")
    detect_media_type(data, "upload")
    try:
        with Image.open(io.BytesIO(data), formats=tuple(SIGNATURES)) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise InputError(
                    f"the image has {width:,} x {height:,} pixels. The limit is {MOST_PIXELS // 1_000_000} million."
                )
            image.load()
    except PILLOW_ERRORS as error:
        raise InputError(f"the image cannot be decoded ({one_line(error)}). Choose another file.") from None
