"""The folder of a training run: checkpoints that are whole or not there, the best model, the log, and what may go on.

    OUT/
      recipe.yaml            the resolved recipe
      run.json               what the run was made from: data, checkpoint that it started from, governance class
      governance.json        the class, for whoever takes the folder
      training_log.jsonl     a line per logged step or validation
      checkpoint-000500/     weights, processor, optimizer, scheduler, Trainer's state; all to go on from here; of a
                             model that is mostly frozen the trained weights alone, and a fingerprint of the others
      best/                  weights and processor of the best validation so far: what evaluation and --init take
      hard_negatives/        the second pass, where the recipe asks for one: losses, and the same again
      finished.json          written last

Checkpoints and `best` appear by rename, with their manifest.json as the last file in them. A run that is killed while
it writes leaves a folder whose name starts with a dot and ends in `.partial`, which nothing picks up.

The log has one JSON object per logged step or validation, `step` first, in order of steps, none twice. A run that goes
on at step N drops the lines after N, which it is about to write again. Only one process writes at a time; the lock goes
with it.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError, OutputError
from medvqa_core.files import MANIFEST, atomic_folder, output_errors
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_manifest
from medvqa_core.store import content_key
from medvqa_hub.families.folders import ANOTHER, BEST_FOLDER
from medvqa_hub.families.history import HISTORY

CHECKPOINT, BEST = "training-checkpoint", "trained-model"  # kinds, in the manifests
TRAINED = "trained.safetensors"  # in place of a whole model
RECIPE, RUN, LOG, FINISHED = "recipe.yaml", "run.json", "training_log.jsonl", "finished.json"
TRAINER_STATE = "trainer_state.json"
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
        if kind == CHECKPOINT:
            manifest["sha256"] = {name: digest_file(partial / name) for name in _files_of_state(partial)}
        write_manifest(partial, manifest, indent=2, ensure_ascii=True)


@contextmanager
def writing_weights(path: Path) -> Iterator[None]:
    """Turn what is raised when a write fails into an OutputError; safetensors hides the OSError in a text."""
    from safetensors import SafetensorError

    try:
        with output_errors(path):
            yield
    except SafetensorError as error:
        raise OutputError(
            f"cannot write {path}: {error}; free some space (or check the path) and run the same command again"
        ) from error


def save_trained(model: Any, folder: Path) -> None:
    """Write what of `model` takes gradients, and nothing else, to TRAINED in `folder`."""
    from safetensors.torch import save_file

    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    save_file({name: value.detach().cpu().contiguous() for name, value in trained.items()}, folder / TRAINED)


def load_trained(model: Any, checkpoint: Path, base: str) -> None:
    """Put the trained weights of `checkpoint` into `model`, whose other weights have the fingerprint `base`.

    Raises:
        ConfigError: the checkpoint was trained on another base, or other parts were trained.
    """
    from safetensors.torch import load_file

    found = read_object(checkpoint / MANIFEST, ANOTHER).get("base")
    if found != base:
        raise ConfigError(
            f"{checkpoint} holds the trained weights of a model whose other weights were different (fingerprint "
            f"{found}, now {base}): go on with the same model.from_blip2 or --init, or choose another --out"
        )
    weights = load_file(checkpoint / TRAINED)
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    if trained != set(weights):
        some = ", ".join(sorted(trained ^ set(weights))[:3])
        raise ConfigError(f"{checkpoint} was trained in other parts of the model ({some}, …): choose another --out")
    model.load_state_dict(weights, strict=False)


def fingerprint_frozen_weights(model: Any) -> str:
    """32 hex digits that change with any weight of `model` that takes no gradient."""
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(model.named_parameters()):
        if not value.requires_grad:
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


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


def refuse_changed(checkpoint: Path) -> None:
    """Compare a checkpoint with what its manifest says of its files; those of earlier versions say nothing.

    Raises:
        InputError: a file has changed since it was written, or is gone.
    """
    stated = read_object(checkpoint / MANIFEST, ANOTHER).get("sha256", {})
    for name, digest in stated.items():
        path = checkpoint / name
        if not path.is_file() or digest_file(path) != digest:
            problem = "its content is not what was written" if path.is_file() else "is gone"
            raise InputError(
                f"{path}: {problem}; copy {checkpoint} again, or remove it and run the same command: it goes on from "
                "an earlier checkpoint, or from the start"
            )


def _files_of_state(folder: Path) -> list[str]:
    """Weights, optimizer, rates and Trainer's state: what may change without a word, by name."""
    return sorted(
        path.name for path in folder.iterdir() if path.suffix in (".safetensors", ".pt") or path.name == TRAINER_STATE
    )


def remove_old(out: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints; each loses its manifest first, so that no half of one counts."""
    for _, path in complete_checkpoints(out)[:-keep]:
        with output_errors(path):
            (path / MANIFEST).unlink()
            shutil.rmtree(path)


def restore_best(out: Path, keep: bool) -> None:
    """Bring `best` (and the second pass) into order before a run starts (keep=False) or goes on (keep=True).

    A run that goes on gets it back if it was killed in the instant between moving it aside and the new one's rename; a
    run that starts again must not measure itself against what another one left before its first checkpoint.
    """
    aside, best = out / f".{BEST_FOLDER}.replaced", out / BEST_FOLDER
    with output_errors(best):
        if aside.is_dir() and not best.exists():
            os.rename(aside, best)
        if not keep and (best / MANIFEST).is_file() and read_object(best / MANIFEST, ANOTHER).get("kind") == BEST:
            shutil.rmtree(best)
        if not keep and (out / SECOND_PASS).is_dir():  # of another first pass
            shutil.rmtree(out / SECOND_PASS)


def fingerprint_model_folder(folder: Path) -> str:
    """32 hex digits that change with the folder's weights and configuration; how long it took does not count."""
    kinds = (".json", ".safetensors", ".yaml")
    names = sorted(path for path in folder.iterdir() if path.suffix in kinds and path.name != HISTORY)
    return content_key(files=[(path.name, digest_file(path, "blake2b")) for path in names])


def promote_if_better(source: Path, out: Path, greater: bool, governance: Governance) -> bool:
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


class TrainingLog:
    """Appends to the log of the run in `out`; holds the run's lock until `close`.

    Raises:
        OutputError: another process trains into this folder, or the file cannot be written.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / LOG
        with output_errors(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise OutputError(f"{out} is being trained into by another process; wait for it or stop it") from None

    def cut_after(self, step: int) -> None:
        """Drop the lines of later steps, and a torn last one."""
        kept = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n") or _step_of(line, self.path) > step:
                break
            kept += len(line)
        with output_errors(self.path):
            os.ftruncate(self._descriptor, kept)
            os.lseek(self._descriptor, kept, os.SEEK_SET)

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line."""
        line = json.dumps(entry).encode() + b"\n"
        with output_errors(self.path):
            while line:
                line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        os.close(self._descriptor)


def read_log(out: Path) -> list[dict[str, Any]]:
    """The entries of the run in `out`; a line that is still being written is left out."""
    path = out / LOG
    if not path.exists():
        raise InputError(f"{path}: no such file; train into {out} first")
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _step_of(line: bytes, path: Path) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} has a line that is no log entry ({error}); remove the file or the line") from error
