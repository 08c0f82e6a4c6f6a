"""SupervisedTrainer: transformers' Trainer on study batches, with exact resume, frozen groups and whole checkpoints.

What differs from Trainer:
- The run is one pass over `StudyBatches`, whose batch n depends on (seed, n) alone; epochs are within it. The random
  numbers of a step (dropout) are seeded from (seed, n) too. So a run that goes on needs no saved generator, and any
  number of processes computes the same steps: the same batches, the loss a mean over all target tokens of the step.
- Every parameter group has its learning rate; one without is frozen and runs as in evaluation.
- Validation is a loss and scores of generated answers; the best model is written to `best` at once (`saving.py`).
- A loss that is no number stops the run and names the step and the questions.

For subclasses: override `compute_loss`, and `note` metrics to see their means in the log.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer

from medvqa_core.errors import ConfigError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_core.llm.loading import keep_unpacked
from medvqa_hub.families.registry import frozen_modules
from medvqa_hub.training import checkpoints
from medvqa_hub.training.arguments import ScheduleCallback, make_arguments
from medvqa_hub.training.batch_loading import ShardSampler, choose_workers, load_batches
from medvqa_hub.training.recipes import Recipe, batches_per_process, count_steps_per_epoch, steps_of
from medvqa_hub.training.saving import CheckpointMixin
from medvqa_hub.training.study_batches import StudyBatches, StudyCollator, derive_seed
from medvqa_hub.training.study_questions import StudyQuestions
from medvqa_hub.training.validation import Validation

LINE_INTERVAL = 10.0  # seconds between lines of progress
MUCH_WAITING = 0.1  # share of the time, spent on waiting for batches, that is worth a warning


class TrainingError(MedvqaError):
    """Training cannot go on: its numbers are broken."""


class SupervisedTrainer(CheckpointMixin, Trainer):
    """Trains on the negative log-likelihood of the answers.

    Args:
        model: of the recipe's family; its parameter groups are frozen as the recipe says.
        processor: of the model.
        recipe: resolved.
        train_rows: rows of the `studies` configuration with images, or a StudyQuestions made of them.
        validation_rows: the same; None trains without validation.
        out: folder of the run; see `checkpoints`.
        governance: class of everything that the model has seen.
        log: where log lines go; None on processes other than the first.

    Raises:
        ConfigError: the recipe asks for what the machine or the model does not have.
        InputError: no study can be used.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        recipe: Recipe,
        train_rows: Any,
        validation_rows: Any,
        out: Path,
        governance: Governance = Governance.CREDENTIALED,
        log: checkpoints.TrainingLog | None = None,
    ) -> None:
        self.recipe, self.out, self.governance, self.training_log = recipe, out, governance, log
        family, data, training = recipe.family, recipe.data, recipe.training
        self.train_questions = as_questions(train_rows, f"split {data.train_split}", recipe, data.one_by_one)
        self.steps = steps_of(recipe, len(self.train_questions))
        arguments = make_arguments(recipe, out, len(self.train_questions), validates=validation_rows is not None)
        self.workers = choose_workers(data.workers)
        self.batches = StudyBatches(
            self.train_questions,
            StudyCollator(processor, family, data.augment),
            self.steps,
            training.studies_per_step,
            training.studies_per_batch,
            data.questions_per_study,
            data.questions_per_study_policy,
            training.seed,
        )
        arguments.gradient_accumulation_steps = batches_per_process(recipe, arguments.world_size)
        family.freeze_groups(model, training.learning_rates)
        self._frozen = frozen_modules(model)
        self.validation = None
        if validation_rows is not None:
            questions = as_questions(validation_rows, f"split {data.validation_split}", recipe)
            self.validation = Validation(questions, processor, family, recipe.selection, arguments, self.workers)
        # Trainer wants adapters on a quantised model; here the groups that stayed in float are what is trained.
        quantised = getattr(model, "is_quantized", False) and not getattr(model, "_hf_peft_config_loaded", False)
        if quantised:
            model._hf_peft_config_loaded = True
            keep_unpacked(model)
        super().__init__(
            model, arguments, train_dataset=self.batches, eval_dataset=self.validation, processing_class=processor
        )
        if quantised:
            model._hf_peft_config_loaded = False
        self.remove_callback(PrinterCallback)
        self.add_callback(ScheduleCallback())
        self.prepare_saving()
        self.optimizer_of: Path | None = None  # checkpoint whose optimizer and rates to start with
        self._noted: dict[str, list[float]] = defaultdict(list)
        self._questions_seen, self._clock, self._last_line = 0, time.monotonic(), time.monotonic()
        self._waited, self._lines, self._warned = 0.0, 0, False

    def note(self, name: str, value: float) -> None:
        """Remember a metric of this batch; the log shows the mean since the last line."""
        self._noted[name].append(float(value))

    def get_train_dataloader(self) -> DataLoader:
        """This process's share of the batches, in order; images are decoded in the loader's workers."""
        arguments = self.args
        share = ShardSampler(arguments.process_index, arguments.world_size, len(self.batches))
        return load_batches(self.batches, share, self.workers)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list, Any]:
        """As Trainer; the time until the step's batches are there is noted."""
        start = time.monotonic()
        batches = super().get_batch_samples(*args, **kwargs)
        self._waited += time.monotonic() - start
        return batches

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW (Adam where nothing decays) for the parameter groups."""
        if self.optimizer is None:
            training = self.recipe.training
            groups = self.recipe.family.optimizer_groups(
                self.model if model is None else model, training.learning_rates, training.weight_decay
            )
            self.optimizer = torch.optim.AdamW(groups, betas=tuple(training.betas), fused=True)
            if self.optimizer_of is not None:
                self._take_optimizer(self.optimizer_of / "optimizer.pt")
        return self.optimizer

    def _take_optimizer(self, path: Path) -> None:
        """Go on with the moments and rates of a saved optimizer; its rates are those that the scheduler starts from."""
        self.optimizer.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        for group in self.optimizer.param_groups:
            group.pop("initial_lr", None)

    def create_scheduler(self, *args: Any, **kwargs: Any) -> Any:
        """As Trainer, and `step`; arguments that the scheduler does not take are an error of the recipe."""
        try:
            if self.recipe.training.scheduler == "step" and self.lr_scheduler is None:
                self.lr_scheduler = self._decay_by_epoch(**self.recipe.training.scheduler_arguments)
            return super().create_scheduler(*args, **kwargs)
        except (TypeError, ValueError) as error:
            training = self.recipe.training
            raise ConfigError(
                f"training.scheduler_arguments {training.scheduler_arguments} do not fit the scheduler "
                f"{training.scheduler}: {error}"
            ) from error

    def _decay_by_epoch(self, gamma: float = 0.8) -> torch.optim.lr_scheduler.LRScheduler:
        epoch = count_steps_per_epoch(self.recipe, len(self.train_questions))
        return torch.optim.lr_scheduler.StepLR(self.optimizer, epoch, gamma)

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One batch forward and backward; its random numbers depend on the batch's number alone."""
        torch.manual_seed(derive_seed(self.recipe.training.seed, 3, inputs["number"]))
        inputs = {name: value for name, value in inputs.items() if name != "number"}
        self._questions_seen += len(inputs["rows"])
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"step {self.state.global_step + 1} does not fit into the GPU's memory: lower "
                "training.studies_per_batch (a step stays as large), or set training.gradient_checkpointing=true"
            ) from error

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Negative log-likelihood per target token of the step."""
        rows = inputs.pop("rows")
        self.set_frozen_eval()
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        self.check_number(loss, rows)
        return (loss, outputs) if return_outputs else loss

    def set_frozen_eval(self) -> None:
        """Put frozen groups into evaluation mode; Trainer puts the whole model into training mode before each batch."""
        for module in self._frozen if self.recipe.training.rest_frozen else ():
            module.eval()

    def check_number(self, loss: torch.Tensor, rows: list[dict[str, Any]], what: str = "the loss") -> None:
        """Raise a TrainingError if `loss` is NaN or infinite; it names the step and the questions, never their text."""
        if not torch.isfinite(loss).all():
            ids = ", ".join(str(row["qa_id"]) for row in rows)
            raise TrainingError(
                f"{what} is {loss.detach().float().mean().item()} at step {self.state.global_step + 1}; the batch's "
                f"questions: {ids}. Lower training.learning_rates, or look at these rows; the last checkpoint is whole"
            )

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Validate: `eval_loss`, and scores of generated answers where the recipe asks for them."""
        measured = self.validation.measure(self.model, self.accelerator)
        metrics = {f"eval_{name}": value for name, value in measured.items()}
        if not all(abs(value) < float("inf") for value in metrics.values()):
            raise TrainingError(
                f"validation at step {self.state.global_step} gave {metrics}; lower training.learning_rates"
            )
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._start_clock()  # what ran in between took time that is not training's
        return metrics

    def _evaluate(self, trial: Any, ignore_keys_for_eval: Any, skip_scheduler: bool = False) -> dict[str, float]:
        """As Trainer; a plateau is one of `training.plateau_metric`, which may be another than what is best by."""
        metrics = super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler=True)
        training = self.recipe.training
        if training.scheduler == "plateau" and not skip_scheduler:
            self.lr_scheduler.step(metrics[f"eval_{training.plateau_metric or self.recipe.selection.metric}"])
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Write a line to the log and, every 10 s, one to standard error."""
        if "train_runtime" in logs:
            return  # Trainer's summary counts batches as samples
        if "loss" in logs:
            seconds = max(time.monotonic() - self._clock, 1e-9)
            seen = self._questions_seen * self.args.world_size
            logs["questions_per_second"] = round(seen / seconds, 2)
            logs["data_wait_share"] = round(min(self._waited / seconds, 1.0), 3)
            self._warn_of_waiting(logs["data_wait_share"])
            logs |= {f"learning_rate_{_name(group)}": group["lr"] for group in self.optimizer.param_groups}
            logs.pop("learning_rate", None)
            logs |= {name: sum(values) / len(values) for name, values in self._noted.items()}
            self._noted.clear()
            self._start_clock()
        step = self.state.global_step
        epoch = round(step * self.recipe.training.studies_per_step / len(self.train_questions), 4)
        if self.training_log is not None:
            self.training_log.append({"step": step, "epoch": epoch, **logs})
            self._show_progress(step, logs)
        self.control = self.callback_handler.on_log(self.args, self.state, self.control, logs)

    def _start_clock(self) -> None:
        self._clock, self._questions_seen, self._waited = time.monotonic(), 0, 0.0

    def _warn_of_waiting(self, share: float) -> None:
        """Say once that the device waits for data; not after the first line, when the workers have just begun.

        A CPU without workers reads and learns in turn: nothing waits there.
        """
        self._lines += 1
        if self._lines == 1 or self._warned or share < MUCH_WAITING or self.training_log is None:
            return
        if self.workers or self.args.device.type != "cpu":
            self._warned = True
            print(
                f"{share:.0%} of the time the {self.args.device.type} waits for images (data.workers: {self.workers}): "
                "shrink them once (medvqa-hub cxr shrink) and train from those, or set more workers if there are cores",
                file=sys.stderr,
            )

    def _show_progress(self, step: int, logs: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self._last_line < LINE_INTERVAL and "eval_loss" not in logs:
            return
        self._last_line = now
        shown = {name: value for name, value in logs.items() if not name.startswith("learning_rate")}
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in shown.items())
        print(f"step {step}/{self.steps}: {metrics}", file=sys.stderr)


def as_questions(rows: Any, what: str, recipe: Recipe, one_by_one: bool = False) -> StudyQuestions:
    """What can be asked about `rows`; a StudyQuestions is returned as it is."""
    if isinstance(rows, StudyQuestions):
        return rows
    known = recipe.family.view_is_known(recipe.model)
    questions = StudyQuestions(rows, what, known, image_side=recipe.data.image_side)
    return questions.one_by_one() if one_by_one else questions


def _name(group: Mapping[str, Any]) -> str:
    """Of an optimizer's group; checkpoints of earlier versions have it under `part`."""
    return group["name"] if "name" in group else group["part"]
