"""BLIP-2-MultiView, checkpoints: round trips, the Hub copy without us, BLIP-2 and released weights, the card."""

import json
import re

import jinja2
import pytest
import torch
from blip2_multiview import (
    Blip2MultiViewConfig,
    Blip2MultiViewForConditionalGeneration,
    Blip2MultiViewModel,
    Blip2MultiViewProcessor,
    convert_blip2_multiview,
)
from blip2_multiview_models import make_image, make_inputs, make_lively, make_model, run_without_us
from safetensors.torch import save_file
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForImageTextToText,
    AutoProcessor,
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2VisionConfig,
    OPTConfig,
    T5Config,
)

from hub_cards import template_path

IMAGES = ("pixel_values", "image_study", "image_view")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder of a tiny model with its processor."""
    folder = tmp_path_factory.mktemp("saved")
    make_model().save_pretrained(folder)
    Blip2MultiViewProcessor.tiny().save_pretrained(folder)
    return folder


def assert_same_logits(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for the last bits, which depend on where in memory the weights lie; the logits are up to 30."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3 if found.dtype == torch.float32 else 0.5)


def make_plain_blip2(seed: int = 0, **changes) -> Blip2ForConditionalGeneration:
    """A tiny plain BLIP-2 with an output layer of its own, as FLAN-T5 has."""
    tiny = Blip2MultiViewConfig.tiny()
    parts = {name: getattr(tiny, name) for name in ("vision_config", "qformer_config", "text_config")}
    torch.manual_seed(seed)
    plain = make_lively(Blip2ForConditionalGeneration(Blip2Config(**{**parts, "num_query_tokens": 4, **changes})))
    plain.query_tokens.data.normal_()
    return plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_round_trip_gives_equal_weights_and_logits(tmp_path, dtype):
    model = make_model().to(dtype)
    model.save_pretrained(tmp_path)
    loaded, report = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert loaded.dtype == dtype
    expected = model.state_dict()
    found = loaded.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert_same_logits(loaded(**make_inputs()).logits, model(**make_inputs()).logits)
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert [name for name, weight in loaded.named_parameters() if weight.requires_grad] == trained
    assert loaded.generation_config.max_new_tokens == 128


def test_half_precision_keeps_the_trained_parts_in_float32(saved):
    model = Blip2MultiViewForConditionalGeneration.from_pretrained(saved, dtype=torch.float16)
    assert model.model.vision_model.dtype == torch.float16
    kinds = {weight.dtype for weight in model.parameters() if weight.requires_grad}
    assert kinds == {torch.float32}
    with torch.no_grad():
        logits = model(**make_inputs()).logits
    assert logits.dtype == torch.float16
    torch.testing.assert_close(logits.float(), make_model()(**make_inputs()).logits, rtol=0, atol=0.5)


def test_model_built_on_meta_takes_the_weights():
    model = make_model()
    with torch.device("meta"):
        empty = Blip2MultiViewForConditionalGeneration(Blip2MultiViewConfig.tiny()).eval()
    empty.load_state_dict(model.state_dict(), assign=True)
    assert_same_logits(empty(**make_inputs()).logits, model(**make_inputs()).logits)


def test_folder_holds_safetensors_code_and_both_auto_maps(saved):
    names = {path.name for path in saved.iterdir()}
    parts = ("configuration", "modeling", "branching", "checking", "processing", "tokenizing")
    code = {f"{part}_blip2_multiview.py" for part in parts}
    assert code | {"model.safetensors", "generation_config.json", "processor_config.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]
    config = json.loads((saved / "config.json").read_text())
    assert set(config["auto_map"]) == {"AutoConfig", "AutoModel", "AutoModelForImageTextToText"}
    processor = json.loads((saved / "processor_config.json").read_text())
    assert processor["auto_map"] == {"AutoProcessor": "processing_blip2_multiview.Blip2MultiViewProcessor"}


def test_auto_classes_give_the_registered_classes(saved):
    model = AutoModelForImageTextToText.from_pretrained(saved)
    assert type(model) is Blip2MultiViewForConditionalGeneration
    features, report = AutoModel.from_pretrained(saved, output_loading_info=True)
    assert type(features) is Blip2MultiViewModel
    assert {name.split(".")[0] for name, weight in features.named_parameters() if weight.requires_grad} == {"branches"}
    assert not any(report.values()), report
    images = {name: make_inputs()[name] for name in IMAGES}
    assert_same_logits(features(**images).view_features, model.encode(**images).view_features)
    assert type(AutoProcessor.from_pretrained(saved)) is Blip2MultiViewProcessor


def test_processor_round_trip_gives_equal_batches(tmp_path):
    processor = Blip2MultiViewProcessor.tiny(unknown_views={"": "PA"}, max_question_tokens=20)
    processor.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert (loaded.unknown_views, loaded.max_question_tokens, loaded.image_size) == ({"": "PA"}, 20, 28)
    arguments = {"images": [make_image()], "views": [""], "text": ["is there edema?"], "answers": ["no"]}
    expected, found = processor(**arguments), loaded(**arguments)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_hub_copy_gives_equal_logits_without_this_package(saved, tmp_path):
    model, processor = make_model(), Blip2MultiViewProcessor.tiny()
    make_image(1).save(tmp_path / "frontal.png")
    make_image(2).save(tmp_path / "lateral.png")
    inputs = make_inputs()
    images = {"images": [make_image(1), make_image(2)], "views": ["PA", "LL"]}
    with torch.no_grad():
        results = {
            "logits": model(**inputs).logits,
            "features": model.encode(*(inputs[name] for name in IMAGES)).view_features,
            "tokens": model.generate(**{k: v for k, v in inputs.items() if k != "labels"}, max_new_tokens=6),
            "pixels": processor(**images)["pixel_values"],
            "ids": processor(text=["is there edema?"])["input_ids"],
        }
    save_file(inputs, tmp_path / "inputs.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in results.items()}, tmp_path / "results.safetensors")
    code = f"""
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForImageTextToText, AutoProcessor
inputs, results = load_file("inputs.safetensors"), load_file("results.safetensors")
for folder in ({str(saved)!r}, "again"):
    model = AutoModelForImageTextToText.from_pretrained(folder, trust_remote_code=True)
    features = AutoModel.from_pretrained(folder, trust_remote_code=True)
    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=True)
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, results["logits"], rtol=0, atol=1e-3)
        images = [inputs[name] for name in ("pixel_values", "image_study", "image_view")]
        torch.testing.assert_close(features(*images).view_features, results["features"], rtol=0, atol=1e-3)
        questions = {{k: v for k, v in inputs.items() if k != "labels"}}
        assert torch.equal(model.generate(**questions, max_new_tokens=6), results["tokens"])
    pictures = [Image.open("frontal.png"), Image.open("lateral.png")]
    assert torch.equal(processor(images=pictures, views=["PA", "LL"])["pixel_values"], results["pixels"])
    assert torch.equal(processor(text=["is there edema?"])["input_ids"], results["ids"])
    assert type(model).__module__.startswith("transformers_modules")
    assert sum(weight.requires_grad for weight in model.parameters()) < len(list(model.parameters()))
    model.save_pretrained("again")
    processor.save_pretrained("again")
print("equal")
"""
    assert run_without_us(code, tmp_path).splitlines()[-1] == "equal"


def render_card(**values) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    defaults = {"card_data": "license: apache-2.0", "title": "tiny", "base_model": None, "governance": "open"}
    values = {**defaults, "training": None, "scores": {}, **values}
    return environment.from_string(template_path("blip2_multiview").read_text()).render(**values)


def test_snippet_of_the_card_runs_without_this_package(saved, tmp_path):
    card = render_card(repository=str(saved))
    make_image(1).save(tmp_path / "frontal.jpg")
    make_image(2).save(tmp_path / "lateral.jpg")
    (snippet,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert run_without_us(snippet, tmp_path).count("answer:") == 2


def test_card_names_base_model_scores_and_governance():
    card = render_card(repository="x/y", base_model="a/b", scores={"BLEU-1": 0.1357}, governance="credentialed")
    assert "Started from `a/b`." in card
    assert "| BLEU-1 | 0.1357 |" in card
    assert "no upload to any public or private Hub repository" in card


def test_from_blip2_copies_its_branch_three_times(tmp_path):
    plain = make_plain_blip2()
    # An output layer of its own, which transformers would tie to the embeddings.
    plain.language_model.lm_head.weight = nn.Parameter(torch.randn(512, 64))
    plain.save_pretrained(tmp_path / "plain")
    model = Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "plain"))
    expected = plain.state_dict()
    for branch in model.model.branches.by_view.values():
        torch.testing.assert_close(branch.query_tokens, plain.query_tokens)
        torch.testing.assert_close(branch.projection.weight, plain.language_projection.weight)
        for name, weight in branch.qformer.state_dict().items():
            torch.testing.assert_close(weight, expected[f"qformer.{name}"])
    first, second, _ = model.model.branches.by_view.values()
    assert first.query_tokens.data_ptr() != second.query_tokens.data_ptr()
    assert first.projection.weight.data_ptr() != second.projection.weight.data_ptr()
    for name, weight in model.model.vision_model.state_dict().items():
        torch.testing.assert_close(weight, expected[f"vision_model.{name}"])
    for name, weight in model.language_model.state_dict().items():
        torch.testing.assert_close(weight, expected[f"language_model.{name}"])
    rows = model.prefix_embeddings.weight
    assert torch.equal(
        rows, Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "plain")).prefix_embeddings.weight
    )
    assert rows.unique(dim=0).shape[0] == 4
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert all(name.startswith(("model.branches.", "prefix_embeddings.")) for name in trained)

    model.save_pretrained(tmp_path / "ours")
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert_same_logits(loaded(**make_inputs()).logits, model(**make_inputs()).logits)
    assert not torch.equal(loaded.language_model.lm_head.weight, loaded.language_model.shared.weight)


def test_processor_from_blip2_takes_its_tokenizer_and_image_size(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path)
    tokenizer = Blip2MultiViewProcessor.tiny().tokenizer
    tokenizer.save_pretrained(tmp_path)
    processor = Blip2MultiViewProcessor.from_blip2(str(tmp_path), unknown_views="error")
    assert (processor.image_size, processor.unknown_views) == (28, "error")
    assert processor.tokenizer.get_vocab() == tokenizer.get_vocab()


def test_from_blip2_refuses_decoder_only_and_other_models(tmp_path):
    opt = OPTConfig(vocab_size=60, hidden_size=16, ffn_dim=16, num_hidden_layers=1, num_attention_heads=2)
    make_config = Blip2Config(vision_config=Blip2VisionConfig(), text_config=opt)
    make_config.save_pretrained(tmp_path / "opt")
    with pytest.raises(ValueError, match="'opt', which is decoder-only"):
        Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "opt"))
    T5Config().save_pretrained(tmp_path / "t5")
    with pytest.raises(ValueError, match="model_type 't5'; from_blip2 takes 'blip-2'"):
        Blip2MultiViewForConditionalGeneration.from_blip2(str(tmp_path / "t5"))


def test_checkpoint_of_another_class_is_refused(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path)
    for kind in (Blip2MultiViewForConditionalGeneration, Blip2MultiViewModel):
        with pytest.raises(ValueError, match="model_type 'blip-2', Blip2MultiViewConfig loads 'blip2_multiview'"):
            kind.from_pretrained(tmp_path)


def make_released(vocabulary: int = 104) -> tuple[dict[str, torch.Tensor], Blip2MultiViewConfig]:
    """A state dict with the released code's keys, and a configuration of its sizes."""
    tiny = Blip2MultiViewConfig.tiny()
    tiny.text_config.vocab_size = vocabulary
    plain = make_plain_blip2(text_config=tiny.text_config)
    state = {name: weight.clone() for name, weight in plain.state_dict().items()}
    for number, view in enumerate(("AP", "PA", "LAT"), start=1):
        for name in plain.qformer.state_dict():
            state[f"qformer_by_view.{view}.{name}"] = state[f"qformer.{name}"] * number
        for name in ("weight", "bias"):
            state[f"language_projection_by_view.{view}.{name}"] = state[f"language_projection.{name}"] + number
        state[f"query_tokens_by_view.{view}"] = state["query_tokens"] - number
    return state, Blip2MultiViewConfig.tiny()


@pytest.mark.parametrize("from_file", [False, True])
def test_released_state_dict_becomes_a_model(tmp_path, from_file):
    state, config = make_released()
    state["language_model.lm_head.weight"] = torch.randn(104, 64)
    source = state
    if from_file:
        source = tmp_path / "best.pt"
        torch.save(state, source)
    model, unused = convert_blip2_multiview(source, config)
    assert {name.split(".")[0] for name in unused} == {"qformer", "query_tokens", "language_projection"}
    place = "model.branches.by_view.LAT"
    weights = model.state_dict()
    assert torch.equal(weights[f"{place}.query_tokens"], state["query_tokens_by_view.LAT"])
    assert torch.equal(weights[f"{place}.projection.bias"], state["language_projection_by_view.LAT.bias"])
    assert torch.equal(weights[f"{place}.qformer.layernorm.weight"], state["qformer_by_view.LAT.layernorm.weight"])
    assert torch.equal(weights["prefix_embeddings.weight"], state["language_model.shared.weight"][100:])
    used = len(state) - len(unused)
    assert len(weights) == used + 1

    model.save_pretrained(tmp_path / "ours")
    loaded = Blip2MultiViewForConditionalGeneration.from_pretrained(tmp_path / "ours")
    inputs = make_inputs(labels=False) | {"decoder_input_ids": torch.tensor([[0, 5], [0, 7]])}
    inputs["input_ids"] = inputs["input_ids"] % 100
    assert_same_logits(loaded(**inputs).logits, model(**inputs).logits)
    assert loaded.config.text_config.vocab_size == 104


def test_prefix_rows_may_lie_elsewhere():
    state, config = make_released()
    model = convert_blip2_multiview(state, config, prefix_token_ids=[7, 9, 8, 3]).model
    assert torch.equal(model.prefix_embeddings.weight, state["language_model.shared.weight"][[7, 9, 8, 3]])
    with pytest.raises(ValueError, match="expected 4 ids below 104"):
        convert_blip2_multiview(state, config, prefix_token_ids=[7, 9, 8, 104])


def test_missing_unknown_and_misshapen_keys_are_all_named(tmp_path):
    state, config = make_released()
    del state["query_tokens_by_view.PA"]
    state["vision_model.extra"] = torch.zeros(1)
    state["language_projection_by_view.AP.bias"] = torch.zeros(3)
    with pytest.raises(ValueError) as caught:
        convert_blip2_multiview(state, config)
    text = str(caught.value)
    assert "missing: model.branches.by_view.PA.query_tokens" in text
    assert "unknown: model.vision_model.extra" in text
    assert "AP.projection.bias has shape (3,), expected (64,)" in text
    with pytest.raises(ValueError, match=r"the key language_model\.shared\.weight is missing"):
        convert_blip2_multiview({"weight": torch.zeros(1)})
    with pytest.raises(OSError, match=r"none\.pt"):
        convert_blip2_multiview(tmp_path / "none.pt")
