"""Models that real `transformers` code runs: random weights, nonsense answers, the whole way there and back."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from tiny_language_models import write_image_text_model, write_text_model

from medvqa_hub.cli import run
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.inference.questions import load_questions

pytestmark = pytest.mark.slow
IMAGE = "report0011.png"


@pytest.fixture
def data(tmp_path):
    """One bundled report with its questions, image-content and reasoning ones."""
    root = tmp_path / "data"
    (root / "images").mkdir(parents=True)
    shutil.copy(SAMPLE_DIR / "images" / IMAGE, root / "images")
    shutil.copy(SAMPLE_DIR / "annotations.csv", root)
    for name in ("questions.jsonl", "reasoning.jsonl"):
        lines = (SAMPLE_DIR / name).read_text(encoding="utf-8").splitlines(True)
        kept = [line for line in lines if json.loads(line)["img_path"] == IMAGE]
        if kept:
            (root / name).write_text("".join(kept[:12]), encoding="utf-8")
    return root


@pytest.fixture
def served(tmp_path):
    """The tiny LLaVA behind `transformers serve`, in a process of its own."""
    folder = write_image_text_model(tmp_path / "llava")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("transformers")
    if not program.exists():
        pytest.skip("transformers serve is not installed")
    cache = tmp_path / "hub"
    cache.mkdir()  # it lists what is there
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    command = [program, "serve", folder, "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "serve.log").open("wb") as log:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 120
        while not _answers(port):
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "serve.log").read_text()
            time.sleep(0.3)
        yield f"server:http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health") as answer:
            return answer.status == 200
    except OSError:
        return False


def check(out: Path, data: Path, name: str) -> dict:
    """Every question has an answer or a reason; nothing of the way itself failed."""
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert results["model"]["name"] == name
    assert results["counts"]["asked"] == len(load_questions(data).rows)
    allowed = (
        "finish_reason=length",
        "the reply",
        "empty reply",
        "nothing but thoughts",
        "a reply with half characters",
    )
    assert all(reason.startswith(allowed) for reason in results["failures"]), results["failures"]
    return results


def test_a_llava_through_transformers_serve_and_in_process(data, served, tmp_path, capsys):
    engine, model = served
    common = ["evaluate", "meddqa", "--data", str(data), "--max-tokens", "12"]
    out = tmp_path / "server"
    assert run([*common, "--engine", engine, "--model", model, "--slots", "2", "--out", str(out)]) == 0
    check(out, data, f"{model} (image)")
    inside = tmp_path / "inside"
    assert run([*common, "--engine", f"transformers:{model}", "--out", str(inside)]) == 0
    check(inside, data, "llava (image)")
    report = ["evaluate", "meddqa-report", str(out), str(inside), "--out", str(tmp_path / "page")]
    assert run(report) == 0
    assert "llava (image)" in capsys.readouterr().out


def test_a_qwen_reads_restored_text(data, tmp_path):
    folder, out = write_text_model(tmp_path / "qwen"), tmp_path / "out"
    command = ["evaluate", "meddqa", "--data", str(data), "--max-tokens", "12", "--input", "esra", "--out", str(out)]
    assert run([*command, "--engine", f"transformers:{folder}"]) == 0
    check(out, data, "qwen (esra)")
    texts = [json.loads(line) for line in (out / "pages" / "pages.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [page["image"] for page in texts] == [IMAGE]
