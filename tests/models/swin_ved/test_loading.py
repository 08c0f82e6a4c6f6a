"""SwinVED saved and loaded: equal weights in every way of loading, with and without this package."""

import json

import pytest
import torch
from safetensors.torch import save_file
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedModel, SwinVedProcessor
from swin_ved_clean import run_clean
from swin_ved_tiny import TEXTS, pad, questions, studies, tiny_model, tiny_processor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageTextToText,
    AutoProcessor,
    BertConfig,
    BertModel,
    BitsAndBytesConfig,
)


@pytest.fixture(scope="module")
def model() -> SwinVedForConditionalGeneration:
    return tiny_model()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    tiny_processor()[0].save_pretrained(folder)
    return folder


def inputs() -> dict[str, torch.Tensor]:
    input_ids, mask = pad(questions((3, 5)), left=True)
    return {"input_ids": input_ids, "attention_mask": mask, "pixel_values": studies(2)}


def assert_equal_tensors(ours: torch.nn.Module, theirs: torch.nn.Module, dtype: torch.dtype) -> None:
    """Parameters and buffers, also those that no file holds."""
    for kind in ("named_parameters", "named_buffers"):
        pairs = dict(getattr(theirs, kind)())
        assert pairs
        for name, value in getattr(ours, kind)():
            expected = value.to(dtype) if value.is_floating_point() else value
            assert torch.equal(pairs[name], expected), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_survive_a_round_trip(model, folder, dtype):
    loaded = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype)
    assert type(loaded) is SwinVedForConditionalGeneration
    assert not loaded.training
    assert_equal_tensors(model, loaded, dtype)
    decoder = loaded.decoder
    assert decoder.lm_head.decoder.weight is decoder.bert.embeddings.word_embeddings.weight
    assert decoder.lm_head.decoder.bias is decoder.lm_head.bias
    if dtype == torch.float32:
        assert torch.equal(loaded(**inputs()).logits, model(**inputs()).logits)
    else:
        assert loaded(**inputs()).logits.dtype == torch.bfloat16  # float32 pixels are cast


def test_a_model_made_on_the_meta_device_takes_the_weights(model, folder):
    with torch.device("meta"):
        skeleton = SwinVedForConditionalGeneration(model.config)
        assert all(parameter.is_meta for parameter in skeleton.parameters())
        loaded = skeleton.to_empty(device="cpu")
    loaded.init_weights()  # what no file holds: tables computed from the sizes
    loaded.load_state_dict(model.state_dict())
    assert_equal_tensors(model, loaded.eval(), torch.float32)


def test_auto_model_loads_the_image_half_without_a_complaint(model, folder, caplog):
    loaded, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert type(loaded) is SwinVedModel
    assert not any(info.values()), info
    assert_equal_tensors(model.model, loaded, torch.float32)


def test_folder_holds_safetensors_and_all_the_code_it_needs(folder):
    names = {path.name for path in folder.iterdir()}
    assert "model.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"] == {
        "AutoConfig": "configuration_swin_ved.SwinVedConfig",
        "AutoModel": "modeling_swin_ved.SwinVedModel",
        "AutoModelForImageTextToText": "modeling_swin_ved.SwinVedForConditionalGeneration",
    }
    processor = json.loads((folder / "processor_config.json").read_text())
    assert processor["auto_map"] == {"AutoProcessor": "processing_swin_ved.SwinVedProcessor"}
    assert json.loads((folder / "generation_config.json").read_text())["max_new_tokens"] == 128


def test_installed_classes_are_used_even_with_trust_remote_code(folder):
    assert type(AutoConfig.from_pretrained(folder, trust_remote_code=True)) is SwinVedConfig
    assert type(AutoProcessor.from_pretrained(folder, trust_remote_code=True)) is SwinVedProcessor
    loaded = AutoModelForImageTextToText.from_pretrained(folder, trust_remote_code=True)
    assert type(loaded) is SwinVedForConditionalGeneration


def test_without_this_package_the_copied_code_gives_equal_logits(model, folder, tmp_path):
    save_file(inputs(), tmp_path / "inputs.safetensors")
    code = f"""
import json
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForImageTextToText, AutoProcessor
inputs = load_file("inputs.safetensors")
model = AutoModelForImageTextToText.from_pretrained({str(folder)!r}, trust_remote_code=True)
processor = AutoProcessor.from_pretrained({str(folder)!r}, trust_remote_code=True)
half = AutoModel.from_pretrained({str(folder)!r}, trust_remote_code=True)
save_file({{
    "logits": model(**inputs).logits,
    "tokens": model.generate(**inputs, num_beams=2, max_new_tokens=8).contiguous(),
    "features": half(inputs["pixel_values"]).last_hidden_state,
}}, "outputs.safetensors")
model.save_pretrained("again")
processor.save_pretrained("again")
print(json.dumps([type(model).__module__, processor(text={list(TEXTS)!r})["input_ids"].tolist()]))
"""
    module, tokens = json.loads(run_clean(code, tmp_path, tmp_path / "cache").splitlines()[-1])
    assert module.startswith("transformers_modules.")
    assert tokens == tiny_processor()[0](text=list(TEXTS))["input_ids"].tolist()
    from safetensors.torch import load_file

    outputs = load_file(tmp_path / "outputs.safetensors")
    assert torch.equal(outputs["logits"], model(**inputs()).logits)
    assert torch.equal(outputs["tokens"], model.generate(**inputs(), num_beams=2, max_new_tokens=8))
    assert torch.equal(outputs["features"], model.encode(studies(2)).last_hidden_state)
    copied = {path.name for path in folder.glob("*.py")}
    assert {path.name for path in (tmp_path / "again").glob("*.py")} == copied
    again = AutoModelForImageTextToText.from_pretrained(tmp_path / "again")
    assert torch.equal(again(**inputs()).logits, model(**inputs()).logits)


def test_a_checkpoint_of_another_class_is_refused(tmp_path):
    config = BertConfig(num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=8, vocab_size=9)
    BertModel(config).save_pretrained(tmp_path)
    for load in (SwinVedForConditionalGeneration, SwinVedModel, SwinVedConfig):
        with pytest.raises(ValueError, match=r"'bert'.*'swin_ved'"):
            load.from_pretrained(tmp_path)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_weights_answer_almost_alike(model, folder, bits):
    """On a CPU bitsandbytes packs 4-bit weights in blocks of 64, which the tiny encoder's layers are too narrow for."""
    pytest.importorskip("bitsandbytes", reason="only on Linux")
    settings = {"load_in_8bit": True} if bits == 8 else {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    if bits == 4:
        settings["llm_int8_skip_modules"] = ["model", "decoder.lm_head"]
    loaded = AutoModelForImageTextToText.from_pretrained(folder, quantization_config=BitsAndBytesConfig(**settings))
    key = loaded.decoder.bert.encoder.layer[0].crossattention.self.key
    assert type(key).__name__ == ("Linear8bitLt" if bits == 8 else "Linear4bit")
    assert type(loaded.decoder.lm_head.decoder) is torch.nn.Linear
    words = inputs()["attention_mask"].bool()
    ours, theirs = (m(**inputs()).logits[words].float().flatten() for m in (loaded, model))
    assert torch.nn.functional.cosine_similarity(ours, theirs, dim=0) > 0.9
    assert loaded.generate(**inputs(), num_beams=2, max_new_tokens=4).shape[0] == 2


def test_static_cache_gives_the_same_answers(model):
    expected = model.generate(**inputs(), max_new_tokens=6, num_beams=2)
    static = {"cache_implementation": "static", "disable_compile": True}
    assert torch.equal(model.generate(**inputs(), max_new_tokens=6, num_beams=2, **static), expected)
