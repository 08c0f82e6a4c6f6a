"""The folder of a saved model: where it is, and what is wrong with it, as errors for the user."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError, one_line

BEST_FOLDER = "best"  # in the folder of a training run
ANOTHER = "choose another folder"  # the remedy for one that cannot be read


def find_model_folder(path: Path) -> Path:
    """The folder with the weights: `path` itself, or the best model of a training run at `path`.

    Raises:
        InputError: there is neither.
    """
    for folder in (path, path / BEST_FOLDER):
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return folder
    raise InputError(
        f"{path}: no model there (looked for config.json and {BEST_FOLDER}/config.json); name a checkpoint's folder, "
        "or the output folder of medvqa-hub train"
    )


def refuse_other_sizes(folder: Path, wrong: Sequence[str]) -> None:
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
