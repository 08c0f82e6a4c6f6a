"""Answers and their probabilities, as self-critical training asks for them, from both models."""

import pytest
import torch
from scst_models import ANSWERS, MODELS, QUESTIONS, make

from medvqa_hub.families.registry import is_decoder_only
from medvqa_hub.training.scst_loss import token_log_probabilities
from medvqa_hub.training.scst_rollout import (
    GumbelNoise,
    Prompts,
    answer_logits,
    encode_images,
    join_answers,
    read_prompts,
    read_references,
    roll_out,
    row_seed,
    switch_off_dropout,
)

SEEDS = [11, 12, 13]


@pytest.fixture(scope="module", params=MODELS)
def parts(request):
    """Model, processor, batch, prompts and encoded images."""
    model, processor, batch = make(request.param)
    return model, processor, batch, read_prompts(batch, is_decoder_only(model)), encode_images(model, batch)


def test_prompts_and_references_are_those_that_the_processor_makes(parts):
    _, processor, batch, prompts, _ = parts
    alone = processor(text=list(QUESTIONS))
    mask = alone["attention_mask"]
    assert torch.equal(prompts.attention_mask, mask)
    assert torch.equal(prompts.input_ids[mask.bool()], alone["input_ids"][mask.bool()])
    assert torch.equal(prompts.study_index, batch["study_index"])
    references = read_references(batch["labels"])
    tokenizer = processor.tokenizer
    assert [ids[-1] for ids in references.ids()] == [tokenizer.eos_token_id] * 3
    decoded = tokenizer.batch_decode(references.ids(), skip_special_tokens=True)
    plain = [processor.tokenizer(answer, add_special_tokens=False)["input_ids"] for answer in ANSWERS]
    assert decoded == tokenizer.batch_decode(plain)


def test_greedy_answers_are_the_models_own(parts):
    model, _, batch, prompts, encoded = parts
    greedy, _ = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=10)
    own = model.generate(
        input_ids=prompts.input_ids, attention_mask=prompts.attention_mask, encoder_outputs=encoded,
        study_index=prompts.study_index, max_new_tokens=10, do_sample=False,
    )  # fmt: skip
    own = own[:, prompts.input_ids.shape[1] :] if is_decoder_only(model) else own[:, 1:]
    assert len(own) == 3
    for ids, row in zip(greedy.ids(), own.tolist(), strict=True):
        assert ids == row[: len(ids)]


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_samples_are_drawn_from_the_distribution_whose_log_probabilities_are_trained(parts, temperature):
    """Every sampled token is the largest of teacher-forced logits / temperature plus the noise of its row's seed."""
    model, _, _, prompts, encoded = parts
    greedy, sample = roll_out(model, prompts, encoded, SEEDS, temperature, max_new_tokens=8)
    assert sample.ids() != greedy.ids()
    logits = answer_logits(model, prompts.repeat(2), join_answers(greedy, sample), encoded)
    assert torch.equal(logits[:3].argmax(-1)[greedy.mask], greedy.tokens[greedy.mask])
    noise = GumbelNoise(SEEDS, temperature, torch.device("cpu"))
    for place in range(sample.tokens.shape[1]):
        wanted = noise(None, logits[3:, place].float()).argmax(-1)
        here = sample.mask[:, place]
        assert torch.equal(wanted[here], sample.tokens[here, place])


def test_noise_draws_each_token_as_often_as_its_probability_says():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).expand(4001, 4)
    drawn = GumbelNoise(range(4000), 2.0, torch.device("cpu"))(None, logits)
    assert torch.equal(drawn[0], logits[0])  # the greedy row
    share = drawn[1:].argmax(-1).bincount(minlength=4) / 4000
    torch.testing.assert_close(share, (logits[0] / 2.0).softmax(-1), atol=0.03, rtol=0)  # four standard deviations


def test_a_sample_depends_on_its_seed_and_not_on_its_company(parts):
    model, _, batch, prompts, encoded = parts
    _, together = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=8)
    _, again = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=8)
    assert again.ids() == together.ids()
    _, other = roll_out(model, prompts, encoded, [seed + 1 for seed in SEEDS], max_new_tokens=8)
    assert other.ids() != together.ids()
    for row, seed in enumerate(SEEDS):
        alone = Prompts(prompts.input_ids[[row]], prompts.attention_mask[[row]], prompts.study_index[[row]])
        _, sample = roll_out(model, alone, encoded, [seed], max_new_tokens=8)
        assert sample.ids() == [together.ids()[row]]


def test_row_seeds_follow_run_step_and_question():
    seeds = {row_seed(seed, step, qa_id) for seed in (0, 1) for step in (0, 1, 11) for qa_id in ("a", "b")}
    assert len(seeds) == 12
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert row_seed(1, 2, "a") == row_seed(1, 2, "a", 0)
    assert len({row_seed(1, 2, "a", sample) for sample in range(5)}) == 5


def test_settings_of_the_model_s_own_do_not_reach_the_answers(parts):
    model, _, _, prompts, encoded = parts
    expected = [answers.ids() for answers in roll_out(model, prompts, encoded, SEEDS, max_new_tokens=8)]
    before = model.generation_config.to_dict()
    settings = {"num_beams": 3, "repetition_penalty": 3.0, "do_sample": True, "top_k": 2, "min_new_tokens": 8}
    model.generation_config.update(**settings, no_repeat_ngram_size=1, temperature=0.1)
    try:
        found = [answers.ids() for answers in roll_out(model, prompts, encoded, SEEDS, max_new_tokens=8)]
    finally:
        model.generation_config.update(**before)
    assert found == expected


def test_rolling_out_leaves_no_trace(parts):
    """No gradient, no draw from the global generator, no second look at the images, every module's mode as it was."""
    model, _, batch, prompts, _ = parts
    frozen = next(module for module in model.modules() if isinstance(module, torch.nn.LayerNorm))
    calls = []
    vision = model.model.encoder if is_decoder_only(model) else model.model.vision_model
    hook = vision.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        model.train()
        frozen.eval()
        encoded = encode_images(model, batch)
        state = torch.get_rng_state()
        greedy, _ = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=4)
        assert torch.equal(torch.get_rng_state(), state)
        assert model.training and not frozen.training
    finally:
        hook.remove()
        model.eval()
    assert len(calls) == 1
    assert not greedy.tokens.requires_grad and encoded[0].requires_grad


def test_without_dropout_training_and_evaluation_give_the_same_probabilities(parts):
    name = "swin_ved" if is_decoder_only(parts[0]) else "blip2_multiview"
    model, _, batch = make(name)
    prompts, references = read_prompts(batch, is_decoder_only(model)), read_references(batch["labels"])

    def logits() -> torch.Tensor:
        return answer_logits(model, prompts, references, encode_images(model, batch)).detach()

    expected = logits()
    model.train()
    assert (logits() - expected).abs().max() > 0.01
    switch_off_dropout(model)
    torch.testing.assert_close(logits(), expected, atol=1e-5, rtol=1e-5)


def test_the_reference_answers_loss_is_the_model_s_own(parts):
    model, _, batch, prompts, encoded = parts
    references = read_references(batch["labels"])
    log_probs = token_log_probabilities(answer_logits(model, prompts, references, encoded), references.tokens)
    inputs = {name: value for name, value in batch.items() if name != "rows"}
    assert -log_probs[references.mask].mean().item() == pytest.approx(model(**inputs).loss.item(), rel=1e-4)


def test_gradients_reach_the_image_encoder_and_are_finite(parts):
    model, _, batch, prompts, _ = parts
    encoded = encode_images(model, batch)
    _, sample = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=6)
    answers = join_answers(sample, read_references(batch["labels"]))
    log_probs = token_log_probabilities(answer_logits(model, prompts.repeat(2), answers, encoded), answers.tokens)
    log_probs.masked_fill(~answers.mask, 0).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    part = "model.encoder" if is_decoder_only(model) else "model.branches"
    assert any(name.startswith(part) and gradient.abs().sum() > 0 for name, gradient in gradients.items())
