"""The loss of self-critical training against numbers worked out by hand."""

import math

import pytest
import torch

from medvqa_hub.families.registry import through_first_eos
from medvqa_hub.training.scst_loss import (
    advantages,
    answer_log_probability,
    nll_loss,
    reward_loss,
    scst_loss,
    token_entropy,
    token_log_probabilities,
)

EOS = 2
# Two sampled answers of three tokens over a vocabulary of four. The first ends with its second token.
SAMPLES = torch.tensor([[0, EOS, 3], [1, 3, 3]])
# Probabilities of the sampled tokens: 0.5, 0.25, (0.9, behind the end) and 0.2, 0.5, 0.1.
SAMPLED = [[0.5, 0.25, 0.9], [0.2, 0.5, 0.1]]
REFERENCES = torch.tensor([[1, EOS, 0], [3, 1, EOS]])
REFERRED = [[0.4, 0.5, 0.7], [0.8, 0.25, 0.5]]


def logits(tokens: torch.Tensor, probabilities: list[list[float]]) -> torch.Tensor:
    """(2, 3, 4) logits that give each token its probability and the three others an equal share of the rest."""
    wanted = torch.tensor(probabilities, dtype=torch.float64)
    spread = ((1 - wanted) / 3)[..., None].expand(2, 3, 4).clone()
    return spread.scatter(2, tokens[..., None], wanted[..., None]).log() + 1.7  # a constant changes no probability


def test_loss_of_two_answers_of_three_tokens_is_the_one_worked_out_by_hand():
    sampled = token_log_probabilities(logits(SAMPLES, SAMPLED), SAMPLES)
    referred = token_log_probabilities(logits(REFERENCES, REFERRED), REFERENCES)
    log_probs = answer_log_probability(sampled, through_first_eos(SAMPLES, EOS))
    # log(0.5 * 0.25) = -2.0794415; log(0.2 * 0.5 * 0.1) = -4.6051702
    assert log_probs.tolist() == pytest.approx([-2.0794415, -4.6051702], abs=1e-6)
    # Advantages 0.7 - 0.4 = 0.3 and 0.1 - 0.6 = -0.5: (0.3 * 2.0794415 - 0.5 * 4.6051702) / 2 = -0.8393763
    reward_term = reward_loss(log_probs, advantages([0.7, 0.1], [0.4, 0.6]))
    assert reward_term.item() == pytest.approx(-0.8393763, abs=1e-6)
    # -(log 0.4 + log 0.5 + log 0.8 + log 0.25 + log 0.5) / 5 = 3.9120230 / 5
    nll_term = nll_loss(referred, through_first_eos(REFERENCES, EOS))
    assert nll_term.item() == pytest.approx(0.7824046, abs=1e-6)
    # 0.6 * -0.8393763 + 0.4 * 0.7824046
    assert scst_loss(reward_term, nll_term).item() == pytest.approx(-0.1906640, abs=1e-6)


def test_gradient_is_advantage_times_probability_less_one_and_stops_at_the_end_of_the_answer():
    scores = logits(SAMPLES, SAMPLED).requires_grad_()
    mask = through_first_eos(SAMPLES, EOS)
    log_probs = answer_log_probability(token_log_probabilities(scores, SAMPLES), mask)
    reward_loss(log_probs, torch.tensor([0.3, -0.5])).backward()
    # d(-A log softmax(z)_k / 2) / dz_k = -A (1 - p_k) / 2 at the sampled token k.
    at_sampled = scores.grad.gather(2, SAMPLES[..., None])[..., 0]
    by_hand = [[-0.3 * 0.5 / 2, -0.3 * 0.75 / 2, 0.0], [0.5 * 0.8 / 2, 0.5 * 0.5 / 2, 0.5 * 0.9 / 2]]
    torch.testing.assert_close(at_sampled, torch.tensor(by_hand, dtype=torch.float64))
    assert torch.equal(scores.grad[0, 2], torch.zeros(4, dtype=torch.float64))


def test_impossible_tokens_behind_the_end_do_not_count():
    log_probs = torch.tensor([[-1.0, -2.0, -float("inf")], [-3.0, -1.0, -2.0], [-4.0, -1.0, -1.0]])
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    assert answer_log_probability(log_probs, mask).tolist() == [-3.0, -6.0, -4.0]
    assert answer_log_probability(log_probs, mask, "token").tolist() == [-1.5, -2.0, -4.0]


def test_an_answer_reaches_through_its_first_end_whatever_follows():
    tokens = torch.tensor([[7, EOS, EOS, 0], [EOS, 0, 0, 0], [1, 0, 1, 3], [0, 0, 0, EOS]])
    lengths = through_first_eos(tokens, EOS).sum(1)
    assert lengths.tolist() == [2, 1, 4, 4]  # never ended: whole; a 0, the padding, inside an answer is part of it
    assert through_first_eos(tokens, [EOS, 7]).sum(1).tolist() == [1, 1, 4, 4]


def test_answers_that_cannot_be_scored_teach_nothing_and_are_counted_in_the_mean():
    advantage = advantages([0.7, None, 0.9, None], [0.4, 0.5, None, None])
    assert advantage.tolist() == pytest.approx([0.3, 0, 0, 0])
    log_probs = torch.full((4,), -2.0, requires_grad=True)
    loss = reward_loss(log_probs, advantage)
    assert loss.item() == pytest.approx(0.3 * 2 / 4)
    loss.backward()
    assert log_probs.grad.tolist() == pytest.approx([-0.3 / 4, 0, 0, 0])


def test_losses_of_parts_add_up_to_the_loss_of_the_whole():
    """What gradient accumulation and several processes need: parts divided by the whole's counts."""
    torch.manual_seed(0)
    log_probs, advantage, mask = torch.randn(6, 5), torch.randn(6), torch.rand(6, 5) > 0.3
    parts = [slice(0, 1), slice(1, 4), slice(4, 6)]
    rewarded = [reward_loss(log_probs[part].sum(1), advantage[part], 6) for part in parts]
    assert sum(rewarded).item() == pytest.approx(reward_loss(log_probs.sum(1), advantage).item(), rel=1e-5)
    supervised = [nll_loss(log_probs[part], mask[part], mask.sum()) for part in parts]
    assert sum(supervised).item() == pytest.approx(nll_loss(log_probs, mask).item(), rel=1e-5)


def test_temperature_shapes_probabilities_and_entropy_alike():
    scores = torch.tensor([[[0.0, 2.0]], [[0.0, 2.0]]])
    tokens = torch.tensor([[1], [0]])
    found = token_log_probabilities(scores, tokens, temperature=2.0)
    high = 1 / (1 + math.exp(-1))
    assert found.flatten().tolist() == pytest.approx([math.log(high), math.log(1 - high)], rel=1e-5)
    entropy = token_entropy(scores, torch.tensor([[True], [False]]), temperature=2.0)
    by_hand = -high * math.log(high) - (1 - high) * math.log(1 - high)
    assert entropy.tolist() == pytest.approx([by_hand, 0.0], rel=1e-5)


def test_half_precision_logits_are_summed_in_single_precision():
    scores = torch.zeros(1, 3, 4, dtype=torch.bfloat16)
    found = token_log_probabilities(scores, torch.tensor([[0, 1, 2]]))
    assert found.dtype == torch.float32
    assert found.sum().item() == pytest.approx(-3 * math.log(4), rel=1e-6)
