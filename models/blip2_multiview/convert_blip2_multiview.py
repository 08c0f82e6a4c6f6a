"""The released training code's checkpoints (`.pt` state dicts of BLIP-2-MultiView) as models of this package.

Such a file is the state dict of a BLIP-2 with extra modules:

    released key                              here
    vision_model.*                            model.vision_model.*
    qformer_by_view.{AP,PA,LAT}.*             model.branches.by_view.{AP,PA,LAT}.qformer.*
    query_tokens_by_view.{AP,PA,LAT}          model.branches.by_view.{AP,PA,LAT}.query_tokens
    language_projection_by_view.{AP,..}.*     model.branches.by_view.{AP,PA,LAT}.projection.*
    language_model.*                          language_model.*
    4 rows of language_model.shared.weight    prefix_embeddings.weight
    qformer.*, query_tokens, language_projection.*   none: plain BLIP-2's branch, which the released model never runs

It does not convert optimizer states. Nothing is executed while reading: `torch.load(weights_only=True)`.
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
    """A converted model, and the released keys that it has no use for."""

    model: Blip2MultiViewForConditionalGeneration
    unused: list[str]


def convert_blip2_multiview(
    source: str | PathLike | Mapping[str, torch.Tensor],
    config: Blip2MultiViewConfig | None = None,
    prefix_token_ids: Sequence[int] | None = None,
) -> Conversion:
    """Make a model from a released state dict.

    Args:
        source: A `.pt` file, or the state dict itself, whose tensors are copied. One under the key `state_dict` or
            `model_state_dict` is found, and the prefix `module.` of data-parallel training is removed.
        config: The model's sizes, `Blip2MultiViewConfig.base()` when None. Its vocabulary size and dtype are set from
            the state dict: the released code cuts the table to its tokenizer's length.
        prefix_token_ids: Ids of [AP], [PA], [LAT], [Q] in the released tokenizer; the last four rows of the table when
            None, which is where that code puts them.

    Returns:
        The model in the state dict's dtype, in evaluation mode, and the keys that were not used.

    Raises:
        ValueError: Keys are missing or unknown, a shape is wrong, or the language model's two stacks have embeddings
            of their own; every one is named. Or the file holds no state dict, or `prefix_token_ids` do not fit.
        OSError: There is no such file.
    """
    state = _state_dict(source)
    table = state[TABLE]
    rows = table.shape[0]
    ids = list(range(rows - len(PREFIX_TOKENS), rows) if prefix_token_ids is None else prefix_token_ids)
    numbers = {number for number in ids if type(number) is int and 0 <= number < rows}
    if not len(numbers) == len(ids) == len(PREFIX_TOKENS):
        raise ValueError(f"prefix_token_ids is {ids}, expected {len(PREFIX_TOKENS)} ids below {rows}, all different")

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
    """Our name of a released key; a key that follows no rule stays as it is, and is then reported as unknown."""
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
    """Names to tensors, without wrapping; tensors that the caller holds are copied."""
    held = isinstance(source, Mapping)
    found, what = (source, "the mapping") if held else (_load(source), str(source))
    for name in ("state_dict", "model_state_dict"):
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} holds a {type(found).__name__}, no state dict")
    state = {str(key).removeprefix("module."): tensor for key, tensor in found.items()}
    if TABLE not in state:
        raise ValueError(f"{what} holds no BLIP-2-MultiView state dict: the key {TABLE} is missing")
    wrong = [key for key, tensor in state.items() if not isinstance(tensor, torch.Tensor)]
    if wrong:
        raise ValueError(f"{what} holds no tensor under {', '.join(wrong)}; pass the model's state dict alone")
    return {key: tensor.clone() for key, tensor in state.items()} if held else state


def _load(path: str | PathLike) -> Any:
    try:
        # Only the format of torch 1.6 and later, a zip file, can stay on the disk until it is used.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except (UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is no file of tensors and plain values that torch.save wrote ({type(error).__name__}); nothing "
            "else is loaded, because it could run code: save the state dict alone, where you trust the file"
        ) from error


def _tie_equal_weights(model: Blip2MultiViewForConditionalGeneration) -> None:
    """Make the copies of the embeddings one tensor again: a state dict holds each of them."""
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
        raise ValueError("the language model has one table of embeddings: " + "; ".join(differing))


def _check_keys(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    problems = [f"missing: {key}" for key in wanted if key not in found]
    problems += [f"unknown: {key}" for key in found if key not in wanted]
    problems += [
        f"{key} has shape {tuple(found[key].shape)}, expected {tuple(tensor.shape)}"
        for key, tensor in wanted.items()
        if key in found and found[key].shape != tensor.shape
    ]
    if problems:
        raise ValueError("the state dict does not fit the configuration:\n  " + "\n  ".join(problems))
