"""Verifies files against the sha256 in a manifest, once per user and machine, later by size and mtime.

    <HF_HOME>/medvqa_hub/verified-<uid>.json    {path: [size, mtime in ns, sha256]}, mode 0600

The record can be deleted. It is ignored if another user owns it or may write it.
"""

import json
import os
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from medvqa_core.digests import digest_file
from medvqa_core.errors import OutputError
from medvqa_core.json_files import write_json
from medvqa_core.progress import track

_Entry = tuple[int, int, str]


def changed_files(stated: Mapping[Path, str]) -> list[Path]:
    """The files of `stated` (path -> sha256) whose content differs. Raises InputError if one cannot be read."""
    record = _record_path()
    known = _read_record(record)
    states = {path: _state(path) for path in stated}
    unseen = [path for path in stated if known.get(str(path.absolute())) != (*states[path], stated[path])]
    if not unseen:
        return []
    with ThreadPoolExecutor() as pool:
        digests = list(track(pool.map(digest_file, unseen), "Checking files", total=len(unseen)))
    found = dict(zip(unseen, digests, strict=True))
    whole = {path: digest for path, digest in found.items() if digest == stated[path] and states[path] == _state(path)}
    _write_record(record, known | {str(path.absolute()): (*states[path], digest) for path, digest in whole.items()})
    return [path for path, digest in found.items() if digest != stated[path]]


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _record_path() -> Path:
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "medvqa_hub" / f"verified-{os.getuid()}.json"


def _read_record(path: Path) -> dict[str, _Entry]:
    """The record; empty if it is missing, broken or writable by others."""
    try:
        with open(path, encoding="utf-8") as file:
            owner = os.fstat(file.fileno())
            if owner.st_uid != os.getuid() or owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return {}
            return {
                name: (int(size), int(mtime), str(digest)) for name, (size, mtime, digest) in json.load(file).items()
            }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write_record(path: Path, entries: Mapping[str, _Entry]) -> None:
    # With a read-only or full cache, files are verified again next time.
    with suppress(OutputError):
        write_json(path, entries, private=True)
