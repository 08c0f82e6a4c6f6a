"""Conversion of checkpoints of the released training code (`.pt` state dicts of BLIP-2-MultiView).

The state dict is that of a BLIP-2 with extra modules:

    released key                              here
    vision_model.*                            model.vision_model.*
    qformer_by_view.{AP,PA,LAT}.*             model.branches.by_view.{AP,PA,LAT}.qformer.*
    query_tokens_by_view.{AP,PA,LAT}          model.branches.by_view.{AP,PA,LAT}.query_tokens
    language_projection_by_view.{AP,..}.*     model.branches.by_view.{AP,PA,LAT}.projection.*
    language_model.*                          language_model.*
    4 rows of language_model.shared.weight    prefix_embeddings.weight
    qformer.*, query_tokens, language_projection.*   not used: the branch of BLIP-2, which the released model never runs

Optimizer states are not converted. The file is read with `torch.load(weights_only=True)`.
"""

import copy
from collections.abc import Mapping, Sequence
from os import PathLike
from pickle import UnpicklingError
from typing import Any, NamedTuple
from zipfile import is_zipfile

import torch

from .configuration_blip2_multiview import PREFIX_TOKENS, Blip2MultiViewConfig
from .modeling_blip2_multiview import Blip2MultiViewForConditionalGeneration

PLAIN_BRANCH = ("qformer.", "language_projection.")
PER_VIEW = {"qformer_by_view": "qformer", "language_projection_by_view": "projection"}
TABLE = "language_model.shared.weight"


class Conversion(NamedTuple):
    """A converted model and the released keys that it does not use."""

    model: Blip2MultiViewForConditionalGeneration
    unused: list[str]


def convert_blip2_multiview(
    source: str | PathLike | Mapping[str, torch.Tensor],
    config: Blip2MultiViewConfig | None = None,
    prefix_token_ids: Sequence[int] | None = None,
) -> Conversion:
    """Build a model from a released state dict.

    Args:
        source: a `.pt` file, or the state dict itself, also under `state_dict` or `model_state_dict`. The prefix
            `module.` is removed.
        config: sizes of the model, by default `Blip2MultiViewConfig.base()`. Vocabulary size and dtype are set from the
            state dict.
        prefix_token_ids: ids of [AP], [PA], [LAT] and [Q] in the released tokenizer, by default the last four.

    Returns:
        The model in the state dict's dtype and evaluation mode, and the unused keys.

    Raises:
        ValueError: keys are missing or unknown, a shape is wrong, the embeddings of the language model differ, the file
            lacks a state dict, or `prefix_token_ids` do not fit.
        OSError: the file does not exist.
    """
    state = _state_dict(source)
    table = state[TABLE]
    rows = table.shape[0]
    ids = list(range(rows - len(PREFIX_TOKENS), rows) if prefix_token_ids is None else prefix_token_ids)
    numbers = {number for number in ids if type(number) is int and 0 <= number < rows}
    if not len(numbers) == len(ids) == len(PREFIX_TOKENS):
        raise ValueError(f"prefix_token_ids is {ids}. Expected {len(PREFIX_TOKENS)} different ids below {rows}.")

    unused = [key for key in state if key.startswith(PLAIN_BRANCH) or key == "query_tokens"]
    renamed = {rename_key(key): tensor for key, tensor in state.items() if key not in set(unused)}
    renamed["prefix_embeddings.weight"] = table[ids].clone()

    config = Blip2MultiViewConfig.base() if config is None else copy.deepcopy(config)
    config.text_config.vocab_size = rows
    config.dtype = table.dtype
    with torch.device("meta"):  # every weight comes from the state dict
        model = Blip2MultiViewForConditionalGeneration(config)
    _check_keys(model.state_dict(), renamed)
    model.load_state_dict(renamed, assign=True)
    _tie_equal_weights(model)
    model.untie_distinct_weights()
    model.freeze_for_training()
    return Conversion(model.eval(), sorted(unused))


def rename_key(key: str) -> str:
    """Our name of a released key. Unknown keys are returned unchanged."""
    first, _, rest = key.partition(".")
    if first == "vision_model":
        return f"model.{key}"
    view, _, rest = rest.partition(".")
    if first in PER_VIEW:
        return f"model.branches.by_view.{view}.{PER_VIEW[first]}.{rest}"
    if first == "query_tokens_by_view":
        return f"model.branches.by_view.{view}.query_tokens"
    return key


def _state_dict(source: str | PathLike | Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The state dict without wrappers. Tensors of a mapping are copied."""
    held = isinstance(source, Mapping)
    found: Any = source if isinstance(source, Mapping) else _load(source)
    what = "the mapping" if held else str(source)
    for name in ("state_dict", "model_state_dict"):
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} contains a {type(found).__name__}, not a state dict.")
    state = {str(key).removeprefix("module."): tensor for key, tensor in found.items()}
    if TABLE not in state:
        raise ValueError(f"{what} is not a state dict of BLIP-2-MultiView: the key {TABLE} is missing.")
    wrong = [key for key, tensor in state.items() if not isinstance(tensor, torch.Tensor)]
    if wrong:
        raise ValueError(f"{what} has other values than tensors under {', '.join(wrong)}. Pass the state dict alone.")
    return {key: tensor.clone() for key, tensor in state.items()} if held else state


def _load(path: str | PathLike) -> Any:
    try:
        # Only zip files, the format since torch 1.6, can be memory-mapped.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except (UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, or contains more than tensors and could run code ({type(error).__name__}). Save its "
            "state dict alone."
        ) from error


def _tie_equal_weights(model: Blip2MultiViewForConditionalGeneration) -> None:
    """Tie the copies of the embeddings again. Raises ValueError if they differ."""
    output = model.get_output_embeddings()
    differing = []
    for target, source in model.all_tied_weights_keys.items():
        module = model.get_submodule(target.rpartition(".")[0])
        weight = model.get_parameter(source)
        if torch.equal(module.weight, weight):
            module.weight = weight
        elif module is not output:
            differing.append(f"{target} differs from {source}")
    if differing:
        raise ValueError("The embeddings of the language model differ: " + ", ".join(differing))


def _check_keys(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    problems = [f"missing: {key}" for key in wanted if key not in found]
    problems += [f"unknown: {key}" for key in found if key not in wanted]
    problems += [
        f"{key} has shape {tuple(found[key].shape)}, expected {tuple(tensor.shape)}"
        for key, tensor in wanted.items()
        if key in found and found[key].shape != tensor.shape
    ]
    if problems:
        raise ValueError("The state dict does not fit the configuration:\n  " + "\n  ".join(problems))
