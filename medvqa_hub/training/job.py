"""A training run in its folder: start it, resume it or refuse it, train, and record the end.

`StudyJob` (run.py) trains our own models and `VlmJob` (vlm/run.py) any image-text model. The same command in the same
folder resumes a run, does nothing after its end, and is refused if recipe, data or starting checkpoint differ.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers.utils.logging import disable_progress_bar

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder, output_errors
from medvqa_core.folder_class import GOVERNANCE, read_governance, write_governance
from medvqa_core.governance import Governance, check_not_lowered
from medvqa_core.json_files import read_object, write_json
from medvqa_core.model_folder import BEST_FOLDER, RUN
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.tracking import Trackers, check_trackers
from medvqa_hub.training import checkpoints
from medvqa_hub.training.arguments import TrainingRun, uses_cpu
from medvqa_hub.training.batch_loading import without_worker_traceback
from medvqa_hub.training.recipe_files import count_batches, find_differences
from medvqa_hub.training.rewards import digest_user_rewards
from medvqa_hub.training.training_log import TrainingLog

Log = Callable[[str], None]


@dataclass
class TrainingJob(ABC):
    """One run. `prepare` sets the attributes that are not passed.

    Attributes:
        data: what `--data` names.
        log: receives lines for the user. Only the first process writes.
        report_to: names of experiment trackers.
        start: folder of the model that the run starts from, if any.
        steps: optimizer steps.
        governance: the strictest class of rows and starting model.
        stages: of training, this one last (`history`).
        validates: whether there is a validation split.
        dry_run: whether nothing may be written.
    """

    recipe: Any
    data: Path
    out: Path
    image_root: Path | None = None
    log: Log = print
    report_to: Sequence[str] = ()
    start: Path | None = field(default=None, init=False)
    steps: int = field(default=0, init=False)
    governance: Governance = field(default=Governance.CREDENTIALED, init=False)
    stages: list[dict[str, Any]] = field(default_factory=list, init=False)
    validates: bool = field(default=False, init=False)
    dry_run: bool = field(default=False, init=False)

    @abstractmethod
    def fingerprint_data(self) -> str:
        """Changes whenever the content of `data` may have changed."""

    @abstractmethod
    def prepare(self) -> None:
        """Load the rows and count the steps."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Lines about data and steps, for `--dry-run` and the start of a run."""

    @abstractmethod
    def make_trainer(self, run: TrainingRun, checkpoint: Path | None) -> Any:
        """The trainer. `checkpoint` is a whole model to load instead of `start`."""

    def finish(self, trainer: Any) -> dict[str, Any]:
        """Work after the last step. Returns further fields of finished.json."""
        return {}

    def execute(self, dry_run: bool = False) -> Path:
        """Run the job, or print what it would do. Returns `out`, with the best model in `out/best`."""
        check_trackers(self.report_to)
        self.dry_run = dry_run
        disable_progress_bar()  # for each file that is read or written
        processes = PartialState(cpu=uses_cpu())
        count_batches(self.recipe, processes.num_processes)
        if not processes.is_main_process:
            self.log = log_nothing
        started = None if self.start is None else checkpoints.fingerprint_model_folder(self.start)
        record = {"recipe": self.recipe.to_dict(), "data": self.fingerprint_data(), "init": started}
        if self.recipe.reward is not None:
            record["reward"] = digest_user_rewards(self.recipe.reward.name)
        if not dry_run:
            self._check_same_run(record)
            if self._is_finished():
                return self.out
        with processes.main_process_first():  # the others find the rows in the cache
            self.prepare()
        for line in [self.recipe.to_yaml()] * dry_run + self.describe():
            self.log(line)
        if dry_run:
            return self.out
        with open_log(make_folder(self.out)) as log_file, without_worker_traceback():
            if processes.is_main_process:
                self._check_same_run(record)  # again, now that no other process can write here
                self._open_folder(record)
            processes.wait_for_everyone()
            trainer = self.train(log_file)
            details = self.finish(trainer)
            if log_file is not None:
                best = read_object(self.out / BEST_FOLDER / checkpoints.MANIFEST, ANOTHER)
                details = {
                    "step": self.steps,
                    **{f"best_{key}": best[key] for key in ("step", "metric", "value")},
                } | details
                write_json(self.out / checkpoints.FINISHED, details, indent=2, ensure_ascii=True)
                where = self.out / BEST_FOLDER
                self.log(f"trained {self.steps} steps. The best model, of step {best['step']}, is in {where}")
        return self.out

    def train(self, log_file: TrainingLog | None, optimizer: Path | None = None) -> Any:
        """Train from the last checkpoint or from the start. Returns the trainer with the last step's model."""
        found = checkpoints.complete_checkpoints(self.out)
        step, last = found[-1] if found else (0, None)
        if last is not None:
            checkpoints.check_unchanged(last)
        if log_file is not None:
            checkpoints.restore_best(self.out, keep=bool(found))
            log_file.cut_after(step)
            if self.report_to:
                log_file.trackers = Trackers(self.report_to, self.out, self.governance, step)
        PartialState().wait_for_everyone()
        if 0 < step < self.steps:
            self.log(f"Resuming after step {step} of {self.steps}")
        is_whole = last is not None and (last / "config.json").exists()  # not just trained weights or an adapter
        before = last or optimizer
        seconds = history.read_seconds(before) if before is not None else 0.0
        run = TrainingRun(self.recipe, self.out, self.governance, log_file, self.stages, seconds, optimizer=optimizer)
        trainer = self.make_trainer(run, last if is_whole else None)
        if last is not None and not is_whole:
            trainer.load_weights(last)
        if step < self.steps:
            trainer.train(resume_from_checkpoint=str(last) if last else None)
            assert trainer.state.global_step == self.steps, f"training stopped after {trainer.state.global_step} steps"
        else:  # killed between the last checkpoint and the end
            trainer.state.global_step = self.steps
        if not self.validates:
            trainer.save_best(None, None)
        PartialState().wait_for_everyone()
        return trainer

    def _check_same_run(self, record: dict[str, Any]) -> None:
        """Raise a ConfigError if `out` holds another run that has ended, or has a checkpoint or a best model."""
        out = self.out
        if self.start is not None and self.start.resolve().is_relative_to(out.resolve()):
            raise ConfigError(
                f"the checkpoint {self.start} is inside --out {out}, which will be replaced. Choose another --out"
            )
        kept = (out / checkpoints.FINISHED).exists() or (out / BEST_FOLDER).exists()
        if not (kept or checkpoints.complete_checkpoints(out)) or not (out / RUN).exists():
            return
        before = read_object(out / RUN, ANOTHER)
        differing = find_differences(before.get("recipe", {}), record["recipe"])
        names = {"data": "the content of the data", "init": "the starting checkpoint", "reward": "the reward's code"}
        for key, name in names.items():
            if before.get(key) != record.get(key):
                differing.append(f"{name} differs")
        if differing:
            raise ConfigError(
                f"{out} holds a different run: {'; '.join(differing)}. Use the same settings to resume it, or choose "
                "another folder"
            )

    def _is_finished(self) -> bool:
        path = self.out / checkpoints.FINISHED
        if path.exists():
            step = read_object(path, ANOTHER)["step"]
            self.log(f"already finished after {step} steps. The best model is in {self.out / BEST_FOLDER}")
        return path.exists()

    def _open_folder(self, record: dict[str, Any]) -> None:
        """Write the run's files into `out`, or raise a GovernanceError if its class would be lowered."""
        make_folder(self.out, self.governance.private)
        if (self.out / GOVERNANCE).exists():
            check_not_lowered(read_governance(self.out), self.governance, str(self.out))
        with output_errors(self.out):
            write_governance(self.out, self.governance)
            (self.out / checkpoints.RECIPE).write_text(self.recipe.to_yaml(), encoding="utf-8")
        write_json(self.out / RUN, record, indent=2, ensure_ascii=True)


@contextmanager
def open_log(folder: Path) -> Iterator[TrainingLog | None]:
    """The log in `folder`, which locks the folder. None on processes other than the first."""
    log_file = TrainingLog(folder) if PartialState().is_main_process else None
    try:
        yield log_file
    finally:
        if log_file is not None:
            log_file.close()


def log_nothing(line: str) -> None:
    """Ignore a line, on processes other than the first."""
