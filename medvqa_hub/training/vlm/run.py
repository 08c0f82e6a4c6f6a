"""One run of `train vlm`: load, train or go on, keep the last model or the best.

As for our own models (`medvqa_hub.training.run`): the same command in the same folder goes on where it stopped, does
nothing where it had finished, and is refused where recipe, data or starting model are others.
"""

import importlib.util
import logging
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, one_line
from medvqa_core.files import MANIFEST, make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import read_object, write_json
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER, BEST_FOLDER
from medvqa_hub.training import checkpoints
from medvqa_hub.training.rewards import make_reward, refuse_missing_columns
from medvqa_hub.training.run_folder import Say, is_finished, log_nothing, open_folder, opened_log, refuse_another_run
from medvqa_hub.training.vlm.model import StartModel, find_start, load_model
from medvqa_hub.training.vlm.recipe import GRPO, VlmRecipe, batches_of_process, steps_of_run
from medvqa_hub.training.vlm.rewards import REFERENCE, AnswerReward
from medvqa_hub.training.vlm.rows import VlmRows
from medvqa_hub.training.vlm.sources import fingerprint_of, open_rows

ADD_TRL = "train vlm needs TRL, which is not installed: pip install 'medvqa-hub[trl]'"


@dataclass(frozen=True)
class VlmRun:
    """Everything that a run needs, and what it will do."""

    recipe: VlmRecipe
    start: StartModel
    rows: VlmRows
    steps: int
    stages: list[dict[str, Any]]  # of training, this one last (`history`)

    @property
    def governance(self) -> Governance:
        """Of the rows and of the model that it starts from: the stricter."""
        return strictest([self.rows.governance, self.start.governance])

    def describe(self) -> list[str]:
        """Lines about data and steps, for `--dry-run` and the start of a run."""
        training, grpo, rows = self.recipe.training, self.recipe.grpo, self.rows
        what = "conversations" if self.recipe.data.turns == "study" else "questions"
        lines = [f"training: {len(rows.train):,} {what}"]
        lines += [f"left out: {count:,}, {reason}" for reason, count in rows.left_out.items() if count]
        if rows.validation is not None:
            lines.append(f"validation: {len(rows.validation):,} {what}")
        drawn = f" x {grpo.answers} answers" if grpo else ""
        sequences = "answers" if grpo else what
        lines.append(
            f"{self.steps:,} steps of {training.rows_per_step} {what}{drawn}, in batches of {training.rows_per_batch} "
            f"{sequences}"
        )
        kind = (
            f"adapter on {self.start.base or self.start.name}"
            if self.recipe.lora
            else f"all weights of {self.start.name}"
        )
        lines.append(
            f"model: {kind}, class {self.start.governance} (--model-class states it where its folder does not)"
        )
        return [*lines, f"governance class: {self.governance}"]


def train_vlm(
    recipe: VlmRecipe,
    model: str,
    data: Path,
    out: Path,
    image_root: Path | None = None,
    model_class: str | None = None,
    dry_run: bool = False,
    log: Say = print,
) -> Path:
    """Train `model` as `recipe` says, into `out`.

    Args:
        model: a folder (a model's, an adapter's, a run's), or a repository on the Hub.
        data: a release, the folder it was built in, the authors' CSV files, or a folder of RJUA-MedDQA.
        model_class: governance class of `model`, where its folder does not say.
        dry_run: say what would be done and stop; needs neither GPU nor TRL.

    Returns:
        `out`; the model or adapter is in `out/best`.

    Raises:
        MedvqaError: everything that a user can put right.
    """
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # says what it lacks whenever it is imported
    from accelerate import PartialState

    if not dry_run and importlib.util.find_spec("trl") is None:
        raise ConfigError(ADD_TRL)
    from medvqa_hub.training.arguments import check_precision, uses_cpu

    if not dry_run:
        check_precision(recipe.training.precision)
    processes = PartialState(cpu=uses_cpu())
    batches_of_process(recipe, processes.num_processes)
    if not processes.is_main_process:
        log = log_nothing
    start = find_start(model, model_class)
    record = _make_record(recipe, data, start)
    if not dry_run:
        refuse_another_run(out, record, start.folder)
        if is_finished(out, log):
            return out
    with processes.main_process_first():  # the others find the rows in the cache
        rows = open_rows(data, image_root, recipe.data)
    if recipe.reward is not None:
        refuse_missing_columns(recipe.reward.name, rows.train.column_names)
    run = VlmRun(recipe, start, rows, steps_of_run(recipe, len(rows.train)), _describe_stages(recipe, start, rows))
    for line in [recipe.to_yaml()] * dry_run + run.describe():
        log(line)
    if dry_run:
        return out
    with opened_log(make_folder(out)) as log_file:
        if processes.is_main_process:
            refuse_another_run(out, record, start.folder)  # nobody else writes here any more
            open_folder(out, recipe, record, run.governance)
        processes.wait_for_everyone()
        _train_in(out, run, log_file, log)
    return out


def _make_record(recipe: VlmRecipe, data: Path, start: StartModel) -> dict[str, Any]:
    """What must be the same when a run goes on."""
    return {"recipe": recipe.to_dict(), "data": fingerprint_of(data), "init": start.fingerprint}


def _describe_stages(recipe: VlmRecipe, start: StartModel, rows: VlmRows) -> list[dict[str, Any]]:
    """The stages that the starting model tells of, and this run's: with the class of its rows."""
    stage = {
        "kind": "vlm",
        "stage": recipe.training.stage,
        "reward": recipe.reward and recipe.reward.name,
        "base": history.name_of(start.base or start.name),
        "data": {**rows.described, "governance": str(rows.governance)},
    }
    return [*history.read_stages(start.folder), stage]


def _train_in(out: Path, run: VlmRun, log_file: Any, log: Say) -> None:
    from accelerate import PartialState
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # one for each file that is read or written
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|trl|peft")
    from medvqa_hub.training.vlm.trainers import make_trainer

    found = checkpoints.complete_checkpoints(out)
    step, last = found[-1] if found else (0, None)
    if last is not None:
        checkpoints.refuse_changed(last)
    if log_file is not None:
        checkpoints.restore_best(out, keep=bool(found))
        log_file.cut_after(step)
    PartialState().wait_for_everyone()
    if 0 < step < run.steps:
        log(f"going on after step {step} of {run.steps}")
    whole = run.recipe.lora is None and last is not None
    model, processor = load_model(replace(run.start, folder=last) if whole else run.start, run.recipe)
    reward = _make_reward(run) if run.recipe.training.stage == GRPO else None
    if reward is not None and last is not None:
        saved = read_object(last / MANIFEST, ANOTHER)
        reward.counts = {name: saved[name] for name in reward.counts}
    rows = run.rows
    try:
        trainer = make_trainer(run.recipe, model, processor, rows.train, rows.validation, run.steps, out, reward)
    except ValueError as error:  # a chat template that TRL cannot train with, a quantised model without adapter, …
        raise ConfigError(f"TRL cannot train {run.start.name} so: {one_line(error)}") from error
    seconds = history.seconds_so_far(last) if last is not None else 0.0
    base = run.start.base or run.start.name
    trainer.prepare_run(run.recipe, out, run.governance, base, log_file, reward, run.stages, seconds)
    if step < run.steps:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
        assert trainer.state.global_step == run.steps, f"TRL stopped after {trainer.state.global_step} steps"
    else:  # killed between the last checkpoint and the end
        trainer.take_checkpoint(last)
    if rows.validation is None:
        trainer.save_best(None, None)
    PartialState().wait_for_everyone()
    if log_file is not None:
        best = read_object(out / BEST_FOLDER / checkpoints.MANIFEST, ANOTHER)
        details = {"step": run.steps, **{f"best_{name}": best[name] for name in ("step", "metric", "value")}}
        if reward is not None:
            details |= reward.counts
            log("; ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in reward.counts.items()))
        write_json(out / checkpoints.FINISHED, details, indent=2, ensure_ascii=True)
        log(f"trained {run.steps} steps; the {'adapter' if run.recipe.lora else 'model'} is in {out / BEST_FOLDER}")


def _make_reward(run: VlmRun) -> AnswerReward:
    settings = run.recipe.reward
    assert settings is not None
    return AnswerReward(make_reward(settings, run.rows.train.with_format(None)[REFERENCE]), settings.name)
