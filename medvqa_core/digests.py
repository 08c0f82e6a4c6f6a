"""Hex digests of content, used in fingerprints, manifests and content keys."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.progress import track


def digest(content: str | bytes) -> str:
    """SHA-256 of bytes, or of a text in UTF-8: 64 hex digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def digest_file(path: Path, algorithm: str | Callable[[], Any] = "sha256") -> str:
    """Digest of a file. `algorithm` is as for `hashlib.file_digest`. Raises InputError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}). Check the path") from None


def blake2b_files(paths: Iterable[Path], what: str) -> dict[Path, str]:
    """BLAKE2b (32 hex digits) of each distinct file, computed in parallel.

    Args:
        what: shown as progress ("Reading images").

    Raises:
        InputError: a file cannot be read.
    """
    unique = list(dict.fromkeys(paths))
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda path: digest_file(path, lambda: hashlib.blake2b(digest_size=16)), unique)
        return dict(zip(unique, track(digests, what, total=len(unique)), strict=True))
