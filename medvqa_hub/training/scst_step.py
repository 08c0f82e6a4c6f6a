"""One batch of self-critical training.

    encode -> greedy and sampled answers -> text -> rewards -> one pass with gradient over [sampled; reference] answers

Dropout must be off in the last pass too (`switch_off_dropout`), so that log P(sample) belongs to the distribution that
the sample was drawn from. The loss uses no global random generator, so batches may be split, accumulated and shared
among processes, and a resumed run draws the same samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from medvqa_hub.families.registry import is_decoder_only, unwrap
from medvqa_hub.training.recipes import ScstSettings
from medvqa_hub.training.rewards import Reward, check_rewards
from medvqa_hub.training.scst_loss import (
    advantages,
    answer_log_probability,
    nll_loss,
    reward_loss,
    scst_loss,
    token_entropy,
    token_log_probabilities,
)
from medvqa_hub.training.scst_rollout import (
    answer_logits,
    encode_images,
    join_answers,
    read_prompts,
    read_references,
    roll_out,
)

# Sums over the samples (or tokens) of a batch. Rewards are summed over the `scored` samples, which have a reward and a
# greedy answer with one. `zero_advantage` are samples without effect: unscorable, or as good as the greedy answer.
# `entropy` is that of the distribution of each sampled token, in nats. `reward_loss` is
# -(r(sample) - r(greedy)) * log P(sample), as `scst.normalize` defines it, and `nll` is -log P(reference).
# Lengths include [EOS]. A greedy answer counts once for every sample of its question.
SUMS = (
    "samples", "scored", "zero_advantage", "sample_reward", "greedy_reward", "sample_tokens", "greedy_tokens",
    "reference_tokens", "entropy", "reward_loss", "nll",
)  # fmt: skip
MEANS = {  # in the log -> of SUMS, and their number
    "sample_reward": ("sample_reward", "scored"),
    "greedy_reward": ("greedy_reward", "scored"),
    "zero_advantage_share": ("zero_advantage", "samples"),
    "sample_length": ("sample_tokens", "samples"),
    "greedy_length": ("greedy_tokens", "samples"),
    "sample_entropy": ("entropy", "sample_tokens"),
    "reward_loss": ("reward_loss", "samples"),
    "nll_loss": ("nll", "reference_tokens"),
}


def mean_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """Means of SUMS, and the number of unscorable samples. Means over nothing are left out."""
    logs = {name: sums[total] / sums[count] for name, (total, count) in MEANS.items() if sums.get(count)}
    return {**logs, "unscorable": sums["samples"] - sums["scored"]} if sums.get("samples") else logs


@dataclass(frozen=True)
class SelfCriticalLoss:
    """Computes the loss of a batch.

    Attributes:
        reward: see `rewards`.
        decode: turns token ids of answers into texts.
        settings: weights, samples per question, temperature and length.
    """

    reward: Reward
    decode: Callable[[list[list[int]]], list[str]]
    settings: ScstSettings

    def __call__(
        self,
        model: nn.Module,
        batch: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        seeds: Sequence[int],
        num_tokens: torch.Tensor | int | None = None,
        num_questions: torch.Tensor | int | None = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss of one batch and its SUMS.

        Args:
            model: a model, compiled or in DistributedDataParallel. Only the pass with gradient uses the wrapper.
            batch: the processor's output for images, questions and answers.
            rows: the dataset's row of each question, with `qa_id` and `answer`.
            seeds: of the samples, as in `roll_out`.
            num_tokens: reference tokens by which L_nll is divided. None: of this batch.
            num_questions: questions by which L_reward is divided. None: of this batch.

        Raises:
            InputError: the reward returned a value that is not a finite number.
        """
        settings = self.settings
        inner = unwrap(model)
        encoded = encode_images(inner, batch)
        prompts, references = read_prompts(batch, is_decoder_only(inner)), read_references(batch["labels"])
        greedy, sample = roll_out(inner, prompts, encoded, seeds, settings.temperature, settings.max_new_tokens)
        sample_rewards, greedy_rewards = _score(self.reward, self.decode(sample.ids()), self.decode(greedy.ids()), rows)
        greedy_rewards = list(greedy_rewards) * settings.samples
        advantage = advantages(sample_rewards, greedy_rewards)

        answers = join_answers(sample, references)
        logits = answer_logits(model, prompts.repeat(settings.samples + 1), answers, encoded)
        sampled, referred = logits.split([len(advantage), len(rows)])
        sampled, referred = sampled[:, : sample.tokens.shape[1]], referred[:, : references.tokens.shape[1]]
        log_probs = answer_log_probability(
            token_log_probabilities(sampled, sample.tokens, settings.temperature), sample.mask, settings.normalize
        )
        reference_log_probs = token_log_probabilities(referred, references.tokens)
        num_samples = None if num_questions is None else num_questions * settings.samples
        loss = scst_loss(
            reward_loss(log_probs, advantage, num_samples),
            nll_loss(reference_log_probs, references.mask, num_tokens),
            settings.alpha,
            settings.gamma,
        )
        both = zip(sample_rewards, greedy_rewards, strict=True)
        pairs = [(ours, base) for ours, base in both if ours is not None and base is not None]
        sums = {
            "samples": len(advantage),
            "scored": len(pairs),
            "zero_advantage": (advantage == 0).sum().item(),
            "sample_reward": sum(pair[0] for pair in pairs),
            "greedy_reward": sum(pair[1] for pair in pairs),
            "sample_tokens": sample.mask.sum().item(),
            "greedy_tokens": greedy.mask.sum().item() * settings.samples,
            "reference_tokens": references.mask.sum().item(),
            "entropy": token_entropy(sampled, sample.mask, settings.temperature).sum().item(),
            "reward_loss": reward_loss(log_probs.detach(), advantage, 1).item(),
            "nll": nll_loss(reference_log_probs.detach(), references.mask, 1).item(),
        }
        return loss, sums


def _score(
    reward: Reward, samples: list[str], greedy: list[str], rows: Sequence[Mapping[str, Any]]
) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Rewards of sampled and greedy answers from one call, so that shared texts are encoded once."""
    asked = [*rows] * (len(samples) // len(rows) + 1)
    columns = {name: [row[name] for row in asked] for name in rows[0] if all(name in row for row in rows)}
    values = reward(samples + greedy, **columns)
    kinds = ["sampled"] * len(samples) + ["greedy"] * len(greedy)
    answers = [f"the {kind} answer to {row['qa_id']}" for kind, row in zip(kinds, asked, strict=True)]
    check_rewards(values, answers, getattr(reward, "__name__", type(reward).__name__))
    return values[: len(samples)], values[len(samples) :]
