"""The command line: help that answers at once, exit codes, one-line errors, the steps in order."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from medvqa_hub.cli import run
from mimic_cxr_vqa.phantom.tree import write_phantom

IMPORT_PROBE = """
import sys
import typer
from medvqa_hub.cli import app, run

HEAVY = {"torch", "transformers", "datasets", "pyarrow", "numpy", "pandas", "matplotlib", "PIL"}


def walk(command, *words):
    yield words
    for name, part in getattr(command, "commands", {}).items():
        yield from walk(part, *words, name)


for words in walk(typer.main.get_command(app)):
    code = run([*words, "--help"])
    print("PROBED", words, code, sorted(HEAVY & set(sys.modules)))
"""


def test_help_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", IMPORT_PROBE], capture_output=True, text=True, check=False)
    probed = [line for line in done.stdout.splitlines() if line.startswith("PROBED")]
    assert done.returncode == 0 and len(probed) > 40 and done.stdout.count("Usage") == len(probed), done.stderr
    assert not [line for line in probed if not line.endswith(" 0 []")]


def test_steps_from_drawing_to_statistics(tmp_path, capsys):
    tree, out = str(tmp_path / "tree"), str(tmp_path / "out")
    steps = [
        f"cxr phantom --out {tree} --studies 12 --size 64 --reports zip",
        f"cxr questions --source phantom --root {tree} --out {out}",
        f"cxr answer --out {out}",
        f"cxr status --out {out}",
        f"cxr release --out {out}",
        f"cxr stats --data {out} --out {tmp_path / 'stats'}",
        f"cxr export-csv --data {out} --out {tmp_path / 'csv'}",
        f"cxr stats --data {tmp_path / 'csv'}",
        f"doctor --mimic-root {tree}",
    ]
    for step in steps:
        assert run(step.split()) == 0, step
    printed = capsys.readouterr().out
    assert "governance class: open" in printed and "QA Pairs" in printed
    statistics = json.loads((tmp_path / "stats" / "statistics.json").read_text())
    rows = json.loads((tmp_path / "out" / "release" / "manifest.json").read_text())["counts"]["rows"]
    assert statistics["table_1"]["all"]["qa_pairs"] == rows
    assert (tmp_path / "stats" / "figure1.png").read_bytes().startswith(b"\x89PNG")
    assert run(f"cxr answer --out {out}".split()) == 0
    assert "asked: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "cxr questions --root {tmp}/none --out {tmp}/out",
            r"/none/mimic-cxr-2.0.0",
        ),
        ("cxr questions --source openi --root {tmp} --out {tmp}/out", r"indiana_reports.csv"),
        (
            "cxr questions --root {tmp} --labeler human --out {tmp}/out",
            r"'human'.*chexpert, negbio",
        ),
        ("cxr answer --out {tmp}/out", r"manifest.json.*medvqa-hub cxr questions"),
        ("cxr answer --out {tmp}/out --engine gpt", "'gpt'.*extractive"),
        ("cxr release --out {tmp}/out", r"medvqa-hub cxr questions"),
        ("cxr stats --data {tmp}/none", r"none"),
        ("cxr export-csv --data {tmp} --out {tmp}/csv", r"release"),
        ("cxr phantom --out {tmp}/tree --studies 0", r"0"),
        ("cxr phantom --out {tmp}/tree --studies 5 --size 8", r"8"),
        ("cxr phantom --out {tmp}/file/tree --studies 2", r"file"),
    ],
)
def test_errors_are_one_line_and_exit_code_1(arguments, expected, tmp_path, capsys):
    import re

    (tmp_path / "file").write_text("not a folder")
    assert run(arguments.format(tmp=tmp_path).split()) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and re.search(expected, lines[0]), lines
    assert not (tmp_path / "out" / "questions").exists()


def test_wrong_usage_is_exit_code_2():
    assert run(["cxr", "answer"]) == 2
    assert run(["cxr", "fly"]) == 2


def test_doctor_fails_and_names_what_is_missing(tmp_path, capsys):
    assert run(["doctor", "--mimic-root", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    for name in ("chexpert table", "metadata table", "split table", "image folder", "reports"):
        assert name in printed
    assert "physionet.org" in printed and str(tmp_path) in printed


def test_reports_without_a_root_are_refused(tmp_path, capsys):
    assert run(["doctor", "--reports", str(tmp_path)]) == 1
    assert "--mimic-root" in capsys.readouterr().err


def test_status_tells_stale_answers_and_releases(tmp_path, capsys):
    tree, out = str(tmp_path / "tree"), str(tmp_path / "out")
    for step in (
        f"cxr phantom --out {tree} --studies 10 --size 64",
        f"cxr questions --source phantom --root {tree} --out {out}",
        f"cxr answer --out {out}",
        f"cxr release --out {out}",
        f"cxr status --out {out}",
    ):
        assert run(step.split()) == 0
    printed = capsys.readouterr().out
    assert "open: 0" in printed and "again" not in printed
    assert run(f"cxr questions --source phantom --root {tree} --out {out} --seed 7".split()) == 0
    assert run(f"cxr status --out {out}".split()) == 0
    printed = capsys.readouterr().out
    assert "open: 0" not in printed and "again" in printed
    assert run(f"cxr answer --out {out}".split()) == 0
    questions = json.loads((tmp_path / "out" / "questions" / "manifest.json").read_text())["counts"]["questions"]
    assert f"answered: {questions:,}," in capsys.readouterr().out


def test_statistics_of_questions_without_answers(tmp_path, capsys):
    tree, out = str(tmp_path / "tree"), str(tmp_path / "out")
    assert run(f"cxr phantom --out {tree} --studies 10 --size 64".split()) == 0
    assert run(f"cxr questions --source phantom --root {tree} --out {out}".split()) == 0
    assert run(f"cxr stats --data {out}".split()) == 1
    assert "medvqa-hub cxr answer" in capsys.readouterr().err


def test_an_export_never_replaces_what_is_not_one(tmp_path, capsys):
    from mimic_cxr_vqa import SAMPLE_DIR

    app = tmp_path / "webapp"
    (app / "src").mkdir(parents=True)
    (app / "manifest.json").write_text("{}")
    (app / "src" / "code.js").write_text("precious")
    assert run(["cxr", "export-csv", "--data", str(SAMPLE_DIR), "--out", str(app)]) == 1
    assert (app / "src" / "code.js").exists()
    assert run(["cxr", "export-csv", "--data", str(SAMPLE_DIR), "--out", str(SAMPLE_DIR / "csv")]) == 1
    assert str(SAMPLE_DIR) in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_is_exit_code_130_and_the_run_resumes(tmp_path):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    phantom = [sys.executable, "-m", "medvqa_hub.cli", "cxr", "phantom", "--out", str(tmp_path / "tree")]
    phantom += ["--studies", "60", "--size", "256"]
    process = subprocess.Popen(phantom, stderr=subprocess.PIPE, text=True, env=environment)
    wait_for(lambda: any((tmp_path / "tree" / "files").glob("*/*/*/*.jpg")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip().splitlines()[-1] == "Interrupted. Run the same command again to resume."
    assert "Traceback" not in err
    assert not (tmp_path / "tree" / "phantom.json").exists()
    assert subprocess.run(phantom, check=False).returncode == 0
    assert (tmp_path / "tree" / "phantom.json").exists()


def test_sigterm_is_exit_code_143_and_leaves_no_process_behind(tmp_path):
    shrink = [sys.executable, "-m", "medvqa_hub.cli", "cxr", "shrink", "--root", str(tmp_path / "tree")]
    shrink += ["--out", str(tmp_path / "small"), "--size", "64", "--workers", "2"]
    write_phantom(tmp_path / "tree", 1, size=64)
    picture = next((tmp_path / "tree" / "files").glob("*/*/*/*.jpg"))
    for number in range(2000):
        os.link(picture, picture.with_name(f"{number}.jpg"))
    process = subprocess.Popen(shrink, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any((tmp_path / "small" / "files").glob("*/*/*/*.jpg")), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)  # ends only when nobody holds standard error, no worker either
    assert (process.returncode, err) == (143, "Interrupted. Run the same command again to resume.\n")
    assert not (tmp_path / "small" / "manifest.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [["cxr", "answer", "--out", "here"], ["cxr", "stats", "--data", "here"], ["meddqa", "esra", "--images", "here"]],
    ids=" ".join,
)
def test_a_working_folder_that_is_gone_is_said_in_a_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert run(arguments) == 1
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (MemoryError("Unable to allocate 3.64 TiB"), "out of memory (Unable to allocate 3.64 TiB)"),
    ],
)
def test_what_the_machine_lacks_is_said_in_a_line(failure, expected, monkeypatch, capsys):
    monkeypatch.setattr("medvqa_hub.doctor.examine", fail_with(failure))
    assert run(["doctor"]) == 1
    assert capsys.readouterr().err.startswith(f"error: {expected}")


@pytest.mark.parametrize("failure", [OSError("an error of a library"), ConnectionResetError(104, "reset")])
def test_other_failures_keep_their_traceback(failure, monkeypatch):
    monkeypatch.setattr("medvqa_hub.doctor.examine", fail_with(failure))
    with pytest.raises(type(failure)):
        run(["doctor"])


def fail_with(failure: BaseException):
    def fail(*_: object) -> None:
        raise failure

    return fail


def test_names_that_are_no_text_are_refused_in_a_line(tmp_path, capsys):
    folder = tmp_path / os.fsdecode("报告".encode("gbk"))
    folder.mkdir()
    assert run(["cxr", "questions", "--source", "phantom", "--root", str(folder), "--out", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert "\\udcb1" in err and "not valid text" in err and "PYTHONUTF8=1" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("folder", ["loop", "loop/below"])
def test_links_that_go_round_in_circles_are_refused_in_a_line(folder, tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    write_phantom(tmp_path / "tree", 1, size=64)
    given = ["--root", str(tmp_path / "tree"), "--out", str(tmp_path / folder)]
    for command in (["cxr", "questions", "--source", "phantom", *given], ["cxr", "shrink", *given]):
        assert run(command) == 1
        assert "symbolic links form a loop" in capsys.readouterr().err


def test_a_limit_beyond_every_study(tmp_path):
    write_phantom(tmp_path / "tree", 1, size=64)
    build = ["--out", str(tmp_path / "out")]
    assert run(["cxr", "questions", "--source", "phantom", "--root", str(tmp_path / "tree"), *build]) == 0
    assert run(["cxr", "answer", *build, "--limit", "9" * 23]) == 0


def wait_for(condition, process: subprocess.Popen, seconds: float = 60) -> None:
    """Wait until `condition()` holds while the process is still running."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)
