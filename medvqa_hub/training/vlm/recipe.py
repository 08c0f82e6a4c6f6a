"""Recipes of `train vlm`: what a run of TRL's trainers is, as YAML.

    training: …   stage (sft, grpo), steps, rate, precision     lora: …   null, or an adapter in place of all weights
    data: …       which rows, how they are put                  grpo: …   answers drawn per question; stage grpo alone
    reward: …     what they earn; stage grpo alone

They are read, overridden and saved as those of `medvqa_hub.training.recipes`, and lie in `recipes/` beside this file.
Which model is trained says the command (`--model`): a recipe fits any.

A step is `rows_per_step` rows (conversations, or in stage grpo questions with `grpo.answers` each), on any number of
processes: they share it out in pieces of `rows_per_batch` (in stage grpo: answers).
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import ConfigError
from medvqa_core.settings import check_key, read_section, value
from medvqa_hub.training.recipes import RewardSettings, read_values, shipped_recipes
from mimic_cxr_vqa.chat_rows import TURNS
from mimic_cxr_vqa.schema import CATEGORIES, LABEL_VALUES

FOLDER = Path(__file__).parent / "recipes"
SFT, GRPO = "sft", "grpo"
STAGES = (SFT, GRPO)
BITS = {"8bit": 8, "4bit": 4}
SCHEDULERS = ("constant", "constant_with_warmup", "linear", "cosine")


@dataclass(frozen=True)
class VlmData:
    """`data`."""

    turns: str = value("question", str, choices=TURNS)  # a conversation per question, or per study
    train_split: str = value("train", str)
    validation_split: str | None = value(None, str, optional=True)
    train_studies: int | None = value(None, int, low=1, optional=True)  # the first so many; null: all
    validation_studies: int | None = value(None, int, low=1, optional=True)
    categories: list | None = value(None, list, optional=True)  # questions of these alone; null: all
    label_values: list | None = value(None, list, optional=True)
    missing_images: str = value("error", str, choices=("error", "skip"))
    label_conflicts: str = value("keep", str, choices=("keep", "leave_out"))  # answers that contradict their label
    image_side: int | None = value(512, int, low=1, optional=True)  # shorter side that radiographs are shrunk to
    report_side: int = value(1536, int, low=28)  # longest side of report images, as `evaluate meddqa` sends them
    workers: int = value(0, int, low=0)  # processes that read images


@dataclass(frozen=True)
class LoraSettings:
    """`lora`: an adapter; the model's own weights stay as they are."""

    rank: int = value(16, int, low=1)
    alpha: float = value(32.0, float, above=0)
    dropout: float = value(0.05, float, low=0, high=1)
    targets: str | list = value("all-linear", (str, list))  # names of layers
    vision: bool = value(False, bool)  # whether the image encoder has adapters too
    quantize: str | None = value(None, str, choices=tuple(BITS), optional=True)  # the model's own weights


@dataclass(frozen=True)
class VlmTraining:
    """`training`."""

    stage: str = value(SFT, str, choices=STAGES)
    seed: int = value(0, int, low=0, high=2**32 - 1)  # numpy's range
    epochs: float | None = value(1.0, float, above=0, optional=True)
    max_steps: int | None = value(None, int, low=1, optional=True)  # in place of epochs
    rows_per_step: int = value(32, int, low=1)
    rows_per_batch: int = value(4, int, low=1)  # conversations, or answers, through the model at once
    learning_rate: float = value(1e-4, float, above=0)
    vision: bool = value(False, bool)  # without lora: whether the image encoder's weights are trained
    weight_decay: float = value(0.0, float, low=0)
    scheduler: str = value("cosine", str, choices=SCHEDULERS)
    warmup_steps: int = value(0, int, low=0)
    max_grad_norm: float = value(1.0, float, low=0)
    precision: str = value("bfloat16", str, choices=("float32", "bfloat16"))
    gradient_checkpointing: bool = value(True, bool)
    log_every: int = value(10, int, low=1)
    validate_every: int = value(200, int, low=1)
    save_every: int = value(200, int, low=1)
    keep_checkpoints: int = value(1, int, low=1)


@dataclass(frozen=True)
class GrpoSettings:
    """`grpo`."""

    answers: int = value(8, int, low=2)  # drawn per question, each compared with their mean
    temperature: float = value(1.0, float, above=0)
    max_new_tokens: int = value(128, int, low=1)
    beta: float = value(0.0, float, low=0)  # weight of the divergence from the model that the run started with
    scale_rewards: str = value("group", str, choices=("group", "batch", "none"))


SECTIONS = {
    "training": VlmTraining, "lora": LoraSettings, "data": VlmData, "grpo": GrpoSettings, "reward": RewardSettings,
}  # fmt: skip


@dataclass(frozen=True)
class VlmRecipe:
    """A whole recipe."""

    training: VlmTraining = dataclasses.field(default_factory=VlmTraining)
    lora: LoraSettings | None = None
    data: VlmData = dataclasses.field(default_factory=VlmData)
    grpo: GrpoSettings | None = None
    reward: RewardSettings | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as YAML and JSON write them."""
        return dataclasses.asdict(self)

    def to_yaml(self) -> str:
        """The complete YAML, which `load_vlm_recipe` reads back to an equal recipe."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


def shipped_vlm_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return shipped_recipes(FOLDER)


def load_vlm_recipe(name_or_path: str, overrides: Iterable[str] = ()) -> VlmRecipe:
    """Read a shipped recipe by name, or a YAML file, and apply `section.key=value` overrides.

    Raises:
        InputError: no such recipe, or it is not YAML.
        ConfigError: an unknown key, a value out of range, or values that do not fit each other.
    """
    return make_vlm_recipe(read_values(name_or_path, overrides, FOLDER))


def make_vlm_recipe(values: Mapping[str, Any]) -> VlmRecipe:
    """A checked recipe from nested mappings. Raises ConfigError."""
    for section in values:
        check_key(section, tuple(SECTIONS), "the recipe")
    given = {name: found for name, found in values.items() if found is not None}
    recipe = VlmRecipe(**{name: read_section(SECTIONS[name], found, name) for name, found in given.items()})
    _check_together(recipe)
    return recipe


def rows_of_step(recipe: VlmRecipe) -> int:
    """Sequences that pass through the model in a step: rows, each as often as answers are drawn to it."""
    return recipe.training.rows_per_step * (recipe.grpo.answers if recipe.grpo else 1)


def steps_of_run(recipe: VlmRecipe, rows: int) -> int:
    """Optimizer steps of a run over `rows` rows; a part of a step is a step."""
    training = recipe.training
    if training.max_steps is not None:
        return training.max_steps
    return max(1, -int(-(training.epochs * rows) // training.rows_per_step))


def batches_of_process(recipe: VlmRecipe, processes: int) -> int:
    """Batches that each process accumulates for a step. Raises ConfigError where they cannot be shared out evenly."""
    batches = rows_of_step(recipe) // recipe.training.rows_per_batch
    if batches % processes:
        raise ConfigError(
            f"a step has {batches} batches of training.rows_per_batch {recipe.training.rows_per_batch}, which "
            f"{processes} processes cannot share evenly; choose a smaller one, so that {processes} divides their number"
        )
    return batches // processes


def _check_together(recipe: VlmRecipe) -> None:
    training, data = recipe.training, recipe.data
    if (training.epochs is None) == (training.max_steps is None):
        raise ConfigError(
            f"training.epochs is {training.epochs} and training.max_steps {training.max_steps}: set one of them, null "
            "the other"
        )
    for section in ("grpo", "reward"):
        if (getattr(recipe, section) is None) == (training.stage == GRPO):
            word = "missing" if training.stage == GRPO else "set"
            raise ConfigError(
                f"section {section} is {word} and training.stage {training.stage}: {section} belongs to stage {GRPO}, "
                f"and to no other (--set {section}.{'name=finding_accuracy' if section == 'reward' else 'answers=8'})"
            )
    if rows_of_step(recipe) % training.rows_per_batch:
        raise ConfigError(
            f"training.rows_per_batch is {training.rows_per_batch}; it must divide the {rows_of_step(recipe)} "
            "sequences of a step (training.rows_per_step, times grpo.answers)"
        )
    if training.stage == GRPO and data.turns != TURNS[0]:
        raise ConfigError(f"data.turns is {data.turns!r}: stage {GRPO} answers one question at a time")
    if training.stage == GRPO and data.validation_split is not None:
        raise ConfigError(f"data.validation_split: stage {GRPO} has no validation; set it to null, and evaluate after")
    if recipe.lora is not None and training.vision:
        raise ConfigError("training.vision trains the image encoder's own weights; with an adapter say lora.vision")
    for name, allowed in (("categories", CATEGORIES), ("label_values", tuple(LABEL_VALUES.values()))):
        for chosen in getattr(data, name) or ():
            if chosen not in allowed:
                raise ConfigError(f"data.{name} has {chosen!r}; allowed: {', '.join(allowed)}")
