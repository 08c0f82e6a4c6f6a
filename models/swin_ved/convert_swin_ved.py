"""Conversion of released SwinVED weights.

The release saves the `state_dict` of a module with `encoder` (a SwinModel) and `decoder` (a BertGenerationDecoder),
with Swin's layer names of transformers 4. Missing and unused keys and other shapes are errors.

Use `swin_ved.load_vocabulary` for the released vocabulary. The release trained on padded answers with [EOS] after the
padding, so these weights write [PAD] at the end of an answer. The converted model therefore stops at [EOS] or [PAD],
and after 63 new tokens as the release did.
"""

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from .configuration_swin_ved import RELEASED_ANSWER_POSITION, SwinVedConfig
from .modeling_swin_ved import SwinVedForConditionalGeneration

# Swin's names in transformers 4 -> 5. The first match is used.
SWIN_NAMES = (
    ("attention.self.query", "attention.q_proj"),
    ("attention.self.key", "attention.k_proj"),
    ("attention.self.value", "attention.v_proj"),
    ("attention.self.relative_position_bias_table", "attention.relative_position_bias.relative_position_bias_table"),
    ("attention.output.dense", "attention.o_proj"),
    ("intermediate.dense", "mlp.fc1"),
    ("output.dense", "mlp.fc2"),
)
RELEASED_NEW_TOKENS = 63
WRAPPERS = re.compile(r"^((model|module)\.)+")
# What torch.load raises for a truncated, empty or other file.
DAMAGE = (
    EOFError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    OSError,
    struct.error,
)
# Tables that older versions saved although they follow from the sizes.
COMPUTED = re.compile(r"\.relative_position_index$|^decoder\.bert\.embeddings\.position_ids$")


def convert_swin_ved(
    source: str | Path | Mapping[str, torch.Tensor], config: SwinVedConfig | None = None
) -> SwinVedForConditionalGeneration:
    """Build a model from released weights.

    Args:
        source: a `.pt` or `.ckpt` file, or the state dict itself. The wrappers of Lightning and DataParallel are
            removed.
        config: sizes of the weights. None is the paper's model with the release's positions.

    Returns:
        The model in evaluation mode. Save it beside
        `SwinVedProcessor.from_config(model.config, load_vocabulary(file))`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: keys are missing, unused, duplicate or of another shape, or the file lacks a state dict.
    """
    config = SwinVedConfig.base(answer_position=RELEASED_ANSWER_POSITION) if config is None else config
    weights, colliding = _renamed(_state_dict(source))
    model = SwinVedForConditionalGeneration(config)
    expected = model.state_dict()
    problems = {
        "colliding": colliding,
        "missing": sorted(expected.keys() - weights.keys()),
        "unused": sorted(weights.keys() - expected.keys()),
        "of another shape": [
            f"{key}: {tuple(weights[key].shape)}, expected {tuple(expected[key].shape)}"
            for key in sorted(expected.keys() & weights.keys())
            if weights[key].shape != expected[key].shape
        ],
    }
    if not any(problems.values()):
        problems["untied"] = _untied(model, weights)
    if any(problems.values()):
        text = "; ".join(f"{len(keys)} {kind}: {', '.join(keys)}" for kind, keys in problems.items() if keys)
        raise ValueError(f"The weights do not fit the configuration: {text}. Pass the config of their training.")
    model.load_state_dict(weights)
    set_released_decoding(model)
    return model.eval()


def set_released_decoding(model: SwinVedForConditionalGeneration) -> None:
    """Decode as the release does: two beams, 63 new tokens, and answers that end at [EOS] or [PAD].

    The release decodes all beams to the same length, so beams compete by their plain log-probability. So does our
    beam search, where [PAD] and [EOS] do not end a beam but cut off the answer afterwards.
    """
    decoder, decoding = model.config.decoder, model.generation_config
    decoding.eos_token_id = [decoder.eos_token_id, decoder.pad_token_id]
    decoding.max_new_tokens, decoding.num_beams, decoding.length_penalty = RELEASED_NEW_TOKENS, 2, 0.0


def rename(key: str) -> str:
    """The name of a released weight in `SwinVedForConditionalGeneration`."""
    key = _plain(key)
    if not key.startswith("encoder."):
        return key
    for old, new in SWIN_NAMES:
        if old in key:
            return "model." + key.replace(old, new)
    return "model." + key


def _plain(key: str) -> str:
    return WRAPPERS.sub("", key)


def _renamed(source: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The renamed weights, and the names that two keys map to."""
    weights: dict[str, torch.Tensor] = {}
    origin: dict[str, str] = {}
    colliding = []
    for key, value in source.items():
        if COMPUTED.search(_plain(key)):
            continue
        name = rename(key)
        if name in origin:
            colliding.append(f"{origin[name]} and {key} (both {name})")
        weights[name], origin[name] = value, key
    return weights, colliding


def _state_dict(source: Any) -> Mapping[str, torch.Tensor]:
    if isinstance(source, str | Path):
        try:
            source = torch.load(source, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            raise ValueError(
                f"{source} is damaged, or contains more than tensors and could run code. Save its state dict alone."
            ) from error
        except DAMAGE as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise  # the message names the file
            raise ValueError(f"{source} is damaged or not a file of torch.save ({type(error).__name__}).") from error
    if isinstance(source, Mapping) and isinstance(source.get("state_dict"), Mapping):
        source = source["state_dict"]
    if not isinstance(source, Mapping) or not all(isinstance(value, torch.Tensor) for value in source.values()):
        raise ValueError(f"Expected a state dict of names and tensors, not {type(source).__name__}.")
    return source


def _untied(model: SwinVedForConditionalGeneration, weights: Mapping[str, torch.Tensor]) -> list[str]:
    """Weights that are tied in this model and differ in the file."""
    tied = model.get_expanded_tied_weights_keys(all_submodels=True)
    return [f"{key} (differs from {other})" for key, other in tied.items() if not weights[key].equal(weights[other])]
