"""TRL's trainers with what a run of ours has: whole checkpoints, exact resume, a log of numbers, nothing sent anywhere.

What differs from SFTTrainer and GRPOTrainer:
- A run is one pass over an order of rows that the seed alone decides; epochs are within it. The random numbers of a
  batch (dropout, drawn answers) are seeded from (seed, step, batch, process). So a run that goes on computes what it
  would have computed.
- Checkpoints appear by rename, without the pickled arguments; `best` is the model of the least validation loss, or the
  last one where nothing is validated.
- No telemetry, no reports, no pushes; TRL's warning that shows a row which no reward can score is silenced, since logs
  hold no text.
"""

import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from medvqa_core.governance import Governance
from medvqa_core.llm.loading import keep_unpacked
from medvqa_hub.families import history
from medvqa_hub.families.folders import BEST_FOLDER
from medvqa_hub.training import checkpoints
from medvqa_hub.training.arguments import NEVER, ScheduleCallback, check_precision, uses_cpu
from medvqa_hub.training.study_batches import derive_seed
from medvqa_hub.training.trainer import LINE_INTERVAL
from medvqa_hub.training.vlm.card import write_card
from medvqa_hub.training.vlm.recipe import GRPO, VlmRecipe, batches_of_process
from medvqa_hub.training.vlm.rewards import AnswerReward

_RANDOM, _ORDER = 11, 12  # tell these uses of the recipe's seed from others
_NOT_OURS = ("epoch", "num_tokens", "step_time", "total_flos")  # of the process, or of what TRL takes for an epoch


class RunOrder(Sampler):
    """Which rows a run reads, from its first step to its last.

    Args:
        rows: how many there are; every epoch has each of them once, in another order.
        answers, passes: TRL's GRPOTrainer draws so many answers to each of a step's rows, and asks for the step's rows
            again at each of so many batches, though it reads them at the first.
    """

    def __init__(self, rows: int, steps: int, rows_per_step: int, seed: int, answers: int = 1, passes: int = 1) -> None:
        self.rows, self.steps, self.rows_per_step = rows, steps, rows_per_step
        self.seed, self.answers, self.passes = seed, answers, passes

    def __len__(self) -> int:
        return self.steps * self.rows_per_step * self.answers * self.passes

    def __iter__(self) -> Iterator[int]:
        order = self._rows()
        for _ in range(self.steps):
            step = [next(order) for _ in range(self.rows_per_step)]
            for _ in range(self.passes):
                yield from (row for row in step for _ in range(self.answers))

    def _rows(self) -> Iterator[int]:
        for epoch in count():
            yield from np.random.default_rng((self.seed, _ORDER, epoch)).permutation(self.rows).tolist()


class RunFolder:
    """Mixed in before a trainer of TRL's: writes checkpoints and `best` as a run of ours does."""

    args: Any
    state: Any
    train_dataset: Any
    model: Any
    processing_class: Any
    accelerator: Any
    optimizer: Any
    lr_scheduler: Any

    def prepare_run(
        self, recipe: VlmRecipe, out: Path, governance: Governance, base: str, log: Any, reward: AnswerReward | None,
        stages: Sequence[dict[str, Any]] = (), seconds: float = 0,
    ) -> None:  # fmt: skip
        """Say where the run lives and what it is.

        Args:
            base: what the user called the model that is trained.
            log: a TrainingLog; None on processes other than the first.
            reward: whose counts go into checkpoints.
            stages: of training, this one last (`history`).
            seconds: that the run had taken before it goes on.
        """
        self.stages, self._before, self._began = list(stages), seconds, time.monotonic()
        self.recipe, self.out, self.governance, self.base_name, self.reward = recipe, out, governance, base, reward
        self._batch = (0, 0)  # step, and how many of its batches this process has seen
        if getattr(self.model, "is_quantized", False):
            keep_unpacked(self.model)
        self.model.config.governance = str(governance)  # for whoever has the weights without this folder
        self.remove_callback(PrinterCallback)  # type: ignore[attr-defined]
        self.add_callback(_Log(log, recipe.training.rows_per_step / len(self.train_dataset)))  # type: ignore[attr-defined]

    def _get_train_sampler(self, dataset: Any = None) -> RunOrder:
        grpo = self.recipe.grpo
        repeats = (grpo.answers, self.args.gradient_accumulation_steps) if grpo else (1, 1)
        return RunOrder(
            len(self.train_dataset), self.args.max_steps, self.recipe.training.rows_per_step,
            self.recipe.training.seed, *repeats,
        )  # fmt: skip

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        step, batches = self._batch
        self._batch = (self.state.global_step, batches + 1 if step == self.state.global_step else 0)
        torch.manual_seed(derive_seed(self.recipe.training.seed, _RANDOM, *self._batch, self.args.process_index))
        return super().training_step(*args, **kwargs)  # type: ignore[misc]

    def take_checkpoint(self, checkpoint: Path) -> None:
        """Take the weights of the run's last checkpoint without going on from it."""
        self._load_from_checkpoint(str(checkpoint))  # type: ignore[attr-defined]
        self.state.global_step = self.args.max_steps

    def save_best(self, metric: str | None, value: float | None) -> None:
        """Write the model as it is to `best`."""
        if self.args.should_save:
            details = {"step": self.state.global_step, "metric": metric, "value": value}
            self._write(self.out / BEST_FOLDER, checkpoints.BEST, details)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        is_best = super()._determine_best_metric(metrics, trial)  # type: ignore[misc]
        if is_best:
            self.save_best("loss", self.state.best_metric)
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if not self.args.should_save:
            return
        step = self.state.global_step
        details = {"step": step, **(self.reward.counts if self.reward else {})}
        self._write(checkpoints.checkpoint_folder(self.out, step), checkpoints.CHECKPOINT, details)
        checkpoints.remove_old(self.out, self.recipe.training.keep_checkpoints)

    def _write(self, path: Path, kind: str, details: dict[str, Any]) -> None:
        with checkpoints.writing_folder(path, kind, self.governance, self.recipe.to_yaml(), details) as folder:
            self.accelerator.unwrap_model(self.model).save_pretrained(folder)
            self.processing_class.save_pretrained(folder)
            seconds = self._before + time.monotonic() - self._began
            history.write_stages(folder, self.stages, self.state.global_step, seconds, self.args.world_size)
            reports = bool(self.stages) and self.stages[-1]["data"].get("dataset") == history.REPORTS
            write_card(folder, self.recipe, self.governance, self.base_name, details["step"], reports)
            if kind == checkpoints.CHECKPOINT:
                checkpoints.save_state(self.optimizer.state_dict(), folder / "optimizer.pt")
                checkpoints.save_state(self.lr_scheduler.state_dict(), folder / "scheduler.pt")
                replace(self.state, log_history=[]).save_to_json(str(folder / "trainer_state.json"))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """An adapter's weights, as Trainer. A whole model was made from the checkpoint: Trainer would look for names of
        weights that are others on the disk than in memory, find none, and go on with what it has.
        """
        if self.recipe.lora is not None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing: every batch seeds its own."""

    def _send_telemetry(self) -> None:
        """Nothing."""


class VlmSftTrainer(RunFolder, SFTTrainer):
    """Supervised."""


class VlmGrpoTrainer(RunFolder, GRPOTrainer):
    """By rewards."""


class _Log(ScheduleCallback):
    """Writes the numbers of a run: every line to its log, one in ten seconds to standard error."""

    def __init__(self, log: Any, epoch_of_step: float) -> None:
        self._log, self._epoch_of_step, self._shown = log, epoch_of_step, time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        if self._log is None or "train_runtime" in logs:
            return
        numbers = {name: _number(value) for name, value in logs.items() if name not in _NOT_OURS}
        epoch = round(state.global_step * self._epoch_of_step, 4)
        self._log.append({"step": state.global_step, "epoch": epoch, **numbers})
        if time.monotonic() - self._shown >= LINE_INTERVAL or "eval_loss" in logs:
            self._shown = time.monotonic()
            chosen = ("loss", "eval_loss", "reward", "mean_token_accuracy", "learning_rate")
            shown = ", ".join(f"{name} {numbers[name]:.4g}" for name in chosen if numbers.get(name) is not None)
            print(f"step {state.global_step}/{state.max_steps}: {shown}", file=sys.stderr)


def _number(value: float | None) -> float | None:
    """A mean over no answers is NaN in TRL, and nothing here."""
    return value if value is not None and math.isfinite(value) else None


def make_trainer(
    recipe: VlmRecipe, model: Any, processor: Any, train: Any, validation: Any, steps: int, out: Path,
    reward: AnswerReward | None = None,
) -> Any:  # fmt: skip
    """The trainer of the recipe's stage over rows of the configuration `chat`.

    Raises:
        ConfigError: the machine lacks what the recipe asks for, or a step cannot be shared out.
        ValueError: TRL refuses the model or the rows.
    """
    logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)  # see the module
    if recipe.training.stage == GRPO:
        return VlmGrpoTrainer(
            model, reward_funcs=reward, args=_grpo_arguments(recipe, steps, out), train_dataset=train,
            processing_class=processor,
        )  # fmt: skip
    arguments = SFTConfig(
        **_common(recipe, steps, out),
        max_length=None,  # cutting would cut image tokens
        assistant_only_loss=recipe.data.turns == "study",
        completion_only_loss=recipe.data.turns == "question",
        eval_strategy="no" if validation is None else "steps",
        eval_steps=recipe.training.validate_every,
        metric_for_best_model=None if validation is None else "eval_loss",
        greater_is_better=False,
    )
    return VlmSftTrainer(
        model, args=arguments, train_dataset=train, eval_dataset=validation, processing_class=processor
    )


def _grpo_arguments(recipe: VlmRecipe, steps: int, out: Path) -> GRPOConfig:
    settings = recipe.grpo
    assert settings is not None
    return GRPOConfig(
        **_common(recipe, steps, out),
        num_generations=settings.answers,
        max_completion_length=settings.max_new_tokens,
        temperature=settings.temperature,
        beta=settings.beta,
        scale_rewards=settings.scale_rewards,
    )


def _common(recipe: VlmRecipe, steps: int, out: Path) -> dict[str, Any]:
    from accelerate import PartialState

    training = recipe.training
    check_precision(training.precision)
    return {
        "output_dir": str(out),
        "max_steps": steps,
        "per_device_train_batch_size": training.rows_per_batch,
        "per_device_eval_batch_size": training.rows_per_batch,
        "gradient_accumulation_steps": batches_of_process(recipe, PartialState(cpu=uses_cpu()).num_processes),
        "learning_rate": training.learning_rate,
        "weight_decay": training.weight_decay,
        "lr_scheduler_type": training.scheduler,
        "warmup_steps": training.warmup_steps,
        "max_grad_norm": training.max_grad_norm,
        "bf16": training.precision == "bfloat16",
        "gradient_checkpointing": training.gradient_checkpointing,
        "activation_checkpointing": training.gradient_checkpointing,
        "logging_strategy": "steps",
        "logging_steps": training.log_every,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": min(training.save_every, NEVER),
        "remove_unused_columns": False,
        "dataloader_num_workers": recipe.data.workers,
        "seed": training.seed,
        "use_cpu": uses_cpu(),
        "report_to": "none",
        "push_to_hub": False,
        "disable_tqdm": True,
        "log_level": "error",
    }
