"""Recipes: what a training run is, as YAML.

    model: …      which model, from what            data: …       how studies become batches
    training: …   steps, learning rates, precision  selection: …  validation, and what the best checkpoint is
    scst: …       null, or the self-critical stage  reward: …     what that stage rewards

The recipes that ship lie in `recipes/` and say what differs from the defaults below; `--set training.epochs=3`
overrides one key. Unknown keys and values out of range are errors. The resolved recipe, every key with its value, is
saved with each checkpoint and can be run again.

A step's batch is `studies_per_step` studies with `questions_per_study` questions each, on any number of processes:
they share it out in pieces of `studies_per_batch`.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.settings import as_number, check_key, read_section, value
from medvqa_hub.families.registry import FAMILIES, ModelFamily, find_family

FOLDER = Path(__file__).parent / "recipes"
METRICS = ("loss", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "bert_score")
SCHEDULERS = ("constant", "constant_with_warmup", "linear", "cosine", "polynomial", "inverse_sqrt", "plateau", "step")
TO_ZERO = ("linear", "cosine", "polynomial")  # schedulers
EPOCH = "epoch"  # a value of selection.every
# What changes neither the weights nor the curve: it may differ when a run goes on.
FREE = ("data.workers", "training.save_every", "training.keep_checkpoints", "selection.bert_score_device")


@dataclass(frozen=True)
class DataSettings:
    """`data`."""

    questions_per_study: int | None = value(8, int, low=1, optional=True)  # null: all of a study's questions
    questions_per_study_policy: str = value("take_all", str, choices=("take_all", "error"))
    one_by_one: bool = value(False, bool)  # a question is drawn by itself, and counts as a study of its own
    train_split: str = value("train", str)
    validation_split: str | None = value("validation", str, optional=True)
    train_studies: int | None = value(None, int, low=1, optional=True)  # the first so many; null: all
    missing_images: str = value("error", str, choices=("error", "skip", "none"))
    label_conflicts: str = value("keep", str, choices=("keep", "leave_out"))  # answers that contradict their label
    augment: bool = value(False, bool)  # the released augmentation, where the family has one
    image_side: int | None = value(512, int, low=1, optional=True)  # shorter side that images are shrunk to
    workers: int | None = value(0, int, low=0, optional=True)  # processes that read images; null: by cores


@dataclass(frozen=True)
class TrainingSettings:
    """`training`."""

    stage: int | None = value(None, int, low=1, high=3, optional=True)  # of the paper; says nothing by itself
    seed: int = value(0, int, low=0, high=2**32 - 1)  # numpy's range
    epochs: float | None = value(1.0, float, above=0, optional=True)
    max_steps: int | None = value(None, int, low=1, optional=True)  # in place of epochs
    studies_per_step: int = value(8, int, low=1)
    studies_per_batch: int = value(8, int, low=1)
    learning_rates: dict = value({}, dict)  # parameter group -> rate; 0, or a group left out, is frozen
    weight_decay: float = value(0.0, float, low=0)
    betas: list = value([0.9, 0.999], list)
    scheduler: str = value("constant", str, choices=SCHEDULERS)
    scheduler_arguments: dict = value({}, dict)  # such as patience and factor of plateau, gamma (an epoch) of step
    plateau_metric: str | None = value(None, str, choices=METRICS, optional=True)  # null: selection.metric
    rest_frozen: bool = value(True, bool)  # false: frozen groups keep dropout and drop-path, as the release's did
    warmup_steps: int = value(0, int, low=0)
    max_grad_norm: float = value(1.0, float, low=0)  # 0: no clipping
    precision: str = value("float32", str, choices=("float32", "bfloat16"))
    gradient_checkpointing: bool = value(False, bool)
    log_every: int = value(10, int, low=1)
    save_every: int = value(500, int, low=1)
    keep_checkpoints: int = value(1, int, low=1)
    hard_negatives: bool = value(False, bool)  # a second pass, over questions with a loss near the mean


@dataclass(frozen=True)
class SelectionSettings:
    """`selection`: validation during training; the best checkpoint by `metric` is kept."""

    metric: str = value("loss", str, choices=METRICS)
    every: int | str | None = value(500, (int, str), low=1, optional=True)  # steps, or epoch; null: at the end only
    metrics: list = value([], list)  # further ones to log
    studies: int | None = value(None, int, low=1, optional=True)  # the first so many of the split; null: all
    studies_per_batch: int = value(8, int, low=1)
    questions_per_study: int | None = value(None, int, low=1, optional=True)  # null: all
    beams: int = value(1, int, low=1)
    max_new_tokens: int = value(128, int, low=1)
    bert_score_encoder: str = value("distilbert-base-uncased", str)  # folder, Hub id, or minilm
    bert_score_layer: int = value(5, int, low=0)
    bert_score_device: str | None = value(None, str, optional=True)


@dataclass(frozen=True)
class ScstSettings:
    """`scst`: L = alpha * L_reward + gamma * L_nll (paper, Section 5.2)."""

    alpha: float = value(0.6, float, low=0)
    gamma: float = value(0.4, float, low=0)
    normalize: str = value("answer", str, choices=("answer", "token"))  # log P(sample): the sum (paper), or its mean
    samples: int = value(1, int, low=1)  # sampled answers to a question, each compared with the greedy one
    temperature: float = value(1.0, float, above=0)
    max_new_tokens: int = value(128, int, low=1)


@dataclass(frozen=True)
class RewardSettings:
    """`reward`: what the self-critical stage rewards."""

    name: str = value("bert_score", str)  # or a weighted sum, "bert_score:0.3+finding:0.7"
    encoder: str = value("distilbert-base-uncased", str)
    layer: int = value(5, int, low=0)
    baseline: str | list | None = value(None, (str, list), optional=True)  # rescaling: a file, or three numbers
    batch_size: int = value(64, int, low=1)


@dataclass(frozen=True)
class Recipe:
    """A whole recipe."""

    model: Any  # the settings of the model's family
    data: DataSettings = dataclasses.field(default_factory=DataSettings)
    training: TrainingSettings = dataclasses.field(default_factory=TrainingSettings)
    selection: SelectionSettings = dataclasses.field(default_factory=SelectionSettings)
    scst: ScstSettings | None = None
    reward: RewardSettings | None = None

    @property
    def family(self) -> ModelFamily:
        """What the model is."""
        return find_family(self.model.kind)

    def open_model(
        self, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
    ) -> tuple[Any, Any]:
        """Model and processor to train; see `ModelFamily.open`."""
        return self.family.open(self.model, init, texts, seed, scratch)

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as YAML and JSON write them."""
        return dataclasses.asdict(self)

    def to_yaml(self) -> str:
        """The complete YAML, which `load_recipe` reads back to an equal recipe."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


SECTIONS = {
    "data": DataSettings, "training": TrainingSettings, "selection": SelectionSettings,
    "scst": ScstSettings, "reward": RewardSettings,
}  # fmt: skip


def shipped_recipes(folder: Path = FOLDER) -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load_recipe(name_or_path: str, overrides: Iterable[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or a YAML file, and apply `section.key=value` overrides.

    Raises:
        InputError: no such recipe, or it is not YAML.
        ConfigError: an unknown key, a value out of range, or an override that is no `section.key=value`.
    """
    return make_recipe(read_values(name_or_path, overrides))


def read_values(name_or_path: str, overrides: Iterable[str] = (), folder: Path = FOLDER) -> dict[str, Any]:
    """What a recipe says, with overrides: one of those in `folder` by name, or a YAML file. Raises as `load_recipe`."""
    shipped = shipped_recipes(folder)
    path = folder / f"{name_or_path}.yaml" if name_or_path in shipped else Path(name_or_path)
    if not path.is_file():
        raise InputError(
            f"recipe {name_or_path!r} is neither a file nor a shipped recipe; shipped: {', '.join(shipped)}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read ({error}); it must be YAML in UTF-8") from error
    values = _parse(text, str(path))
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected sections such as model and training, found {type(values).__name__}")
    for override in overrides:
        _override(values, override)
    return values


def make_recipe(values: Mapping[str, Any]) -> Recipe:
    """A checked recipe from nested mappings.

    Raises:
        ConfigError: an unknown key, a value out of range, or values that do not fit each other.
    """
    for section in values:
        check_key(section, ("model", *SECTIONS), "the recipe")
    model = values.get("model")
    kind = spell_kind(model.get("kind")) if isinstance(model, Mapping) else None
    if kind not in FAMILIES:
        raise ConfigError(f"model.kind is {kind!r}; allowed: {', '.join(FAMILIES)}")
    sections = {"model": read_section(find_family(kind).settings, {**model, "kind": kind}, "model")}
    for name, section in SECTIONS.items():
        given = values.get(name)
        if given is not None:
            sections[name] = read_section(section, given, name)
    recipe = Recipe(**sections)
    _check_together(recipe)
    return recipe


def spell_kind(kind: Any) -> Any:
    """A family's name as it is spelled now; recipes and runs of earlier versions have hyphens in it."""
    return kind.replace("-", "_") if isinstance(kind, str) else kind


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys whose values differ between two resolved recipes, as `training.seed was 0, now 1`; FREE ones left out."""
    found = []
    for key in [*before, *(key for key in now if key not in before)]:
        name, old, new = f"{prefix}{key}", before.get(key), now.get(key)
        if name == "model.kind":
            old = spell_kind(old)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{name}.")
        elif old != new and name not in FREE:
            found.append(f"{name} was {old!r}, now {new!r}")
    return found


def steps_of(recipe: Recipe, studies: int) -> int:
    """Optimizer steps of a run over `studies` usable studies; a part of a step is a step."""
    training = recipe.training
    if training.max_steps is not None:
        return training.max_steps
    return max(1, -int(-(training.epochs * studies) // training.studies_per_step))


def count_steps_per_epoch(recipe: Recipe, studies: int) -> int:
    """Optimizer steps that show each study once; a part of a step is a step."""
    return -(-studies // recipe.training.studies_per_step)


def batches_per_process(recipe: Recipe, processes: int) -> int:
    """Batches that each process accumulates for a step.

    Raises:
        ConfigError: a step's batches cannot be shared out evenly.
    """
    training = recipe.training
    batches = training.studies_per_step // training.studies_per_batch
    if batches % processes:
        raise ConfigError(
            f"a step has {batches} batches (training.studies_per_step {training.studies_per_step} / "
            f"studies_per_batch {training.studies_per_batch}), which {processes} processes cannot share evenly; lower "
            f"studies_per_batch, so that {processes} divides their number"
        )
    return batches // processes


def _check_together(recipe: Recipe) -> None:
    family, training, selection = recipe.family, recipe.training, recipe.selection
    if (training.epochs is None) == (training.max_steps is None):
        raise ConfigError(
            f"training.epochs is {training.epochs} and training.max_steps {training.max_steps}: set one of them, null "
            "the other"
        )
    if training.studies_per_step % training.studies_per_batch:
        raise ConfigError(
            f"training.studies_per_step is {training.studies_per_step}; it must be a multiple of "
            f"training.studies_per_batch, {training.studies_per_batch}"
        )
    if len(training.betas) != 2 or not all(isinstance(beta, float) and 0 <= beta < 1 for beta in training.betas):
        raise ConfigError(f"training.betas is {training.betas}; allowed: two numbers from 0.0 to below 1.0")
    rates = training.learning_rates
    for group in rates:
        check_key(group, tuple(family.groups), "training.learning_rates")
    for group, rate in rates.items():
        rates[group] = rate = as_number(rate)
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < float("inf"):
            raise ConfigError(f"training.learning_rates.{group} is {rate!r}; allowed: a number, at least 0")
    if not any(rates.values()):
        allowed = ", ".join(family.groups)
        raise ConfigError(f"training.learning_rates trains nothing: give a rate above 0 to one of {allowed}")
    if isinstance(selection.every, str) and selection.every != EPOCH:
        raise ConfigError(f"selection.every is {selection.every!r}; allowed: a number of steps, {EPOCH}, or null")
    for name in selection.metrics:
        if name not in METRICS:
            check_key(name, METRICS, "selection.metrics")
    if recipe.data.validation_split is None and (selection.metric != "loss" or training.scheduler == "plateau"):
        raise ConfigError(
            "data.validation_split is null, so selection.metric must be loss and training.scheduler not plateau: "
            "nothing would be measured"
        )
    if training.plateau_metric not in (None, "loss", selection.metric, *selection.metrics):
        raise ConfigError(
            f"training.plateau_metric {training.plateau_metric} is not measured; add it to selection.metrics"
        )
    if training.hard_negatives and training.scheduler in TO_ZERO:
        raise ConfigError(
            f"training.hard_negatives is true and training.scheduler {training.scheduler}, which ends at the rate 0: "
            "the second pass goes on at the rate that is reached, and would learn nothing; take plateau or constant"
        )
    if recipe.scst is not None and recipe.reward is None:
        raise ConfigError("scst is set without reward: add a section reward, such as reward: {name: rouge_l}")
    if recipe.data.augment and not family.augments:
        raise ConfigError(f"data.augment is true, and {family.name}'s processor does not augment: set it to false")
    family.check(recipe.model, rates)


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not valid YAML ({error}); correct it") from error


def _override(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    names = key.strip().split(".")
    if not sign or len(names) < 2 or not all(names):
        raise ConfigError(f"--set {override!r}: expected section.key=value, such as training.epochs=3")
    place = values
    for name in names[:-1]:
        if place.get(name) is None:
            place[name] = {}
        place = place[name]
        if not isinstance(place, dict):
            raise ConfigError(f"--set {override!r}: {name} is a single value and has no keys")
    place[names[-1]] = _parse(text, f"--set {key}")
