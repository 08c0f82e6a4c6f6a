"""Recipes of `train vlm`, which fit any image-text model.

    training: …   stage (sft, grpo), steps, rate, precision     lora: …   null (train all weights), or an adapter
    data: …       which rows, and how they are presented        grpo: …   answers drawn per question (stage grpo)
    reward: …     the reward of these answers (stage grpo)

A step has `rows_per_step` rows, on any number of processes, which share it in batches of `rows_per_batch`. Rows are
conversations. In stage grpo they are questions with `grpo.answers` answers each, and `rows_per_batch` counts answers.
See `medvqa_hub.training.recipe_files` for the files.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt

from medvqa_core.errors import ConfigError
from medvqa_core.settings import NonNegativeNumber, Number, PositiveNumber, Section
from medvqa_hub.training import recipe_files
from medvqa_hub.training.recipe_files import (
    MAX_SEED,
    BaseRecipe,
    check_length,
    read_recipe_file,
    read_sections,
)
from medvqa_hub.training.recipes import RewardSettings
from mimic_cxr_vqa.chat_rows import TURNS
from mimic_cxr_vqa.schema import CATEGORIES, LABEL_VALUES

FOLDER = Path(__file__).parent / "recipes"
SFT, GRPO = "sft", "grpo"
STAGES = (SFT, GRPO)
if TYPE_CHECKING:  # a type checker needs literals
    Category: TypeAlias = str
    LabelValue: TypeAlias = str
else:
    Category, LabelValue = Literal[CATEGORIES], Literal[tuple(LABEL_VALUES.values())]


class VlmData(Section):
    """`data`."""

    turns: Literal["question", "study"] = "question"  # one conversation per question or per study
    train_split: str = "train"
    validation_split: str | None = None
    train_studies: PositiveInt | None = None  # the first so many, or null for all
    validation_studies: PositiveInt | None = None
    categories: list[Category] | None = None  # only these questions, or null for all
    label_values: list[LabelValue] | None = None
    missing_images: Literal["error", "skip"] = "error"
    label_conflicts: Literal["keep", "leave_out"] = "keep"  # answers that contradict their label
    image_side: PositiveInt | None = 512  # shorter side to which radiographs are shrunk
    report_side: Annotated[int, Field(ge=28)] = 1536  # longest side of report images, as in `evaluate meddqa`
    workers: NonNegativeInt = 0  # processes that read images


class LoraSettings(Section):
    """`lora`: train an adapter and leave the model's own weights unchanged."""

    rank: PositiveInt = 16
    alpha: PositiveNumber = 32.0
    dropout: Annotated[Number, Field(ge=0, le=1)] = 0.05
    targets: str | list[str] = "all-linear"  # names of layers
    vision: bool = False  # whether the image encoder gets adapters too
    quantize: Literal["8bit", "4bit"] | None = None  # of the model's own weights


class VlmTraining(Section):
    """`training`."""

    stage: Literal["sft", "grpo"] = "sft"
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] = 0
    epochs: PositiveNumber | None = 1.0
    max_steps: PositiveInt | None = None  # instead of epochs
    rows_per_step: PositiveInt = 32
    rows_per_batch: PositiveInt = 4
    learning_rate: PositiveNumber = 1e-4
    vision: bool = False  # without lora: whether the image encoder's weights are trained
    weight_decay: NonNegativeNumber = 0.0
    scheduler: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "cosine"
    warmup_steps: NonNegativeInt = 0
    max_grad_norm: NonNegativeNumber = 1.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 if the processor has it
    gradient_checkpointing: bool = True
    packing: bool = False  # of several conversations into a sequence
    compile: bool = False  # torch.compile
    attention: Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"] | None = None
    log_every: PositiveInt = 10
    validate_every: PositiveInt = 200
    save_every: PositiveInt = 200
    keep_checkpoints: PositiveInt = 1

    @property
    def step_size(self) -> int:
        return self.rows_per_step


class GrpoSettings(Section):
    """`grpo`."""

    answers: Annotated[int, Field(ge=2)] = 8  # drawn per question, each compared with their mean
    temperature: PositiveNumber = 1.0
    max_new_tokens: PositiveInt = 128
    beta: NonNegativeNumber = 0.0  # weight of the divergence from the starting model
    scale_rewards: Literal["group", "batch", "none"] = "group"
    vllm: bool = False  # whether vLLM draws the answers, on the GPUs of the training
    vllm_memory: Annotated[Number, Field(gt=0, lt=1)] = 0.3  # its share of a GPU's memory


class VlmRecipe(BaseRecipe):
    """A whole recipe."""

    training: VlmTraining = VlmTraining()
    lora: LoraSettings | None = None
    data: VlmData = VlmData()
    grpo: GrpoSettings | None = None
    reward: RewardSettings | None = None

    @property
    def sequences_per_step(self) -> int:
        """Sequences that pass through the model in a step: rows, or in stage grpo their answers."""
        return self.training.rows_per_step * (self.grpo.answers if self.grpo else 1)

    @property
    def batches_per_step(self) -> int:
        return self.sequences_per_step // self.training.rows_per_batch


SECTIONS: dict[str, type[Section]] = {
    "training": VlmTraining, "lora": LoraSettings, "data": VlmData, "grpo": GrpoSettings, "reward": RewardSettings,
}  # fmt: skip


def shipped_vlm_recipes() -> list[str]:
    """Names of the recipes that come with the package."""
    return recipe_files.shipped_recipes(FOLDER)


def load_vlm_recipe(name_or_path: str, overrides: Iterable[str] = ()) -> VlmRecipe:
    """Read a shipped recipe by name, or a YAML file. See `medvqa_hub.training.recipes.load_recipe`."""
    return make_vlm_recipe(read_recipe_file(name_or_path, overrides, FOLDER))


def make_vlm_recipe(values: Mapping[str, Any]) -> VlmRecipe:
    """Validate a recipe of nested mappings. Raises ConfigError."""
    sections: dict[str, Any] = read_sections(SECTIONS, values)
    recipe = VlmRecipe(**sections)
    check_length(recipe.training)
    _check_stage(recipe)
    if recipe.sequences_per_step % recipe.training.rows_per_batch:
        raise ConfigError(
            f"training.rows_per_batch is {recipe.training.rows_per_batch}. It must divide the "
            f"{recipe.sequences_per_step} sequences of a step (training.rows_per_step times grpo.answers)"
        )
    if recipe.lora is not None and recipe.training.vision:
        raise ConfigError("training.vision trains the image encoder's own weights. With an adapter, use lora.vision")
    return recipe


def _check_stage(recipe: VlmRecipe) -> None:
    stage = recipe.training.stage
    for section, example in (("grpo", "answers=8"), ("reward", "name=finding_accuracy")):
        if (getattr(recipe, section) is None) == (stage == GRPO):
            found = "missing" if stage == GRPO else "set"
            raise ConfigError(
                f"section {section} is {found} and training.stage is {stage}. Stage {GRPO} needs this section and "
                f"{SFT} does not use it (--set {section}.{example})"
            )
    if recipe.training.packing:
        raise ConfigError("training.packing: TRL does not pack conversations with images. Set it to false")
    if stage == GRPO and recipe.data.turns != TURNS[0]:
        raise ConfigError(f"data.turns is {recipe.data.turns!r}. Stage {GRPO} answers one question at a time")
    if stage == GRPO and recipe.data.validation_split is not None:
        raise ConfigError(
            f"data.validation_split: stage {GRPO} has no validation. Set it to null and evaluate afterwards"
        )
