"""Kills a step at each of its writes to disk in turn: half of the write is done, then nothing more.

A kill at a random moment mostly strikes before the first write or after the last; these strike between any two, on
every machine alike. Run it in a fresh process (`kill_at_each_write` forks, which a process with threads should not).
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def killed_copies(program: str, source: Path, copies: Path, *arguments: str | Path) -> list[Path]:
    """Folders that `program`, which calls `kill_at_each_write(step, *sys.argv[1:3])`, left behind, one a kill.

    The last is one folder in which the step was begun again and killed at its first, second, … write.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", program, source, copies, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return sorted(copies.iterdir(), key=lambda folder: int(folder.name))


def kill_at_each_write(step: Callable[[Path], object], source: str, copies: str) -> None:
    """Run `step` on a copy of `source` for each of its writes, killed there, until one run has no write left."""
    number, same = 0, Path(copies, "0")
    shutil.copytree(source, same)
    while True:
        number += 1
        copy = Path(copies, str(number))
        shutil.copytree(source, copy)
        if not _is_killed(step, copy, number):
            shutil.rmtree(copy)
            break
    kills = 1
    while _is_killed(step, same, kills):
        kills += 1
    assert kills > 1
    same.rename(Path(copies, str(number)))


def _is_killed(step: Callable[[Path], object], folder: Path, at: int) -> bool:
    child = os.fork()
    if not child:
        _die_at(at)
        step(folder)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def _die_at(number: int) -> None:
    """Have this process killed at its write of this number, counted from 1."""
    left = number

    def counted(write: Callable, part: Callable | None = None) -> Callable:
        def wrapped(*arguments, **options):
            nonlocal left
            left -= 1
            if not left:
                if part:
                    part(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*arguments, **options)

        return wrapped

    pwrite = os.pwrite
    os.pwrite = counted(pwrite, lambda file, data, offset: pwrite(file, data[: len(data) // 2], offset))
    os.fsync, os.replace = counted(os.fsync), counted(os.replace)
