"""`training_log.jsonl`: one JSON object per logged step or validation, `step` first, in order of steps, none twice.

A run that goes on at step N drops the lines after N, which it is about to write again. Only one process writes at a
time; the lock goes with it.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import writing

NAME = "training_log.jsonl"


class TrainingLog:
    """Appends to the log of the run in `out`; holds the run's lock until `close`.

    Raises:
        OutputError: another process trains into this folder, or the file cannot be written.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / NAME
        with writing(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise OutputError(f"{out} is being trained into by another process; wait for it or stop it") from None

    def cut_after(self, step: int) -> None:
        """Drop the lines of later steps, and a torn last one."""
        kept = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n") or _step_of(line, self.path) > step:
                break
            kept += len(line)
        with writing(self.path):
            os.ftruncate(self._descriptor, kept)
            os.lseek(self._descriptor, kept, os.SEEK_SET)

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line."""
        line = json.dumps(entry).encode() + b"\n"
        with writing(self.path):
            while line:
                line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        os.close(self._descriptor)


def read_log(out: Path) -> list[dict[str, Any]]:
    """The entries of the run in `out`; a line that is still being written is left out."""
    path = out / NAME
    if not path.exists():
        raise InputError(f"{path}: no such file; train into {out} first")
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _step_of(line: bytes, path: Path) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} has a line that is no log entry ({error}); remove the file or the line") from error
