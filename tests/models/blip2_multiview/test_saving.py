"""BLIP-2-MultiView, checkpoints: round trips, the Hub copy without us, the card."""

import json

import pytest
import torch
from blip2_multiview import (
    Blip2MultiViewConfig,
    Blip2MultiViewForConditionalGeneration,
    Blip2MultiViewModel,
    Blip2MultiViewProcessor,
)
from blip2_multiview_models import (
    assert_same_logits,
    make_image,
    make_inputs,
    make_model,
    make_plain_blip2,
    run_without_us,
)
from safetensors.torch import save_file
from transformers import (
    AutoModel,
    AutoModelForImageTextToText,
    AutoProcessor,
)

IMAGES = ("pixel_values", "num_images", "image_view")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folder of a tiny model with its processor."""
    folder = tmp_path_factory.mktemp("saved")
    make_model().save_pretrained(folder)
    Blip2MultiViewProcessor.tiny().save_pretrained(folder)
    return folder


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


@pytest.mark.parametrize("views", [[0, 1, 2, 1], [0, 0, 2, 0]], ids=["all views", "a view that nobody has"])
def test_branches_may_lie_on_the_disk(saved, tmp_path, views):
    places = {
        "model.vision_model": "cpu",
        "model.branches": "disk",
        "prefix_embeddings": "cpu",
        "language_model": "cpu",
    }
    model = Blip2MultiViewForConditionalGeneration.from_pretrained(saved, device_map=places, offload_folder=tmp_path)
    inputs = {**make_inputs(), "image_view": torch.tensor(views)}
    with torch.no_grad():
        assert_same_logits(model(**inputs).logits, make_model()(**inputs).logits)


def test_model_built_on_meta_takes_the_weights():
    model = make_model()
    with torch.device("meta"):
        empty = Blip2MultiViewForConditionalGeneration(Blip2MultiViewConfig.tiny()).eval()
    empty.load_state_dict(model.state_dict(), assign=True)
    assert_same_logits(empty(**make_inputs()).logits, model(**make_inputs()).logits)


def test_folder_holds_safetensors_code_and_both_auto_maps(saved):
    names = {path.name for path in saved.iterdir()}
    parts = (
        "configuration",
        "modeling",
        "checking",
        "processing",
        "image_processing",
        "tokenization",
    )
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


@pytest.mark.slow
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
        images = [inputs[name] for name in ("pixel_values", "num_images", "image_view")]
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


def test_checkpoint_of_another_class_is_refused(tmp_path):
    make_plain_blip2().save_pretrained(tmp_path)
    for kind in (Blip2MultiViewForConditionalGeneration, Blip2MultiViewModel):
        with pytest.raises(ValueError, match="blip-2.*from_blip2"):
            kind.from_pretrained(tmp_path)
