"""The staging folder: exactly the files that are pushed. Code names each of them, and symbolic links are refused."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.files import output_errors
from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json

CARD = "README.md"
MARK = "medvqa_hub.json"  # kind and governance class, in every repository that this package pushes to
_CHUNK = 1 << 20


@dataclass(frozen=True)
class StagedFile:
    """Attributes:
    size: in bytes.
    sha256: hash that the Hub states for large files.
    git_oid: hash that it states for small ones.
    """

    size: int
    sha256: str
    git_oid: str

    def is_same(self, stated: Any) -> bool:
        """Whether a RepoFile of the Hub has this content."""
        return stated.lfs.sha256 == self.sha256 if stated.lfs is not None else stated.blob_id == self.git_oid


@contextmanager
def staged(files: Mapping[str, Path | bytes], kind: str, governance: Governance) -> Iterator[Path]:
    """Yield a private folder with `files` (name in the repository -> file or content) and the mark.

    Raises:
        InputError: a name leaves the folder, or a file is missing, a link or not a regular file.
        OutputError: the folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="medvqa-push-") as made:
        folder = Path(made)
        for name, source in files.items():
            if Path(name).is_absolute() or ".." in Path(name).parts or name == MARK:
                raise InputError(f"{name!r} is not a valid name for a file of a repository")
            target = folder / name
            with output_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(source, bytes):
                    target.write_bytes(source)
                else:
                    _take(source, target)
        write_json(folder / MARK, {"kind": kind, "governance": str(governance), "format": 1})
        yield folder


def _take(source: Path, target: Path) -> None:
    """Link or copy a regular file."""
    try:
        mode = source.lstat().st_mode
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}. Build the folder again.") from None
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        raise InputError(f"{source} is {what}. Copy the file into the folder.")
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copyfile(source, target, follow_symlinks=False)


def describe_staging(folder: Path) -> dict[str, StagedFile]:
    """path -> size and hashes of every file in `folder`. Raises InputError if one is not a regular file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise InputError(f"{path} is not a regular file")
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = _describe(path)
    return found


def _describe(path: Path) -> StagedFile:
    """Compute both hashes in one pass."""
    size = path.stat().st_size
    whole, git = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            whole.update(chunk)
            git.update(chunk)
    return StagedFile(size, whole.hexdigest(), git.hexdigest())
