"""TRL's trainers with our checkpoints, exact resume and log.

Differences from SFTTrainer and GRPOTrainer:
- A run is one pass over an order of rows that depends on the seed only. The random numbers of a batch (dropout, drawn
  answers) are seeded from (seed, step, batch, process). So a resumed run computes the same steps.
- `best` is the model with the least validation loss, or the last one without validation.
- Nothing is sent anywhere. TRL's warning that prints a row without a reward is silenced, since logs contain no text.
"""

import logging
import math
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from medvqa_hub.tracking import Sample
from medvqa_hub.training.arguments import ScheduleCallback, TrainingRun, common_arguments
from medvqa_hub.training.saving import CheckpointMixin
from medvqa_hub.training.study_batches import derive_seed
from medvqa_hub.training.vlm.card import write_card
from medvqa_hub.training.vlm.recipe import GRPO, VlmRecipe
from medvqa_hub.training.vlm.rewards import AnswerReward
from medvqa_hub.training.vlm.rows import VlmRows
from medvqa_hub.training.vlm.samples import answer_first_rows

_RANDOM, _ORDER = 11, 12  # distinguish uses of the recipe's seed
_IGNORED = ("epoch", "num_tokens", "step_time", "total_flos")  # values of one process, or of TRL's own epochs


class RunOrder(Sampler):
    """The rows of a run, from its first step to its last.

    Args:
        rows: number of rows. Every epoch has each of them once, in another order.
        answers, passes: GRPOTrainer draws so many answers to each row of a step, and requests the step's rows again for
            each of so many batches, although it reads them at the first.
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


class VlmTrainerMixin(CheckpointMixin):
    """Precedes a trainer of TRL among the base classes."""

    reward: AnswerReward | None = None
    _batch = (0, 0)  # step, and how many of its batches this process has seen

    def _get_train_sampler(self, dataset: Any = None) -> RunOrder:
        grpo, training = self.recipe.grpo, self.recipe.training
        repeats = (grpo.answers, self.args.gradient_accumulation_steps) if grpo else (1, 1)
        return RunOrder(len(self.train_dataset), self.args.max_steps, training.rows_per_step, training.seed, *repeats)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """As in TRL, with random numbers that depend on the batch only."""
        step, batches = self._batch
        self._batch = (self.state.global_step, batches + 1 if step == self.state.global_step else 0)
        torch.manual_seed(derive_seed(self.recipe.training.seed, _RANDOM, *self._batch, self.args.process_index))
        return super().training_step(*args, **kwargs)

    def describe_checkpoint(self) -> dict[str, Any]:
        return self.reward.counts if self.reward else {}

    def write_card(self, folder: Path, kind: str) -> None:
        write_card(folder, self.recipe, self.governance, self.run.base, self.state.global_step, self.run.stages)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load an adapter as in Trainer. A whole model was already loaded from the checkpoint.

        Trainer would not find its weights, whose names on disk differ from those in memory, and would continue without
        them.
        """
        if self.recipe.lora is not None:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _send_telemetry(self) -> None:
        """Do nothing."""


class VlmSftTrainer(VlmTrainerMixin, SFTTrainer):
    """Supervised fine-tuning."""


class VlmGrpoTrainer(VlmTrainerMixin, GRPOTrainer):
    """Group relative policy optimisation of rewards."""


class _LogCallback(ScheduleCallback):
    """Writes TRL's metrics to the run's log, and sample answers to the trackers, with rewards if there are any."""

    def __init__(self, run: TrainingRun, rows: VlmRows, reward: AnswerReward | None, trainer: Any) -> None:
        self._log, self._epochs_per_step = run.log, run.recipe.training.rows_per_step / len(rows.train)
        self._reward, self._trainer = reward, trainer
        self._rows = rows.train if rows.validation is None else rows.validation

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any) -> None:
        if self._log is None or "train_runtime" in logs:
            return
        numbers = {name: _finite(value) for name, value in logs.items() if name.removeprefix("eval_") not in _IGNORED}
        epoch = round(state.global_step * self._epochs_per_step, 4)
        self._log.append({"step": state.global_step, "epoch": epoch, **numbers}, state.max_steps)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._log is not None and self._log.trackers is not None:
            self._log.trackers.log_samples(self._read_samples, state.global_step)

    def _read_samples(self) -> list[Sample]:
        trainer = self._trainer
        if self._reward is not None:
            return self._reward.read_samples()
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            return []  # sharded weights cannot generate in one process
        with trainer.accelerator.autocast():
            return answer_first_rows(trainer.model, trainer.processing_class, self._rows)


def _finite(value: float | None) -> float | None:
    """None instead of TRL's NaN for a mean over no answers."""
    return value if value is not None and math.isfinite(value) else None


def make_trainer(
    run: TrainingRun, model: Any, processor: Any, rows: VlmRows, steps: int, reward: AnswerReward | None = None
) -> Any:
    """The trainer of the recipe's stage.

    Args:
        rows: of the configuration `chat`.
        reward: of stage grpo. Its counts are stored in checkpoints.

    Raises:
        ConfigError: the machine does not support the recipe, or the processes cannot share a step.
        ValueError: TRL does not support the model or the rows.
    """
    logging.getLogger("trl.trainer.grpo_trainer").setLevel(logging.ERROR)  # see the module
    recipe: VlmRecipe = run.recipe
    arguments = _vlm_arguments(recipe, run.out, steps)
    if recipe.training.stage == GRPO:
        settings = recipe.grpo
        assert settings is not None
        arguments = GRPOConfig(
            **arguments,
            num_generations=settings.answers,
            max_completion_length=settings.max_new_tokens,
            temperature=settings.temperature,
            beta=settings.beta,
            scale_rewards=settings.scale_rewards,
            use_vllm=settings.vllm,
            vllm_mode="colocate",  # a server could be on another machine
            vllm_gpu_memory_utilization=settings.vllm_memory,
        )
        trainer: Any = VlmGrpoTrainer(
            model, reward_funcs=reward, args=arguments, train_dataset=rows.train, processing_class=processor
        )
    else:
        arguments = SFTConfig(
            **arguments,
            max_length=None,  # truncation would cut image tokens
            assistant_only_loss=recipe.data.turns == "study",
            completion_only_loss=recipe.data.turns == "question",
            eval_strategy="no" if rows.validation is None else "steps",
            eval_steps=recipe.training.validate_every,
            metric_for_best_model=None if rows.validation is None else "eval_loss",
            greater_is_better=False,
        )
        trainer = VlmSftTrainer(
            model, args=arguments, train_dataset=rows.train, eval_dataset=rows.validation, processing_class=processor
        )
    trainer.add_callback(_LogCallback(run, rows, reward, trainer))
    trainer.prepare_saving(run)
    trainer.reward = reward
    return trainer


def _vlm_arguments(recipe: VlmRecipe, out: Path, steps: int) -> dict[str, Any]:
    training = recipe.training
    return common_arguments(recipe, out, steps) | {
        "per_device_train_batch_size": training.rows_per_batch,
        "per_device_eval_batch_size": training.rows_per_batch,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": training.scheduler,
        "gradient_checkpointing": training.gradient_checkpointing,
        "dataloader_num_workers": recipe.data.workers,
        "push_to_hub": False,
    }
