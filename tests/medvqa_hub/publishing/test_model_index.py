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
