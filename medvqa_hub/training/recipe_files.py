"""Recipe files: YAML with overrides, and what all recipes share.

A shipped recipe lists only what differs from the defaults. `--set training.epochs=3` overrides one key. Unknown keys
and values out of range are errors. The resolved recipe, every key with its value, is saved with each checkpoint and
can be run again.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.settings import Section, check_key

# Keys that change neither the weights nor the curve. They may differ when a run is resumed.
FREE = ("data.workers", "training.save_every", "training.keep_checkpoints", "selection.bert_score_device")
MAX_SEED = 2**32  # numpy's limit


class BaseRecipe(Section):
    """A resolved recipe: one section per field."""

    @property
    def batches_per_step(self) -> int:
        """Batches that all processes together accumulate for an optimizer step."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as YAML and JSON write them."""
        return self.model_dump()

    def to_yaml(self) -> str:
        """The complete YAML, which loads back to an equal recipe."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


def count_steps(recipe: Any, items: int) -> int:
    """Optimizer steps of a run over `items` items (studies or rows) per epoch. An incomplete last step counts."""
    training = recipe.training
    if training.max_steps is not None:
        return training.max_steps
    return max(1, -int(-(training.epochs * items) // training.step_size))


def count_batches(recipe: Any, processes: int) -> int:
    """Batches that each process accumulates for a step. Raises ConfigError if they cannot be divided evenly."""
    batches = recipe.batches_per_step
    if batches % processes:
        key = "studies_per_batch" if hasattr(recipe, "scst") else "rows_per_batch"
        whole = batches * getattr(recipe.training, key)
        fitting = [size for size in range(1, whole + 1) if whole % (size * processes) == 0]
        remedy = f"Use --set training.{key}={fitting[-1]}" if fitting else "Use another number of processes"
        raise ConfigError(f"{processes} processes cannot share the {batches} batches of a step evenly. {remedy}")
    return batches // processes


def check_length(training: Any) -> None:
    """Raise a ConfigError unless exactly one of epochs and max_steps is set."""
    if (training.epochs is None) == (training.max_steps is None):
        raise ConfigError(
            f"training.epochs is {training.epochs} and training.max_steps is {training.max_steps}. Set one of them and "
            "make the other null"
        )


def read_sections(sections: Mapping[str, type[Section]], values: Mapping[str, Any]) -> dict[str, Section]:
    """Validate each section of a recipe. Sections that are absent or null are left out. Raises ConfigError."""
    for name in values:
        check_key(name, tuple(sections), "the recipe")
    return {name: sections[name].read(found, name) for name, found in values.items() if found is not None}


def shipped_recipes(folder: Path) -> list[str]:
    """Names of the recipes in `folder`."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def read_recipe_file(name_or_path: str, overrides: Iterable[str], folder: Path) -> dict[str, Any]:
    """The nested values of a recipe, with overrides applied.

    Args:
        name_or_path: a recipe of `folder` by name, or a YAML file.
        overrides: each `section.key=value`.

    Raises:
        InputError: the recipe does not exist or is not valid YAML.
        ConfigError: an override is not `section.key=value`.
    """
    shipped = shipped_recipes(folder)
    path = folder / f"{name_or_path}.yaml" if name_or_path in shipped else Path(name_or_path)
    if not path.is_file():
        raise InputError(
            f"recipe {name_or_path!r} is neither a file nor a shipped recipe. Shipped recipes: {', '.join(shipped)}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read ({error}). It must be YAML in UTF-8") from error
    values = _parse(text, str(path))
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected sections such as model and training, found {type(values).__name__}")
    for override in overrides:
        _override(values, override)
    return values


def spell_kind(kind: Any) -> Any:
    """A family's current name. Recipes and runs of earlier versions spell it with hyphens."""
    return kind.replace("-", "_") if isinstance(kind, str) else kind


def find_differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Differing keys of two resolved recipes, such as `training.seed was 0, now 1`. FREE keys are left out."""
    found = []
    for key in dict.fromkeys([*before, *now]):
        name, old, new = f"{prefix}{key}", before.get(key), now.get(key)
        if name == "model.kind":
            old = spell_kind(old)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += find_differences(old, new, f"{name}.")
        elif old != new and name not in FREE:
            found.append(f"{name} was {old!r}, now {new!r}")
    return found


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML ({error})") from error


def _override(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    *parents, last = key.strip().split(".")
    if not sign or not parents or not all([*parents, last]):
        raise ConfigError(f"--set {override!r}: expected section.key=value, such as training.epochs=3")
    for name in parents:
        if values.get(name) is None:
            values[name] = {}
        values = values[name]
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override!r}: {name} is a single value and has no keys")
    values[last] = _parse(text, f"--set {key}")
