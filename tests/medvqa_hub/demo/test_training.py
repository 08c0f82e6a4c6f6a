"""The demo's training: stage 0, and the three stages one after another."""

import json
from dataclasses import replace

import pytest
import torch

from medvqa_core.errors import ConfigError
from medvqa_hub.demo import training as demo_training
from medvqa_hub.demo.encoder import EncoderSettings, area_under_roc
from medvqa_hub.demo.training import (
    DemoContext,
    evaluate_stage,
    make_release,
    stage_recipe,
    train_encoder,
    train_stage,
)
from medvqa_hub.training.recipes import load_recipe
from medvqa_hub.training.training_log import read_log

FAST = ["training.epochs=null", "training.max_steps=2", "training.log_every=1", "selection.studies=2"]


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    out = tmp_path_factory.mktemp("context")
    release, tree = make_release(out, 60, seed=0)
    third = [*FAST, "selection.every=1", "scst.max_new_tokens=4", "selection.max_new_tokens=4"]
    return DemoContext(
        release, tree, out, EncoderSettings(epochs=4, warmup_steps=1), {1: FAST, 2: FAST, 3: third}, max_new_tokens=4
    )


@pytest.fixture(scope="module")
def encoder(context):
    return train_encoder(context)


def test_area_under_roc_by_hand():
    scores = torch.tensor([0.1, 0.4, 0.35, 0.8])
    # of the pairs (positive, negative): .35 > .1, .35 < .4, .8 > .1, .8 > .4
    assert area_under_roc(scores, torch.tensor([False, False, True, True])) == 0.75
    assert area_under_roc(torch.tensor([0.5, 0.5]), torch.tensor([True, False])) == 0.5
    assert area_under_roc(scores, torch.tensor([True] * 4)) is None


@pytest.mark.slow
def test_the_encoder_learns_and_is_trained_once(context, encoder):
    assert encoder["governance"] == "open"
    assert len(encoder["loss"]) == 4 and encoder["loss"][-1] < encoder["loss"][0]
    weights = context.out / "encoder" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert train_encoder(context) == encoder
    assert weights.stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="settings"):
        train_encoder(replace(context, encoder=EncoderSettings(epochs=5)))


@pytest.mark.slow
def test_stage_one_starts_from_the_encoder_and_keeps_it(context, encoder):
    from safetensors.torch import load_file
    from swin_ved import SwinVedForConditionalGeneration
    from transformers import SwinModel

    train_stage(context, 1, log=lambda line: None)
    trained = SwinVedForConditionalGeneration.from_pretrained(
        (context.out / "stage1") / "best"
    ).model.encoder.state_dict()
    made = SwinModel.from_pretrained(context.out / "encoder", add_pooling_layer=False).state_dict()
    assert trained.keys() == made.keys()
    assert all(torch.equal(trained[name], made[name]) for name in made)
    assert len(load_file(context.out / "encoder" / "model.safetensors")) == len(made)


@pytest.mark.slow
def test_each_stage_starts_from_the_previous_one_and_is_evaluated(context, encoder, monkeypatch):
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")  # ROUGE-L: no text encoder to load
    for stage in (1, 2, 3):
        train_stage(context, stage, log=lambda line: None)
    started = json.loads(((context.out / "stage3") / "run.json").read_text())["init"]
    assert started is not None
    results = evaluate_stage(context, 3, shuffle=True)
    assert [result["images"] for result in results] == ["own", "shuffled (seed 0)"]
    assert results[0]["table_4"].get("bertscore") is None
    log = read_log(context.out / "stage3")
    assert any("greedy_reward" in entry for entry in log)


@pytest.mark.slow
def test_without_the_text_encoder_stage_three_is_rewarded_with_rouge(context, monkeypatch):
    shipped = load_recipe("tiny-swin-ved-stage3")
    assert (shipped.reward.name, shipped.selection.metric) == ("bert_score:0.6+label:0.4", "bert_score")
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")
    recipe = stage_recipe(context, 3)
    assert (recipe.reward.name, recipe.selection.metric) == ("rouge_l:0.6+label:0.4", "rouge_l")
    assert stage_recipe(context, "3-paper").reward.name == "rouge_l"
    assert "bert_score" not in recipe.selection.metrics
