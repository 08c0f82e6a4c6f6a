"""Atomic files and folders, locks, and paths that cannot leave their root.

A file or folder gets its final name by a rename, once it is complete and synced to disk.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from medvqa_core.errors import InputError, OutputError

MANIFEST = "manifest.json"  # in every folder that a step writes
PARTIAL_SUFFIX = ".partial"  # of files that are being written; safe to delete after a crash

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up: free some space and run the same command again",
    errno.EACCES: "no permission to write there: choose another folder or change its permissions",
    errno.EPERM: "no permission to write there: choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
}


@contextmanager
def output_errors(path: Path | str) -> Iterator[None]:
    """Turn every OSError of the block into an OutputError that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; {suggest_remedy(error)}") from error


def suggest_remedy(error: OSError) -> str:
    """What the user can do about an error of the operating system."""
    full = str(error).startswith("Not enough disk space")  # raised by `datasets` without an errno
    return _REMEDIES.get(errno.ENOSPC if full else error.errno or 0, "check the path and run the same command again")


def lock_file(descriptor: int, path: Path, wait: bool = False) -> None:
    """Lock an open file or folder until its descriptor is closed.

    Args:
        path: names what is protected, for messages.
        wait: wait for another process to release the lock instead of raising.

    Raises:
        OutputError: another process holds the lock.
    """
    with output_errors(path):
        if not lock_descriptor(descriptor, blocking=wait):
            raise OutputError(f"{path} is being written by another process. Wait for it or stop it.")


def make_folder(path: Path, private: bool = False) -> Path:
    """Create `path` and its parents. `private` gives it mode 0700 even if it exists. Raises OutputError."""
    with output_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if private:
            path.chmod(0o700)
    return path


def resolve_links(path: Path) -> Path:
    """Follow the symbolic links of `path`. Raises OutputError if they form a loop."""
    try:
        return path.resolve()
    except RuntimeError:  # raised by pathlib for a symlink loop
        raise OutputError(f"{path}: its symbolic links form a loop. Choose another folder") from None


@contextmanager
def atomic_file(path: Path, mode: str = "wb", private: bool = False, synced: bool = True) -> Iterator[IO]:
    """Open a partial file beside `path`; on success sync it and rename it to `path`, on failure remove it.

    Args:
        private: give the file mode 0600 (credentialed data).
        synced: False skips the fsync, for many small files that later runs verify. The file is still complete after a
            kill, but perhaps not after a power failure.

    Raises:
        OutputError: the file cannot be written, or another process is writing it.
    """
    make_folder(path.parent)
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    encoding = None if "b" in mode else "utf-8"
    with output_errors(path):
        descriptor = _open_alone(partial, os.O_RDWR | os.O_CREAT, path)
    try:
        with (
            output_errors(path),
            os.fdopen(descriptor, mode, encoding=encoding, newline=None if "b" in mode else "") as file,
        ):
            file.truncate(0)
            if private:
                os.fchmod(descriptor, 0o600)
            yield file
            file.flush()
            if synced:
                os.fsync(descriptor)
            os.replace(partial, path)  # must happen before closing the descriptor, which releases the lock
            if synced:
                _sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path, kind: str, private: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it replaces `path`, on failure it is removed.

    Readers see the old folder, for an instant none, or the new one. Only an empty folder or an earlier result of the
    same kind is replaced. A link is kept and its target is replaced.

    Args:
        kind: "kind" in the folder's manifest.
        private: give the folder mode 0700 (credentialed data).

    Raises:
        OutputError: `path` contains something else, cannot be written, or is being written by another process.
    """
    path = resolve_links(path)
    make_folder(path.parent)
    _refuse_other_content(path, kind)
    partial, replaced = (path.with_name(f".{path.name}{suffix}") for suffix in (PARTIAL_SUFFIX, ".replaced"))
    with output_errors(path):
        partial.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
        descriptor = _open_alone(partial, os.O_RDONLY | os.O_DIRECTORY, path)
    try:
        with output_errors(path):
            _restore(replaced, path)
            _empty(partial)  # left by a killed run
            yield partial
            for folder, _, files in os.walk(partial):
                for name in files:
                    _sync(Path(folder, name))
                _sync(Path(folder))
            if path.exists():
                os.rename(path, replaced)
            os.rename(partial, path)
            _sync(path.parent)
            if replaced.exists():
                shutil.rmtree(replaced)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        _restore(replaced, path)
        raise
    finally:
        os.close(descriptor)


def _restore(replaced: Path, path: Path) -> None:
    """Move a folder that an interrupted run had moved aside back to its place, or delete it if that is taken."""
    if not replaced.exists():
        return
    with output_errors(path):
        if path.exists():
            shutil.rmtree(replaced)
        else:
            os.rename(replaced, path)


def _refuse_other_content(path: Path, kind: str) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise OutputError(
            f"{path} exists and does not contain a {MANIFEST} of kind {kind!r}, so it is not an earlier result. "
            "Choose another folder."
        )


def _open_alone(path: Path, flags: int, target: Path) -> int:
    """Open and lock `path`. Closing the descriptor releases the lock. Raises OutputError if it is locked."""
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            lock_file(descriptor, target)
        except OutputError:
            os.close(descriptor)
            raise
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass  # another process renamed it between opening and locking: open again
        os.close(descriptor)
        if flags & os.O_DIRECTORY:
            path.mkdir(exist_ok=True)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def join_under(root: Path, relative: str, where: str, store: Path | None = None) -> Path:
    """Return `root / relative`.

    Args:
        where: file and row that the path was read from, for the message.
        store: a second folder that links may lead into, such as that of git-annex or DVC.

    Raises:
        InputError: the path is absolute, contains `..`, or leaves `root` and `store` through a symbolic link.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts or "\\" in relative or "\0" in relative:
        raise InputError(
            f"{where}: path {relative!r} leaves its root. Allowed are relative paths without '..' below {root}"
        )
    path = root / relative
    # Not Path.resolve: it raises RuntimeError for loops of links.
    target = Path(os.path.realpath(path))
    if not any(target.is_relative_to(os.path.realpath(place)) for place in (root, store) if place is not None):
        roots = f"{root} and {store}" if store else str(root)
        raise InputError(
            f"{where}: path {relative!r} leads out of {roots} through a symbolic link. "
            "Move the file below the root, or mount its disk there"
        )
    return path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
