"""From a recipe to what transformers' Trainer is told: steps, a process's share, device, precision, intervals."""

import os
from pathlib import Path

import torch
from transformers import TrainingArguments

from medvqa_core.errors import ConfigError
from medvqa_hub.training.recipes import EPOCH, Recipe

NEVER = 10**12  # steps


def steps_of(recipe: Recipe, studies: int) -> int:
    """Optimizer steps of a run over `studies` usable studies; a part of a step is a step."""
    training = recipe.training
    if training.max_steps is not None:
        return training.max_steps
    return max(1, -int(-(training.epochs * studies) // training.studies_per_step))


def steps_of_epoch(recipe: Recipe, studies: int) -> int:
    """Optimizer steps that show each study once; a part of a step is a step."""
    return -(-studies // recipe.training.studies_per_step)


def batches_per_process(recipe: Recipe, processes: int) -> int:
    """Batches that each process accumulates for a step.

    Raises:
        ConfigError: a step's batches cannot be shared out evenly.
    """
    training = recipe.training
    batches = training.studies_per_step // training.studies_per_batch
    if batches % processes:
        raise ConfigError(
            f"a step has {batches} batches (training.studies_per_step {training.studies_per_step} / "
            f"studies_per_batch {training.studies_per_batch}), which {processes} processes cannot share evenly; lower "
            f"studies_per_batch, so that {processes} divides their number"
        )
    return batches // processes


def uses_cpu() -> bool:
    """Whether training runs on the CPU: there is no GPU, or accelerate was launched with --cpu."""
    return not torch.cuda.is_available() or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"


def check_machine(recipe: Recipe) -> None:
    """Raise a ConfigError if the recipe wants what this machine has not."""
    if recipe.training.precision == "bfloat16" and uses_cpu():
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
        scheduler, arguments = "reduce_lr_on_plateau", {"mode": "max" if greater else "min", **arguments}
    every = min(selection.every or NEVER, NEVER) if selection.every != EPOCH else steps_of_epoch(recipe, studies)
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
