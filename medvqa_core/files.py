"""Writing that never leaves a half-written file behind, and paths that never leave their root.

A finished file or folder appears by rename: what carries its final name is complete and synced to disk.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from medvqa_core.errors import InputError, OutputError

MARKER = "manifest.json"  # in every folder that a step writes
PARTIAL_SUFFIX = ".partial"  # on names that are being written; a leftover one is safe to delete

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up: free some space and run the same command again",
    errno.EACCES: "no permission to write there: choose another folder or change its permissions",
    errno.EPERM: "no permission to write there: choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
}


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn every OSError of the block into an OutputError that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno, "check the path and run the same command again")
        raise OutputError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error


def make_folder(path: Path) -> Path:
    """Create `path` and its parents. Raises OutputError where that is not possible."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def atomic_file(path: Path, mode: str = "wb", private: bool = False) -> Iterator[IO]:
    """Open a partial file beside `path`; on success sync it and rename it to `path`, on failure remove it.

    Args:
        private: give the file mode 0600 (credentialed data).

    Raises:
        OutputError: the folder cannot be written, the disk is full, …
    """
    make_folder(path.parent)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        with writing(path):
            encoding = None if "b" in mode else "utf-8"
            with open(partial, mode, encoding=encoding, newline=None if encoding is None else "") as file:
                if private:
                    os.chmod(partial, 0o600)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _sync_folder(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path, private: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it takes the place of `path`, on failure it is removed.

    A reader sees the old folder, for an instant none, or the new one; never a mixture. Only an empty folder or one that
    holds MARKER (that is, an earlier result) is replaced; a link to one is followed.

    Args:
        private: give the folder mode 0700 (credentialed data).

    Raises:
        OutputError: `path` holds something else, or cannot be written.
    """
    path = path.resolve()  # a link stays, its target is replaced on its own disk
    make_folder(path.parent)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    replaced = path.with_name(path.name + ".replaced")
    _restore(replaced, path)
    if path.exists() and not (path / MARKER).exists() and (not path.is_dir() or any(path.iterdir())):
        raise OutputError(f"{path} exists and holds no {MARKER}: it is not an earlier result; choose another folder")
    with writing(path):
        for leftover in (partial, replaced):
            if leftover.exists():
                shutil.rmtree(leftover)
        partial.mkdir(mode=0o700 if private else 0o777)
    try:
        with writing(path):
            yield partial
            for folder, _, files in os.walk(partial):
                for name in files:
                    _sync(Path(folder, name))
                _sync_folder(Path(folder))
            if path.exists():
                os.rename(path, replaced)
            os.rename(partial, path)
            _sync_folder(path.parent)
            if replaced.exists():
                shutil.rmtree(replaced)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        _restore(replaced, path)
        raise


def _restore(replaced: Path, path: Path) -> None:
    """Bring back the folder that was moved aside, if whoever did it stopped before the new one took its place."""
    if replaced.exists() and not path.exists():
        with writing(path):
            os.rename(replaced, path)


def join_under(root: Path, relative: str, where: str) -> Path:
    """`root / relative`, refused if it is absolute, climbs out by `..`, or leads out through a symbolic link.

    Args:
        where: file and row the path was read from, for the message.

    Raises:
        InputError: the path leaves `root`.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts or "\\" in relative or "\0" in relative:
        raise InputError(
            f"{where}: path {relative!r} leaves its root; allowed are relative paths without '..' below {root}"
        )
    path = root / relative
    # not Path.resolve: it raises RuntimeError for links that go round in circles
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise InputError(
            f"{where}: path {relative!r} leads out of {root} through a symbolic link; copy the file below the root"
        )
    return path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    _sync(path)  # the rename itself is in the folder's data
