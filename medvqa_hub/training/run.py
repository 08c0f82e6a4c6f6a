"""One training run from a recipe: load, train or go on, keep the best.

The same command in the same folder goes on where it stopped, does nothing where it had finished, and is refused where
recipe, data or starting checkpoint are others.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder, writing
from medvqa_core.governance import Governance, refuse_lowering, strictest
from medvqa_hub.training import checkpoints
from medvqa_hub.training.recipes import Recipe, differences


@dataclass(frozen=True)
class RunPlan:
    """What a run will do, before anything is trained: `--dry-run` prints it."""

    studies: int
    questions: int
    skipped: dict[str, int]
    short_studies: int
    steps: int
    governance: Governance

    def lines(self, recipe: Recipe) -> list[str]:
        training, wanted = recipe.training, recipe.data.questions_per_study
        lines = [
            f"{self.studies:,} studies with {self.questions:,} questions",
            f"{self.steps:,} steps of {training.studies_per_step} studies x {wanted or 'all'} questions, in batches of "
            f"{training.studies_per_batch} studies",
            f"governance class: {self.governance}",
        ]
        lines += [f"left out: {count:,} {name.replace('_', ' ')}" for name, count in self.skipped.items() if count]
        if self.short_studies:
            lines.append(f"{self.short_studies:,} studies have fewer than {wanted} questions and give what they have")
        return lines


def train(
    recipe: Recipe,
    data: Path,
    out: Path,
    image_root: Path | None = None,
    init: Path | None = None,
    dry_run: bool = False,
    say: Any = print,
) -> Path:
    """Train as `recipe` says, into `out`.

    Args:
        data: a release, the folder it was built in, or the authors' CSV files.
        image_root: folder that image paths start from.
        init: a checkpoint to start from: a model's folder, or the output folder of an earlier stage.
        dry_run: say what would be done and stop.
        say: where lines for the user go; only the first process says anything.

    Returns:
        `out`; the best model is in `out/best`.

    Raises:
        MedvqaError: everything that a user can put right.
    """
    from accelerate import PartialState

    from medvqa_hub.training.trainer import check_machine

    check_machine(recipe)
    finished = out / checkpoints.FINISHED
    first = PartialState(cpu=not _has_gpu()).is_main_process
    say = say if first else _say_nothing
    record = _make_record(recipe, data, init)
    if not dry_run and (out / checkpoints.RUN).exists():
        _compare(record, out)
        if finished.exists():
            done = checkpoints.read_json(finished)
            say(f"finished already, at step {done['step']}; the best model is in {out / checkpoints.BEST_FOLDER}")
            return out
    loaded = _load(recipe, data, image_root, record, out)
    if dry_run:
        say(recipe.to_yaml())
        for line in loaded.plan.lines(recipe):
            say(line)
        return out
    _prepare_folder(out, recipe, record, loaded.governance, first)
    _train_loaded(recipe, loaded, out, init, first, say)
    return out
