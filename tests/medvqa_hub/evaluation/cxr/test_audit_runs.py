"""`audit cxr` as a command: a checkpoint, a model in this process, a server, answers from elsewhere, and a kill."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builds import build_release
from chat_server import ChatServerDouble, completion, is_probe
from evaluation_models import save_blip2, save_swin_ved, texts_of
from PIL import Image
from tiny_language_models import write_image_text_model

from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.llm.options import EngineOptions
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr.auditing import audit_cxr
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
from mimic_cxr_vqa.release import open_release

TEXT_CONDITIONS = {"supporting", "contradicting", "opposite_supporting", "opposite_contradicting"}
IMAGE_CONDITIONS = {"own", "blank", "noise", "low_pass", "same", "opposite"}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=16, size=64)


def given(build, *more):
    where = ["--data", str(build.workspace.root), "--image-root", str(build.tree), "--split", "train"]
    return ["audit", "cxr", *where, *map(str, more)]


def summary(out: Path) -> dict:
    return json.loads((out / "audit.json").read_text())


def obey_indication(body):
    """Follows a stated indication, and is surer of it."""
    if is_probe(body):
        return completion('{"number": 4}')
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    stated = "Indication: Known" in text
    made = completion("Yes." if stated else "No.")
    if body.get("logprobs"):
        made["choices"][0]["logprobs"] = {"content": [{"logprob": -0.1 if stated else -0.7}]}
    return made


@pytest.fixture(scope="module")
def served(build, tmp_path_factory):
    """An audit of a server that follows the indication."""
    out = tmp_path_factory.mktemp("served")
    with ChatServerDouble(obey_indication) as double:
        engine = ["--engine", f"server:{double.endpoint}", "--i-run-this-server", "--indication"]
        assert run(given(build, "--out", out, *engine)) == 0
        bodies = [body for body in double.requests if not is_probe(body)]
        count = len(double.requests)
        assert run(given(build, "--out", out, *engine)) == 0  # only probes are sent again
        assert all(is_probe(body) for body in double.requests[count:])
    return out, bodies


def test_a_server_is_asked_in_every_condition_with_log_probabilities(served):
    out, bodies = served
    found = summary(out)
    assert found["accuracy"].keys() == IMAGE_CONDITIONS | TEXT_CONDITIONS | {"none", "covered", "control"}
    assert all(body["logprobs"] for body in bodies) and not found["failed"]
    assert {body["messages"][-1]["content"].__class__ for body in bodies} == {list, str}  # with and without images
    shares = {name: share["value"] for name, share in found["shares"].items()}
    assert shares == pytest.approx(
        {"looking": 0, "following_text": 1, "guessing": 0, "responding": 0, "region": 0}, abs=1e-9
    )
    confidence = found["calibration"]["mean_confidence"]
    assert confidence["own"]["value"] == pytest.approx(2.718281828**-0.7, abs=1e-3)
    assert found["calibration"]["without_confidence"] == 0
    for name in ("audit.png", "audit-examples.png"):
        assert min(Image.open(out / name).size) > 500
    rows = [json.loads(line) for line in (out / "audit.jsonl").read_text().splitlines()]
    assert len(rows) == found["data"]["questions"]
    assert all(
        row["answer"].keys() == row["polarity"].keys() >= IMAGE_CONDITIONS - {"same", "opposite"} for row in rows
    )
    assert (out / "audit-examples.png").stat().st_mode & 0o077 == 0


def test_a_server_without_log_probabilities_has_no_calibration(build, tmp_path, capsys):
    def plain(body):
        return completion('{"number": 4}' if is_probe(body) else "No.")

    with ChatServerDouble(plain) as double:
        engine = ["--engine", f"server:{double.endpoint}", "--i-run-this-server"]
        assert run(given(build, "--out", tmp_path, "--limit", 4, *engine)) == 0
    found = summary(tmp_path)
    assert found["calibration"] is None and not found["accuracy"].keys() & TEXT_CONDITIONS
    assert "Confidence" not in capsys.readouterr().out


def test_answers_from_elsewhere_give_the_same_measures(build, served, tmp_path, capsys):
    out, _ = served
    assert run(given(build, "--out", tmp_path, "--export")) == 0
    header, *questions = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert header == {"kind": "audit-questions", "governance": "open"}
    assert all((tmp_path / image).is_file() for row in questions for image in row["images"])
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "answer", "logprob"])
        for row in questions:
            stated = (row["indication"] or "").startswith("Known")
            table.writerow([row["id"], "Yes." if stated else "No.", -0.1 if stated else -0.7])
    again = tmp_path / "again"
    assert run(given(build, "--out", again, "--predictions", tmp_path / "answers.csv")) == 0
    ours, theirs = summary(out), summary(again)
    theirs["accuracy"]["none"], theirs["changed"]["none"] = ours["accuracy"]["none"], ours["changed"]["none"]
    ours["calibration"]["mean_confidence"].pop("none")
    for part in ("accuracy", "changed", "shares", "behaviour", "parts", "by_finding"):
        if part != "by_finding":
            assert theirs[part] == ours[part]
    for name, value in ours["calibration"].items():
        if name != "mean_confidence":
            assert json.dumps(theirs["calibration"][name]) == json.dumps(value)
    assert run(given(build, "--out", again, "--export", "--model", "x")) == 1
    assert "--export" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("save", [save_swin_ved, save_blip2])
def test_checkpoints(save, build, tmp_path, capsys):
    folder = save(tmp_path / "model", texts_of(open_release(build.workspace.release)))
    write_governance(folder, Governance.OPEN)
    arguments = given(
        build, "--out", tmp_path / "out", "--model", folder, "--limit", 6, "--max-new-tokens", 6, "--beams", 1
    )
    assert run(arguments) == 0
    found = summary(tmp_path / "out")
    assert found["accuracy"].keys() >= IMAGE_CONDITIONS - {"same", "opposite"} and "none" not in found["accuracy"]
    assert found["calibration"]["without_confidence"] == 0 and not found["failed"]
    before = (tmp_path / "out" / "predictions.jsonl").read_bytes()
    assert run(arguments) == 0
    assert (tmp_path / "out" / "predictions.jsonl").read_bytes() == before and summary(tmp_path / "out") == found


@pytest.mark.slow
def test_a_model_in_this_process(build, tmp_path):
    model = write_image_text_model(tmp_path / "llava")
    engine = ["--engine", f"transformers:{model}", "--limit", 3, "--max-new-tokens", 8]
    assert run(given(build, "--out", tmp_path / "out", *engine)) == 0
    found = summary(tmp_path / "out")
    calibration = found["calibration"]
    assert "none" in {**found["accuracy"], **found["failed"]} and (
        calibration is None or 0 < calibration["mean_confidence"]["own"]["value"] <= 1
    )


RUN = """
import sys
from pathlib import Path
from medvqa_core.llm.options import EngineOptions
from medvqa_hub.evaluation.cxr.auditing import audit_cxr
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
data, tree, out, endpoint = sys.argv[1:]
engine = EngineOptions((f"server:{endpoint}",), i_run_this_server=True, slots=1)
audit_cxr(Path(out), DataOptions(Path(data), "train", image_root=Path(tree), limit=6), AnswerOptions(engine=engine))
"""


@pytest.mark.slow
def test_a_killed_audit_resumes_without_asking_twice(build, tmp_path):
    asked: list[str] = []
    process: list[subprocess.Popen] = []

    def reply(body):
        if is_probe(body):
            return completion('{"number": 4}')
        asked.append(json.dumps(body["messages"]))
        if len(asked) == 60 and process:
            process[0].kill()
        return completion("No." if len(asked[-1]) % 3 else "Yes.")

    with ChatServerDouble(reply) as double:
        arguments = [str(build.workspace.root), str(build.tree), str(tmp_path / "killed"), double.endpoint]
        process.append(subprocess.Popen([sys.executable, "-c", RUN, *arguments], env=os.environ))
        assert process[0].wait(300) != 0 and not (tmp_path / "killed" / "audit.json").exists()
        before, process = list(asked), []
        data = DataOptions(build.workspace.root, "train", image_root=build.tree, limit=6)
        engine = EngineOptions((f"server:{double.endpoint}",), i_run_this_server=True, slots=1)
        resumed = audit_cxr(tmp_path / "killed", data, AnswerOptions(engine=engine))
        most = max(len(study.rows) for study in open_data(data).studies)
        assert len(asked) > len(before) and len(asked) - len(set(asked)) <= most  # a study is recorded as a whole
        whole = audit_cxr(tmp_path / "whole", data, AnswerOptions(engine=engine))
    assert resumed == whole
    keys = re.findall(r'"key": "(\w+)"', (tmp_path / "killed" / "predictions.jsonl").read_text())
    assert len(keys) == len(set(keys))
