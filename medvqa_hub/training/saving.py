"""What a run of Trainer writes and takes up again: whole checkpoints, the best model, where it goes on.

Mixed in before `Trainer`. A checkpoint and `best` appear whole, with the class of what the model has seen, and hold
nothing that has to be unpickled. Of a family that never trains its base, a checkpoint holds the rest alone.
"""

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER, BEST_FOLDER
from medvqa_hub.publishing.model_card import write_folder_card
from medvqa_hub.training import checkpoints
from medvqa_hub.training.recipes import Recipe


class CheckpointMixin:
    """See `SupervisedTrainer` for the attributes that it brings.

    Attributes:
        stages: of training, this one last (`history`).
        seconds_before: that the run had taken before it goes on.
    """

    recipe: Recipe
    out: Path
    governance: Governance
    args: Any
    state: Any
    model: Any
    accelerator: Any
    optimizer: Any
    lr_scheduler: Any
    processing_class: Any

    def prepare_saving(self) -> None:
        """Start the clock of a run about whose past nothing is known."""
        self._base: str | None = None  # fingerprint of what is not trained
        self.stages: list[dict[str, Any]] = []
        self.seconds_before, self._began = 0.0, time.monotonic()

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """As Trainer; the best model on disk may be newer than the checkpoint that the run goes on from."""
        result = super()._init_training_state(*args, **kwargs)
        manifest = self.out / BEST_FOLDER / checkpoints.MANIFEST
        if manifest.exists():
            best = read_object(manifest, ANOTHER)
            self.state.best_metric, self.state.best_global_step = best["value"], best["step"]
        return result

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        is_best = super()._determine_best_metric(metrics, trial)
        if is_best:
            self.save_best({"metric": self.recipe.selection.metric, "value": self.state.best_metric})
        return is_best

    def save_best(self, details: dict[str, Any]) -> None:
        """Write the model as it is to `best`."""
        if self.args.should_save:
            details = {"step": self.state.global_step, **details}
            self._write(self.out / BEST_FOLDER, checkpoints.BEST, details, None)

    def push_to_hub(self, repo_id: str | None = None, *, token: str | None = None, **options: Any) -> Any:
        """Push the best model, as `medvqa-hub push model` does: the same checks, order and card.

        Args:
            repo_id: OWNER/NAME; default: `hub_model_id` of the arguments.
            token: of the Hub; default: this machine's.
            options: of `publishing.model.ModelPush`.

        Raises:
            ConfigError: there is no name.
            GovernanceError: the class of the model, or of what it was trained on, forbids it.
        """
        from huggingface_hub import HfApi

        from medvqa_hub.publishing.model import ModelPush, push_model

        name = repo_id or self.args.hub_model_id
        if name is None:
            raise ConfigError("push_to_hub: no repository; pass repo_id='OWNER/NAME'")
        hub = options.pop("hub", None) or HfApi(token=token)
        return push_model(ModelPush(self.out / BEST_FOLDER, name, **options), hub=hub)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """A checkpoint to go on from; it appears whole, and older ones go."""
        if not self.args.should_save:
            return
        step = self.state.global_step
        state = replace(self.state, log_history=[])
        details = {"step": step} | ({"base": self._base_fingerprint()} if self._keeps_base() else {})
        self._write(checkpoints.checkpoint_folder(self.out, step), checkpoints.CHECKPOINT, details, state)
        checkpoints.remove_old(self.out, self.recipe.training.keep_checkpoints)

    def _write(self, path: Path, kind: str, details: dict[str, Any], state: Any) -> None:
        with checkpoints.writing_folder(path, kind, self.governance, self.recipe.to_yaml(), details) as folder:
            model = self._model_to_save(kind)
            # transformers cannot turn quantised weights that it has loaded back into their original format; as they are
            # they load as well.
            as_they_are = {"save_original_format": False} if getattr(model, "is_quantized", False) else {}
            model.config.governance = str(self.governance)  # for whoever has the weights without this folder
            if kind == checkpoints.CHECKPOINT and self._keeps_base():
                checkpoints.save_trained(model, folder)
            else:
                model.save_pretrained(folder, **as_they_are)
            self.processing_class.save_pretrained(folder)
            seconds = self.seconds_before + time.monotonic() - self._began
            history.write_stages(folder, self.stages, self.state.global_step, seconds, self.args.world_size)
            if kind == checkpoints.BEST:
                write_folder_card(folder, self.recipe.model.kind, self.governance)
            if state is not None:
                checkpoints.save_state(self.optimizer.state_dict(), folder / "optimizer.pt")
                checkpoints.save_state(self.lr_scheduler.state_dict(), folder / "scheduler.pt")
                state.save_to_json(str(folder / "trainer_state.json"))

    def _model_to_save(self, kind: str) -> Any:
        """The model; the best one of a LoRA run is whole, its adapter merged, unless its base is quantised."""
        model = self.accelerator.unwrap_model(self.model)
        if (
            kind == checkpoints.BEST
            and hasattr(model, "merge_and_unload")
            and not getattr(model, "is_quantized", False)
        ):
            return copy.deepcopy(model).merge_and_unload()
        return model

    def load_weights(self, checkpoint: Path) -> None:
        """Take a checkpoint's weights without going on from it."""
        if (checkpoint / checkpoints.TRAINED).exists():
            checkpoints.load_trained(self.model, checkpoint, self._base_fingerprint())
        else:
            super()._load_from_checkpoint(str(checkpoint))

    def _keeps_base(self) -> bool:
        """Whether checkpoints hold the trained weights alone; the second pass and quantised bases need whole ones."""
        special = hasattr(self.model, "peft_config") or getattr(self.model, "is_quantized", False)
        return self.recipe.family.keeps_its_base and not special and not self.recipe.training.hard_negatives

    def _base_fingerprint(self) -> str:
        if self._base is None:
            self._base = checkpoints.fingerprint_frozen_weights(self.accelerator.unwrap_model(self.model))
        return self._base

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """As Trainer; quantised weights, which load while a model is made, are those of the checkpoint already."""
        if getattr(self.model, "is_quantized", False) and not hasattr(self.model, "peft_config"):
            return
        if (Path(resume_from_checkpoint) / checkpoints.TRAINED).exists():
            checkpoints.load_trained(self.model, Path(resume_from_checkpoint), self._base_fingerprint())
            return
        super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing: every batch seeds its own."""
