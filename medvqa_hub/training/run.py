"""One training run from a recipe: load, train or go on, keep the best.

The same command in the same folder goes on where it stopped, does nothing where it had finished, and is refused where
recipe, data or starting checkpoint are others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.files import make_folder
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import read_object, write_json
from medvqa_hub.families import history
from medvqa_hub.families.folders import ANOTHER, BEST_FOLDER, find_model_folder
from medvqa_hub.training import checkpoints
from medvqa_hub.training.recipes import Recipe, batches_per_process, steps_of
from medvqa_hub.training.run_folder import Say, is_finished, log_nothing, open_folder, opened_log, refuse_another_run
from medvqa_hub.training.training_data import load_data


@dataclass(frozen=True)
class Prepared:
    """Everything that a run needs, and what it will do."""

    recipe: Recipe
    train: Any  # StudyQuestions
    validation: Any | None
    governance: Governance
    texts: Callable[[], Any]
    steps: int
    stages: list[dict[str, Any]]  # of training, this one last (`history`)

    def describe(self) -> list[str]:
        """Lines about data and steps, for `--dry-run` and the start of a run."""
        training, wanted = self.recipe.training, self.recipe.data.questions_per_study
        short = int((self.train.counts < wanted).sum()) if wanted else 0
        studies = len(set(self.train.studies.tolist()))
        lines = [f"training: {studies:,} studies with {self.train.counts.sum():,} questions"]
        if self.recipe.data.one_by_one:
            short = 0
            lines.append(
                f"{self.steps:,} steps of {training.studies_per_step} questions, in batches of "
                f"{training.studies_per_batch}"
            )
        else:
            lines.append(
                f"{self.steps:,} steps of {training.studies_per_step} studies x {wanted or 'all'} questions, "
                f"in batches of {training.studies_per_batch} studies"
            )
        if self.validation is not None:
            lines.insert(1, f"validation: {len(self.validation):,} studies")
        lines += [
            f"left out: {count:,} {name.replace('_', ' ')}" for name, count in self.train.skipped.items() if count
        ]
        if short:
            lines.append(f"{short:,} studies have fewer than {wanted} questions and give what they have")
        return [*lines, f"governance class: {self.governance}"]


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    image_root: Path | None = None,
    init: Path | None = None,
    dry_run: bool = False,
    log: Say = print,
) -> Path:
    """Train as `recipe` says, into `out`.

    Args:
        data: a release, the folder it was built in, or the authors' CSV files.
        image_root: folder that image paths start from.
        init: a checkpoint to start from: a model's folder, or the output folder of an earlier stage.
        dry_run: say what would be done and stop.
        log: where lines for the user go; only the first process says anything.

    Returns:
        `out`; the best model is in `out/best`.

    Raises:
        MedvqaError: everything that a user can put right.
    """
    import logging

    from accelerate import PartialState
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # one for each file that is read or written
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # says what it lacks whenever it is imported
    from medvqa_hub.training.arguments import check_machine, uses_cpu
    from medvqa_hub.training.batch_loading import without_worker_traceback

    if not dry_run:
        check_machine(recipe)
    processes = PartialState(cpu=uses_cpu())
    batches_per_process(recipe, processes.num_processes)
    if not processes.is_main_process:
        log = log_nothing
    record = _make_record(recipe, data, init)
    if not dry_run:
        refuse_another_run(out, record, init)
        if is_finished(out, log):
            return out
    with processes.main_process_first():  # the others find the rows in the cache
        prepared = _prepare(recipe, data, image_root, init)
    if dry_run:
        log(recipe.to_yaml())
    for line in prepared.describe():
        log(line)
    if dry_run:
        return out
    with opened_log(make_folder(out)) as log_file, without_worker_traceback():
        if processes.is_main_process:
            refuse_another_run(out, record, init)  # nobody else writes here any more
            open_folder(out, recipe, record, prepared.governance)
        processes.wait_for_everyone()
        _train_in(out, prepared, init, log_file, log)
    return out


def _make_record(recipe: Recipe, data: Path, init: Path | None) -> dict[str, Any]:
    """What must be the same when a run goes on."""
    from mimic_cxr_vqa.release import open_release

    started = None if init is None else checkpoints.fingerprint_model_folder(find_model_folder(init))
    return {"recipe": recipe.to_dict(), "data": open_release(data).fingerprint, "init": started}


def _prepare(recipe: Recipe, data: Path, image_root: Path | None, init: Path | None) -> Prepared:
    from medvqa_hub.training.study_questions import StudyQuestions
    from mimic_cxr_vqa.release import open_release

    rows = load_data(data, image_root, recipe.data)
    known, side = recipe.family.view_is_known(recipe.model), recipe.data.image_side
    split, conflicts = f"split {recipe.data.train_split}", recipe.data.label_conflicts
    questions = StudyQuestions(rows.train, split, known, image_side=side, label_conflicts=conflicts)
    if recipe.data.one_by_one:
        questions = questions.one_by_one()
    validation = None
    if rows.validation is not None:
        split = f"split {recipe.data.validation_split}"
        validation = StudyQuestions(rows.validation, split, known, image_side=side)
    governance = rows.governance
    if init is not None:
        governance = strictest([governance, read_governance(find_model_folder(init))])
    stages = history.describe_stage(
        recipe, open_release(data), len(set(questions.studies.tolist())), int(questions.counts.sum()),
        None if init is None else find_model_folder(init),
    )  # fmt: skip
    steps = steps_of(recipe, len(questions))
    return Prepared(recipe, questions, validation, governance, rows.texts, steps, stages)


def _train_in(out: Path, prepared: Prepared, init: Path | None, log_file: Any, log: Say) -> None:
    """Train into `out`, and over hard questions into a folder below it; then say that it is finished."""
    trainer = _run_phase(out, prepared, init, log_file, log)
    if prepared.recipe.training.hard_negatives:
        _pass_over_hard_negatives(out, prepared, trainer, log)
    if log_file is not None:
        best = read_object(out / BEST_FOLDER / checkpoints.MANIFEST, ANOTHER)
        details = {"step": prepared.steps, **{f"best_{name}": best[name] for name in ("step", "metric", "value")}}
        write_json(out / checkpoints.FINISHED, details, indent=2, ensure_ascii=True)
        log(f"trained {prepared.steps} steps; the best model, of step {best['step']}, is in {out / 'best'}")


def _run_phase(
    out: Path, prepared: Prepared, init: Path | None, log_file: Any, log: Say, optimizer_of: Path | None = None
) -> Any:
    """Train into `out`, from its last checkpoint or from `init`; returns the trainer, with the last step's model.

    Args:
        optimizer_of: checkpoint whose optimizer and rates a phase without one of its own starts with; None: new ones.
    """
    from accelerate import PartialState

    recipe, processes = prepared.recipe, PartialState()
    found = checkpoints.complete_checkpoints(out)
    step, last = found[-1] if found else (0, None)
    if last is not None:
        checkpoints.refuse_changed(last)
    if log_file is not None:
        checkpoints.restore_best(out, keep=bool(found))
        log_file.cut_after(step)
    processes.wait_for_everyone()
    if 0 < step < prepared.steps:
        log(f"going on after step {step} of {prepared.steps}")
    whole = last is not None and (last / "config.json").exists()  # not an adapter alone
    start = last if whole else init
    seed = recipe.training.seed
    model, processor = recipe.open_model(start, prepared.texts(), seed, scratch=out)
    trainer = _make_trainer(model, processor, prepared, out, log_file)
    trainer.optimizer_of = optimizer_of
    trainer.stages = prepared.stages
    before = last or optimizer_of
    if before is not None:
        trainer.seconds_before = history.seconds_so_far(before)
    if step < prepared.steps:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    elif not whole:
        trainer.load_weights(last)
    if prepared.validation is None:
        trainer.save_best({"step": prepared.steps, "metric": None, "value": None})
    processes.wait_for_everyone()
    return trainer


def _pass_over_hard_negatives(out: Path, prepared: Prepared, trainer: Any, log: Say) -> None:
    """The second pass; its best model takes the place of the first's if it is better (always, without validation)."""
    import dataclasses

    from medvqa_hub.training import hard_negatives
    from medvqa_hub.training.study_questions import StudyQuestions

    _, last = checkpoints.complete_checkpoints(out)[-1]
    folder = make_folder(out / checkpoints.SECOND_PASS)
    losses = hard_negatives.measure_losses(
        trainer.model, trainer.processing_class, prepared.train.grouped, prepared.recipe, trainer.accelerator, folder,
        checkpoints.fingerprint_model_folder(last), prepared.governance,
    )  # fmt: skip
    chosen = hard_negatives.select_by_loss(losses)
    log(f"second pass over {len(chosen):,} of {len(losses):,} questions")
    questions = StudyQuestions(
        prepared.train.rows, "the hard questions", prepared.train.view_is_known, chosen, prepared.train.image_side
    )
    if prepared.recipe.data.one_by_one:
        questions = questions.one_by_one()
    recipe = hard_negatives.second_pass_recipe(prepared.recipe, questions)
    second = dataclasses.replace(prepared, recipe=recipe, train=questions, steps=recipe.training.max_steps)
    with opened_log(folder) as log_file:
        _run_phase(folder, second, last, log_file, log, optimizer_of=last)
    if trainer.args.should_save:
        checkpoints.promote_if_better(folder, out, prepared.recipe.selection.metric != "loss", prepared.governance)


def _make_trainer(model: Any, processor: Any, prepared: Prepared, out: Path, log_file: Any) -> Any:
    arguments = (
        model,
        processor,
        prepared.recipe,
        prepared.train,
        prepared.validation,
        out,
        prepared.governance,
        log_file,
    )
    if prepared.recipe.scst is not None:
        from medvqa_hub.training.scst import SCSTTrainer

        return SCSTTrainer(*arguments)
    from medvqa_hub.training.trainer import SupervisedTrainer

    return SupervisedTrainer(*arguments)
