"""Folders that cannot be written and disks that are full: one line, exit code 1, nothing half-written that looks
finished.

The disk is filled by limiting how large a file the process may write, which the kernel reports like a full disk does.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from builds import Build, build_release

LIMITED = """
import errno, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from medvqa_hub.cli import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("built"), studies=12)


def run_limited(limit: int, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", LIMITED, str(limit), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def assert_one_line(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 1, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: cannot write "), done.stderr


def steps(built: Build, out: Path) -> dict[str, tuple[list[str], Path]]:
    """Command and the path that must not exist after it failed."""
    tree, data = str(built.tree), str(built.workspace.root)
    return {
        "phantom": (["phantom", "--out", str(out), "--studies", "3", "--size", "64"], out / "phantom.json"),
        "questions": (["questions", "--source", "phantom", "--root", tree, "--out", str(out)], out / "questions"),
        "export": (["export-csv", "--data", data, "--out", str(out)], out),
        "stats": (["stats", "--data", data, "--out", str(out)], out / "statistics.json"),
    }


@pytest.mark.parametrize(
    "step", ["questions", *(pytest.param(step, marks=pytest.mark.slow) for step in ("phantom", "export", "stats"))]
)
def test_full_disk(built, tmp_path, step):
    command, result = steps(built, tmp_path / "out")[step]
    assert_one_line(run_limited(600, "cxr", *command))
    assert not result.exists()


def test_answers_of_a_full_disk_are_whole_and_the_run_goes_on(built, tmp_path):
    from medvqa_hub.cli import run

    out, tree = str(tmp_path / "out"), str(built.tree)
    assert run(["cxr", "questions", "--source", "phantom", "--root", tree, "--out", out]) == 0
    store = tmp_path / "out" / "answers.jsonl"
    done = run_limited(20_000, "cxr", "answer", "--out", out)
    assert_one_line(done)
    assert "free some space" in done.stderr or "File too large" in done.stderr
    content = store.read_bytes()
    assert len(content) <= 20_000 and content.endswith(b"}\n")
    assert run(["cxr", "answer", "--out", out]) == 0
    assert store.read_bytes() == built.workspace.answers.read_bytes()
