"""A run killed at random points and started again ends with the bytes of a run that was never killed."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("KILLS", "10"))
CHAIN = """
import sys
from medvqa_hub.cli import run
tree, out = sys.argv[1:]
for step in (
    f"cxr phantom --out {tree} --studies 30 --size 96",
    f"cxr questions --source phantom --root {tree} --out {out}",
    f"cxr answer --out {out}",
    f"cxr judge --out {out} --sample-reports 12",
    f"cxr judge --out {out} --sample-reports 12 --probe --per-kind 12",
    f"cxr review export --out {out} --items 12 --raters 2 --stratify rules",
    f"cxr table3 --out {out}",
    f"cxr release --out {out} --rows-per-shard 200",
    f"cxr export-csv --data {out} --out {out}/csv",
):
    code = run(step.split())
    if code:
        sys.exit(code)
"""


def start(folder: Path) -> subprocess.Popen:
    environment = {**os.environ, "HF_HOME": str(folder / "home")}
    command = [sys.executable, "-c", CHAIN, str(folder / "tree"), str(folder / "out")]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "home" not in path.relative_to(folder).parts
    }


@pytest.mark.slow
def test_ten_kills_leave_the_bytes_of_an_uninterrupted_run(tmp_path):
    """A run that ends before its kill is compared and followed by a new one, until ten kills have struck."""
    started = time.monotonic()
    assert start(tmp_path / "whole").wait() == 0
    seconds = time.monotonic() - started
    expected = digests(tmp_path / "whole")

    moments = random.Random(2)
    kills = runs = 0
    while kills < KILLS:
        assert runs < 3 * KILLS, f"only {kills} kills in {runs} whole runs"
        process = start(tmp_path / f"killed-{runs}")
        try:
            assert process.wait(timeout=seconds * moments.uniform(0.05, 0.9)) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        else:
            assert digests(tmp_path / f"killed-{runs}") == expected
            runs += 1
    assert start(tmp_path / f"killed-{runs}").wait() == 0
    assert digests(tmp_path / f"killed-{runs}") == expected
