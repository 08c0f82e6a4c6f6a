"""`evaluate cxr --engine transformers:FOLDER`: an image-text model in this process, whole or as a LoRA adapter."""

import json
from pathlib import Path

import pytest
from evaluation_models import save_swin_ved, texts_of
from tiny_language_models import write_image_text_model

from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.evaluation.comparing import compare_runs
from mimic_cxr_vqa import SAMPLE_DIR
from mimic_cxr_vqa.release import open_release

pytestmark = pytest.mark.slow
COMMON = [
    "--data",
    str(SAMPLE_DIR),
    "--image-root",
    str(SAMPLE_DIR),
    "--limit",
    "2",
    "--max-new-tokens",
    "6",
    "--scored",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_image_text_model(tmp_path_factory.mktemp("llava"))


def evaluate(out: Path, *what: str) -> dict:
    assert run(["evaluate", "cxr", *COMMON, "--examples", "0", "--out", str(out), *what]) == 0
    return json.loads((out / "results.json").read_text(encoding="utf-8"))


def predictions(out: Path) -> list[dict]:
    lines = (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    return [json.loads(line) for line in lines]


def test_any_model_and_ours_are_rows_of_one_table(model, tmp_path, capsys):
    theirs = evaluate(tmp_path / "llava", "--engine", f"transformers:{model}", "--failed", "empty")
    assert theirs["counts"]["questions"] == len(predictions(tmp_path / "llava")) and theirs["governance"] == "open"
    assert theirs["model"]["kind"] == "transformers"
    swin = save_swin_ved(tmp_path / "swin", texts_of(open_release(SAMPLE_DIR)))
    write_governance(swin, Governance.OPEN)
    ours = evaluate(tmp_path / "ours", "--model", str(swin), "--failed", "empty")
    assert ours["table_4"].keys() == theirs["table_4"].keys() and ours["findings"].keys() == theirs["findings"].keys()
    made = compare_runs([tmp_path / "ours", tmp_path / "llava"], resamples=20)
    assert made.questions == ours["counts"]["questions"] and set(made.scores) >= {"rouge_l", "finding accuracy"}
    before = (tmp_path / "llava" / "predictions.jsonl").read_bytes()
    assert (
        evaluate(tmp_path / "llava", "--engine", f"transformers:{model}", "--failed", "empty")["asked_now"]["asked"]
        == 0
    )
    assert (tmp_path / "llava" / "predictions.jsonl").read_bytes() == before


def test_an_adapter_is_evaluated_on_its_base_and_keeps_its_class(model, tmp_path):
    """An adapter with other weights than zero answers otherwise, and what it learned from travels with its answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    base = AutoModelForImageTextToText.from_pretrained(model)
    tuned = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.normal_(std=1.0)
    adapter = tmp_path / "adapter"
    tuned.save_pretrained(adapter)
    write_governance(adapter, Governance.CREDENTIALED)
    results = evaluate(tmp_path / "tuned", "--engine", f"transformers:{adapter}", "--failed", "empty")
    assert results["governance"] == "credentialed" and (tmp_path / "tuned").stat().st_mode & 0o077 == 0
    evaluate(tmp_path / "base", "--engine", f"transformers:{model}", "--failed", "empty")
    said = [[row["answer"] for row in predictions(tmp_path / name)] for name in ("tuned", "base")]
    assert len(said[0]) == len(said[1]) and said[0] != said[1]
