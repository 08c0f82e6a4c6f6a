"""Recipes that train our own models.

    model: …      which model, and its start        data: …       how studies become batches
    training: …   steps, learning rates, precision  selection: …  validation, and which checkpoint is the best
    scst: …       null, or the self-critical stage  reward: …     the reward of that stage

A step has `studies_per_step` studies with `questions_per_study` questions each, on any number of processes, which share
it in batches of `studies_per_batch`. See `recipe_files` for the files.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from medvqa_core.errors import ConfigError
from medvqa_core.settings import NonNegativeNumber, Number, PositiveNumber, Section, check_key
from medvqa_hub.families.registry import FAMILIES, ModelFamily, find_family
from medvqa_hub.training import recipe_files
from medvqa_hub.training.recipe_files import (
    MAX_SEED,
    BaseRecipe,
    check_length,
    read_recipe_file,
    read_sections,
    spell_kind,
)

FOLDER = Path(__file__).parent / "recipes"
EPOCH = "epoch"
DECAY_TO_ZERO = ("linear", "cosine", "polynomial")  # schedulers
Metric = Literal["loss", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "bert_score"]
Scheduler = Literal[
    "constant", "constant_with_warmup", "linear", "cosine", "polynomial", "inverse_sqrt", "plateau", "step"
]
Beta = Annotated[Number, Field(ge=0, lt=1)]


class DataSettings(Section):
    """`data`."""

    questions_per_study: PositiveInt | None = 8  # null: all questions of a study
    questions_per_study_policy: Literal["take_all", "error"] = "take_all"  # for a study with fewer questions
    one_by_one: bool = False  # draw single questions; each counts as a study
    train_split: str = "train"
    validation_split: str | None = "validation"
    train_studies: PositiveInt | None = None  # the first so many, or null for all
    missing_images: Literal["error", "skip", "none"] = "error"
    check_images: bool = False  # decode every image before the first step
    damaged_images: Literal["error", "skip"] = "error"  # skip: check, and leave out the studies of damaged images
    label_conflicts: Literal["keep", "leave_out"] = "keep"  # answers that contradict their label
    augment: bool = False  # the released augmentation, if the family has one
    cache_features: Literal["float32", "float16", "bfloat16"] | None = None  # of a frozen image encoder, on disk
    image_side: PositiveInt | None = 512  # shorter side to which images are shrunk
    workers: NonNegativeInt | None = 0  # processes that read images; null: by the number of cores


class TrainingSettings(Section):
    """`training`."""

    stage: Annotated[int, Field(ge=1, le=3)] | None = None  # the paper's number, for the model card
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] = 0
    epochs: PositiveNumber | None = 1.0
    max_steps: PositiveInt | None = None  # instead of epochs
    studies_per_step: PositiveInt = 8
    studies_per_batch: PositiveInt = 8
    learning_rates: dict[str, NonNegativeNumber] = {}  # by parameter group; 0 or absent: frozen
    weight_decay: NonNegativeNumber = 0.0
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = [0.9, 0.999]
    scheduler: Scheduler = "constant"
    scheduler_arguments: dict[str, Any] = {}  # such as patience and factor of plateau, gamma (per epoch) of step
    plateau_metric: Metric | None = None  # null: selection.metric
    rest_frozen: bool = True  # false: frozen groups keep dropout and drop-path, as in the release
    warmup_steps: NonNegativeInt = 0
    max_grad_norm: NonNegativeNumber = 1.0  # 0: no clipping
    targets: Literal["answer", "released"] = "answer"  # released: padding counts in the loss too (SwinVED)
    precision: Literal["auto", "float32", "bfloat16"] = "float32"  # auto: bfloat16 if the processor has it
    gradient_checkpointing: bool = False
    compile: bool = False  # torch.compile
    attention: Literal["eager", "sdpa"] | None = None  # null: transformers' choice
    log_every: PositiveInt = 10
    save_every: PositiveInt = 500
    keep_checkpoints: PositiveInt = 1
    hard_negatives: bool = False  # a second pass over questions with a loss near the mean

    @property
    def step_size(self) -> int:
        return self.studies_per_step


class SelectionSettings(Section):
    """`selection`: validation during training. The best checkpoint by `metric` is kept."""

    metric: Metric = "loss"
    every: PositiveInt | Literal["epoch"] | None = 500  # steps; null: at the end only
    metrics: list[Metric] = []  # more metrics to log
    studies: PositiveInt | None = None  # the first so many of the split, or null for all
    studies_per_batch: PositiveInt = 8
    questions_per_study: PositiveInt | None = None  # null: all
    beams: PositiveInt = 1
    max_new_tokens: PositiveInt = 128
    bert_score_encoder: str = "distilbert-base-uncased"  # folder, Hub id, or minilm
    bert_score_layer: NonNegativeInt = 5
    bert_score_device: str | None = None


class ScstSettings(Section):
    """`scst`: L = alpha * L_reward + gamma * L_nll (paper, Section 5.2)."""

    alpha: NonNegativeNumber = 0.6
    gamma: NonNegativeNumber = 0.4
    normalize: Literal["answer", "token"] = "answer"  # log P(sample): the sum over tokens (paper) or their mean
    samples: PositiveInt = 1  # sampled answers per question, each compared with the greedy answer
    temperature: PositiveNumber = 1.0
    max_new_tokens: PositiveInt = 128


class RewardSettings(Section):
    """`reward`: the reward of the self-critical stage and of GRPO."""

    name: str = "bert_score"  # or a weighted sum, "bert_score:0.3+finding:0.7"
    encoder: str = "distilbert-base-uncased"
    layer: NonNegativeInt = 5
    baseline: str | list[float] | None = None  # rescaling: a file, or three numbers
    batch_size: PositiveInt = 64


class Recipe(BaseRecipe):
    """A whole recipe."""

    model: Any  # the settings of the model's family
    data: DataSettings = DataSettings()
    training: TrainingSettings = TrainingSettings()
    selection: SelectionSettings = SelectionSettings()
    scst: ScstSettings | None = None
    reward: RewardSettings | None = None

    @property
    def family(self) -> ModelFamily:
        """The model's family."""
        return find_family(self.model.kind)

    @property
    def batches_per_step(self) -> int:
        return self.training.studies_per_step // self.training.studies_per_batch

    def open_model(
        self, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
    ) -> tuple[Any, Any]:
        """Model and processor to train. See `ModelFamily.open`."""
        model, processor = self.family.open(self.model, init, texts, seed, scratch)
        if self.training.attention is not None:
            model.set_attn_implementation(self.training.attention)
        return model, processor


SECTIONS: dict[str, type[Section]] = {
    "data": DataSettings, "training": TrainingSettings, "selection": SelectionSettings,
    "scst": ScstSettings, "reward": RewardSettings,
}  # fmt: skip


def shipped_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return recipe_files.shipped_recipes(FOLDER)


def load_recipe(name_or_path: str, overrides: Iterable[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or a YAML file, and apply `section.key=value` overrides.

    Raises:
        InputError: the recipe does not exist or is not valid YAML.
        ConfigError: an unknown key, a value out of range, or an override that is not `section.key=value`.

    Examples:
        >>> recipe = load_recipe("swin-ved-stage1", ["training.epochs=2"])
        >>> recipe.training.epochs, recipe.data.questions_per_study
        (2.0, 8)
    """
    return make_recipe(read_recipe_file(name_or_path, overrides, FOLDER))


def make_recipe(values: Mapping[str, Any]) -> Recipe:
    """Validate a recipe of nested mappings.

    Raises:
        ConfigError: an unknown key, a value out of range, or values that contradict each other.
    """
    values = dict(values)
    model = values.get("model")
    kind = spell_kind(model.get("kind")) if isinstance(model, Mapping) else None
    if kind not in FAMILIES:
        raise ConfigError(f"model.kind is {kind!r}. Allowed: {', '.join(FAMILIES)}")
    values["model"] = {**(model or {}), "kind": kind}
    sections: dict[str, Any] = read_sections({"model": find_family(kind).settings, **SECTIONS}, values)
    recipe = Recipe(**sections)
    check_length(recipe.training)
    _check_groups(recipe)
    _check_metrics(recipe)
    _check_combinations(recipe)
    recipe.family.check(recipe.model, recipe.training.learning_rates)
    return recipe


def count_steps_per_epoch(recipe: Recipe, studies: int) -> int:
    """Optimizer steps that show each study once. An incomplete step counts."""
    return -(-studies // recipe.training.studies_per_step)


def _check_groups(recipe: Recipe) -> None:
    groups, rates = tuple(recipe.family.groups), recipe.training.learning_rates
    for group in rates:
        check_key(group, groups, "training.learning_rates")
    if not any(rates.values()):
        raise ConfigError(f"training.learning_rates trains nothing. Set a rate above 0 for one of {', '.join(groups)}")


def _check_metrics(recipe: Recipe) -> None:
    training, selection = recipe.training, recipe.selection
    if recipe.data.validation_split is None and (selection.metric != "loss" or training.scheduler == "plateau"):
        raise ConfigError(
            "data.validation_split is null. Then selection.metric must be loss, and training.scheduler cannot be "
            "plateau, since nothing is measured"
        )
    if training.plateau_metric not in (None, "loss", selection.metric, *selection.metrics):
        raise ConfigError(
            f"training.plateau_metric {training.plateau_metric} is not measured. Add it to selection.metrics"
        )


def _check_combinations(recipe: Recipe) -> None:
    training = recipe.training
    if training.studies_per_step % training.studies_per_batch:
        raise ConfigError(
            f"training.studies_per_step is {training.studies_per_step}. It must be a multiple of "
            f"training.studies_per_batch, {training.studies_per_batch}"
        )
    if training.hard_negatives and training.scheduler in DECAY_TO_ZERO:
        raise ConfigError(
            f"training.hard_negatives is true and training.scheduler is {training.scheduler}, which ends at rate 0. "
            "The second pass continues at the last rate and would learn nothing. Use plateau or constant"
        )
    if recipe.scst is not None and recipe.reward is None:
        raise ConfigError("scst is set without reward. Add a section reward, such as reward: {name: rouge_l}")
    if training.targets == "released" and (recipe.scst is not None or not recipe.family.pads_targets):
        raise ConfigError(
            f"training.targets is released, but that only exists for the supervised stages of SwinVED. This recipe "
            f"trains {recipe.family.name}{' with scst' if recipe.scst else ''}. Set it to answer"
        )
    if recipe.data.cache_features is not None:
        _check_frozen_encoder(recipe)
    if recipe.data.augment and not recipe.family.augments:
        raise ConfigError(f"data.augment is true, but {recipe.family.name} has no augmentation. Set it to false")


def _check_frozen_encoder(recipe: Recipe) -> None:
    """Raise a ConfigError unless the features of an image stay the same during the run."""
    training, group = recipe.training, recipe.family.encoder_group
    reasons = {
        "data.augment is true, so the pixels change in every epoch": recipe.data.augment,
        f"training.learning_rates.{group} trains the image encoder": group is not None
        and bool(training.learning_rates.get(group)),
        "training.rest_frozen is false, so the frozen encoder has dropout": not training.rest_frozen,
    }
    for reason, holds in reasons.items():
        if holds:
            raise ConfigError(f"data.cache_features is set, but {reason}. Set data.cache_features=null")
