"""Images that a person brings to Ask: in memory while the explorer runs, a file only while an engine reads it.

A file is taken as it is, once it has been decoded whole: PNG or JPEG by its first bytes, of bounded size and pixels. It
lies in a folder of its own that its owner alone can read, for as long as one question takes.
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
from medvqa_hub.explore.pictures import media_type_of
from mimic_cxr_vqa.images import SIGNATURES

MOST_BYTES = 32 << 20
MOST_PIXELS = 64_000_000  # a radiograph has some 8 million, a phone's photo up to 50
KEPT = 4  # the last ones; older ones are forgotten
_WHERE = "brought here"


class Uploads:
    """The images, by the random names that they were given; used by several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, data: bytes) -> str:
        """Keep an image; returns its name, which is needed to ask about it.

        Raises:
            InputError: it is no PNG or JPEG, too large, or cannot be decoded.
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
        """The image as a file, as long as the block lasts. Raises InputError where there is none of that name."""
        with self._lock:
            data = self._kept.get(name)
        if data is None:
            raise InputError(
                f"the image is not here any more: the last {KEPT} are kept, until the explorer ends; choose it again"
            )
        with tempfile.TemporaryDirectory(prefix="medvqa-ask-") as folder:  # mode 0700, and removed at exit too
            path = Path(folder) / f"image{'.png' if data.startswith(SIGNATURES['PNG']) else '.jpg'}"
            path.write_bytes(data)
            yield path


def check_upload(data: bytes) -> None:
    """Decode an image whole. Raises InputError where it is not what `Uploads.add` takes."""
    if len(data) > MOST_BYTES:
        raise InputError(f"the image has more than {MOST_BYTES >> 20} MiB; save it smaller")
    media_type_of(data, _WHERE)
    try:
        with Image.open(io.BytesIO(data), formats=tuple(SIGNATURES)) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise InputError(
                    f"the image has {width:,} x {height:,} pixels; allowed are {MOST_PIXELS // 1_000_000} million: "
                    "save it smaller"
                )
            image.load()
    except PILLOW_ERRORS as error:
        raise InputError(f"the image cannot be decoded ({one_line(error)}); choose another file") from None
