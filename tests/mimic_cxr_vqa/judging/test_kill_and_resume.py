"""Judging, probing, exporting and importing, killed at random points and started again, end with the same bytes."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builds import build_release

KILLS = int(os.environ.get("KILLS", "10"))
CHAIN = """
import sys
from pathlib import Path
from medvqa_hub.cli import run
from mimic_cxr_vqa.judging.review import open_review
sys.path.insert(0, sys.argv[2])
from xlsx_sheets import fill_csv, fill_xlsx
from mimic_cxr_vqa.judging.dimensions import BEST
out = Path(sys.argv[1])
review = out / "review"
def typed(line):
    if code := run(["cxr", *line.split()]):
        sys.exit(code)
typed(f"judge --out {out} --sample-reports 12")
typed(f"judge --out {out} --sample-reports 12 --probe --per-kind 12")
if not (review / "ratings").exists():
    typed(f"review export --out {out} --items 12 --raters 2 --stratify rules")
for kind, fill in (("csv", fill_csv), ("xlsx", fill_xlsx)):
    sheets = [out / f"{rater}.{kind}" for rater in ("rater-1", "rater-2")]
    for sheet in sheets:
        sheet.write_bytes((review / "for_raters" / sheet.stem / f"sheet.{kind}").read_bytes())
        fill(sheet, {item.item: BEST for item in open_review(review).items})
    typed(f"review import --out {out} {sheets[0]} {sheets[1]}")
typed(f"table3 --out {out} --resamples 50")
typed(f"release --out {out}")
"""


def start(folder: Path) -> subprocess.Popen:
    helpers = Path(__file__).resolve().parents[2] / "helpers"
    environment = {**os.environ, "HF_HOME": str(folder.parent / "home")}
    command = [sys.executable, "-c", CHAIN, str(folder), str(helpers)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (path.parent == folder and path.name.startswith("rater-"))  # the people's own copies
    }


@pytest.mark.slow
def test_ten_kills_leave_the_bytes_of_an_uninterrupted_run(tmp_path):
    built = build_release(tmp_path / "built", studies=20).workspace.root

    def copy(name: str) -> Path:
        subprocess.run(["cp", "-r", str(built), str(tmp_path / name)], check=True)
        return tmp_path / name

    started = time.monotonic()
    assert start(copy("whole")).wait() == 0
    seconds = time.monotonic() - started
    expected = digests(tmp_path / "whole")
    moments = random.Random(3)
    kills = runs = 0
    folder = copy("killed-0")
    while kills < KILLS:
        assert runs < 2 * KILLS, f"only {kills} kills in {runs} whole runs"
        process = start(folder)
        try:
            assert process.wait(timeout=seconds * moments.uniform(0.3, 0.95)) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        else:
            assert digests(folder) == expected
            runs += 1
            folder = copy(f"killed-{runs}")
    assert start(folder).wait() == 0
    assert digests(folder) == expected
