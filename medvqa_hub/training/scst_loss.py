"""The loss of self-critical sequence training (SCST), as functions of tensors.

    L_reward = -(r(sample) - r(greedy)) * log P(sample)    per question, then the mean over questions    (paper, eq. 1)
    L        = alpha * L_reward + gamma * L_nll                                                          (paper, eq. 2)

log P(sample) is the sum over the sample's tokens through the first [EOS], as in equation 1 (`normalize: answer`). Only
this sum is the probability of the answer, and only its gradient is the unbiased gradient of the expected reward. The
released code divides by the number of tokens (`normalize: token`). The reward term is then smaller, so alpha, gamma and
the learning rate of one variant do not fit the other. docs/training.md has the ratio of the two gradients.

L_nll is the mean over the tokens of the reference answers, as in the supervised stages.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional


def token_log_probabilities(logits: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Log-probability (rows, tokens) of each token under softmax(logits / temperature), in float32 at least.

    Args:
        logits: (rows, tokens, vocabulary), already shifted so that they predict `tokens`.
        tokens: (rows, tokens) ids.
        temperature: of the sampling.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    losses = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    return -losses.view(tokens.shape)


def answer_log_probability(
    token_log_probs: torch.Tensor, mask: torch.Tensor, normalize: str = "answer"
) -> torch.Tensor:
    """Log-probability (rows,) of each answer: the sum over its tokens, or with `normalize` "token" their mean.

    Args:
        token_log_probs: (rows, tokens).
        mask: (rows, tokens) bool, True on the answer's tokens.
        normalize: "answer" (the paper's equation 1) or "token" (the released loop).
    """
    # Not a product, since -inf behind the [EOS] times 0 is NaN.
    total = token_log_probs.masked_fill(~mask, 0.0).sum(1)
    return total / mask.sum(1).clamp(min=1) if normalize == "token" else total


def advantages(sample_rewards: Sequence[float | None], greedy_rewards: Sequence[float | None]) -> torch.Tensor:
    """r(sample) - r(greedy) per sample (samples,) float32, or 0 if either could not be scored (None)."""
    pairs = zip(sample_rewards, greedy_rewards, strict=True)
    return torch.tensor([0.0 if sample is None or greedy is None else sample - greedy for sample, greedy in pairs])


def reward_loss(
    log_probs: torch.Tensor, advantage: torch.Tensor, num_samples: torch.Tensor | int | None = None
) -> torch.Tensor:
    """L_reward: the mean over samples of -advantage * log P(sample), without gradient through the advantage.

    Args:
        log_probs: (samples,) of `answer_log_probability`, the same number for each question.
        advantage: (samples,). Samples with advantage 0 still count in the mean.
        num_samples: the divisor, which is the number in all accumulated batches and processes. None: in this batch.
    """
    total = -(advantage.detach().to(log_probs) * log_probs).sum()
    return total / (len(log_probs) if num_samples is None else num_samples)


def nll_loss(
    token_log_probs: torch.Tensor, mask: torch.Tensor, num_tokens: torch.Tensor | int | None = None
) -> torch.Tensor:
    """L_nll: the mean over reference tokens of -log P, which is also the models' own loss.

    Args:
        token_log_probs: (questions, tokens) of the reference answers.
        mask: (questions, tokens) bool.
        num_tokens: the divisor, as in `reward_loss`.
    """
    total = -token_log_probs.masked_fill(~mask, 0.0).sum()
    return total / (mask.sum().clamp(min=1) if num_tokens is None else num_tokens)


def scst_loss(reward_term: torch.Tensor, nll_term: torch.Tensor, alpha: float = 0.6, gamma: float = 0.4):
    """L = alpha * L_reward + gamma * L_nll (equation 2, with the paper's weights)."""
    return alpha * reward_term + gamma * nll_term


@torch.no_grad()
def token_entropy(logits: torch.Tensor, mask: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Sum (rows,) over the masked tokens of the entropy in nats of each one's distribution.

    Args:
        logits: (rows, tokens, vocabulary). Each row is converted by itself, to save memory.
        mask: (rows, tokens) bool.
        temperature: that of the sampling.
    """
    sums = []
    for row, row_mask in zip(logits, mask, strict=True):
        sums.append(torch.special.entr((row[row_mask].float() / temperature).softmax(dim=-1)).sum())
    return torch.stack(sums)
