"""The scores of a model in its card's metadata, as the Hub reads them."""

from typing import Any

import pytest
from huggingface_hub import ModelCard
from pushing import save_model

from medvqa_hub.publishing.licences import get_model_licence
from medvqa_hub.publishing.model_card import write_model_card
from medvqa_hub.publishing.model_folder import open_model_folder


def result(images: str, accuracy: float) -> dict[str, Any]:
    return {
        "images": images,
        "data": {"split": "test", "source": "phantom", "fingerprint": "f" * 16, "studies": 17, "questions": 472},
        "table_4": {"bleu_1": 0.41236, "meteor": None, "cider": 1.2},
        "counts": {"answered": 472, "failed": 0},
        "findings": {"accuracy": accuracy, "balanced_accuracy": 0.7, "majority": 0.6, "by_category": {}},
        "by_category": {},
        "scored_with": {"failed_answers": "exclude"},
        "libraries": {},
    }


def test_the_hub_reads_the_scores_for_own_images(tmp_path):
    model = open_model_folder(save_model(tmp_path / "model"))
    licence = get_model_licence(model.governance, None)
    results = [result("own", 0.82), result("shuffled", 0.55)]
    data = ModelCard(write_model_card(model, "me/swin", licence, results)).data
    assert data.model_name == "swin"
    expected = {
        "bleu_1": 0.4124, "cider": 1.2, "finding_accuracy": 0.82, "finding_balanced_accuracy": 0.7,
    }  # fmt: skip
    assert {entry.metric_type: entry.metric_value for entry in data.eval_results} == pytest.approx(expected)
    (described,) = {(entry.dataset_name, entry.dataset_split, entry.task_type) for entry in data.eval_results}
    assert described == ("MIMIC-CXR-VQA (phantom)", "test", "image-text-to-text")
    assert ModelCard(write_model_card(model, "me/swin", licence)).data.eval_results is None


def test_clinical_scores_and_the_challenge_are_on_the_card(tmp_path):
    model = open_model_folder(save_model(tmp_path / "model"))
    licence = get_model_licence(model.governance, None)
    clinical = {"by_row": ["radgraph_partial"], "rows": 470, "scored_with": {"RadEval": "2.2.1", "metrics": []}}
    results = [
        {**result(images, 0.5), "clinical": {**clinical, "scores": {"radgraph_partial": value, "f1chexbert_5": None}}}
        for images, value in (("own", 0.3125), ("blank", 0.125))
    ]
    chosen = {"BERTScore encoder": "e, layer 5", "RadGraph level": "partial"}
    results[0]["challenge"] = {"score": 0.25, "pairs": 1470, "zero": {"failed": 2, "empty": 1}, "chosen_here": chosen}
    lines = write_model_card(model, "me/swin", licence, results).splitlines()
    start = lines.index("| clinical score (RadEval 2.2.1) | the study's own | none (blank) |")
    assert lines[start + 1 : start + 4] == [
        "|---|---|---|", "| radgraph_partial | 0.3125 | 0.1250 |", "| f1chexbert_5 | - | - |",
    ]  # fmt: skip
    (line,) = [line for line in lines if line.startswith("CXR-ORACLE")]
    assert "0.2500" in line and "1,470 questions, 3 of them zero" in line
    assert any("BERTScore encoder e, layer 5, RadGraph level partial" in line for line in lines)
    plain = write_model_card(model, "me/swin", licence, [result("own", 0.5)])
    assert "clinical score" not in plain and "CXR-ORACLE" not in plain
