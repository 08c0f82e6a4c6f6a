"""BLIP-2-MultiView with quantised frozen parts and with LoRA, on a CPU."""

import pytest
import torch
from blip2_multiview import Blip2MultiViewForConditionalGeneration, Blip2MultiViewProcessor
from blip2_multiview_models import make_image, make_inputs, make_model
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import BitsAndBytesConfig, Seq2SeqTrainer, Seq2SeqTrainingArguments

bitsandbytes = pytest.importorskip("bitsandbytes", reason="bitsandbytes is only installed on Linux")
EIGHT = {"load_in_8bit": True}
FOUR = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.float32}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    make_model().save_pretrained(folder)
    return folder


def load_quantised(folder, **settings):
    config = BitsAndBytesConfig(**settings)
    return Blip2MultiViewForConditionalGeneration.from_pretrained(folder, quantization_config=config)


def dequantised(model):
    """A float model with the weights that the quantised one computes with."""
    full = make_model()
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            values = bitsandbytes.functional.dequantize_4bit(weight.data, weight.quant_state).float()
        elif isinstance(module, bitsandbytes.nn.Linear8bitLt):
            values = weight.data.float() * (weight.SCB[:, None] / 127)
        else:
            continue
        target = full.get_submodule(name).weight
        target.data = values.reshape(target.shape)
    return full


def linear_kinds(module) -> set[str]:
    return {type(part).__name__ for part in module.modules() if isinstance(part, torch.nn.Linear)}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [(EIGHT, "Linear8bitLt"), (FOUR, "Linear4bit"), ({**FOUR, "llm_int8_skip_modules": ["lm_head"]}, "Linear4bit")],
    ids=["8-bit", "4-bit", "4-bit with its own list"],
)
def test_frozen_parts_are_quantised_and_trained_parts_are_not(saved, settings, kind):
    model = load_quantised(saved, **settings)
    assert linear_kinds(model.model.vision_model) == {kind}
    assert kind in linear_kinds(model.language_model)
    assert linear_kinds(model.model.branches) == {"Linear"}
    full = make_model()
    expected = {name: weight for name, weight in full.named_parameters() if weight.requires_grad}
    found = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())

    inputs = make_inputs()
    rebuilt = dequantised(model)
    output = model(**inputs)
    expected = rebuilt(**inputs).logits
    # 8-bit layers round what they read too; images that are not seen cost far more than either bound.
    bound = 4.0 if kind == "Linear8bitLt" else 1.5
    assert (output.logits - expected).abs().max() < bound
    for weight in rebuilt.model.vision_model.parameters():
        weight.data.zero_()
    assert (rebuilt(**inputs).logits - expected).abs().max() > 2 * bound
    output.loss.backward()
    for view in ("AP", "PA", "LAT"):
        gradient = model.model.branches.by_view[view].query_tokens.grad
        assert torch.isfinite(gradient).all()
        assert gradient.any()
    tokens = model.generate(**{k: v for k, v in inputs.items() if k != "labels"}, max_new_tokens=4)
    assert tokens.shape[0] == 2


def add_lora(model):
    torch.manual_seed(0)
    config = LoraConfig(r=4, target_modules=model.LORA_TARGETS, modules_to_save=model.TRAINED_MODULES)
    return get_peft_model(model, config)


def train_a_step(model) -> None:
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.01)
    model(**make_inputs()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def test_lora_trains_its_adapters_and_the_branches():
    plain = make_model()
    expected = plain(**make_inputs()).logits.detach()
    model = add_lora(plain)
    torch.testing.assert_close(model(**make_inputs()).logits, expected)  # an adapter starts as nothing
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    train_a_step(model)
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    allowed = ("lora_", "branches.modules_to_save", "prefix_embeddings.modules_to_save")
    assert all(any(part in name for part in allowed) for name in moved), moved
    for part in (*allowed, "language_model"):
        assert any(part in name for name in moved), part
    assert not any("lora_" in name and "language_model" not in name for name in moved)


@pytest.mark.parametrize("settings", [None, EIGHT, FOUR], ids=["float", "8-bit", "4-bit"])
def test_saved_adapter_gives_the_same_logits(saved, tmp_path, settings):
    def load():
        if settings is None:
            return Blip2MultiViewForConditionalGeneration.from_pretrained(saved)
        return load_quantised(saved, **settings)

    model = add_lora(load())
    untrained = model(**make_inputs()).logits.detach()
    train_a_step(model)
    model.eval()
    with torch.no_grad():
        expected = model(**make_inputs()).logits
        model.save_pretrained(tmp_path)
        loaded = PeftModel.from_pretrained(load(), tmp_path).eval()
        # 4-bit layers compute in bfloat16 or float32, as the processor can.
        tolerance = 1e-3 if settings is None else 0.05
        torch.testing.assert_close(loaded(**make_inputs()).logits, expected, rtol=0, atol=tolerance)
    assert (expected - untrained).abs().max() > 0.5
    questions = {k: v for k, v in make_inputs().items() if k != "labels"}
    found = loaded.generate(**questions, max_new_tokens=6)
    if settings is None:
        assert torch.equal(found, model.generate(**questions, max_new_tokens=6))


def test_trainer_generates_for_its_predictions(tmp_path):
    processor, model = Blip2MultiViewProcessor.tiny(), make_model()
    rows = [{"images": [make_image(i)], "views": ["PA"], "text": "is there edema?", "answers": "no"} for i in range(3)]
    settings = {"use_cpu": True, "report_to": [], "remove_unused_columns": False, "disable_tqdm": True}
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            str(tmp_path), predict_with_generate=True, generation_max_length=7, per_device_eval_batch_size=2, **settings
        ),
        data_collator=lambda batch: dict(processor(**{name: [row[name] for row in batch] for name in batch[0]})),
    )
    found = trainer.predict(rows).predictions  # padded by the trainer
    with torch.no_grad():
        batch = trainer.data_collator(rows)
        tokens = model.generate(**{name: batch[name] for name in batch if name != "labels"}, max_length=7)
    assert tokens.shape == (3, 7)
    assert found[:, :7].tolist() == tokens.tolist()
    assert not found[:, 7:].any()
    trainer.args.predict_with_generate = False
    assert trainer.predict(rows).predictions.shape[::2] == (3, 512)  # logits alone: no cache, no encoder states
