"""One self-critical step of both models: which way it moves, what it costs, what it says."""

import math

import pytest
import torch
from scst_models import MODELS, make

from medvqa_core.errors import InputError
from medvqa_hub.families.registry import is_decoder_only
from medvqa_hub.training.recipes import ScstSettings
from medvqa_hub.training.scst_loss import answer_log_probability, token_log_probabilities
from medvqa_hub.training.scst_rollout import (
    answer_logits,
    encode_images,
    read_prompts,
    roll_out,
    switch_off_dropout,
)
from medvqa_hub.training.scst_step import SUMS, SelfCriticalLoss, mean_metrics

SEEDS = [21, 22, 23]
SETTINGS = ScstSettings(max_new_tokens=6)
ONLY_REWARD = ScstSettings(alpha=1.0, gamma=0.0, max_new_tokens=6)


def values(samples: list, greedy: list):
    """A reward that gives the three sampled and the three greedy answers these values."""

    def fixed(completions, answer, **columns):
        assert len(completions) == len(answer) == len(columns["qa_id"]) >= 6
        assert answer[:3] == answer[3:6]
        return [*samples, *greedy]

    return fixed


@pytest.fixture(params=MODELS)
def parts(request):
    """Model in training mode without dropout, decoder of answers, and a batch with its rows."""
    model, processor, batch = make(request.param)
    switch_off_dropout(model.train())
    rows = batch.pop("rows")
    return model, lambda ids: processor.tokenizer.batch_decode(ids, skip_special_tokens=True), batch, rows


def log_probabilities(model, batch) -> torch.Tensor:
    """log P of the answers sampled with SEEDS by the model as it came."""
    encoded, prompts = encode_images(model, batch), read_prompts(batch, is_decoder_only(model))
    if not hasattr(model, "sampled_before"):
        model.sampled_before = roll_out(model, prompts, encoded, SEEDS, max_new_tokens=6)[1]
    sample = model.sampled_before
    logits = answer_logits(model, prompts, sample, encoded)
    return answer_log_probability(token_log_probabilities(logits, sample.tokens), sample.mask).detach()


@pytest.mark.parametrize(("better", "sign"), [(1.0, 1), (-1.0, -1)])
def test_a_better_sample_becomes_more_probable_and_a_worse_one_less(parts, better, sign):
    model, decode, batch, rows = parts
    before = log_probabilities(model, batch)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-6)
    loss, _ = SelfCriticalLoss(values([0, better, 0], [0, 0, 0]), decode, ONLY_REWARD)(model, batch, rows, SEEDS)
    assert loss.item() == pytest.approx(-better * before[1].item() / 3, rel=1e-4)
    loss.backward()
    optimizer.step()
    change = log_probabilities(model, batch)[1] - before[1]
    assert change * sign > 0


def test_per_token_a_sample_weighs_less_by_its_length(parts):
    """The released loop's term: -(advantage) x log P / tokens."""
    model, decode, batch, rows = parts
    before = log_probabilities(model, batch)
    lengths = model.sampled_before.mask.sum(1)
    per_token = ONLY_REWARD.model_copy(update={"normalize": "token"})
    reward = values([0.5, 1.0, -0.25], [0, 0, 0])
    loss, metrics = SelfCriticalLoss(reward, decode, per_token)(model, batch, rows, SEEDS)
    advantage = torch.tensor([0.5, 1.0, -0.25])
    assert loss.item() == pytest.approx(-(advantage * before / lengths).mean().item(), rel=1e-4)
    assert mean_metrics(metrics)["reward_loss"] == pytest.approx(loss.item(), rel=1e-4)
    whole, _ = SelfCriticalLoss(reward, decode, ONLY_REWARD)(model, batch, rows, SEEDS)
    assert abs(loss.item() - whole.item()) > 1e-3  # not the paper's


def test_more_samples_of_a_question_are_the_mean_of_single_ones(parts):
    model, decode, batch, rows = parts
    more_seeds = [31, 32, 33]
    two = SETTINGS.model_copy(update={"samples": 2})
    first, second, greedy = [1, 0, 0.2], [0.4, None, 0.7], [0, 0.5, 0]
    loss, metrics = SelfCriticalLoss(values(first + second, greedy), decode, two)(
        model, batch, rows, SEEDS + more_seeds, num_questions=3
    )
    single = [
        SelfCriticalLoss(values(sample, greedy), decode, SETTINGS)(model, batch, rows, seeds)[0].item()
        for sample, seeds in ((first, SEEDS), (second, more_seeds))
    ]
    assert loss.item() == pytest.approx(sum(single) / 2, rel=1e-4)
    logs = mean_metrics(metrics)
    assert metrics["samples"] == 6 and logs["unscorable"] == 1
    assert logs["sample_reward"] == pytest.approx((1 + 0 + 0.2 + 0.4 + 0.7) / 5)
    assert logs["greedy_reward"] == pytest.approx((0 + 0.5 + 0 + 0 + 0) / 5)


def test_equal_or_unscorable_rewards_leave_the_supervised_loss_alone(parts):
    model, decode, batch, rows = parts
    reward = values([0.3, None, 0.5], [0.3, 0.9, None])
    loss, metrics = SelfCriticalLoss(reward, decode, SETTINGS)(model, batch, rows, SEEDS)
    assert loss.item() == pytest.approx(0.4 * model(**batch).loss.item(), rel=1e-4)
    logs = mean_metrics(metrics)
    assert (logs["unscorable"], logs["zero_advantage_share"], logs["reward_loss"]) == (2, 1.0, 0.0)
    assert (logs["sample_reward"], logs["greedy_reward"]) == (0.3, 0.3)  # of the one that could be scored
    assert logs["nll_loss"] == pytest.approx(model(**batch).loss.item(), rel=1e-4)
    assert 0 < logs["sample_length"] <= 6 and 0 < logs["greedy_length"] <= 6
    assert 0 < logs["sample_entropy"] <= math.log(model.get_output_embeddings().out_features)


def test_only_unscorable_rewards_have_no_mean():
    logs = mean_metrics(dict.fromkeys(SUMS, 0) | {"samples": 3, "zero_advantage": 3, "sample_tokens": 9})
    assert logs["unscorable"] == 3
    assert "sample_reward" not in logs and "nll_loss" not in logs
    assert mean_metrics({}) == {}


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_reward_names_itself_and_the_question(parts, broken):
    model, decode, batch, rows = parts
    with pytest.raises(InputError, match="'fixed' .*(nan|inf).*sampled answer to qa-1"):
        SelfCriticalLoss(values([0, broken, 0], [0, 0, 0]), decode, SETTINGS)(model, batch, rows, SEEDS)
    with pytest.raises(InputError, match="greedy answer to qa-2"):
        SelfCriticalLoss(values([0, 0, 0], [0, 0, broken]), decode, SETTINGS)(model, batch, rows, SEEDS)
    with pytest.raises(InputError, match="4 values for 6"):
        SelfCriticalLoss(values([0, 0], [0, 0]), decode, SETTINGS)(model, batch, rows, SEEDS)


def test_images_are_encoded_once_and_one_pass_has_a_gradient(parts):
    model, decode, batch, rows = parts
    encoded, passes = [], []
    vision = model.model.encoder if is_decoder_only(model) else model.model.vision_model
    hooks = [
        vision.register_forward_pre_hook(lambda *_: encoded.append(torch.is_grad_enabled())),
        model.get_output_embeddings().register_forward_hook(
            lambda module, args, output: passes.append((output.requires_grad, len(output)))
        ),
    ]
    SelfCriticalLoss(values([1, 0, 0], [0, 0, 0]), decode, SETTINGS)(model, batch, rows, SEEDS)
    for hook in hooks:
        hook.remove()
    assert encoded == [True]
    assert [size for grad, size in passes if grad] == [6]  # three sampled and three reference answers together
    assert len(passes) <= 1 + 6  # and one pass per new token, for both kinds of answers


def test_the_reward_sees_the_answers_and_the_dataset_s_columns(parts):
    model, decode, batch, rows = parts
    seen = {}

    def reward(completions, **columns):
        seen.update(columns, completions=completions)
        return [0.0] * len(completions)

    SelfCriticalLoss(reward, decode, SETTINGS)(model, batch, rows, SEEDS)
    assert seen["qa_id"] == ["qa-0", "qa-1", "qa-2"] * 2
    assert seen["answer"] == [row["answer"] for row in rows] * 2
    assert set(seen) == {"completions", "answer", "qa_id", "question", "category"}
    assert all(isinstance(text, str) and "[" not in text for text in seen["completions"])


def test_a_wrapped_model_generates_inside_and_learns_through_the_wrapper(parts):
    """As in distributed training: one forward of the wrapper per step."""
    model, decode, batch, rows = parts

    class Wrapper(torch.nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.module = model

        def forward(self, **inputs):
            Wrapper.calls += 1
            return self.module(**inputs)

    reward = values([1, 0, 0], [0, 0, 0.5])
    alone, _ = SelfCriticalLoss(reward, decode, SETTINGS)(model, batch, rows, SEEDS)
    wrapped, _ = SelfCriticalLoss(reward, decode, SETTINGS)(Wrapper(), batch, rows, SEEDS)
    assert wrapped.item() == alone.item()
    assert Wrapper.calls == 1


def gradients(model, decode, batch, rows) -> dict[str, torch.Tensor]:
    model.zero_grad()
    reward = values([1, 0, 0.2], [0, 0.5, 0])
    SelfCriticalLoss(reward, decode, SETTINGS)(model, batch, rows, SEEDS)[0].backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_half_precision_trains_the_same_weights(parts):
    """Generating without gradient inside autocast must not leave casts behind that the pass with gradient takes."""
    expected = gradients(*parts)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(*parts)
    assert found.keys() == expected.keys()
    assert all(gradient.isfinite().all() for gradient in found.values())
    assert all(found[name].abs().sum() > 0 for name, gradient in expected.items() if gradient.abs().max() > 1e-3)


def test_gradient_checkpointing_changes_no_gradient(parts):
    model = parts[0]
    expected = gradients(*parts)
    model.activation_checkpointing_enable()
    found = gradients(*parts)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-4, rtol=1e-3, msg=name)


def test_the_data_parallel_wrapper_passes_encoded_images_on_with_their_graph(parts):
    """On a GPU it moves every argument to its device, unpacking and repacking what it finds in them."""
    from torch.distributed.utils import _to_kwargs

    model, _, batch, _ = parts
    encoded = encode_images(model, batch)
    _, moved = _to_kwargs((), {"encoder_outputs": encoded}, torch.device("cpu"), False)
    found = moved[0]["encoder_outputs"]
    assert type(found) is type(encoded) and found.keys() == encoded.keys()
    assert found[0].grad_fn is not None
