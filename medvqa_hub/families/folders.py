"""Errors about the content of saved models."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from medvqa_core.errors import ConfigError, one_line

ANOTHER = "choose another folder"  # remedy for one that cannot be read


def refuse_other_sizes(folder: Path, wrong: Sequence[str]) -> None:
    """Raise a ConfigError if the model in `folder` has any `wrong` sizes."""
    if wrong:
        raise ConfigError(
            f"{folder} does not match the recipe: {'; '.join(wrong)}. Use the recipe in its recipe.yaml, or another "
            "checkpoint"
        )


def refuse_missing_weights(folder: str | Path, missing: Collection[str]) -> None:
    """Raise a ConfigError if weights are `missing`. transformers would only replace them by random ones."""
    if missing:
        some = ", ".join(sorted(missing)[:3]) + ", …" * (len(missing) > 3)
        raise ConfigError(f"{folder} lacks {len(missing)} weights ({some}). It is another model or is incomplete")


@contextlib.contextmanager
def as_config_error() -> Iterator[None]:
    """Turn the errors of transformers, tokenizers and our models about a wrong folder or value into ConfigErrors."""
    from safetensors import SafetensorError

    try:
        yield
    # transformers raises RuntimeError for weights of another size.
    except (OSError, ValueError, TypeError, RuntimeError, ImportError, SafetensorError) as error:
        raise ConfigError(f"the model cannot be loaded: {one_line(error)}") from error
