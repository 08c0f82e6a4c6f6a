"""Files compared with the sha256 that a manifest states of them: once per user and machine, then by size and mtime.

    <HF_HOME>/medvqa_hub/verified-<uid>.json    {path: [size, mtime in ns, sha256]}, for its owner alone

Deleting the record costs a comparison, nothing else. A record that another user owns or may write is not believed.
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
    """The files of `stated` (path -> sha256 in hex) whose content has another sha256.

    Raises:
        InputError: a file cannot be read.
    """
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
    """What was compared before; nothing where the record is absent, broken or not its user's alone."""
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
    # a read-only or full cache, or another process at it: the files are compared again next time
    with suppress(OutputError):
        write_json(path, entries, private=True)
