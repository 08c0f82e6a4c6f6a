"""Released SwinVED weights, under the names that the release saves them with, become our model."""

import re

import pytest
import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, convert_swin_ved
from swin_ved.convert_swin_ved import SWIN_NAMES
from swin_ved_tiny import pad, questions, studies, tiny_model


def released(model: SwinVedForConditionalGeneration) -> dict[str, torch.Tensor]:
    """The model's weights under the release's names, with the tables that old versions save beside them."""
    weights = {}
    for key, value in model.state_dict().items():
        key = key.removeprefix("model.")
        if key.startswith("encoder."):
            for old, new in SWIN_NAMES:
                if new in key:
                    key = key.replace(new, old)
                    break
        weights[key] = value.clone()
    weights["encoder.encoder.layers.0.blocks.0.attention.self.relative_position_index"] = torch.zeros(16, 16)
    weights["decoder.bert.embeddings.position_ids"] = torch.arange(512)[None]
    return weights


@pytest.fixture(scope="module")
def model() -> SwinVedForConditionalGeneration:
    return tiny_model(answer_position=64)


def test_names_are_the_release_s(model):
    """The names that transformers 4 gives to Swin and BertGeneration, written out for one block and one layer."""
    block = {re.sub(r".*blocks\.1\.", "", key) for key in released(model) if "encoder.layers.2.blocks.1." in key}
    linear = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
              "intermediate.dense", "output.dense", "layernorm_before", "layernorm_after")  # fmt: skip
    expected = {f"{name}.{kind}" for name in linear for kind in ("weight", "bias")}
    assert block == expected | {"attention.self.relative_position_bias_table"}
    keys = set(released(model))
    assert {
        "encoder.embeddings.patch_embeddings.projection.weight", "encoder.embeddings.norm.bias",
        "encoder.layernorm.weight",
        "encoder.encoder.layers.0.downsample.reduction.weight", "decoder.bert.embeddings.word_embeddings.weight",
        "decoder.bert.encoder.layer.1.crossattention.self.key.bias", "decoder.lm_head.bias",
        "decoder.lm_head.decoder.weight", "decoder.lm_head.decoder.bias",
    } <= keys  # fmt: skip


@pytest.mark.parametrize("wrap", ["file", "dictionary", "lightning", "lightning of DataParallel"])
def test_converted_model_gives_equal_logits(model, wrap, tmp_path):
    source = released(model)
    if wrap.startswith("lightning"):
        before = "model." if wrap == "lightning" else "model.module.model."
        source = {"epoch": 3, "state_dict": {f"{before}{key}": value for key, value in source.items()}}
    if wrap != "dictionary":
        torch.save(source, tmp_path / "best.pt")
        source = tmp_path / "best.pt"
    converted = convert_swin_ved(source, SwinVedConfig.tiny(vocab_size=50, answer_position=64))
    assert not converted.training
    ends = converted.generation_config
    assert (ends.eos_token_id, ends.max_new_tokens) == ([6, 1], 63)  # these weights write [PAD] at an answer's end
    input_ids, mask = pad(questions((3, 4)), left=True)
    inputs = {"input_ids": input_ids, "attention_mask": mask, "pixel_values": studies(2)}
    assert torch.equal(converted(**inputs).logits, model(**inputs).logits)
    decoder = converted.decoder
    assert decoder.lm_head.decoder.weight is decoder.bert.embeddings.word_embeddings.weight


def test_default_is_the_paper_s_model_with_the_release_s_positions():
    with pytest.raises(ValueError, match="missing") as error:
        convert_swin_ved({})
    assert len(re.findall(r"encoder\.layers\.2\.blocks\.17\.", str(error.value))) == 17
    assert "decoder.bert.encoder.layer.2.output.dense.weight" in str(error.value)


def test_missing_unused_and_misshapen_keys_are_all_named(model):
    weights = released(model)
    del weights["decoder.lm_head.bias"]
    weights["decoder.pooler.weight"] = torch.zeros(1)
    weights["encoder.layernorm.weight"] = torch.zeros(7)
    with pytest.raises(ValueError, match="do not fit") as error:
        convert_swin_ved(weights, model.config)
    text = str(error.value)
    assert "1 missing: decoder.lm_head.bias" in text
    assert "1 unused: decoder.pooler.weight" in text
    assert "1 of another shape: model.encoder.layernorm.weight: (7,), expected (128,)" in text


def test_untied_output_weights_are_refused_not_dropped(model):
    weights = released(model)
    weights["decoder.lm_head.decoder.weight"] = weights["decoder.lm_head.decoder.weight"] + 1
    with pytest.raises(ValueError, match=r"decoder\.lm_head\.decoder\.weight"):
        convert_swin_ved(weights, model.config)


def test_what_is_no_state_dict_is_refused(tmp_path):
    with pytest.raises(ValueError, match="state dict"):
        convert_swin_ved({"weights": 3})
    with pytest.raises(OSError, match="nothing.pt"):
        convert_swin_ved(tmp_path / "nothing.pt")


def test_keys_that_mean_the_same_weight_are_refused(model):
    weights = released(model)
    weights["module.decoder.lm_head.bias"] = weights["decoder.lm_head.bias"] + 1
    text = r"1 colliding: decoder\.lm_head\.bias and module\.decoder\.lm_head\.bias"
    with pytest.raises(ValueError, match=text):
        convert_swin_ved(weights, model.config)


@pytest.mark.parametrize("content", ["empty", "garbage", "text", "truncated", "half", "old format, truncated"])
def test_damaged_files_are_named(model, tmp_path, content):
    path = tmp_path / "best.pt"
    torch.save(released(model), path, _use_new_zipfile_serialization=content[:3] != "old")
    whole = path.read_bytes()
    contents = {"empty": b"", "garbage": b"garbage", "text": b"hello world\n", "half": whole[: len(whole) // 2]}
    path.write_bytes(contents.get(content, whole[:5000]))
    with pytest.raises(ValueError, match=r"best\.pt is damaged"):
        convert_swin_ved(path, model.config)


def test_a_pickle_with_code_is_not_run(tmp_path):
    torch.save({"state_dict": SwinVedConfig.tiny()}, tmp_path / "bad.pt")
    with pytest.raises(ValueError, match=r"bad\.pt .*code"):
        convert_swin_ved(tmp_path / "bad.pt")
