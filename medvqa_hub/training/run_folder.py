"""The folder of a run: one run at a time writes there, and only the run that it was made for goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.files import make_folder, output_errors
from medvqa_core.folder_class import GOVERNANCE, read_governance, write_governance
from medvqa_core.governance import Governance, check_not_lowered
from medvqa_core.json_files import read_object, write_json
from medvqa_hub.families.folders import ANOTHER, BEST_FOLDER, find_model_folder
from medvqa_hub.training import checkpoints
from medvqa_hub.training.recipes import differences

Say = Callable[[str], None]


@contextmanager
def opened_log(folder: Path) -> Iterator[Any]:
    """The log in `folder`, which locks it; None on processes other than the first."""
    from accelerate import PartialState

    log_file = checkpoints.TrainingLog(folder) if PartialState().is_main_process else None
    try:
        yield log_file
    finally:
        if log_file is not None:
            log_file.close()


def refuse_another_run(out: Path, record: dict[str, Any], init: Path | None) -> None:
    """Raise a ConfigError where `out` holds another run that has ended, or got as far as a checkpoint."""
    if init is not None and find_model_folder(init).resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"the checkpoint {init} lies in --out {out}, whose models are replaced: choose another --out")
    began = (out / checkpoints.FINISHED).exists() or checkpoints.complete_checkpoints(out)
    if not began or not (out / checkpoints.RUN).exists():
        return
    before = read_object(out / checkpoints.RUN, ANOTHER)
    differing = differences(before.get("recipe", {}), record["recipe"])
    if before.get("data") != record["data"]:
        differing.append("the data's content")
    if before.get("init") != record["init"]:
        differing.append("the checkpoint that it starts from")
    if differing:
        raise ConfigError(
            f"{out} was started differently: {'; '.join(differing)}. Go on with the same, or choose another folder"
        )


def is_finished(out: Path, log: Say) -> bool:
    """Whether the run in `out` has ended."""
    if not (out / checkpoints.FINISHED).exists():
        return False
    done = read_object(out / checkpoints.FINISHED, ANOTHER)
    log(f"finished already, after {done['step']} steps; the best model is in {out / BEST_FOLDER}")
    return True


def open_folder(out: Path, recipe: Any, record: dict[str, Any], governance: Governance) -> None:
    """Make `out` this run's folder, or check that its class is not lowered."""
    make_folder(out, governance.private)
    if (out / GOVERNANCE).exists():
        check_not_lowered(read_governance(out), governance, str(out))
    with output_errors(out):
        write_governance(out, governance)
        (out / checkpoints.RECIPE).write_text(recipe.to_yaml(), encoding="utf-8")
    write_json(out / checkpoints.RUN, record, indent=2, ensure_ascii=True)


def log_nothing(line: str) -> None:
    pass
