"""The released SwinVED's weights -> this package's model.

The release saves the `state_dict` of a module with `encoder` (a SwinModel) and `decoder` (a BertGenerationDecoder)
under the names of transformers 4. Swin's attention and feed-forward layers have other names since; the decoder's are as
they were. Nothing is guessed: a key that is missing, left over or of another shape is an error that names it.

The released vocabulary is read by `swin_ved.load_vocabulary`, which leaves texts in their case. In training, answers
were padded and [EOS] stood behind the padding, all of it part of the loss: these weights write [PAD] where an answer
ends. So the model that is made here stops at either, and is done after 63 new tokens, where the release's generation
was (128 with the prompt's 65). Trained further, here, it learns to write [EOS] there.
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

# Swin's names in transformers 4 -> now, inside a block; the first match is taken.
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
# What torch.load raises on a file that is cut off, empty or something else.
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
# Tables that are computed from the sizes, saved by older versions.
COMPUTED = re.compile(r"\.relative_position_index$|^decoder\.bert\.embeddings\.position_ids$")


def convert_swin_ved(
    source: str | Path | Mapping[str, torch.Tensor], config: SwinVedConfig | None = None
) -> SwinVedForConditionalGeneration:
    """Build a model from released weights.

    Args:
        source: a `.pt` or `.ckpt` file, or the state dict itself. What Lightning and DataParallel wrap around it
            (`state_dict`, and `model.` and `module.` before the names) is undone.
        config: sizes of the weights; None takes the paper's with the release's numbering of positions.

    Returns:
        The model, in evaluation mode. Save it beside
        `SwinVedProcessor.from_config(model.config, load_vocabulary(file))`, then evaluate it or train it further.

    Raises:
        OSError: the file cannot be opened.
        ValueError: keys are missing, unused, twice there or of another shape (all are named), the file is damaged, or
            no state dict is in it.
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
        raise ValueError(f"these weights do not fit the configuration: {text}. Pass the config they were trained with")
    model.load_state_dict(weights)
    model.generation_config.eos_token_id = [config.decoder.eos_token_id, config.decoder.pad_token_id]
    model.generation_config.max_new_tokens = RELEASED_NEW_TOKENS
    return model.eval()


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
    """The weights under their new names, and which of them came from two keys."""
    weights, origin, colliding = {}, {}, []
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
                f"{source} holds more than tensors and plain values, or is damaged, and is not loaded, because it "
                "could run code: save its state dict alone, where you trust the file"
            ) from error
        except DAMAGE as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise  # it names the file itself
            raise ValueError(
                f"{source} is damaged, or no file that torch.save wrote ({type(error).__name__}): get it again"
            ) from error
    if isinstance(source, Mapping) and isinstance(source.get("state_dict"), Mapping):
        source = source["state_dict"]
    if not isinstance(source, Mapping) or not all(isinstance(value, torch.Tensor) for value in source.values()):
        raise ValueError(
            f"expected a state dict, names to tensors, got {type(source).__name__}; pass what the release saved"
        )
    return source


def _untied(model: SwinVedForConditionalGeneration, weights: Mapping[str, torch.Tensor]) -> list[str]:
    """Weights that this model shares with another and that differ from it in the file."""
    tied = model.get_expanded_tied_weights_keys(all_submodels=True)
    return [f"{key} (differs from {other})" for key, other in tied.items() if not weights[key].equal(weights[other])]
