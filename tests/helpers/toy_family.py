"""A third model family for the tests: a bigram model that also sees the mean grey of a study's images.

Its file and a line in `FAMILIES` are all that training and evaluation need; nothing of it is SwinVED's or BLIP-2's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    BatchFeature,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ProcessorMixin,
)
from transformers.modeling_outputs import CausalLMOutput
from transformers.utils import ModelOutput

from medvqa_core.settings import Section
from medvqa_hub.families.registry import ModelFamily


class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    def __init__(self, vocab_size: int = 8, width: int = 8, **kwargs: Any) -> None:
        self.vocab_size, self.width, self.num_hidden_layers = vocab_size, width, 1
        super().__init__(**kwargs)


@dataclass
class ToyFeatures(ModelOutput):
    """grey: (studies, 1)."""

    grey: torch.Tensor | None = None


class ToyModel(PreTrainedModel, GenerationMixin):
    config_class = ToyConfig
    main_input_name = "input_ids"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.width)
        self.images = nn.Linear(1, config.width)
        self.head = nn.Linear(config.width, config.vocab_size)
        self.post_init()

    def encode(self, greys: torch.Tensor) -> ToyFeatures:
        """greys: (studies, 1)."""
        return ToyFeatures(greys)

    def forward(
        self, input_ids, attention_mask=None, greys=None, study_index=None, encoder_outputs=None, labels=None,
        num_items_in_batch=None, logits_to_keep=0, **kwargs,
    ) -> CausalLMOutput:  # fmt: skip
        encoded = self.encode(greys) if encoder_outputs is None else encoder_outputs
        grey = encoded.grey if study_index is None else encoded.grey[study_index]
        hidden = self.words(input_ids) + self.images(grey)[:, None]
        logits = self.head(hidden)[:, -logits_to_keep:]
        if labels is None:
            return CausalLMOutput(logits=logits)
        predicted, targets = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = nn.functional.cross_entropy(predicted, targets, reduction="sum")
        wanted = (targets != -100).sum() if num_items_in_batch is None else num_items_in_batch
        return CausalLMOutput(loss=loss / wanted, logits=logits)

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        given = ("attention_mask", "study_index", "encoder_outputs")
        return {"input_ids": input_ids, **{name: kwargs[name] for name in given}}


class ToyProcessor(ProcessorMixin):
    def __init__(self, tokenizer: Any, chat_template: str | None = None) -> None:
        super().__init__(tokenizer, chat_template=chat_template)

    def __call__(self, images=None, text=None, answers=None, study_index=None) -> BatchFeature:
        batch = {}
        if images is not None:
            means = [[np.mean([np.asarray(image.convert("L")).mean() / 255 for image in study])] for study in images]
            batch["greys"] = torch.tensor(means, dtype=torch.float32)
        if text is not None:
            prompts = [[*self._ids(question), self.tokenizer.bos_token_id] for question in text]
            ends = [[*self._ids(answer), self.tokenizer.eos_token_id] for answer in answers or []]
            rows = [a + b for a, b in zip(prompts, ends or [[]] * len(prompts), strict=True)]
            longest = max(map(len, rows))
            left = answers is None
            batch["input_ids"] = self._pad(rows, longest, self.tokenizer.pad_token_id, left)
            batch["attention_mask"] = self._pad([[1] * len(row) for row in rows], longest, 0, left)
            if answers is not None:
                labels = [[-100] * len(a) + b for a, b in zip(prompts, ends, strict=True)]
                batch["labels"] = self._pad(labels, longest, -100, left)
            if study_index is not None:
                batch["study_index"] = torch.tensor(study_index)
        return BatchFeature(batch)

    def batch_decode(self, sequences: torch.Tensor, **kwargs: Any) -> list[str]:
        rows = [row[row.index(self.tokenizer.bos_token_id) + 1 :] for row in sequences.tolist()]
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @staticmethod
    def _pad(rows: list[list[int]], longest: int, filling: int, left: bool) -> torch.Tensor:
        padded = [[filling] * (longest - len(row)) for row in rows]
        return torch.tensor([p + row if left else row + p for p, row in zip(padded, rows, strict=True)])


class ToySettings(Section):
    kind: Literal["toy"] = "toy"
    width: PositiveInt = 8


class Toy(ModelFamily):
    name = "toy"
    title = "Toy"
    settings = ToySettings
    groups = {"images": r"^images\.", "language": r"^(words|head)\."}

    def register(self) -> None:
        AutoConfig.register("toy", ToyConfig, exist_ok=True)
        AutoModelForImageTextToText.register(ToyConfig, ToyModel, exist_ok=True)
        AutoProcessor.register(ToyConfig, ToyProcessor, exist_ok=True)

    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **words: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        return processor(images=images, **words)

    def new(self, settings: ToySettings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
        from tokenizers import Tokenizer, models, pre_tokenizers

        special = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"]
        words = sorted({word for text in texts for word in text.lower().split()} - set(special))
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special + words)}, "[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]", unk_token="[UNK]"
        )
        model = ToyModel(ToyConfig(len(fast), settings.width))
        model.generation_config.update(pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False)
        return model, ToyProcessor(fast)

    def load(self, settings: ToySettings, folder: Path) -> tuple[Any, Any]:
        return ToyModel.from_pretrained(folder), ToyProcessor.from_pretrained(folder)
