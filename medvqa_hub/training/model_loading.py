"""The model and processor that a recipe names: from a checkpoint, or new."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from medvqa_hub.training.checkpoints import find_model_folder
from medvqa_hub.training.model_folders import as_config_error
from medvqa_hub.training.recipes import Recipe


def load_model(
    recipe: Recipe, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
) -> tuple[Any, Any]:
    """Model and processor.

    Args:
        init: folder of a checkpoint to start from; None starts as the recipe says.
        texts: questions and answers of the training split, read when a tokenizer is to be trained.
        seed: of new weights.
        scratch: folder for a model that must be saved before it can be quantised.

    Raises:
        ConfigError: the checkpoint is of another model, tokenizer or size than the recipe's, or damaged.
        InputError: there is no checkpoint.
    """
    import torch

    from medvqa_hub.training.blip2_loading import blip2_from, new_blip2
    from medvqa_hub.training.swin_ved_loading import new_swin_ved, swin_ved_from

    torch.manual_seed(seed)
    with as_config_error():
        if recipe.model.kind == "swin-ved":
            if init is not None:
                return swin_ved_from(recipe.model, find_model_folder(init))
            return new_swin_ved(recipe.model, texts)
        if init is not None:
            return blip2_from(recipe.model, find_model_folder(init))
        return new_blip2(recipe.model, texts, scratch)
