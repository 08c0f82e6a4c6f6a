"""The demo's training: stage 0, the three stages from one another, the table and the curves."""

import json
from dataclasses import replace

import pytest
import torch
from PIL import Image

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.demo import encoder as encoder_training
from medvqa_hub.demo import training as demo_training
from medvqa_hub.demo.curves import draw_curves
from medvqa_hub.demo.encoder import EncoderSettings, area_under_roc
from medvqa_hub.demo.training import Story, evaluate_stage, make_release, recipe_of, train_encoder, train_stage
from medvqa_hub.training.checkpoints import read_log
from medvqa_hub.training.recipes import load_recipe

FAST = ["training.epochs=null", "training.max_steps=2", "training.log_every=1", "selection.studies=2"]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    out = tmp_path_factory.mktemp("story")
    release, tree = make_release(out, 60, seed=0)
    third = [*FAST, "selection.every=1", "scst.max_new_tokens=4", "selection.max_new_tokens=4"]
    return Story(
        release, tree, out, EncoderSettings(epochs=4, warmup_steps=1), {1: FAST, 2: FAST, 3: third}, max_new_tokens=4
    )


@pytest.fixture(scope="module")
def encoder(story):
    return train_encoder(story)


def test_area_under_roc_by_hand():
    scores = torch.tensor([0.1, 0.4, 0.35, 0.8])
    # of the pairs (positive, negative): .35 > .1, .35 < .4, .8 > .1, .8 > .4
    assert area_under_roc(scores, torch.tensor([False, False, True, True])) == 0.75
    assert area_under_roc(torch.tensor([0.5, 0.5]), torch.tensor([True, False])) == 0.5
    assert area_under_roc(scores, torch.tensor([True] * 4)) is None


def test_the_encoder_learns_and_is_made_once(story, encoder):
    assert encoder["governance"] == "open"
    assert len(encoder["loss"]) == 4 and encoder["loss"][-1] < encoder["loss"][0]
    weights = story.out / "encoder" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert train_encoder(story) == encoder
    assert weights.stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="settings"):
        train_encoder(replace(story, encoder=EncoderSettings(epochs=5)))


@pytest.mark.parametrize("stopped_at", [7, 12])
def test_a_stopped_encoder_goes_on_to_the_same_weights(story, encoder, stopped_at, monkeypatch, tmp_path):
    """24 steps, a checkpoint each 5: Ctrl-C at a step, then the same call."""
    steps, logits_of = [], encoder_training._logits
    monkeypatch.setattr(encoder_training, "STEPS_PER_CHECKPOINT", 5)

    def count(encoder, *arguments):
        if encoder.training:
            steps.append(None)
            if len(steps) == stopped_at:
                raise KeyboardInterrupt
        return logits_of(encoder, *arguments)

    monkeypatch.setattr(encoder_training, "_logits", count)
    again = replace(story, out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_encoder(again)
    assert not (tmp_path / "encoder").exists()
    assert train_encoder(again) == encoder
    done_before = 5 * ((stopped_at - 1) // 5)
    assert len(steps) == stopped_at + 24 - done_before
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "encoder" / name).read_bytes() == (story.out / "encoder" / name).read_bytes()
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_a_checkpoint_of_other_settings_or_broken_is_not_gone_on_from(story, monkeypatch, tmp_path):
    monkeypatch.setattr(encoder_training, "STEPS_PER_CHECKPOINT", 1)
    monkeypatch.setattr(encoder_training, "_validate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    other = replace(story, out=tmp_path, encoder=replace(story.encoder, epochs=1))
    with pytest.raises(KeyboardInterrupt):
        train_encoder(other)
    unfinished = tmp_path / ".encoder.unfinished.pt"
    state = torch.load(unfinished, weights_only=True)
    assert state["made"]["settings"]["epochs"] == 1 and len(state["losses"]) > 1
    monkeypatch.undo()
    longer = train_encoder(replace(other, encoder=replace(story.encoder, epochs=2)))
    assert len(longer["loss"]) == 2 and not unfinished.exists()
    broken = replace(other, out=tmp_path / "broken")
    broken.out.mkdir()
    (broken.out / ".encoder.unfinished.pt").write_bytes(b"no checkpoint")
    with pytest.raises(InputError, match=r"\.encoder\.unfinished\.pt: cannot be read .*delete it"):
        train_encoder(broken)


def test_stage_one_starts_from_the_encoder_and_leaves_it(story, encoder):
    from safetensors.torch import load_file
    from swin_ved import SwinVedForConditionalGeneration
    from transformers import SwinModel

    train_stage(story, 1, log=lambda line: None)
    trained = SwinVedForConditionalGeneration.from_pretrained(story.run_of(1) / "best").model.encoder.state_dict()
    made = SwinModel.from_pretrained(story.out / "encoder", add_pooling_layer=False).state_dict()
    assert trained.keys() == made.keys()
    assert all(torch.equal(trained[name], made[name]) for name in made)
    assert len(load_file(story.out / "encoder" / "model.safetensors")) == len(made)


def test_each_stage_goes_on_from_the_one_before_and_is_evaluated(story, encoder, monkeypatch, tmp_path):
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")  # ROUGE-L: no text encoder to load
    for stage in (1, 2, 3):
        train_stage(story, stage, log=lambda line: None)
    started = json.loads((story.run_of(3) / "run.json").read_text())["init"]
    assert started is not None
    results = evaluate_stage(story, 3, shuffle=True)
    assert [result["images"] for result in results] == ["own", "shuffled (seed 0)"]
    assert results[0]["table_4"].get("bertscore") is None
    log = read_log(story.run_of(3))
    assert any("greedy_reward" in entry for entry in log)
    path = tmp_path / "curves.png"
    draw_curves([read_log(story.run_of(stage)) for stage in (1, 2, 3)], "rouge_l", path)
    with Image.open(path) as picture:
        assert picture.size[0] > 1_000


def test_without_the_text_encoder_stage_three_is_rewarded_with_rouge(story, monkeypatch):
    shipped = load_recipe("tiny-swin-ved-stage3")
    assert (shipped.reward.name, shipped.selection.metric) == ("bert_score", "bert_score")
    monkeypatch.setattr(demo_training, "ENCODER_PACKAGE", "no_such_package")
    recipe = recipe_of(story, 3)
    assert (recipe.reward.name, recipe.selection.metric) == ("rouge_l", "rouge_l")
    assert "bert_score" not in recipe.selection.metrics


def test_stages_are_one_model(story):
    first, second, third = (recipe_of(story, stage).model for stage in (1, 2, 3))
    assert replace(first, pretrained_encoder=None) == second == third
