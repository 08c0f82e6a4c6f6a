"""Sampled and greedy answers of a model, and their probabilities.

1. `encode_images` runs once. The features serve the answers (detached) and the probabilities (with their gradient).
2. `roll_out` generates greedy and sampled answers in one call of `generate`, without gradient and with the cache.
3. `answer_logits` is one teacher-forced pass with gradient over sampled and reference answers.

SwinVED continues its prompt, `[CLS] question [BOS] answer [EOS]`. Prompts are padded on the left, so every answer
begins in the same column. BLIP-2-MultiView encodes the question and writes the answer in its decoder.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.utils import ModelOutput

from medvqa_hub.families.registry import image_inputs, is_decoder_only, through_first_eos, unwrap

# `generate` would take unset values from the model's own settings. Each of these changes the distribution of answers.
NEUTRAL = {
    "do_sample": False, "num_beams": 1, "num_return_sequences": 1, "min_new_tokens": 0,
    "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0, "guidance_scale": 1.0, "remove_invalid_values": False,
}  # fmt: skip


@dataclass(frozen=True)
class Prompts:
    """Questions as the model reads them.

    Attributes:
        input_ids: (questions, tokens).
        attention_mask: (questions, tokens), 0 on padding.
        study_index: (questions,) the study of each.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    study_index: torch.Tensor

    def repeat(self, times: int) -> "Prompts":
        """All questions, repeated as a whole: (times x questions, ...)."""
        parts = (self.input_ids, self.attention_mask, self.study_index)
        return Prompts(*(torch.cat([part] * times) for part in parts))

    def select(self, rows: torch.Tensor) -> "Prompts":
        """Some of the questions, without columns of padding only."""
        used = self.attention_mask[rows].any(0)
        return Prompts(self.input_ids[rows][:, used], self.attention_mask[rows][:, used], self.study_index[rows])


@dataclass(frozen=True)
class Answers:
    """Answers without their prompts.

    Attributes:
        tokens: (rows, tokens), padded on the right.
        mask: (rows, tokens) bool, True through the first [EOS].
    """

    tokens: torch.Tensor
    mask: torch.Tensor

    def select(self, rows: torch.Tensor) -> "Answers":
        """Some of the answers, cut to the longest of them."""
        width = int(self.mask[rows].sum(1).max())
        return Answers(self.tokens[rows, :width], self.mask[rows, :width])

    def ids(self) -> list[list[int]]:
        """Each answer's tokens, for decoding."""
        return [row[:length] for row, length in zip(self.tokens.tolist(), self.mask.sum(1).tolist(), strict=True)]


def encode_images(model: nn.Module, batch: Mapping[str, Any]) -> ModelOutput:
    """Encode the batch's studies once. The graph is kept if a part of the encoder is trained."""
    return model.encode(**image_inputs(batch))


def detached(encoded: ModelOutput) -> ModelOutput:
    """The same features without their graph."""
    return type(encoded)(**{name: value.detach() for name, value in encoded.items()})


def read_prompts(batch: Mapping[str, Any], decoder_only: bool) -> Prompts:
    """The questions of a training batch.

    Args:
        batch: `input_ids` and `attention_mask`. For a decoder-only model they include the answers, which `labels`
            mark (-100 elsewhere). Without `study_index`, question i is about study i.
        decoder_only: see `is_decoder_only`.
    """
    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    if decoder_only:
        mask = mask & (batch["labels"] == -100)
        ids, mask = _gather(ids, mask, left=True)
    index = batch.get("study_index")
    if index is None:
        index = torch.arange(len(ids), device=ids.device)
    return Prompts(ids, mask.long(), index)


def read_references(labels: torch.Tensor) -> Answers:
    """The reference answers in `labels` (questions, tokens), which are -100 elsewhere."""
    return Answers(*_gather(labels, labels != -100, left=False))


def join_answers(first: Answers, second: Answers) -> Answers:
    """The rows of both, (rows of first + rows of second, longest)."""
    width = max(first.tokens.shape[1], second.tokens.shape[1])
    parts = []
    for answers in (first, second):
        room = (0, width - answers.tokens.shape[1])
        parts.append([nn.functional.pad(part, room) for part in (answers.tokens, answers.mask)])
    return Answers(*(torch.cat(pair) for pair in zip(*parts, strict=True)))


def row_seed(seed: int, step: int, qa_id: str, sample: int = 0) -> int:
    """Seed of sample number `sample` of a question, which does not depend on its place in the batch."""
    text = f"{seed}\n{step}\n{qa_id}" + (f"\n{sample}" if sample else "")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class GumbelNoise(LogitsProcessor):
    """Turns greedy search into sampling for the last rows of a batch.

    The largest of logits / temperature + Gumbel noise is an exact draw from softmax(logits / temperature), so greedy
    and sampled answers can share one call of `generate`. Each row has its own generator, so a draw does not depend on
    the other rows or the global generator.

    Args:
        seeds: of the rows to sample, which are the last of the batch.
        temperature: of the sampling.
        device: where the scores are.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, device: torch.device) -> None:
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature = temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores (rows, vocabulary) with noise on the last rows."""
        greedy, sampled = scores.tensor_split([len(scores) - len(self.generators)])
        noise = torch.empty_like(sampled)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return torch.cat([greedy, sampled / self.temperature - noise.log()])


@torch.no_grad()
def roll_out(
    model: nn.Module,
    prompts: Prompts,
    encoded: ModelOutput,
    seeds: Sequence[int],
    temperature: float = 1.0,
    max_new_tokens: int = 128,
) -> tuple[Answers, Answers]:
    """A greedy answer to each question, and samples, in that order, without gradient and without dropout.

    Args:
        model: not wrapped for distributed training.
        prompts: the questions.
        encoded: from `encode_images`.
        seeds: one per sample, see `row_seed`: the first sample of every question, then the second of every question, …
        temperature: of the sampling, which uses no top-k, top-p or penalties.
        max_new_tokens: limit of an answer without [EOS].
    """
    questions = len(prompts.input_ids)
    asked = prompts.repeat(1 + len(seeds) // questions)
    noise = GumbelNoise(seeds, temperature, asked.input_ids.device)
    with evaluation_mode(model):
        sequences = model.generate(
            input_ids=asked.input_ids,
            attention_mask=asked.attention_mask,
            study_index=asked.study_index,
            encoder_outputs=detached(encoded),
            generation_config=GenerationConfig(max_new_tokens=max_new_tokens, use_cache=True, **NEUTRAL),
            logits_processor=LogitsProcessorList([noise]),
        )
    # Answers begin with the prompt, or with the token that starts the decoder of an encoder-decoder model.
    start = asked.input_ids.shape[1] if is_decoder_only(model) else 1
    tokens = sequences[:, start:]
    mask = through_first_eos(tokens, model.generation_config.eos_token_id)
    return Answers(tokens[:questions], mask[:questions]), Answers(tokens[questions:], mask[questions:])


def answer_logits(model: nn.Module, prompts: Prompts, answers: Answers, encoded: ModelOutput) -> torch.Tensor:
    """Teacher-forced logits (rows, tokens, vocabulary). Those at place t predict token t of each answer.

    Args:
        model: may be wrapped for distributed training.
        prompts: one per row of `answers`.
        encoded: from `encode_images`, with its graph if the encoder is trained.
    """
    inputs = {"study_index": prompts.study_index, "encoder_outputs": encoded, "use_cache": False}
    inner = unwrap(model)
    if is_decoder_only(inner):
        # The last token predicts nothing. Logits are kept where they predict a token of an answer.
        inputs["input_ids"] = torch.cat([prompts.input_ids, answers.tokens], 1)[:, :-1]
        inputs["attention_mask"] = torch.cat([prompts.attention_mask, answers.mask.long()], 1)[:, :-1]
        inputs["logits_to_keep"] = answers.tokens.shape[1]
    else:
        inputs["input_ids"], inputs["attention_mask"] = prompts.input_ids, prompts.attention_mask
        start = answers.tokens.new_full((len(answers.tokens), 1), inner.config.decoder_start_token_id)
        inputs["decoder_input_ids"] = torch.cat([start, answers.tokens], 1)[:, :-1]
    return model(**inputs).logits


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put `model` into evaluation mode, then restore the mode of each module."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def switch_off_dropout(model: nn.Module) -> None:
    """Set every dropout and drop-path probability of `model` to 0. Its configuration keeps the values.

    Evaluation mode would also disable gradient checkpointing, and what BLIP-2-MultiView does for distributed training.
    """
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name in ("drop_prob", "dropout", "attention_dropout"):  # DropPath; T5's and the vision tower's attention
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _gather(values: torch.Tensor, mask: torch.Tensor, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Move the masked values of each row together and pad with 0. Returns them with their mask."""
    order = torch.argsort(mask.int(), dim=1, stable=True, descending=not left)
    longest = int(mask.sum(1).max())
    order = order[:, order.shape[1] - longest :] if left else order[:, :longest]
    mask = mask.gather(1, order)
    return values.gather(1, order).masked_fill(~mask, 0), mask
