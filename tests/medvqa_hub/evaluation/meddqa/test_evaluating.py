"""Evaluation on report images: whose fault a failure is, resuming, scores by task, what is printed and written."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from meddqa_engine import REASONING, ScriptedEngine, build, install
from paths import HELPERS

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.llm.engines import Reply
from medvqa_core.metrics.meddqa_scores import score_meddqa
from medvqa_hub.cli import run
from medvqa_hub.evaluation.meddqa.evaluating import MeddqaOptions, evaluate_meddqa
from medvqa_hub.evaluation.meddqa.inference import NO_IMAGE
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.inference.questions import load_questions
from rjua_meddqa.inference.rules import VERSION
from rjua_meddqa.released import read_annotations, read_questions, write_annotations, write_questions


@pytest.fixture
def data(tmp_path):
    return build(tmp_path / "data")


@pytest.fixture
def knowing(data, monkeypatch):
    """An engine that knows every answer."""
    answers = {row.id: row.answer for row in load_questions(data).rows}
    return install(monkeypatch, ScriptedEngine(lambda request: answers[request.id]))


def evaluate(data: Path, out: Path, **options):
    return evaluate_meddqa(MeddqaOptions("scripted", data, out, **options))


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rewrite_questions(data: Path, change) -> None:
    """Pass every line of questions.jsonl through `change`."""
    lines = [change(line) for line in lines_of(data / "questions.jsonl")]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (data / "questions.jsonl").write_text(text, encoding="utf-8")


def test_right_answers_fill_every_column_of_the_tables(data, knowing, tmp_path):
    results = evaluate(data, tmp_path / "out")
    assert results["scores"]["table_5"] == dict.fromkeys(results["scores"]["table_5"], 1.0)
    assert len(results["scores"]["table_5"]) == 7
    assert set(results["scores"]["table_6"].values()) == {1.0}
    rows = load_questions(data).rows
    assert results["counts"] == {"asked": len(rows), "failed": 0, "empty": 0}
    assert results["asked_now"] == len(rows) and results["governance"] == "open"
    assert [len({request.image for request in call}) for call in knowing.calls] == [1, 1, 1]
    contexts = {request.context for call in knowing.calls for request in call if request.task.startswith("advice")}
    assert contexts == {"背景知识"}


def test_multiple_choice_and_short_answers_have_their_own_columns(data, tmp_path, monkeypatch):
    """By hand: one of two choices right; the short answer is the start of 补钾;限水: P 1, R 2/5, F1 4/7."""
    replies = {REASONING[0][1]: "A.低钾血症", REASONING[2][1]: "A.补钾", REASONING[1][1]: "补钾"}
    install(monkeypatch, ScriptedEngine(lambda request: replies.get(request.question, "什么都不写")))
    row = evaluate(data, tmp_path / "out")["scores"]["table_5"]
    assert row["mc_accuracy"] == 0.5
    assert row["sa_rouge_l"] == pytest.approx(4 / 7)
    assert row["entity_accuracy"] == row["table_accuracy"] == row["table_nr_accuracy"] == 0


def test_a_failure_is_never_right_and_is_counted(data, tmp_path, monkeypatch):
    """Not even where the answer is 无, and an empty reply is no abstention either."""
    answers = {row.id: row.answer for row in load_questions(data).rows}
    nothing = {id for id, answer in answers.items() if answer == "无"}
    assert nothing
    replies = {id: Reply(None, "the server said 500") for id in nothing}
    install(monkeypatch, ScriptedEngine(lambda request: replies.get(request.id, "")))
    results = evaluate(data, tmp_path / "out")
    assert results["scores"]["all"]["accuracy"] == 0
    assert results["counts"] == {"asked": len(answers), "failed": len(nothing), "empty": len(answers) - len(nothing)}
    assert results["failures"] == {"the server said 500": len(nothing)}
    hallucination = results["scores"]["hallucination"]
    assert (hallucination["unanswerable"], hallucination["answered"], hallucination["rate"]) == (len(nothing), 0, None)
    scored = lines_of(tmp_path / "out" / "scored.jsonl")
    assert all(row["prediction"] is None and row["accuracy"] == 0 for row in scored if row["error"])


def test_failed_questions_are_asked_again_only_when_told_so(data, tmp_path, monkeypatch):
    out = tmp_path / "out"
    first = install(monkeypatch, ScriptedEngine(lambda request: Reply(None, "busy")))
    evaluate(data, out)
    second = install(monkeypatch, ScriptedEngine(lambda request: "正常"))
    results = evaluate(data, out)
    assert second.asked == [] and results["asked_now"] == 0 and results["counts"]["failed"] == len(first.asked)
    results = evaluate(data, out, retry_failed=True)
    assert second.asked == first.asked and results["counts"]["failed"] == 0


def test_input_error_of_an_engine_fails_one_image_and_the_run_goes_on(data, tmp_path, monkeypatch):
    def reply(request):
        if request.image.name == "scan.png":
            raise InputError("the image has\n0 pixels")
        return "正常"

    install(monkeypatch, ScriptedEngine(reply))
    results = evaluate(data, tmp_path / "out")
    scans = results["by_image"]["scan.png"]
    assert scans["failed"] == scans["questions"] > 0
    assert results["failures"] == {"the image has 0 pixels": scans["questions"]}


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import meddqa_engine
from rjua_meddqa.inference import engines as meddqa_engines
from medvqa_hub.evaluation.meddqa.evaluating import MeddqaOptions, evaluate_meddqa
def reply(request):
    if request.image.name == "scan.png":
        time.sleep(60)
    return f"{request.id} 正常"
meddqa_engine.installed = lambda: meddqa_engine.ScriptedEngine(reply)
meddqa_engines.ENGINES["scripted"] = "meddqa_engine:installed"
evaluate_meddqa(MeddqaOptions("scripted", Path(sys.argv[2]), Path(sys.argv[3])))
"""


def test_a_killed_run_goes_on_and_asks_nothing_twice(data, tmp_path, monkeypatch):
    out, tests = tmp_path / "out", HELPERS
    command = [sys.executable, "-c", KILLED, str(tests), str(data), str(out)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    predictions, expected = out / "predictions.jsonl", {"blood.png", "normal.png"}
    deadline = time.monotonic() + 60
    while {line["id"].split("-")[0] for line in whole_lines(predictions)} != expected:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (out / "results.json").exists()

    engine = install(monkeypatch, ScriptedEngine(lambda request: f"{request.id} 正常"))
    evaluate(data, out)
    assert {request.image.name for call in engine.calls for request in call} == {"scan.png"}
    evaluate(data, tmp_path / "whole")
    for name in ("predictions.jsonl", "scored.jsonl", "results.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    again = install(monkeypatch, ScriptedEngine(lambda request: "anything"))
    assert evaluate(data, out)["asked_now"] == 0 and again.asked == []


def whole_lines(path: Path) -> list[dict]:
    """Records that a running process has finished writing; the header is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines(True)[1:] if line.endswith("\n")]


def test_a_missing_image_fails_its_questions_until_it_is_there(data, knowing, tmp_path):
    moved = (data / "images" / "scan.png").rename(tmp_path / "scan.png")
    results = evaluate(data, tmp_path / "out")
    missing = results["by_image"]["scan.png"]["questions"]
    assert results["failures"] == {NO_IMAGE: missing} and results["data"]["missing_images"] == 1
    shutil.copy(moved, data / "images")
    results = evaluate(data, tmp_path / "out")
    assert results["asked_now"] == missing and results["counts"]["failed"] == 0


def test_a_changed_image_or_question_is_asked_anew(data, knowing, tmp_path):
    evaluate(data, tmp_path / "out")
    with (data / "images" / "scan.png").open("ab") as file:
        file.write(b"\0")
    scans = [row for row in load_questions(data).rows if row.img_path == "scan.png"]
    assert evaluate(data, tmp_path / "out")["asked_now"] == len(scans)
    rewrite_questions(data, lambda line: line | {"question": line["question"] + "?"})
    changed = len(lines_of(data / "questions.jsonl"))
    assert evaluate(data, tmp_path / "out")["asked_now"] == changed


def test_an_image_outside_the_folder_is_refused_before_anything_is_asked(data, knowing, tmp_path):
    rewrite_questions(data, lambda line: line | {"img_path": "../secret.png"})
    (tmp_path / "secret.png").write_bytes(b"")
    with pytest.raises(InputError, match="'../secret.png'"):
        evaluate(data, tmp_path / "out")
    assert knowing.asked == []


def test_an_answer_type_without_a_rule_is_found_before_anything_is_asked(data, knowing, tmp_path):
    rewrite_questions(data, lambda line: line | {"answer_type": "essay"})
    with pytest.raises(InputError, match="blood.png-1.*'essay'.*single_entity"):
        evaluate(data, tmp_path / "out")
    assert knowing.asked == []


def test_an_odd_quality_keeps_a_question_out_of_table_6_only(data, knowing, tmp_path):
    (data / "annotations.csv").unlink()
    rewrite_questions(data, lambda line: line | {"image_quality": " High " if "blood" in line["img_path"] else "?"})
    results = evaluate(data, tmp_path / "out")
    assert results["scores"]["table_6"]["entity_rouge_l_high"] == 1.0
    assert results["scores"]["table_6"]["entity_rouge_l_low"] is None
    rows = lines_of(data / "questions.jsonl")
    assert results["data"]["without_quality"] == sum("blood" not in row["img_path"] for row in rows)


@pytest.mark.parametrize("endpoint", ["https://models.example.org/v1", "http://127.0.0.1:9"])
def test_credentialed_data_never_goes_to_another_machine_or_an_unconfirmed_server(tmp_path, monkeypatch, endpoint):
    data = build(tmp_path / "data", governance="credentialed")
    engine = install(monkeypatch, ScriptedEngine(lambda request: "正常", endpoint=endpoint))
    with pytest.raises(GovernanceError, match="engine scripted"):
        evaluate(data, tmp_path / "out")
    assert engine.asked == [] and not (tmp_path / "out").exists()


def test_files_of_credentialed_data_are_private(tmp_path, monkeypatch):
    data = build(tmp_path / "data", governance="credentialed")
    local = install(monkeypatch, ScriptedEngine(lambda request: "正常"))
    evaluate(data, tmp_path / "out")
    assert local.asked
    for name in ("predictions.jsonl", "scored.jsonl", "results.json"):
        assert (tmp_path / "out" / name).stat().st_mode & 0o077 == 0, name
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_a_folder_of_the_authors_is_share_alike(tmp_path, monkeypatch):
    data = build(tmp_path / "data")
    (data / "manifest.json").unlink()
    install(monkeypatch, ScriptedEngine(lambda request: "正常"))
    assert evaluate(data, tmp_path / "out")["governance"] == "share-alike"


def test_unknown_models_and_folders_without_questions_are_named(data, tmp_path, capsys):
    out = tmp_path / "out"
    for model in ("gpt", "", "esra-rules"):
        assert run(["evaluate", "meddqa", "--data", str(data), "--out", str(out), "--model", model]) == 1
        assert f"--model {model!r} needs --engine" in capsys.readouterr().err and not out.exists()
    assert run(["evaluate", "meddqa", "--data", str(data), "--out", str(out), "--engine", "gpt"]) == 1
    assert "engine 'gpt' is unknown. Available: esra-rules" in capsys.readouterr().err
    (data / "questions.jsonl").unlink()
    (data / "reasoning.jsonl").unlink()
    assert run(["evaluate", "meddqa", "--data", str(data), "--out", str(out)]) == 1
    assert "questions.jsonl" in capsys.readouterr().err
    assert not out.exists()


def test_reasoning_questions_are_not_put_to_an_engine_that_cannot_answer_them(data, tmp_path):
    (data / "questions.jsonl").unlink()
    with pytest.raises(InputError, match="esra-rules"):
        evaluate_meddqa(MeddqaOptions("esra-rules", data, tmp_path / "out"))


def test_marked_questions_have_a_hallucination_rate_of_their_own():
    """Of four 无 two are marked; one marked and one other are invented, a failed one counts nowhere."""
    scores = score_meddqa(
        ["41岁", "报告中没有该指标", "7", None, "41岁"],
        ["无", "无", "无", "无", "41岁"],
        ["entity_qa"] * 5,
        ["single_entity"] * 5,
        unanswerable=[True, True, False, True, False],
    )
    found = scores.record["hallucination"]
    assert (found["unanswerable"], found["answered"], found["hallucinated"]) == (4, 3, 2)
    assert found["marked"] == {"unanswerable": 3, "answered": 2, "hallucinated": 1, "rate": 0.5}
    assert found["abstained_on_answerable"] == 0
    without = score_meddqa(["7"], ["无"], ["entity_qa"], ["single_entity"]).record["hallucination"]
    assert without["rate"] == 1 and without["marked"]["rate"] is None


def test_marks_of_the_questions_reach_the_rate(data, tmp_path, monkeypatch):
    install(monkeypatch, ScriptedEngine(lambda request: "41岁"))
    found = evaluate(data, tmp_path / "out")["scores"]["hallucination"]
    assert found["marked"] == {"unanswerable": 3, "answered": 3, "hallucinated": 3, "rate": 1.0}
    assert found["unanswerable"] > 3


@pytest.fixture
def small_sample(tmp_path):
    """Two bundled reports with their questions, and one file that is no image."""
    data = tmp_path / "sample"
    (data / "images").mkdir(parents=True)
    names = ("report0011.png", "report0012.png")
    kept = [a for a in read_annotations(SAMPLE_DIR / "annotations.csv") if a.img_path in names]
    write_annotations(kept, data / "annotations.csv")
    questions = [q for q in read_questions(SAMPLE_DIR / "questions.jsonl") if q.img_path in names]
    write_questions(questions, data / "questions.jsonl")
    shutil.copy(SAMPLE_DIR / "images" / names[0], data / "images")
    (data / "images" / names[1]).write_text("no image")
    return data


@pytest.mark.slow
def test_the_rules_survive_a_broken_image_and_say_so(small_sample, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "out"
    arguments = ["evaluate", "meddqa", "--data", str(small_sample), "--out", str(out)]
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines()[:-2])) <= 80
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    broken = results["by_image"]["report0012.png"]
    assert broken["failed"] == broken["questions"] == results["counts"]["failed"] > 0 and broken["accuracy"] == 0
    assert results["by_image"]["report0011.png"]["accuracy"] > 0.6
    assert f"{broken['failed']} failed" in printed and "1 unreadable" in printed
    assert "report0012.png: not a readable image" in printed
    assert results["model"] == {"name": "esra-rules", "engine": "esra-rules", "version": VERSION}
    assert run(arguments) == 0
    assert "0 in this run" in capsys.readouterr().out
    shutil.copy(SAMPLE_DIR / "images" / "report0012.png", small_sample / "images")
    assert run(arguments) == 0
    assert f"({broken['questions']} in this run), 0 failed" in capsys.readouterr().out


def test_long_names_and_many_images_still_fit_80_columns(data, knowing, tmp_path, capsys, monkeypatch):
    from medvqa_hub.evaluation.meddqa.printing import IMAGES_SHOWN, print_meddqa

    monkeypatch.setenv("COLUMNS", "80")
    results = evaluate(data, tmp_path / "out")
    one = next(iter(results["by_image"].values()))
    results["by_image"] = {f"{'long' * 30}-[b]{n:03}.png": one | {"accuracy": n / 100} for n in range(100)}
    results["failures"] = {f"reason {n}": n + 1 for n in range(30)}
    print_meddqa(results, tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert f"By image, the {IMAGES_SHOWN} lowest of 100" in "\n".join(lines)
    assert sum("-[b]000.png" in line for line in lines) == 1 and not any("[b]099.png" in line for line in lines)
    assert "failed: reason 29: 30 questions" in lines and "failed: 20 more reasons, see results.json" in lines


def test_two_images_of_one_name_are_refused(data, tmp_path):
    """Pages go by name: the page of one must never answer for the other."""
    for name in ("a", "b"):
        (data / "images" / name).mkdir()
        shutil.copy(data / "images" / "scan.png", data / "images" / name)
    rewrite_questions(data, lambda line: line | {"img_path": f"{'a' if 'blood' in line['img_path'] else 'b'}/scan.png"})
    with pytest.raises(ConfigError, match="have the same name"):
        evaluate_meddqa(MeddqaOptions("esra-rules", data, tmp_path / "out"))
