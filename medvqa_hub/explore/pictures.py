"""Image files for the page. Requests name a study or report, never a path."""

import io
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError
from medvqa_core.files import join_under
from mimic_cxr_vqa.images import SIGNATURES, check_image, read_film
from mimic_cxr_vqa.release import IMAGE_VARIABLE, STORE_VARIABLE, Release, find_image_prefix

LARGEST = 64 << 20  # bytes of a file that is sent as it is
MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png"}


@dataclass(frozen=True)
class Picture:
    """Bytes of an image file, and their media type."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class ImageRoot:
    """Where the images of a release are. `prefix` is None if this is unknown."""

    prefix: Path | None
    store: Path | None = None

    def file(self, path: str) -> Path:
        """The file of an image path of the release.

        Raises:
            InputError: the root is unknown, the path leaves it, or the file is missing or not a JPEG or PNG.
        """
        if self.prefix is None:
            raise InputError(f"image {path} cannot be found. Start again with --image-root FOLDER.")
        file = join_under(self.prefix, path, f"image {path}", self.store)
        problem = check_image(file)
        if problem:
            raise InputError(f"image {file} {problem}. Get the image, or check --image-root")
        return file

    def digests(self, paths: list[str]) -> list[str] | None:
        """Digests of images for the keys of predictions. None if an image cannot be read."""
        try:
            return [_digest(self.file(path)) for path in paths]
        except InputError:
            return None


def find_image_root(release: Release, named: Path | None, beside: bool = False) -> ImageRoot:
    """The folder that image paths of `release` are relative to.

    Args:
        named: folder given by the user. The default is the environment variable MIMIC_CXR_JPG_ROOT.
        beside: whether the images are in the folder of the release, as in the bundled sample.

    Raises:
        InputError: `named` is not a folder.
    """
    root = named or (release.folder if beside else None) or os.environ.get(IMAGE_VARIABLE)
    if root is None:
        return ImageRoot(None)
    if not Path(root).is_dir():
        raise InputError(f"image root {root} is not a folder. Pass the folder that holds files/.")
    store = os.environ.get(STORE_VARIABLE)
    return ImageRoot(find_image_prefix(Path(root).absolute()), Path(store) if store else None)


def read_picture(file: Path, side: int | None = None) -> Picture:
    """The bytes of an image file, or a greyscale copy whose shorter side has `side` pixels.

    Raises:
        InputError: the file is not a JPEG or PNG, is too large or cannot be decoded.
    """
    if side is not None:
        made = io.BytesIO()
        read_film(file, side).save(made, "JPEG", quality=85)
        return Picture(made.getvalue(), MEDIA_TYPES["JPEG"])
    if file.stat().st_size > LARGEST:
        raise InputError(f"image {file} has {file.stat().st_size:,} bytes. The limit is {LARGEST:,}.")
    data = file.read_bytes()
    return Picture(data, detect_media_type(data, file))


def detect_media_type(data: bytes, where: Path | str) -> str:
    """`image/jpeg` or `image/png`. Raises InputError for anything else."""
    kind = next((kind for kind, start in SIGNATURES.items() if data.startswith(start)), None)
    if kind is None:
        raise InputError(f"image {where} is not a {' or '.join(SIGNATURES)} file")
    return MEDIA_TYPES[kind]


@lru_cache(maxsize=4096)
def _digest(file: Path) -> str:
    import hashlib

    return digest_file(file, lambda: hashlib.blake2b(digest_size=16))
