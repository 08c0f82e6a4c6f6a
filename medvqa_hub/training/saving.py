"""Checkpoints, the best model and resuming, for our trainers and TRL's.

A checkpoint and `best` appear whole, carry the governance class, and contain nothing that has to be unpickled.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.fsdp import FSDPModule
from transformers import PrinterCallback

from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object
from medvqa_core.llm.loading import keep_unpacked
from medvqa_core.model_folder import BEST_FOLDER
from medvqa_core.upload_guards import declare_part
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.training import checkpoints
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.sharding import check_distribution, gather_optimizer, gather_weights, load_optimizer

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object


class CheckpointMixin(_Trainer):
    """Precedes `Trainer` among the base classes. A subclass calls `prepare_saving` at the end of its `__init__`."""

    recipe: Any
    out: Path
    governance: Governance
    control: Any
    optimizer: Any
    lr_scheduler: Any

    def prepare_saving(self, run: TrainingRun) -> None:
        """Set the run's recipe, folder and class, and start its clock. Raises ConfigError, as `check_distribution`."""
        check_distribution(self.accelerator)
        self.run, self.recipe, self.out, self.governance = run, run.recipe, run.out, run.governance
        self._began = time.monotonic()
        if getattr(self.model, "is_quantized", False):
            keep_unpacked(self.model)
        for part in (self.model, self.processing_class):  # for files that are copied without this folder
            declare_part(part, run.governance)
        self.remove_callback(PrinterCallback)

    def save_weights(self, folder: Path, kind: str, weights: dict[str, Any] | None) -> None:
        """Write the model into the folder of a checkpoint or of the best model, depending on `kind`.

        Args:
            weights: the whole weights of a sharded model. None: those of the model.
        """
        self.accelerator.unwrap_model(self.model).save_pretrained(folder, state_dict=weights)

    def write_card(self, folder: Path, kind: str) -> None:
        """Write the model card beside the weights."""
        raise NotImplementedError

    def describe_checkpoint(self) -> dict[str, Any]:
        """Further fields of a checkpoint's manifest."""
        return {}

    def save_best(self, metric: str | None, value: float | None) -> None:
        """Write the current model to `best`. Every process must call this."""
        details = {"step": self.state.global_step, "metric": metric, "value": value}
        self._write(self.out / BEST_FOLDER, checkpoints.BEST, details)

    def load_weights(self, checkpoint: Path) -> None:
        """Load a checkpoint's weights without resuming from it."""
        self._load_from_checkpoint(str(checkpoint))

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """As in Trainer. The best model on disk may be newer than the checkpoint that the run resumes from."""
        result = super()._init_training_state(*args, **kwargs)
        manifest = self.out / BEST_FOLDER / checkpoints.MANIFEST
        if manifest.exists():
            best = read_object(manifest, ANOTHER)
            self.state.best_metric, self.state.best_global_step = best["value"], best["step"]
        return result

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        is_best = super()._determine_best_metric(metrics, trial)
        if is_best:
            self.save_best(self.args.metric_for_best_model.removeprefix("eval_"), self.state.best_metric)
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint to resume from, and remove older ones."""
        step = self.state.global_step
        details = {"step": step, **self.describe_checkpoint()}
        self._write(checkpoints.checkpoint_folder(self.out, step), checkpoints.CHECKPOINT, details)
        if self.args.should_save:
            checkpoints.remove_old(self.out, self.recipe.training.keep_checkpoints)

    def _write(self, path: Path, kind: str, details: dict[str, Any]) -> None:
        sharded = isinstance(self.model, FSDPModule)
        weights = gather_weights(self.model) if sharded else None
        optimizer: dict[str, Any] = {}
        if kind == checkpoints.CHECKPOINT:
            optimizer = gather_optimizer(self.optimizer) if sharded else self.optimizer.state_dict()
        if not self.args.should_save:
            return
        with checkpoints.writing_folder(path, kind, self.governance, self.recipe.to_yaml(), details) as folder:
            self.save_weights(folder, kind, weights)
            self.processing_class.save_pretrained(folder)
            seconds = self.run.seconds + time.monotonic() - self._began
            history.write_stages(folder, list(self.run.stages), self.state.global_step, seconds, self.args.world_size)
            self.write_card(folder, kind)
            if kind == checkpoints.CHECKPOINT:
                checkpoints.save_state(optimizer, folder / "optimizer.pt")
                checkpoints.save_state(self.lr_scheduler.state_dict(), folder / "scheduler.pt")
                replace(self.state, log_history=[]).save_to_json(str(folder / checkpoints.TRAINER_STATE))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As in Trainer. The weights of a sharded model were loaded before it was sharded."""
        if not isinstance(self.model, FSDPModule):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """As in Trainer, also for a sharded model."""
        if checkpoint is None or not isinstance(self.model, FSDPModule):
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        folder = Path(checkpoint)
        load_optimizer(self.optimizer, torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True))
        self.lr_scheduler.load_state_dict(torch.load(folder / "scheduler.pt", map_location="cpu", weights_only=True))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Do nothing: every batch seeds its own random numbers."""
