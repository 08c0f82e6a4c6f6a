"""SwinVED in training: losses that do not depend on how they are computed, what is trained, and that it learns."""

import pytest
import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration
from swin_ved_tiny import exact_model, pad, questions, studies, tiny_model


@pytest.fixture(scope="module")
def model() -> SwinVedForConditionalGeneration:
    return tiny_model()


def inputs() -> dict[str, torch.Tensor]:
    input_ids, mask = pad(questions((3, 5)), left=True)
    return {"input_ids": input_ids, "attention_mask": mask, "pixel_values": studies(2)}


def test_gradient_checkpointing_changes_neither_loss_nor_gradients():
    model = exact_model()
    batch = {**inputs(), "labels": inputs()["input_ids"], "image_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}
    batch["study_index"] = torch.tensor([1, 1])
    results = []
    for _ in range(2):
        model.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        results.append((loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}))
        model.train()
        for module in model.modules():  # checkpointing works in training mode only; dropout would blur the comparison
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if hasattr(module, "drop_prob"):
                module.drop_prob = 0.0
        model.activation_checkpointing_enable()
    assert results[0][1].keys() == results[1][1].keys()
    assert model.decoder.bert.encoder.layer[0].gradient_checkpointing
    assert model.model.encoder.encoder.layers[0].gradient_checkpointing
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    for name, gradient in results[0][1].items():
        torch.testing.assert_close(results[1][1][name], gradient, atol=1e-9, rtol=1e-9)


def test_freezing_the_encoder_leaves_the_decoder(model):
    frozen = tiny_model()
    frozen.freeze_encoder()
    trained = {name.split(".")[0] for name, parameter in frozen.named_parameters() if parameter.requires_grad}
    assert trained == {"decoder"}


def test_it_learns_answers_that_only_the_images_tell_apart():
    torch.manual_seed(0)
    model = SwinVedForConditionalGeneration(SwinVedConfig.tiny(vocab_size=50)).train()
    prompt = questions((4,))[0].repeat(2, 1)
    answers = torch.tensor([[20, 21, 6], [30, 31, 6]])
    batch = {
        "input_ids": torch.cat([prompt, answers], 1),
        "labels": torch.cat([torch.full_like(prompt, -100), answers], 1),
        "pixel_values": studies(2, images=1),
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(60):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tokens = model.eval().generate(prompt, pixel_values=batch["pixel_values"], max_new_tokens=3)
    assert tokens[:, -3:].tolist() == answers.tolist()


def test_adapters_train_on_the_decoder_alone():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_model(), LoraConfig(target_modules=["query", "value"], r=2))
    loss = model(**inputs(), labels=inputs()["input_ids"]).loss
    loss.backward()
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 2 * 2 * 2  # layers, self- and cross-attention, query and value, A and B
    assert all(".decoder." in name and "lora" in name for name in trained)
    assert any(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_loss_is_shared_out_over_accumulated_batches(model):
    """Trainer passes the number of target tokens of all accumulated batches."""
    labels = inputs()["input_ids"]
    mean = model(**inputs(), labels=labels).loss
    total = model(**inputs(), labels=labels, num_items_in_batch=torch.tensor(30)).loss
    assert (total * 30).item() == pytest.approx((mean * labels[:, 1:].numel()).item(), rel=1e-5)


def test_mixed_precision_gives_nearly_the_same_loss(model):
    batch = {**inputs(), "labels": inputs()["input_ids"], "image_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch).loss
    assert loss.item() == pytest.approx(model(**batch).loss.item(), rel=0.05)
