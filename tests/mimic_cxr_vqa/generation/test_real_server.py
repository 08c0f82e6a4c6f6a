"""A real `transformers serve` with a tiny random model: questions, answers, release, load, statistics.

Its replies are nonsense. What is proved is the way there and back: nonsense is counted as failed and said to be so.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from scripted_engine import build, records_of
from tiny_language_models import write_text_model

from medvqa_core.llm.record import FILE, ModelRecord
from medvqa_hub.cli import run

MISSING = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"transformers serve needs {MISSING}: pip install -e '.[serving]'"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a server and the name that it has its model by."""
    folder = write_text_model(tmp_path_factory.mktemp("models") / "tiny-qwen2")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    log = open(folder.parent / "log.txt", "w")  # noqa: SIM115 - closed below
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        for _ in range(600):
            assert process.poll() is None, (folder.parent / "log.txt").read_text()[-2000:]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    if answer.status == 200:
                        break
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        yield f"server:http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.kill()
        process.wait()
        log.close()


def test_the_whole_chain_on_a_real_server(served, tmp_path, capsys, monkeypatch):
    import datasets

    engine, model = served
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    workspace = build(tmp_path / "cxr", studies=2)
    out = ["--out", str(workspace.root)]
    assert run(["cxr", "answer", *out, "--engine", engine, "--model", model, "--wait", "60s"]) == 0
    said = capsys.readouterr().out
    questions = workspace.manifest()["counts"]["questions"]
    records = records_of(workspace)
    assert len(records) == questions == 12
    failed = [record for record in records if record["error"]]
    assert len(failed) > 0.9 * questions, "random weights write no JSON"
    assert f"failed: {len(failed)}" in said and "--retry-failed" in said
    reasons = {record["error"] for record in failed}
    known = (
        "JSON",
        "length",
        "empty",
        "another question",
        "characters",
    )
    assert all(any(part in reason for part in known) for reason in reasons), reasons
    (entry,) = ModelRecord(workspace.root / FILE).entries
    assert entry["kind"] == "server" and entry["model"] == model and entry["schema"] in ("enforced", "ignored")
    assert run(["cxr", "answer", *out, "--engine", engine, "--model", model]) == 0
    assert "asked: 0" in capsys.readouterr().out
    assert run(["cxr", "status", *out]) == 0 and f"failed: {len(failed)}" in capsys.readouterr().out

    if len(failed) == questions:  # a release has to have rows: one reply is taken for an answer
        lines = workspace.answers.read_text().splitlines()
        record = json.loads(lines[1]) | {"answer": "No edema is seen.", "error": None}
        workspace.answers.write_text("\n".join([lines[0], json.dumps(record), *lines[2:]]) + "\n")
        failed.pop()
    assert run(["cxr", "release", *out]) == 0
    assert f"failed: {len(failed)}" in capsys.readouterr().out
    rows = datasets.load_dataset("mimic_cxr_vqa", data_dir=str(workspace.root), cache_dir=str(tmp_path / "cache"))
    assert sum(len(split) for split in rows.values()) == questions - len(failed)
    (first,) = next(split for split in rows.values() if len(split)).select([0])
    assert first["provenance"]["engine"] == "server" and first["provenance"]["model"] == model
    assert run(["cxr", "stats", "--data", str(workspace.root)]) == 0


def test_a_real_server_judges_in_chat_and_by_typed_decisions(served, tmp_path, capsys):
    """Random weights write no verdict: failures, all of them. Their decisions are nonsense, but whole."""
    engine, model = served
    workspace = build(tmp_path / "cxr", studies=2)
    out = ["--out", str(workspace.root)]
    assert run(["cxr", "answer", *out]) == 0
    judge = ["cxr", "judge", *out, "--engine", engine, "--model", model, "--wait", "60s"]
    assert run([*judge, "--max-tokens", "12"]) == 0
    assert "judged: 0, failed: 12" in capsys.readouterr().out
    assert run([*judge, "--judge-protocol", "systemone"]) == 0
    assert "judged: 12, failed: 0" in capsys.readouterr().out
    (path,) = workspace.judge.glob("*-systemone/verdicts.jsonl")
    for line in path.read_text().splitlines()[1:]:
        for shares in json.loads(line)["probabilities"].values():
            assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
