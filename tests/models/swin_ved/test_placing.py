"""SwinVED in the hands of Trainer and accelerate: checkpoints to go on from, weights on other devices, gradients."""

import pytest
import torch
from accelerate import infer_auto_device_map
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedModel
from swin_ved_tiny import pad, questions, studies, tiny_model
from transformers import AutoModelForImageTextToText, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, row: int) -> int:
        return row


def collate(rows: list[int]) -> dict[str, torch.Tensor]:
    input_ids, mask = pad([questions((3 + row % 3,), seed=row)[0] for row in rows], left=False)
    pixels = torch.cat([studies(1, images=1, seed=row) for row in rows])
    return {
        "input_ids": input_ids, "attention_mask": mask, "pixel_values": pixels,
        "labels": input_ids.masked_fill(mask == 0, -100),
    }  # fmt: skip


def trainer(folder, seed: int, **changes) -> Trainer:
    torch.manual_seed(seed)
    model = SwinVedForConditionalGeneration(SwinVedConfig.tiny(vocab_size=50))
    arguments = TrainingArguments(
        str(folder), max_steps=4, per_device_train_batch_size=2, learning_rate=1e-3, save_steps=2, eval_steps=2,
        eval_strategy="steps", report_to="none", use_cpu=True, remove_unused_columns=False, disable_tqdm=True,
        **changes,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=Rows(), eval_dataset=Rows(), data_collator=collate)


def assert_equal_weights(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    pairs = theirs.state_dict()
    assert [name for name, value in ours.state_dict().items() if not torch.equal(value, pairs[name])] == []


def test_training_goes_on_from_a_checkpoint_exactly(tmp_path):
    whole = trainer(tmp_path, seed=0)
    whole.train()
    again = trainer(tmp_path, seed=99)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 4
    assert_equal_weights(whole.model, again.model)


def test_the_best_checkpoint_is_loaded_whole(tmp_path):
    best = trainer(tmp_path, 0, load_best_model_at_end=True, metric_for_best_model="eval_loss", greater_is_better=True)
    best.train()
    assert best.state.best_model_checkpoint.endswith("checkpoint-2")  # the higher loss, so not simply the last
    saved = AutoModelForImageTextToText.from_pretrained(best.state.best_model_checkpoint)
    assert_equal_weights(saved, best.model)


def inputs() -> dict[str, torch.Tensor]:
    input_ids, mask = pad(questions((3, 5)), left=True)
    image_mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    return {"input_ids": input_ids, "attention_mask": mask, "pixel_values": studies(2), "image_mask": image_mask}


@pytest.mark.parametrize("part", ["model", "decoder"])
def test_a_half_that_stays_on_disk_gives_the_same(tmp_path, part):
    model = tiny_model()
    model.save_pretrained(tmp_path)
    places = {"model": "cpu", "decoder": "cpu", part: "disk"}
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path, device_map=places, offload_folder=tmp_path / "off")
    assert any(parameter.is_meta for parameter in getattr(loaded, part).parameters())
    assert torch.equal(loaded(**inputs()).logits, model(**inputs()).logits)
    assert torch.equal(loaded.generate(**inputs(), max_new_tokens=3), model.generate(**inputs(), max_new_tokens=3))


def test_stages_and_layers_are_not_split_between_devices():
    """Each adds its input to its output, so both must be on one device."""
    model = tiny_model()
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    split, shared = set(), 0
    for share in range(1, 20):
        room = {"cpu": size * share // 20, "disk": 10 * size}
        places = infer_auto_device_map(model, max_memory=room, no_split_module_classes=list(model._no_split_modules))
        split |= {name for name in places if ".blocks." in name or ".layer." in name and name.count(".") > 4}
        shared += len(set(places.values())) == 2
    assert shared > 5
    assert split == set()


def encoded_gradients(model: SwinVedForConditionalGeneration) -> bool:
    return model.encode(studies(1)).last_hidden_state.requires_grad


def test_checkpointing_keeps_no_graph_of_a_frozen_encoder():
    model = tiny_model()
    model.freeze_encoder()
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    assert not encoded_gradients(model.train())
    model.model.encoder.layernorm.weight.requires_grad_(True)  # part of it is trained after all, as with an adapter
    pixels = []
    hook = model.model.encoder.embeddings.register_forward_hook(lambda module, args, output: pixels.append(output[0]))
    assert encoded_gradients(model)
    hook.remove()
    assert pixels[0].requires_grad
    model.requires_grad_(False)
    words = model.decoder.get_input_embeddings()
    assert words(torch.tensor([[7]])).requires_grad  # adapters on the decoder need it


@pytest.mark.parametrize("make", [tiny_model, lambda: SwinVedModel(SwinVedConfig.tiny())], ids=["whole", "image half"])
def test_input_gradients_can_be_switched_off_however_often_they_were_switched_on(make):
    model = make()
    for _ in range(2):
        model.enable_input_require_grads()
    assert sum(len(module._forward_hooks) for module in model.modules()) in (1, 2)  # one for each half
    model.disable_input_require_grads()
    assert not any(module._forward_hooks for module in model.modules())
