"""The folder of a training run: checkpoints that are whole or not there, the best model, and what may go on from where.

    OUT/
      recipe.yaml            the resolved recipe
      run.json               what the run was made from: data, checkpoint that it started from, governance class
      governance.json        the class, for whoever takes the folder
      training_log.jsonl     a line per logged step or validation
      checkpoint-000500/     weights, processor, optimizer, scheduler, Trainer's state; all to go on from here
      best/                  weights and processor of the best validation so far: what evaluation and --init take
      hard_negatives/        the second pass, where the recipe asks for one: losses, and the same again
      finished.json          written last

Checkpoints and `best` appear by rename, with their manifest.json as the last file in them. A run that is killed while
it writes leaves a folder whose name starts with a dot and ends in `.partial`, which nothing picks up.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest_file
from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import MANIFEST, atomic_folder, writing
from medvqa_core.governance import Governance, parse
from medvqa_core.json_files import read_object, write_json, write_manifest
from medvqa_core.store import content_key

CHECKPOINT, BEST = "training-checkpoint", "trained-model"  # kinds, in the manifests
RECIPE, GOVERNANCE, RUN, FINISHED, BEST_FOLDER = "recipe.yaml", "governance.json", "run.json", "finished.json", "best"
ANOTHER = "choose another folder"  # the remedy for one that cannot be read
SECOND_PASS = "hard_negatives"  # folder of the pass over hard questions, a run of its own
_NAME = re.compile(r"checkpoint-(\d+)")


@contextmanager
def writing_folder(
    path: Path, kind: str, governance: Governance, recipe: str, details: dict[str, Any]
) -> Iterator[Path]:
    """Yield a folder to put a model into; on success it gets recipe, class and manifest, and the name `path`.

    Raises:
        OutputError: the disk is full, the folder cannot be written, … What was there before stays.
    """
    with atomic_folder(path, kind, private=governance.private) as partial:
        with writing_weights(path):
            yield partial
        (partial / RECIPE).write_text(recipe, encoding="utf-8")
        write_governance(partial, governance)
        manifest = {"kind": kind, "governance": str(governance), **details}
        write_manifest(partial, manifest, indent=2, ensure_ascii=True)


@contextmanager
def writing_weights(path: Path) -> Iterator[None]:
    """Turn what is raised when a write fails into an OutputError; safetensors hides the OSError in a text."""
    from safetensors import SafetensorError

    try:
        with writing(path):
            yield
    except SafetensorError as error:
        raise OutputError(
            f"cannot write {path}: {error}; free some space (or check the path) and run the same command again"
        ) from error


def save_state(state: dict[str, Any], path: Path) -> None:
    """torch.save, whose own error for a failed write says nothing of the disk.

    Raises:
        OSError: the disk is full, …
    """
    import torch

    with open(path, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def write_governance(folder: Path, governance: Governance) -> None:
    """Write the class beside what it is about."""
    write_json(folder / GOVERNANCE, {"governance": str(governance)}, indent=None)


def governance_of(folder: Path) -> Governance:
    """The class that a model folder carries; `credentialed` where it does not say, since nothing stricter exists.

    Raises:
        GovernanceError: the class is unknown.
        InputError: the file cannot be read.
    """
    path = folder / GOVERNANCE
    if not path.exists():
        return Governance.CREDENTIALED
    found = read_object(path, ANOTHER)
    return parse(str(found.get("governance")), str(path))


def checkpoint_folder(out: Path, step: int) -> Path:
    """Where the checkpoint of `step` lies."""
    return out / f"checkpoint-{step:06d}"


def complete_checkpoints(out: Path) -> list[tuple[int, Path]]:
    """(step, folder) of the checkpoints that were written to their end, oldest first."""
    found = []
    for path in out.glob("checkpoint-*") if out.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and (path / MANIFEST).is_file() and read_object(path / MANIFEST, ANOTHER).get("kind") == CHECKPOINT:
            found.append((int(match[1]), path))
    return sorted(found)


def remove_old(out: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints; each loses its manifest first, so that no half of one counts."""
    for _, path in complete_checkpoints(out)[:-keep]:
        with writing(path):
            (path / MANIFEST).unlink()
            shutil.rmtree(path)


def settle_best(out: Path, keep: bool) -> None:
    """Bring `best` (and the second pass) into order before a run starts (keep=False) or goes on (keep=True).

    A run that goes on gets it back if it was killed in the instant between moving it aside and the new one's rename; a
    run that starts anew must not measure itself against what another one left before its first checkpoint.
    """
    aside, best = out / f".{BEST_FOLDER}.replaced", out / BEST_FOLDER
    with writing(best):
        if aside.is_dir() and not best.exists():
            os.rename(aside, best)
        if not keep and (best / MANIFEST).is_file() and read_object(best / MANIFEST, ANOTHER).get("kind") == BEST:
            shutil.rmtree(best)
        if not keep and (out / SECOND_PASS).is_dir():  # of another first pass
            shutil.rmtree(out / SECOND_PASS)


def find_model_folder(path: Path) -> Path:
    """The folder with the weights: `path` itself, or the best model of a training run at `path`.

    Raises:
        InputError: there is neither.
    """
    for folder in (path, path / BEST_FOLDER):
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return folder
    raise InputError(
        f"{path}: no model there (looked for config.json and {BEST_FOLDER}/config.json); name a checkpoint's folder, "
        "or the output folder of medvqa-hub train"
    )


def fingerprint_of_model(folder: Path) -> str:
    """32 hex digits that change with the folder's weights and configuration."""
    names = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".yaml"))
    return content_key(files=[(path.name, digest_file(path, "blake2b")) for path in names])


def take_better(source: Path, out: Path, greater: bool, governance: Governance) -> bool:
    """Copy the best model of the run in `source` to that of `out`, if its value is better or there is no value."""
    theirs, ours = (read_object(folder / BEST_FOLDER / MANIFEST, ANOTHER) for folder in (source, out))
    if ours["value"] is not None and (theirs["value"] > ours["value"]) != greater:
        return False
    if ours["value"] == theirs["value"] and ours["value"] is not None:
        return False
    best = source / BEST_FOLDER
    details = {key: value for key, value in theirs.items() if key not in ("kind", "governance")}
    recipe = (best / RECIPE).read_text(encoding="utf-8")
    with writing_folder(out / BEST_FOLDER, BEST, governance, recipe, {**details, "from": source.name}) as folder:
        for path in best.iterdir():
            if path.name != MANIFEST:
                shutil.copy(path, folder)
    return True
