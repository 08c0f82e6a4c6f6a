"""Find and remove caches, intermediates and Arrow copies of rows of a class.

Looked through are the cache of `datasets` and the folders that are named, without following a link. A file is removed
only with a proof (`proofs.py`), and only if it is still the file that was listed. Nothing is removed in or below a
folder that holds MIMIC-CXR's own tables. Files are deleted, not overwritten; backups and snapshots are not reached.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medvqa_core.errors import ConfigError, OutputError
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_hub.purging.proofs import Folder, holds_model, is_source, proven

SHOWN = 20  # places that are listed by name


@dataclass(frozen=True)
class Found:
    """A file that can be removed.

    Attributes:
        state: device, inode, size and time of change, as they were when it was listed.
    """

    path: Path
    proof: str
    state: tuple[int, int, int, int]

    @property
    def bytes(self) -> int:
        return self.state[2]


@dataclass
class Survey:
    """Attributes:
    files: what can be removed.
    kept: what stays though it lies there, with the reason.
    """

    files: dict[Path, Found] = field(default_factory=dict)
    kept: dict[Path, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(found.bytes for found in self.files.values())


def datasets_cache() -> Path:
    """The folder in which `datasets` keeps Arrow copies (HF_DATASETS_CACHE, below HF_HOME)."""
    from datasets import config

    return Path(config.HF_DATASETS_CACHE)


def survey(roots: Sequence[Path], governance: Governance) -> Survey:
    """Look through `roots`; nothing is changed.

    Raises:
        ConfigError: a root is no folder, is the top of a file system, or lies in a copy of MIMIC-CXR itself.
    """
    found = Survey()
    for root in roots:
        place = Path(os.path.realpath(root))  # what the user names may be a link, what lies in it may not
        if not place.is_dir():
            raise ConfigError(f"{root}: no such folder; name a workspace, a folder of predictions, or one above them")
        if place == place.parent:
            raise ConfigError(f"{root} is the whole machine; name the folders that you build in")
        for above in place.parents:
            if _is_source(above):
                raise ConfigError(f"{root} lies in a copy of MIMIC-CXR ({above}); the source itself is not purged")
        for folder in track(_folders(place, found), f"Looking through {root}"):
            _survey_folder(folder, governance, found)
    for path in found.files:
        found.kept.pop(path, None)
    return found


def _is_source(path: Path) -> bool:
    try:
        with os.scandir(path) as entries:
            names = frozenset(entry.name for entry in entries)
    except OSError:
        return False
    return is_source(Folder(path, names, frozenset()))


def _folders(root: Path, found: Survey) -> Iterator[Folder]:
    """Every folder at and below `root`; not those behind links, nor those of the source."""

    def unreadable(error: OSError) -> None:
        found.kept[Path(error.filename)] = f"cannot be read ({error.strerror})"

    for place, below, names in os.walk(root, onerror=unreadable):
        path = Path(place)
        links = frozenset(name for name in (*below, *names) if (path / name).is_symlink())
        regular = frozenset(name for name in names if name not in links and (path / name).is_file())
        folder = Folder(path, regular, links)
        below[:] = sorted(set(below) - links)
        if is_source(folder):
            found.kept[path] = "a copy of MIMIC-CXR itself: the source stays"
            below.clear()
            continue
        yield folder


def _survey_folder(folder: Folder, governance: Governance, found: Survey) -> None:
    if holds_model(folder, governance):
        found.kept[folder.path] = "a model: weights are no rows; delete the folder by hand"
    names = dict(reversed(list(proven(folder, governance))))  # the first proof of a name holds
    if not names:
        return
    for name, proof in sorted(names.items()):
        path = folder.path / name
        status = path.lstat()
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        found.files.setdefault(path, Found(path, proof, state))
    for name in sorted((folder.files | folder.links) - names.keys()):
        reason = "a link: not followed" if name in folder.links else "no proof that it is ours and of this class"
        found.kept[folder.path / name] = reason


def remove(found: Survey, roots: Sequence[Path]) -> int:
    """Remove what was listed, then folders that have become empty, below the roots; returns how many files went.

    Raises:
        OutputError: some could not be removed, have changed since, or are being written; all others are gone.
    """
    problems, removed = [], 0
    for one in track(found.files.values(), "Removing"):
        problem = _remove(one)
        removed += problem is None
        if problem is not None:
            problems.append(f"{one.path} {problem}")
    places = {Path(os.path.realpath(root)) for root in roots}
    for folder in sorted({p for f in found.files for p in f.parents}, key=lambda p: len(p.parts), reverse=True):
        if any(place in folder.parents for place in places):
            _remove_empty(folder)
    if problems:
        raise OutputError(
            f"{removed} of {len(found.files)} files removed; {problems[0]} ({len(problems)} such); see to it and run "
            "the same command again"
        )
    return removed


def _remove(one: Found) -> str | None:
    """Unlink a file that is still what was listed; else say why not."""
    try:
        if os.path.realpath(one.path.parent) != str(one.path.parent):
            return "lies behind a link now"
        status = one.path.lstat()
        if (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) != one.state:
            return "has changed since it was listed"
        with open(one.path, "r+b") as file:  # locking asks for a descriptor that may write, on some file systems
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return "is being written by another process"
            one.path.unlink()
    except OSError as error:
        return f"cannot be removed ({error.strerror})"
    return None


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not empty, or gone


def show(found: Survey, governance: Governance, log: Callable[[str], None] = print) -> None:
    """Say what was found, folder by folder, and what stays."""
    folders: dict[tuple[Path, str], list[Found]] = {}
    for one in found.files.values():
        folders.setdefault((one.path.parent, one.proof), []).append(one)
    for (folder, proof), files in sorted(folders.items())[:SHOWN]:
        log(f"  {len(files):,} files, {size(sum(f.bytes for f in files))}: {folder} ({proof})")
    if len(folders) > SHOWN:
        log(f"  and {len(folders) - SHOWN:,} more folders")
    log(f"{len(found.files):,} files of class {governance}, {size(found.bytes)}")
    for path, reason in sorted(found.kept.items())[:SHOWN]:
        log(f"  stays: {path} ({reason})")
    if len(found.kept) > SHOWN:
        log(f"  and {len(found.kept) - SHOWN:,} more that stay")


def size(number: int) -> str:
    """Bytes as people read them."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"
