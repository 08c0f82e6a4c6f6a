"""VLMEvalKit's table and the Hub's result entries: what is written, and that it comes back."""

import csv
import json
from ast import literal_eval
from pathlib import Path

import pytest
import yaml
from builds import Build, build_release
from huggingface_hub import parse_eval_result_entries
from openpyxl import Workbook
from public_layouts import WRITERS

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from medvqa_hub.evaluation.exporting import result_entries
from rjua_meddqa import SAMPLE_DIR


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=12, seed=1)


def table_of(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def answer_as_vlmevalkit(table: list[dict], path: Path, answer) -> Path:
    """Its prediction file: the table without images, with a column of predictions."""
    book = Workbook()
    kept = [name for name in table[0] if name != "image_path"]
    book.active.append([*kept, "prediction"])
    for row in table:
        book.active.append([int(row["index"]) if name == "index" else row[name] for name in kept] + [answer(row)])
    book.save(path)
    return path


def test_cxr_goes_out_and_its_predictions_come_back(build, tmp_path, capsys):
    common = ["--data", str(build.workspace.root), "--split", "train"]
    out = tmp_path / "LMUData"
    arguments = [*common, "--image-root", str(build.tree), "--out", str(out), "--name", "CXR", "--limit", "6"]
    assert run(["export", "vlmevalkit", *arguments]) == 0
    table = table_of(out / "CXR.tsv")
    assert [row["index"] for row in table] == [str(n) for n in range(len(table))]
    several = next(row for row in table if row["image_path"].startswith("["))
    images = literal_eval(several["image_path"])
    assert len(images) > 1 and all(Path(path).is_file() for path in images)
    assert several["question"].splitlines()[0].startswith("Image 1: ") and "Question: " in several["question"]
    assert json.loads((out / "manifest.json").read_text())["governance"] == "open"
    file = answer_as_vlmevalkit(table, tmp_path / "model_CXR.xlsx", lambda row: row["answer"])
    more = ["--limit", "6", "--predictions", str(file), "--out", str(tmp_path / "scores")]
    assert run(["evaluate", "cxr", *common, *more]) == 0
    results = json.loads((tmp_path / "scores" / "results.json").read_text())
    assert results["findings"]["accuracy"] == 1.0 and results["counts"]["questions"] == len(table)


def test_options_have_columns_of_their_own_and_credentialed_tables_are_private(tmp_path):
    (tmp_path / "data").mkdir()
    WRITERS["rexvqa"](tmp_path / "data")
    out = tmp_path / "out"
    assert run(["export", "vlmevalkit", "--layout", "rexvqa", "--data", str(tmp_path / "data"), "--out", str(out)]) == 0
    table = table_of(out / "rexvqa.tsv")
    assert [table[0][letter] for letter in "ABCD"][1] == "Left pleural effusion" and table[0]["answer"] == "B"
    assert "B. Left" not in table[0]["question"] and table[1]["C"] == ""
    assert (out / "rexvqa.tsv").stat().st_mode & 0o077 == 0 and out.stat().st_mode & 0o077 == 0


def test_meddqa_goes_out_and_its_predictions_come_back(tmp_path):
    out = tmp_path / "out"
    assert (
        run(["export", "vlmevalkit", "--meddqa", "--data", str(SAMPLE_DIR), "--out", str(out), "--name", "RJUA"]) == 0
    )
    table = table_of(out / "RJUA.tsv")
    file = answer_as_vlmevalkit(
        table, tmp_path / "m.xlsx",
        lambda row: "Failed to obtain answer via API." if row["index"] == "3" else row["answer"],
    )  # fmt: skip
    arguments = ["--data", str(SAMPLE_DIR), "--predictions", str(file), "--out", str(tmp_path / "scores")]
    assert run(["evaluate", "meddqa", *arguments]) == 0
    results = json.loads((tmp_path / "scores" / "results.json").read_text())
    assert results["counts"] == {"asked": len(table), "failed": 1, "empty": 0}


def test_a_question_without_an_image_is_not_exported(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    for name in ("questions.jsonl", "annotations.csv", "manifest.json"):
        (tmp_path / "data" / name).write_bytes((SAMPLE_DIR / name).read_bytes())
    arguments = ["--meddqa", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert run(["export", "vlmevalkit", *arguments]) == 1
    assert "report0001.jpg-1" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_figures_are_read_back_by_huggingface_hub(build, tmp_path):
    predictions = tmp_path / "a.jsonl"
    predictions.write_text(json.dumps({"id": "x", "answer": "no"}))
    table = ["--data", str(build.workspace.root), "--image-root", str(build.tree), "--split", "train"]
    assert run(["export", "vlmevalkit", *table, "--out", str(tmp_path / "t"), "--name", "t"]) == 0
    rows = [{"id": row["id"], "answer": row["answer"]} for row in table_of(tmp_path / "t" / "t.tsv")]
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = [*table[:2], "--split", "train", "--predictions", str(predictions), "--out", str(tmp_path / "run")]
    assert run(["evaluate", "cxr", *scored]) == 0
    (tmp_path / "model").mkdir()
    given = ["--model", str(tmp_path / "model"), "--dataset-id", "someone/mimic-cxr-vqa", "--revision", "a" * 40]
    assert run(["export", "eval-results", str(tmp_path / "run"), *given]) == 0
    path = tmp_path / "model" / ".eval_results" / "mimic-cxr-vqa.yaml"
    entries = parse_eval_result_entries(yaml.safe_load(path.read_text(encoding="utf-8")))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    values = {entry.task_id: entry.value for entry in entries}
    assert values["rouge_l"] == results["table_4"]["rouge_l"] and values["finding_accuracy"] == 1.0
    assert "meteor" not in values  # not computed, so not stated
    assert {(entry.dataset_id, entry.dataset_revision) for entry in entries} == {("someone/mimic-cxr-vqa", "a" * 40)}
    assert f"failed answers: 0 of {len(rows)}" in entries[0].notes
    assert entries == result_entries(results, "someone/mimic-cxr-vqa", "a" * 40)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--dataset-id", "nobody"], "OWNER/NAME"),
        (["--dataset-id", "a/b", "--model", "{tmp}/none"], "is not a folder"),
        (["--dataset-id", "a/b"], "no such file"),
    ],
)
def test_bad_exports_say_why(given, expected, tmp_path, capsys):
    given = [part.format(tmp=tmp_path) for part in given]
    arguments = given if "--model" in given else [*given, "--model", str(tmp_path)]
    assert run(["export", "eval-results", str(tmp_path / "run"), *arguments]) == 1
    assert expected in capsys.readouterr().err


def test_results_without_figures_are_no_entries():
    with pytest.raises(InputError, match="is None"):
        result_entries({}, "a/b")
