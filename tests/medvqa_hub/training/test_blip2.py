"""BLIP-2-MultiView through the same trainer: what is trained, views, LoRA, quantised parts, from a plain BLIP-2."""

import json

import pytest
import torch
from blip2_multiview import Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor
from blip2_multiview_models import make_plain_blip2
from builds import build_release
from safetensors.torch import load_file
from training_runs import fast_recipe, weights

from medvqa_core.errors import ConfigError
from medvqa_hub.training import checkpoints
from medvqa_hub.training.checkpoints import complete_checkpoints
from medvqa_hub.training.run import train

RATES = "{q_formers: 1e-3, projections: 1e-3, prefix: 1e-3}"


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=10)


def settings(**changes):
    return fast_recipe(
        "tiny-blip2-multiview", **{"training__learning_rates": RATES, "training__max_steps": 2, **changes}
    )


def go(build, out, recipe):
    return train(recipe, build.workspace.root, out, build.tree, log=lambda line: None)


def test_branches_and_prefix_move_and_nothing_else(build, tmp_path):
    out = go(build, tmp_path / "out", settings())
    before, _ = settings().open_model(None, _texts(build))
    before, after = before.state_dict(), weights(out / "best")
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert moved
    assert all("branches" in name or "prefix_embeddings" in name for name in moved), moved
    for part in ("qformer", "query_tokens", "projection", "prefix_embeddings"):
        assert any(part in name for name in moved), part
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(out / "best")
    assert loaded.config.text_config.vocab_size == len(Blip2MultiViewProcessor.from_pretrained(out / "best").tokenizer)


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_weights(build, tmp_path, monkeypatch):
    whole = go(build, tmp_path / "whole", settings(training__save_every=1))
    real, calls = torch.optim.AdamW.step, []

    def step(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(KeyboardInterrupt):
        go(build, tmp_path / "out", settings(training__save_every=1))
    out = go(build, tmp_path / "out", settings(training__save_every=1))
    ours, theirs = weights(out / "best"), weights(whole / "best")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_checkpoint_holds_what_is_trained_and_goes_on_with_the_same_base_alone(build, tmp_path):
    short, longer = (settings(training__save_every=1, training__max_steps=steps) for steps in (1, 2))
    out = go(build, tmp_path / "out", short)
    checkpoint = out / "checkpoint-000001"
    trained = load_file(checkpoint / "trained.safetensors")
    assert trained and all("branches" in name or "prefix_embeddings" in name for name in trained)
    assert not list(checkpoint.glob("model*.safetensors")) and not (checkpoint / "config.json").exists()
    whole = weights(out / "best")
    assert set(trained) < set(whole) and all(torch.equal(value, whole[name]) for name, value in trained.items())
    # A frozen weight that differs in one bit, under the same names and shapes, is another base.
    model, _ = longer.open_model(None, _texts(build))
    freeze = longer.family.freeze_groups
    freeze(model, longer.training.learning_rates)
    base = json.loads((checkpoint / "manifest.json").read_text())["base"]
    assert checkpoints.fingerprint_frozen_weights(model) == base
    checkpoints.load_trained(model, checkpoint, base)
    with torch.no_grad():
        next(value for value in model.parameters() if not value.requires_grad).view(-1)[0] += 1e-3
    other = checkpoints.fingerprint_frozen_weights(model)
    assert other != base
    with pytest.raises(ConfigError, match="fingerprint .*model.from_blip2"):
        checkpoints.load_trained(model, checkpoint, other)
    freeze(model, {**longer.training.learning_rates, "prefix": 0.0})
    with pytest.raises(ConfigError, match="prefix"):
        checkpoints.load_trained(model, checkpoint, base)


def test_lora_trains_adapters_and_the_best_model_is_whole(build, tmp_path, monkeypatch):
    lora = settings(model__lora="{r: 2}", training__learning_rates=RATES[:-1] + ", lora: 1e-2}", training__save_every=1)
    out = go(build, tmp_path / "out", lora)
    assert (out / "checkpoint-000002" / "adapter_model.safetensors").exists()
    base, _ = settings().open_model(None, _texts(build))
    merged = Blip2MultiViewForConditionalGeneration.from_pretrained(out / "best")
    attention = "language_model.encoder.block.0.layer.0.SelfAttention.{}.weight"
    found, before = merged.state_dict(), base.state_dict()
    assert not torch.equal(found[attention.format("q")], before[attention.format("q")])
    assert torch.equal(found[attention.format("k")], before[attention.format("k")])
    with pytest.raises(ConfigError, match="fields of peft's LoraConfig"):
        settings(model__lora="{rank: 2}").open_model(None, _texts(build))


@pytest.mark.parametrize("bits", ["4bit", pytest.param("8bit", marks=pytest.mark.slow)])
def test_quantised_parts_stay_and_branches_are_trained_and_go_on(build, tmp_path, bits, monkeypatch):
    pytest.importorskip("bitsandbytes", reason="only on Linux")
    quantised = settings(model__quantize=bits, training__save_every=1, selection__every=None)
    real, calls = torch.optim.AdamW.step, []

    def step(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch.optim.AdamW, "step", step)
        go(build, tmp_path / "out", quantised)
    ((_, first),) = complete_checkpoints(tmp_path / "out")
    before = weights(first)
    out = go(build, tmp_path / "out", quantised)
    after = weights(out / "checkpoint-000002")
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert moved and all("branches" in name or "prefix_embeddings" in name for name in moved)
    assert json.loads((out / "best" / "config.json").read_text())["quantization_config"]


def test_a_plain_blip2_is_where_the_full_recipe_starts(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path / "plain")
    Blip2MultiViewProcessor.tiny().tokenizer.save_pretrained(tmp_path / "plain")
    recipe = settings(model__size=None, model__from_blip2=str(tmp_path / "plain"))
    model, processor = recipe.open_model(None, [])
    assert processor.image_size == model.config.vision_config.image_size
    with pytest.raises(ConfigError, match="none"):
        settings(model__size=None, model__from_blip2=str(tmp_path / "none")).open_model(None, [])
    with pytest.raises(ConfigError, match="model.from_blip2"):
        settings(model__size="base").open_model(None, [])


def _texts(build):
    from medvqa_hub.training.training_data import load_data

    return load_data(build.workspace.root, build.tree, settings().data).texts()
