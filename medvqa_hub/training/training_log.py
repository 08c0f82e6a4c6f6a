"""The log of a training run: one JSON object per line, sorted by step, and a lock on the run's folder.

A run that is resumed after step N drops later lines, since it will write them again.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import output_errors
from medvqa_hub.tracking import Trackers

LOG = "training_log.jsonl"
LINE_INTERVAL = 10.0  # seconds between lines of progress


class TrainingLog:
    """Appends to the log of the run in `out` and holds the run's lock until `close`.

    Attributes:
        trackers: receive the lines as well.

    Raises:
        OutputError: another process trains in this folder, or the file cannot be written.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / LOG
        self._lock = FileLock(out / f".{LOG}.lock", is_singleton=False)
        self._shown = time.monotonic()
        self.trackers: Trackers | None = None
        try:
            with output_errors(self.path):
                self._lock.acquire(blocking=False)
        except Timeout:
            raise OutputError(f"{out} is being trained into by another process. Wait for it or stop it") from None
        with output_errors(self.path):
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115

    def cut_after(self, step: int) -> None:
        """Remove the lines of later steps, and an incomplete last line."""
        kept = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n") or _read_step(line, self.path) > step:
                break
            kept += len(line)
        with output_errors(self.path):
            self._file.truncate(kept)

    def append(self, entry: dict[str, Any], steps: int | None = None) -> None:
        """Write one line.

        Args:
            steps: of the whole run. Then validations, and other entries every LINE_INTERVAL, also go to stderr.
        """
        line = json.dumps(entry).encode() + b"\n"
        with output_errors(self.path):
            while line:
                line = line[self._file.write(line) :]
        if self.trackers is not None:
            self.trackers.log(entry)
        now = time.monotonic()
        if steps is not None and ("eval_loss" in entry or now - self._shown >= LINE_INTERVAL):
            self._shown = now
            shown = {name: value for name, value in entry.items() if name not in ("step", "epoch") and "/" not in name}
            numbers = [
                f"{name} {value:.4g}" for name, value in shown.items() if value is not None and "rate_" not in name
            ]
            print(f"step {entry['step']}/{steps}: {', '.join(numbers)}", file=sys.stderr)

    def close(self) -> None:
        if self.trackers is not None:
            self.trackers.close()
        self._file.close()
        self._lock.release()


def read_log(out: Path) -> list[dict[str, Any]]:
    """The entries of the run in `out`, without a line that is still being written."""
    path = out / LOG
    if not path.exists():
        raise InputError(f"{path}: no such file. Train into {out} first")
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _read_step(line: bytes, path: Path) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} has a line that is not a log entry ({error}). Remove the line") from error
