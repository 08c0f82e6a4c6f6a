"""SupervisedTrainer: transformers' Trainer on batches of studies, with exact resume and frozen parameter groups.

Differences from Trainer:
- The run is one pass over `StudyBatches`, whose batch n depends on (seed, n) only, and the random numbers of a batch
  (dropout) are seeded from (seed, n) too. So a resumed run needs no saved generator, and any number of processes
  computes the same steps. The loss is a mean over all target tokens of a step.
- Every parameter group has its own learning rate. A group without one is frozen and runs in evaluation mode.
- Validation computes a loss and scores of generated answers. The best model is written to `best` at once.
- A loss that is not finite stops the run with the step and the questions.

Subclasses override `compute_loss` and call `note` to log the mean of a metric.
"""

import copy
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from medvqa_core.errors import ConfigError, MedvqaError
from medvqa_core.model_folder import BEST_FOLDER
from medvqa_hub.families.feature_cache import FeatureCache, ImageEncoder
from medvqa_hub.families.registry import frozen_modules
from medvqa_hub.publishing.model_card import write_folder_card
from medvqa_hub.training import checkpoints
from medvqa_hub.training.arguments import ScheduleCallback, TrainingRun, common_arguments, resolve_precision
from medvqa_hub.training.batch_loading import choose_workers, load_batches
from medvqa_hub.training.cached_images import fill_cache
from medvqa_hub.training.recipe_files import count_steps
from medvqa_hub.training.recipes import EPOCH, Recipe, count_steps_per_epoch
from medvqa_hub.training.saving import CheckpointMixin
from medvqa_hub.training.sharding import load_optimizer, shard
from medvqa_hub.training.study_batches import StudyBatches, StudyCollator, derive_seed
from medvqa_hub.training.study_questions import StudyQuestions
from medvqa_hub.training.validation import Validation

FEATURES = "features"  # folder of a run
NEVER = 10**12  # steps
WAIT_THRESHOLD = 0.1  # share of the time spent waiting for batches that causes a warning


class TrainingError(MedvqaError):
    """The loss or a metric is not finite."""


class SupervisedTrainer(CheckpointMixin, Trainer):
    """Trains on the negative log-likelihood of the answers.

    Args:
        model: of the recipe's family. Its parameter groups are frozen by the recipe.
        processor: of the model.
        run: the recipe, the folder, the class and the log.
        train_rows: rows of the `studies` configuration with images, or StudyQuestions of them.
        validation_rows: the same. None trains without validation.

    Raises:
        ConfigError: the machine or the model does not support what the recipe asks for.
        InputError: no study can be used.
    """

    def __init__(self, model: Any, processor: Any, run: TrainingRun, train_rows: Any, validation_rows: Any) -> None:
        recipe: Recipe = run.recipe
        family, data = recipe.family, recipe.data
        self.train_questions = as_questions(train_rows, f"split {data.train_split}", recipe, data.one_by_one)
        studies = len(self.train_questions)
        self.steps = count_steps(recipe, studies)
        arguments = make_arguments(recipe, run.out, studies, validates=validation_rows is not None)
        self.workers = choose_workers(data.workers)
        targets = recipe.training.targets
        if targets == "released":
            family.use_released_targets(model, processor)
        collate = StudyCollator(processor, family, data.augment, targets=targets)
        self.batches = StudyBatches(self.train_questions, collate, recipe, self.steps)
        family.freeze_groups(model, recipe.training.learning_rates)
        self._frozen = frozen_modules(model) if recipe.training.rest_frozen else []
        self.validation = None
        if validation_rows is not None:
            questions = as_questions(validation_rows, f"split {data.validation_split}", recipe)
            self.validation = Validation(questions, processor, recipe, arguments, self.workers)
        # Trainer would refuse a quantised model without adapter, of which the groups in float are trained.
        quantised, model.is_quantized = getattr(model, "is_quantized", False), False
        try:
            super().__init__(
                model, arguments, train_dataset=self.batches, eval_dataset=self.validation, processing_class=processor
            )
        finally:
            model.is_quantized = quantised
        self.add_callback(ScheduleCallback())
        self.prepare_saving(run)
        self._base = self._fingerprint_base()
        self.cache = self._make_cache()
        self._noted: dict[str, list[float]] = defaultdict(list)
        self._lines, self._warned = 0, False
        self._start_clock()

    def note(self, name: str, value: float) -> None:
        """Record a metric of this batch. The log shows the mean since the last line."""
        self._noted[name].append(float(value))

    def get_train_dataloader(self) -> DataLoader:
        """This process's share of the batches, in order."""
        share = range(self.args.process_index, len(self.batches), self.args.world_size)
        return load_batches(self.batches, share, self.workers)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list, Any]:
        """As in Trainer. Also measures the time until the step's batches are ready."""
        start = time.monotonic()
        batches = super().get_batch_samples(*args, **kwargs)
        self._waited += time.monotonic() - start
        return batches

    def _make_cache(self) -> FeatureCache | None:
        data = self.recipe.data
        if data.cache_features is None:
            return None
        precision = resolve_precision(self.recipe.training.precision)
        encoder = ImageEncoder(self.recipe.family, self.model, self.processing_class, data.image_side, precision)
        return FeatureCache(self.run.features or self.out / FEATURES, encoder, data.cache_features, self.governance)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As in Trainer, after the features that are missing in the cache have been computed."""
        if self.cache is not None:
            splits = [self.train_questions] + ([self.validation.questions] if self.validation else [])
            fill_cache(self.cache, splits, self.accelerator, self.workers)
            self._start_clock()
        return super().train(*args, **kwargs)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW (Adam if nothing decays) for the parameter groups. FSDP shards the model first."""
        if self.is_fsdp_enabled and not isinstance(self.model, FSDPModule):
            shard(self.model, self.accelerator.state.fsdp_plugin)
        if self.optimizer is None:
            training = self.recipe.training
            groups = self.recipe.family.optimizer_groups(
                self.model if model is None else model, training.learning_rates, training.weight_decay
            )
            self.optimizer = torch.optim.AdamW(groups, betas=tuple(training.betas), fused=True)
        return self.optimizer

    def create_scheduler(self, *args: Any, **kwargs: Any) -> Any:
        """As in Trainer, with the scheduler `step`. Wrong arguments of a scheduler raise a ConfigError.

        Trainer calls this when the optimizer is ready (sharded, if the model is), so `run.optimizer` is loaded here.
        """
        training = self.recipe.training
        if self.run.optimizer is not None and self.lr_scheduler is None:
            path = self.run.optimizer / "optimizer.pt"
            load_optimizer(self.optimizer, torch.load(path, map_location="cpu", weights_only=True))
            for group in self.optimizer.param_groups:
                group.pop("initial_lr", None)  # the scheduler starts from the last rates
        try:
            if training.scheduler == "step" and self.lr_scheduler is None:
                self.lr_scheduler = self._decay_by_epoch(**training.scheduler_arguments)
            return super().create_scheduler(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"training.scheduler {training.scheduler} does not support training.scheduler_arguments "
                f"{training.scheduler_arguments}: {error}"
            ) from error

    def _decay_by_epoch(self, gamma: float = 0.8) -> torch.optim.lr_scheduler.LRScheduler:
        epoch = count_steps_per_epoch(self.recipe, len(self.train_questions))
        return torch.optim.lr_scheduler.StepLR(self.optimizer, epoch, gamma)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One batch forward and backward. Its random numbers depend on the batch's number only."""
        torch.manual_seed(derive_seed(self.recipe.training.seed, 3, inputs["number"]))
        inputs = {name: value for name, value in inputs.items() if name != "number"}
        self._questions_seen += len(inputs["rows"])
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"step {self.state.global_step + 1} does not fit into the GPU's memory. Lower "
                "training.studies_per_batch (the step stays as large), or set training.gradient_checkpointing=true"
            ) from error

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Negative log-likelihood per target token of the step."""
        rows = inputs.pop("rows")
        self.set_frozen_eval()
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        self.check_finite(loss, rows)
        return (loss, outputs) if return_outputs else loss

    def set_frozen_eval(self) -> None:
        """Put frozen groups into evaluation mode. Trainer sets training mode for the whole model before each batch."""
        for module in self._frozen:
            module.eval()

    def check_finite(self, loss: torch.Tensor, rows: list[dict[str, Any]]) -> None:
        """Raise a TrainingError with the step and the qa_ids if `loss` is NaN or infinite."""
        if not torch.isfinite(loss).all():
            ids = ", ".join(str(row["qa_id"]) for row in rows)
            raise TrainingError(
                f"the loss is {loss.detach().float().mean().item()} at step {self.state.global_step + 1} in a batch "
                f"with the questions {ids}. Lower training.learning_rates, or inspect these rows. The last checkpoint "
                "is intact"
            )

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Validate: `eval_loss`, and scores of generated answers if the recipe asks for them."""
        assert self.validation is not None
        measured = self.validation.measure(self.model, self.accelerator)
        metrics = {f"eval_{name}": value for name, value in measured.items()}
        if not all(abs(value) < float("inf") for value in metrics.values()):
            raise TrainingError(
                f"validation at step {self.state.global_step} gave {metrics}. Lower training.learning_rates"
            )
        self.log(dict(metrics))
        if self.run.log is not None and self.run.log.trackers is not None:
            self.run.log.trackers.log_samples(self.validation.read_samples, self.state.global_step)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._start_clock()  # validation does not count as training time
        return metrics

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        """As in Trainer. A plateau scheduler may follow another metric than the selection of the best model."""
        metrics = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler=True)
        training = self.recipe.training
        if training.scheduler == "plateau" and not skip_scheduler:
            self.lr_scheduler.step(metrics[f"eval_{training.plateau_metric or self.recipe.selection.metric}"])
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Write a line to the run's log."""
        if "train_runtime" in logs:
            return  # Trainer's summary counts batches as samples
        if "loss" in logs:
            seconds = max(time.monotonic() - self._clock, 1e-9)
            logs["questions_per_second"] = round(self._questions_seen * self.args.world_size / seconds, 2)
            logs["data_wait_share"] = round(min(self._waited / seconds, 1.0), 3)
            self._warn_of_waiting(logs["data_wait_share"])
            logs |= {f"learning_rate_{_name(group)}": group["lr"] for group in self.optimizer.param_groups}
            logs.pop("learning_rate", None)
            logs |= {name: sum(values) / len(values) for name, values in self._noted.items()}
            self._noted.clear()
            self._start_clock()
        step = self.state.global_step
        epoch = round(step * self.recipe.training.studies_per_step / len(self.train_questions), 4)
        if self.run.log is not None:
            self.run.log.append({"step": step, "epoch": epoch, **logs}, self.steps)
        self.control = self.callback_handler.on_log(self.args, self.state, self.control, logs)

    def _start_clock(self) -> None:
        self._clock, self._questions_seen, self._waited = time.monotonic(), 0, 0.0

    def _warn_of_waiting(self, share: float) -> None:
        """Print once that training waits for images. The first line is skipped, as the workers have just started.

        Without workers, a CPU alternates between reading and training, so it never waits.
        """
        self._lines += 1
        if self._lines == 1 or self._warned or share < WAIT_THRESHOLD or self.run.log is None:
            return
        device = self.args.device.type
        if self.workers or device != "cpu":
            self._warned = True
            print(
                f"The {device} waits for images {share:.0%} of the time (data.workers: {self.workers}). Shrink them "
                "once (medvqa-hub cxr shrink) and train from those, or set more workers if there are cores",
                file=sys.stderr,
            )

    def push_to_hub(self, repo_id: str | None = None, *, token: str | None = None, **options: Any) -> Any:
        """Push the best model with the same checks, order and card as `medvqa-hub push model`.

        Args:
            repo_id: OWNER/NAME. Default: `hub_model_id` of the arguments.
            token: of the Hub. Default: this machine's.
            options: of `publishing.model.ModelPush`.

        Raises:
            ConfigError: the repository name is missing.
            GovernanceError: the class of the model or of its training data forbids it.
        """
        from huggingface_hub import HfApi

        from medvqa_hub.publishing.model import ModelPush, push_model

        name = repo_id or self.args.hub_model_id
        if name is None:
            raise ConfigError("push_to_hub: no repository. Pass repo_id='OWNER/NAME'")
        hub = options.pop("hub", None) or HfApi(token=token)
        return push_model(ModelPush(self.out / BEST_FOLDER, name, **options), hub=hub)

    def save_weights(self, folder: Path, kind: str, weights: dict[str, Any] | None) -> None:
        """A checkpoint of a mostly frozen model has only its trained weights. The best LoRA model is merged."""
        model = self.accelerator.unwrap_model(self.model)
        quantised = getattr(model, "is_quantized", False)
        if kind == checkpoints.CHECKPOINT and self._keeps_base():
            checkpoints.save_trained(model, folder, weights)
            return
        if kind == checkpoints.BEST and hasattr(model, "merge_and_unload") and not quantised:
            model = copy.deepcopy(model).merge_and_unload()
        # transformers cannot convert quantised weights back to their original format.
        options = {"save_original_format": False} if quantised else {}
        model.save_pretrained(folder, state_dict=weights, **options)

    def write_card(self, folder: Path, kind: str) -> None:
        if kind == checkpoints.BEST:
            write_folder_card(folder, self.recipe.model.kind, self.governance)

    def describe_checkpoint(self) -> dict[str, Any]:
        return {"base": self._base} if self._keeps_base() else {}

    def _keeps_base(self) -> bool:
        """Whether checkpoints hold the trained weights only. The second pass and quantised bases need whole models."""
        special = hasattr(self.model, "peft_config") or getattr(self.model, "is_quantized", False)
        return self.recipe.family.keeps_its_base and not special and not self.recipe.training.hard_negatives

    def _fingerprint_base(self) -> str:
        """Fingerprint of the frozen weights, or nothing if checkpoints hold them."""
        return checkpoints.fingerprint_frozen_weights(self.model) if self._keeps_base() else ""

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As in Trainer. Quantised weights are loaded with the model, so they come from the checkpoint already."""
        if (Path(resume_from_checkpoint) / checkpoints.TRAINED).exists():
            if not isinstance(self.model, FSDPModule):  # loaded before it was sharded
                checkpoints.load_trained(self.model, Path(resume_from_checkpoint), self._base)
        elif not getattr(self.model, "is_quantized", False) or hasattr(self.model, "peft_config"):
            super()._load_from_checkpoint(resume_from_checkpoint, model)


def make_arguments(recipe: Recipe, out: Path, studies: int, validates: bool) -> TrainingArguments:
    """transformers' arguments for a run over `studies` usable studies. Raises ConfigError, as `common_arguments`."""
    training, selection = recipe.training, recipe.selection
    scheduler: str = training.scheduler
    arguments = dict(training.scheduler_arguments)
    if scheduler == "plateau":
        mode = "min" if (training.plateau_metric or selection.metric) == "loss" else "max"
        scheduler, arguments = "reduce_lr_on_plateau", {"mode": mode, **arguments}
    if scheduler == "step":  # the trainer makes it
        scheduler, arguments = "constant", {}
    every = count_steps_per_epoch(recipe, studies) if selection.every == EPOCH else selection.every or NEVER
    return TrainingArguments(
        **common_arguments(recipe, out, count_steps(recipe, studies)),
        per_device_train_batch_size=1,  # an item of StudyBatches is a batch
        learning_rate=max(training.learning_rates.values()),
        lr_scheduler_type=scheduler,
        lr_scheduler_kwargs=arguments,
        eval_strategy="steps" if validates else "no",
        eval_steps=every,
        metric_for_best_model=f"eval_{selection.metric}" if validates else None,
        greater_is_better=selection.metric != "loss",
        average_tokens_across_devices=True,
        ddp_find_unused_parameters=False,
    )


def as_questions(rows: Any, what: str, recipe: Recipe, one_by_one: bool = False) -> StudyQuestions:
    """The questions of `rows`, unless they are StudyQuestions already."""
    if isinstance(rows, StudyQuestions):
        return rows
    known = recipe.family.view_is_known(recipe.model)
    questions = StudyQuestions(rows, what, known, image_side=recipe.data.image_side)
    return questions.one_by_one() if one_by_one else questions


def _name(group: Mapping[str, Any]) -> str:
    """The name of an optimizer's group, which checkpoints of earlier versions store under `part`."""
    return group["name"] if "name" in group else group["part"]
