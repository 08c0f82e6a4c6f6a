"""`train swin-ved` and `train blip2-multiview`: one run from a recipe."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from medvqa_core.errors import InputError
from medvqa_core.files import make_folder
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import strictest
from medvqa_core.json_files import read_object, write_json
from medvqa_core.model_folder import find_model_folder
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.training import checkpoints, hard_negatives
from medvqa_hub.training.arguments import TrainingRun, resolve_precision, uses_cpu
from medvqa_hub.training.batch_loading import choose_workers
from medvqa_hub.training.cached_images import MEASURED, measure_cost
from medvqa_hub.training.job import Log, TrainingJob, open_log
from medvqa_hub.training.recipe_files import count_steps
from medvqa_hub.training.recipes import Recipe
from medvqa_hub.training.scst import SCSTTrainer
from medvqa_hub.training.study_questions import StudyQuestions
from medvqa_hub.training.trainer import FEATURES, SupervisedTrainer
from medvqa_hub.training.training_data import TrainingData, load_data
from mimic_cxr_vqa.release import open_release


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    image_root: Path | None = None,
    init: Path | None = None,
    dry_run: bool = False,
    log: Log = print,
    report_to: Sequence[str] = (),
    features: Path | None = None,
) -> Path:
    """Train by `recipe` into `out`.

    Args:
        data: a release, the folder it was built in, or the authors' CSV files.
        image_root: folder that image paths start from.
        init: checkpoint to start from: a model's folder, or the output folder of an earlier stage.
        dry_run: print what would be done and stop.
        log: receives lines for the user, on the first process only.
        report_to: experiment trackers that receive the log, see `medvqa_hub.tracking`.
        features: folder of cached features, which runs may share. None: OUT/features. See `data.cache_features`.

    Returns:
        `out`. The best model is in `out/best`.

    Raises:
        MedvqaError: a problem that the user can solve.
    """
    job = StudyJob(recipe, data, out, image_root, log, report_to)
    job.start = None if init is None else find_model_folder(init)
    job.features = features or out / FEATURES
    return job.execute(dry_run)


@dataclass
class StudyJob(TrainingJob):
    """A run that trains one of our own models on studies.

    Attributes:
        questions: StudyQuestions of the training split.
        validation: the same of the validation split, or None.
    """

    features: Path | None = field(default=None, init=False)
    rows: TrainingData = field(init=False)
    questions: Any = field(default=None, init=False)
    validation: Any = field(default=None, init=False)

    def fingerprint_data(self) -> str:
        return open_release(self.data).fingerprint

    def prepare(self) -> None:
        recipe = self.recipe
        self.rows = rows = load_data(self.data, self.image_root, recipe.data)
        known, side = recipe.family.view_is_known(recipe.model), recipe.data.image_side
        split, conflicts = f"split {recipe.data.train_split}", recipe.data.label_conflicts
        self.questions = StudyQuestions(rows.train, split, known, image_side=side, label_conflicts=conflicts)
        self._check_images(self.questions, "train")
        if recipe.data.one_by_one:
            self.questions = self.questions.one_by_one()
        if rows.validation is not None:
            split = f"split {recipe.data.validation_split}"
            self.validation, self.validates = StudyQuestions(rows.validation, split, known, image_side=side), True
            self._check_images(self.validation, "validation")
        classes = [rows.governance] + ([read_governance(self.start)] if self.start else [])
        self.governance = strictest(classes)
        studies, questions = self._count()
        left_out = {name: count for name, count in self.questions.skipped.items() if count}
        described = history.describe_data(open_release(self.data), studies, questions, left_out)
        self.stages = history.describe_stage(recipe, described, self.start)
        self.steps = count_steps(recipe, len(self.questions))

    def _check_images(self, questions: StudyQuestions, name: str) -> None:
        """Leave out or refuse damaged images. A resumed run leaves out the same studies again."""
        settings, path = self.recipe.data, self.out / f"damaged_{name}.json"
        if not settings.check_images and settings.damaged_images == "error":
            return
        damaged = read_object(path, ANOTHER) if path.exists() else questions.find_damaged()
        if damaged and settings.damaged_images == "error":
            raise InputError(
                f"{len(damaged)} studies have a damaged image. The first: {next(iter(damaged.values()))}. Or leave "
                "them out with --damaged skip"
            )
        if damaged:
            questions.leave_out([int(study_id) for study_id in damaged])
        if not self.dry_run and not path.exists():
            write_json(make_folder(self.out) / path.name, damaged, private=True)

    def _count(self) -> tuple[int, int]:
        return len(set(self.questions.studies.tolist())), int(self.questions.counts.sum())

    def describe(self) -> list[str]:
        training, wanted = self.recipe.training, self.recipe.data.questions_per_study
        studies, questions = self._count()
        lines = [f"training: {studies:,} studies with {questions:,} questions"]
        if self.validation is not None:
            lines.append(f"validation: {len(self.validation):,} studies")
        if self.recipe.data.one_by_one:
            step, unit, short = f"{training.studies_per_step} questions", "", 0
        else:
            step, unit = f"{training.studies_per_step} studies x {wanted or 'all'} questions", " studies"
            short = int((self.questions.counts < wanted).sum()) if wanted else 0
        lines.append(f"{self.steps:,} steps of {step}, in batches of {training.studies_per_batch}{unit}")
        skipped = self.questions.skipped.items()
        lines += [f"left out: {count:,} {name.replace('_', ' ')}" for name, count in skipped if count]
        if self.recipe.data.cache_features is not None:
            lines.append(self._describe_cache())
        if short:
            lines.append(f"{short:,} studies have fewer than {wanted} questions and use those they have")
        return [*lines, f"governance class: {self.governance}"]

    def _describe_cache(self) -> str:
        """Images, bytes and time of the cache. A dry run measures the time on a few images."""
        recipe, splits = self.recipe, [self.questions] + ([self.validation] if self.validation is not None else [])
        images = sum(split.grouped.count_images() for split in splits)
        line = f"cached features: up to {images:,} images in {self.features}"
        if not self.dry_run:
            return line
        with torch.device("meta"):
            encoder = recipe.family.make_encoder(recipe.model, self.start)
        if encoder is None:
            return f"{line}. Size and time are not known before the model is downloaded"
        device = torch.device("cpu" if uses_cpu() else "cuda")
        bf16 = resolve_precision(recipe.training.precision) == "bfloat16"
        cost = measure_cost(encoder, self.questions.grouped, device, bf16)
        size = images * cost.values * getattr(torch, recipe.data.cache_features).itemsize
        seconds = cost.estimate_seconds(images, choose_workers(recipe.data.workers))
        measured = f"{cost.decoding:.3f} s to decode and {cost.encoding:.3f} s to encode each of {MEASURED} images"
        return (
            f"{line}, {size / 1e6:,.1f} MB and about {seconds / 60:,.1f} minutes of one process with this machine's "
            f"{cost.device} (measured: {measured})"
        )

    def make_trainer(self, run: TrainingRun, checkpoint: Path | None) -> SupervisedTrainer:
        recipe = self.recipe
        model, processor = recipe.open_model(
            checkpoint or self.start, self.rows.texts(), recipe.training.seed, scratch=self.out
        )
        trainer = SupervisedTrainer if recipe.scst is None else SCSTTrainer
        run = replace(run, features=self.features)
        return trainer(model, processor, run, self.questions, self.validation)

    def finish(self, trainer: SupervisedTrainer) -> dict[str, Any]:
        """Make the second pass. Its best model replaces the first one's if it is better, or without validation."""
        if not self.recipe.training.hard_negatives:
            return {}
        _, last = checkpoints.complete_checkpoints(self.out)[-1]
        folder = make_folder(self.out / checkpoints.SECOND_PASS)
        losses = hard_negatives.measure_losses(trainer, self.questions.grouped, folder, last)
        chosen = hard_negatives.select_by_loss(losses)
        self.log(f"second pass over {len(chosen):,} of {len(losses):,} questions")
        second = copy.copy(self)
        second.out, second.start, second.report_to = folder, last, ()  # trackers follow the first pass
        second.questions = hard_negatives.choose_questions(self.questions, chosen, self.recipe.data.one_by_one)
        second.recipe = hard_negatives.second_pass_recipe(self.recipe, second.questions)
        second.steps = second.recipe.training.max_steps
        with open_log(folder) as log_file:
            second.train(log_file, optimizer=last)
        if trainer.args.should_save:
            greater = self.recipe.selection.metric != "loss"
            checkpoints.promote_if_better(folder, self.out, greater, self.governance)
        return {}
