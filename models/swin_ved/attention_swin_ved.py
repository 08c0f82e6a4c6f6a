"""Cross-attention that shares a study's image features among all its questions and beams.

Usually the features, keys and values are repeated for every question and beam (10 MiB in float32 each). Here there is
one copy per study. The queries of a study's questions are concatenated (`fold`), attend in one call, and are split
again (`unfold`). The result is the same, because queries do not depend on each other. Studies with fewer questions are
padded.
"""

from typing import Any

import torch
from transformers import BertGenerationConfig, BertGenerationDecoder, DynamicCache, EncoderDecoderCache
from transformers.models.bert_generation.modeling_bert_generation import BertGenerationCrossAttention


class StudyFold:
    """Maps rows (questions, or their beams) to studies.

    Args:
        study_index: (questions,) study of each row.
        studies: number of studies.
    """

    def __init__(self, study_index: torch.Tensor, studies: int) -> None:
        counts = torch.bincount(study_index, minlength=studies)
        self.studies, self.slots = studies, int(counts.max())
        # The slot of a row within its study is its rank in a stable sort minus the first rank of the study.
        order = torch.argsort(study_index, stable=True)
        ranks = torch.empty_like(order)
        ranks[order] = torch.arange(len(order), device=order.device)
        starts = counts.cumsum(0) - counts
        self.places = study_index * self.slots + ranks - starts[study_index]
        # Padding slots repeat row 0. Their results are dropped.
        self.rows = torch.zeros(studies * self.slots, dtype=torch.long, device=study_index.device)
        self.rows[self.places] = torch.arange(len(order), device=order.device)

    def fold(self, states: torch.Tensor) -> torch.Tensor:
        """(questions, tokens, width) -> (studies, slots * tokens, width)."""
        return states[self.rows].reshape(self.studies, self.slots * states.shape[1], states.shape[2])

    def unfold(self, states: torch.Tensor) -> torch.Tensor:
        """(studies, slots * tokens, width) -> (questions, tokens, width)."""
        states = states.reshape(self.studies * self.slots, states.shape[1] // self.slots, states.shape[2])
        return states[self.places]

    def unfold_weights(self, weights: torch.Tensor) -> torch.Tensor:
        """Attention weights (studies, heads, slots * tokens, keys) -> (questions, heads, tokens, keys)."""
        studies, heads, queries, keys = weights.shape
        weights = weights.reshape(studies, heads, self.slots, queries // self.slots, keys).transpose(1, 2)
        return weights.reshape(studies * self.slots, heads, queries // self.slots, keys)[self.places]


class StudyCrossAttention(BertGenerationCrossAttention):
    """BertGeneration's cross-attention on folded queries. Without a fold, question i attends to study i."""

    def forward(
        self, hidden_states: torch.Tensor, *args: Any, study_fold: StudyFold | None = None, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if study_fold is None:
            return super().forward(hidden_states, *args, **kwargs)
        output, weights = super().forward(study_fold.fold(hidden_states), *args, **kwargs)
        return study_fold.unfold(output), None if weights is None else study_fold.unfold_weights(weights)


class SwinVedDecoder(BertGenerationDecoder):
    """BertGeneration's decoder and language-model head with `StudyCrossAttention` in every layer."""

    def __init__(self, config: BertGenerationConfig) -> None:
        super().__init__(config)
        for index, layer in enumerate(self.bert.encoder.layer):
            layer.crossattention.self = StudyCrossAttention(config, is_causal=False, layer_idx=index)
        self.post_init()


class StudyCache(EncoderDecoderCache):
    """Cache with a row per question (or beam) for self-attention and a row per study for cross-attention.

    Beam search reorders the rows of self-attention only.
    """

    def __init__(self, self_attention_cache: Any = None, cross_attention_cache: Any = None) -> None:
        # `is None` instead of `or`, because an empty cache is falsy.
        super().__init__(
            DynamicCache() if self_attention_cache is None else self_attention_cache,
            DynamicCache() if cross_attention_cache is None else cross_attention_cache,
        )
        self.study_fold: StudyFold | None = None
        self.study_index: torch.Tensor | None = None  # what the fold was made from

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)

    def reset(self) -> None:
        super().reset()
        self.study_fold = self.study_index = None


def study_fold(study_index: torch.Tensor | None, studies: int, cache: StudyCache | None) -> StudyFold | None:
    """Return the fold of `study_index`. Decoding steps pass the same object and reuse the fold in the cache."""
    if study_index is None:
        return None
    if cache is None:
        return StudyFold(study_index, studies)
    fold = cache.study_fold
    if fold is None or cache.study_index is not study_index or fold.studies != studies:
        cache.study_fold, cache.study_index = StudyFold(study_index, studies), study_index
    return cache.study_fold


def additive_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """(studies, keys) bool -> (studies, 1, 1, keys), 0 to attend and the lowest number to ignore."""
    if mask is None:
        return None
    return (~mask).to(dtype)[:, None, None] * torch.finfo(dtype).min
