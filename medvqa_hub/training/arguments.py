"""What our trainers and TRL's trainers have in common: the run, the arguments, and when to log, validate and save."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import TrainerCallback, TrainingArguments

from medvqa_core.governance import Governance
from medvqa_hub.training.recipe_files import count_batches
from medvqa_hub.training.training_log import TrainingLog


@dataclass(frozen=True)
class TrainingRun:
    """A run that a trainer works on.

    Attributes:
        recipe: resolved.
        out: folder of the run, see `checkpoints`.
        governance: class of everything that the model has seen.
        log: None on processes other than the first.
        stages: of training, this one last (`history`).
        seconds: training time before the run was resumed.
        base: what the user called the starting model, for the card of `train vlm`.
        features: folder of cached features (`data.cache_features`). None: OUT/features.
        optimizer: checkpoint whose optimizer and learning rates are continued. None: new ones.
    """

    recipe: Any
    out: Path
    governance: Governance = Governance.CREDENTIALED
    log: TrainingLog | None = None
    stages: Sequence[dict[str, Any]] = ()
    seconds: float = 0.0
    base: str = ""
    features: Path | None = None
    optimizer: Path | None = None


class ScheduleCallback(TrainerCallback):
    """Saves and validates at the last step, and logs at every checkpoint and validation."""

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> Any:
        if state.global_step >= state.max_steps:
            control.should_save = True
            control.should_evaluate = args.metric_for_best_model is not None
        # A checkpoint does not keep the losses since the last log line. With a line there, a resumed run logs the same.
        control.should_log = control.should_log or control.should_save or control.should_evaluate
        return control


def uses_cpu() -> bool:
    """Whether training runs on the CPU: there is no GPU, or accelerate was launched with --cpu."""
    return not torch.cuda.is_available() or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"


def resolve_precision(precision: str) -> str:
    """`auto` becomes bfloat16 on a processor that computes in it, and float32 elsewhere."""
    if precision != "auto":
        return precision
    if uses_cpu():
        found = torch.cpu.get_capabilities()
        return "bfloat16" if found.get("avx512_bf16") or found.get("amx_bf16") else "float32"
    return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"


def common_arguments(recipe: Any, out: Path, steps: int) -> dict[str, Any]:
    """transformers' arguments that follow from any recipe.

    Raises:
        ConfigError: the processes cannot share a step.
    """
    training = recipe.training
    return {
        "output_dir": str(out),
        "max_steps": steps,
        "gradient_accumulation_steps": count_batches(recipe, PartialState(cpu=uses_cpu()).num_processes),
        "weight_decay": training.weight_decay,
        "warmup_steps": training.warmup_steps,
        "max_grad_norm": training.max_grad_norm,
        "bf16": resolve_precision(training.precision) == "bfloat16",
        "activation_checkpointing": training.gradient_checkpointing,
        "torch_compile": training.compile,
        "logging_strategy": "steps",
        "logging_steps": training.log_every,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": training.save_every,
        "remove_unused_columns": False,
        "seed": training.seed,
        "use_cpu": uses_cpu(),
        "report_to": "none",
        "disable_tqdm": True,
        "log_level": "error",
    }
