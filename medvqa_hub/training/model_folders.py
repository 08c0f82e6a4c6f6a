"""What the folder of a model holds, and whether it is what a recipe wants; errors for those that are not."""

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from medvqa_core.errors import ConfigError, one_line
from medvqa_core.json_files import digest_file, read_object
from medvqa_core.store import content_key
from medvqa_hub.training.checkpoints import ANOTHER

MODEL_TYPES = {"swin-ved": "swin_ved", "blip2-multiview": "blip2_multiview"}


def fingerprint_of_model(folder: Path) -> str:
    """32 hex digits that change with the folder's weights and configuration."""
    names = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".yaml"))
    return content_key(files=[(path.name, digest_file(path, "blake2b")) for path in names])


def kind_of_model(folder: Path) -> str:
    """`model_type` of a checkpoint's configuration."""
    if (folder / "config.json").exists():
        return str(read_object(folder / "config.json", ANOTHER).get("model_type"))
    return "a peft adapter"


def check_kind(folder: Path, kind: str) -> None:
    """Raise a ConfigError if the folder's model is not of `kind`."""
    found = kind_of_model(folder)
    if found != MODEL_TYPES[kind]:
        raise ConfigError(
            f"{folder} is a checkpoint of {found!r}, and this recipe trains {kind!r}: name a checkpoint of "
            f"{MODEL_TYPES[kind]!r}, or a recipe of the other model"
        )


def refuse_other_sizes(folder: Path, wrong: list[str]) -> None:
    """Raise a ConfigError if there is anything `wrong` about the sizes of the folder's model."""
    if wrong:
        raise ConfigError(
            f"{folder} is another model than the recipe's: {'; '.join(wrong)}. Use the recipe that it was trained with "
            "(its recipe.yaml says), or another checkpoint"
        )


def refuse_missing_weights(folder: str | Path, missing: Collection[str]) -> None:
    """Raise a ConfigError if weights are `missing`; transformers would go on with random ones in their place."""
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise ConfigError(f"{folder} lacks {len(missing)} weights ({some}, …): it is another model, or was cut short")


@contextlib.contextmanager
def as_config_error() -> Iterator[None]:
    """What transformers, tokenizers and our models raise on a wrong folder or value, as an error for the user."""
    from safetensors import SafetensorError

    try:
        yield
    # RuntimeError is what transformers raises on weights of another size.
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"the model cannot be made: {one_line(error)}") from error
