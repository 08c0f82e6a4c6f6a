"""How and when transformers' Trainer runs a recipe: its arguments, and the moments beyond its own intervals."""

import os
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments

from medvqa_core.errors import ConfigError
from medvqa_hub.training.recipes import EPOCH, Recipe, count_steps_per_epoch, steps_of

NEVER = 10**12  # steps


class ScheduleCallback(TrainerCallback):
    """When to log, validate and save, beyond Trainer's intervals."""

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> Any:
        if state.global_step >= state.max_steps:
            control.should_save = True
            control.should_evaluate = args.metric_for_best_model is not None
        # A checkpoint does not keep the losses since the last line, so a line ends there: a resumed run has the same.
        control.should_log = control.should_log or control.should_save or control.should_evaluate
        return control


def uses_cpu() -> bool:
    """Whether training runs on the CPU: there is no GPU, or accelerate was launched with --cpu."""
    return not torch.cuda.is_available() or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"


def check_machine(recipe: Recipe) -> None:
    """Raise a ConfigError if the recipe wants what this machine has not."""
    check_precision(recipe.training.precision)


def check_precision(precision: str) -> None:
    """Raise a ConfigError where a recipe's `training.precision` needs a GPU and there is none."""
    if precision == "bfloat16" and uses_cpu():
        raise ConfigError(
            "training.precision is bfloat16, which needs a GPU, and none is found; use --set training.precision=float32"
        )


def make_arguments(recipe: Recipe, out: Path, studies: int, validates: bool) -> TrainingArguments:
    """transformers' arguments for `recipe`, over `studies` usable studies.

    Raises:
        ConfigError: bfloat16 is asked for and there is no GPU.
    """
    check_machine(recipe)
    training, selection = recipe.training, recipe.selection
    greater = selection.metric != "loss"
    scheduler, arguments = training.scheduler, dict(training.scheduler_arguments)
    if scheduler == "plateau":
        mode = "min" if (training.plateau_metric or selection.metric) == "loss" else "max"
        scheduler, arguments = "reduce_lr_on_plateau", {"mode": mode, **arguments}
    if scheduler == "step":  # made by the trainer
        scheduler, arguments = "constant", {}
    every = min(selection.every or NEVER, NEVER) if selection.every != EPOCH else count_steps_per_epoch(recipe, studies)
    return TrainingArguments(
        output_dir=str(out),
        max_steps=steps_of(recipe, studies),
        per_device_train_batch_size=1,  # a batch is one item of StudyBatches
        learning_rate=max(training.learning_rates.values()),
        weight_decay=training.weight_decay,
        lr_scheduler_type=scheduler,
        lr_scheduler_kwargs=arguments,
        warmup_steps=training.warmup_steps,
        max_grad_norm=training.max_grad_norm,
        bf16=training.precision == "bfloat16",
        activation_checkpointing=training.gradient_checkpointing,
        logging_strategy="steps",
        logging_steps=training.log_every,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if validates else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=training.save_every,
        metric_for_best_model=f"eval_{selection.metric}" if validates else None,
        greater_is_better=greater,
        average_tokens_across_devices=True,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        seed=training.seed,
        use_cpu=uses_cpu(),
        report_to="none",
        disable_tqdm=True,
        log_level="error",
    )
