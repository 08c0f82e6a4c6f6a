"""The folder of a training run and its checkpoints.

    OUT/
      recipe.yaml            the resolved recipe
      run.json               recipe, data and starting checkpoint, which must not change when the run is resumed
      governance.json        the governance class
      training_log.jsonl     see `training_log`
      checkpoint-000500/     weights, processor, optimizer, scheduler and Trainer's state; of a model that is mostly
                             frozen, the trained weights and a fingerprint of the others
      best/                  weights and processor with the best validation so far
      config.json, …         links to the files in best/, so that from_pretrained(OUT) loads the best model
      features/              features of a frozen image encoder, if the recipe asks for them (`feature_cache`)
      hard_negatives/        the second pass, if the recipe asks for one, with its losses and the same files
      finished.json          written last

Checkpoints and `best` appear by rename, with manifest.json as their last file. A run that is killed while it writes
leaves a folder whose name starts with a dot and ends in `.partial`, which is ignored.
"""

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError, OutputError
from medvqa_core.files import MANIFEST, atomic_folder, output_errors
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.json_files import read_object, write_manifest
from medvqa_core.model_folder import BEST_FOLDER
from medvqa_core.store import content_key
from medvqa_hub.families.feature_cache import fingerprint_weights
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.families.history import HISTORY

CHECKPOINT, BEST = "training-checkpoint", "trained-model"  # kinds, in the manifests
TRAINED = "trained.safetensors"  # instead of a whole model
RECIPE, FINISHED = "recipe.yaml", "finished.json"
TRAINER_STATE = "trainer_state.json"
SECOND_PASS = "hard_negatives"
_NAME = re.compile(r"checkpoint-(\d+)")


@contextmanager
def writing_folder(
    path: Path, kind: str, governance: Governance, recipe: str, details: dict[str, Any]
) -> Iterator[Path]:
    """Yield a folder for a model. On success it gets recipe, class and manifest and is renamed to `path`.

    Raises:
        OutputError: the folder cannot be written. An earlier folder at `path` stays.
    """
    with atomic_folder(path, kind, private=governance.private) as partial:
        with writing_weights(path):
            yield partial
        (partial / RECIPE).write_text(recipe, encoding="utf-8")
        write_governance(partial, governance)
        manifest = {"kind": kind, "governance": str(governance), **details}
        if kind == CHECKPOINT:
            manifest["sha256"] = {path.name: digest_file(path) for path in sorted(partial.iterdir()) if _is_state(path)}
        write_manifest(partial, manifest, indent=2, ensure_ascii=True)
    if kind == BEST:
        link_best(path.parent)


def link_best(out: Path) -> None:
    """Make `out` a model folder: link each file of its best model, except those that the run has itself."""
    best = out / BEST_FOLDER
    with output_errors(out):
        for link in out.iterdir():
            if link.is_symlink() and link.readlink().parent == Path(BEST_FOLDER) and not link.exists():
                link.unlink()
        for path in best.iterdir() if best.is_dir() else ():
            if path.name == MANIFEST or os.path.lexists(out / path.name):
                continue
            try:
                (out / path.name).symlink_to(Path(BEST_FOLDER, path.name))
            except OSError as error:  # FAT and some network drives
                warnings.warn(f"{out} cannot hold links ({error.strerror}). Load the model from {best}.", stacklevel=2)
                return


@contextmanager
def writing_weights(path: Path) -> Iterator[None]:
    """Turn the errors of a failed write into an OutputError. safetensors hides the OSError in a text."""
    from safetensors import SafetensorError

    try:
        with output_errors(path):
            yield
    except SafetensorError as error:
        raise OutputError(
            f"cannot write {path}: {error}. Free some space (or check the path) and run the same command again"
        ) from error


def save_trained(model: Any, folder: Path, weights: Mapping[str, Any] | None = None) -> None:
    """Write the weights of `model` (or their values in `weights`) that take gradients to TRAINED in `folder`."""
    from safetensors.torch import save_file

    trained = {
        name: value if weights is None else weights[name]
        for name, value in model.named_parameters()
        if value.requires_grad
    }
    save_file({name: value.detach().cpu().contiguous() for name, value in trained.items()}, folder / TRAINED)


def load_trained(model: Any, checkpoint: Path, base: str) -> None:
    """Load the trained weights of `checkpoint` into `model`, whose other weights have the fingerprint `base`.

    Raises:
        ConfigError: the checkpoint was trained on another base, or trained other parts.
    """
    from safetensors.torch import load_file

    found = read_object(checkpoint / MANIFEST, ANOTHER).get("base")
    if found != base:
        raise ConfigError(
            f"{checkpoint} was trained on a model with other frozen weights (fingerprint {found}, now {base}). Resume "
            "with the same model.from_blip2 or --init, or choose another --out"
        )
    weights = load_file(checkpoint / TRAINED)
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    if trained != set(weights):
        some = ", ".join(sorted(trained ^ set(weights))[:3])
        raise ConfigError(f"{checkpoint} trained other parts of the model ({some}, …). Choose another --out")
    model.load_state_dict(weights, strict=False)


def fingerprint_frozen_weights(model: Any) -> str:
    """32 hex digits that identify the weights of `model` that do not take a gradient."""
    return fingerprint_weights((name, value) for name, value in model.named_parameters() if not value.requires_grad)


def save_state(state: dict[str, Any], path: Path) -> None:
    """torch.save, but a failed write raises the OSError that torch replaces by a RuntimeError."""
    import torch

    with open(path, "wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def checkpoint_folder(out: Path, step: int) -> Path:
    """The folder of the checkpoint of `step`."""
    return out / f"checkpoint-{step:06d}"


def complete_checkpoints(out: Path) -> list[tuple[int, Path]]:
    """(step, folder) of complete checkpoints, oldest first."""
    found = []
    for path in out.glob("checkpoint-*") if out.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and (path / MANIFEST).is_file() and read_object(path / MANIFEST, ANOTHER).get("kind") == CHECKPOINT:
            found.append((int(match[1]), path))
    return sorted(found)


def check_unchanged(checkpoint: Path) -> None:
    """Compare the files of a checkpoint with the digests in its manifest. Earlier versions wrote none.

    Raises:
        InputError: a file has changed or is missing.
    """
    for name, digest in read_object(checkpoint / MANIFEST, ANOTHER).get("sha256", {}).items():
        path = checkpoint / name
        if not path.is_file() or digest_file(path) != digest:
            problem = "its content has changed" if path.is_file() else "is missing"
            raise InputError(
                f"{path}: {problem}. Copy {checkpoint} again, or remove it and run the same command to resume from an "
                "earlier checkpoint or from the start"
            )


def _is_state(path: Path) -> bool:
    """Whether a file holds weights, optimizer, scheduler or Trainer's state, where damage would go unnoticed."""
    return path.suffix in (".safetensors", ".pt") or path.name == TRAINER_STATE


def remove_old(out: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints. Their manifests go first, so that a partial one never counts."""
    for _, path in complete_checkpoints(out)[:-keep]:
        with output_errors(path):
            (path / MANIFEST).unlink()
            shutil.rmtree(path)


def restore_best(out: Path, keep: bool) -> None:
    """Prepare `best` and the second pass for a run that is resumed (keep=True) or starts (keep=False).

    A resumed run that was killed while it replaced `best` gets the earlier one back. A new run removes what an earlier
    run left before its first checkpoint, since it must not be compared with it.
    """
    aside, best = out / f".{BEST_FOLDER}.replaced", out / BEST_FOLDER
    with output_errors(best):
        if aside.is_dir() and not best.exists():
            os.rename(aside, best)
        if not keep and (best / MANIFEST).is_file() and read_object(best / MANIFEST, ANOTHER).get("kind") == BEST:
            shutil.rmtree(best)
        link_best(out)
        if not keep and (out / SECOND_PASS).is_dir():
            shutil.rmtree(out / SECOND_PASS)


def fingerprint_model_folder(folder: Path) -> str:
    """32 hex digits that identify the folder's weights and configuration. Training times do not count."""
    kinds = (".json", ".safetensors", ".yaml")
    names = sorted(path for path in folder.iterdir() if path.suffix in kinds and path.name != HISTORY)
    return content_key(files=[(path.name, digest_file(path, "blake2b")) for path in names])


def promote_if_better(source: Path, out: Path, greater: bool, governance: Governance) -> bool:
    """Copy the best model of the run in `source` to `out` if its value is better, or if nothing was measured."""
    theirs, ours = (read_object(folder / BEST_FOLDER / MANIFEST, ANOTHER) for folder in (source, out))
    before, after = ours["value"], theirs["value"]
    if before is not None and not (after > before if greater else after < before):
        return False
    best = source / BEST_FOLDER
    details = {key: value for key, value in theirs.items() if key not in ("kind", "governance")}
    recipe = (best / RECIPE).read_text(encoding="utf-8")
    with writing_folder(out / BEST_FOLDER, BEST, governance, recipe, {**details, "from": source.name}) as folder:
        for path in best.iterdir():
            if path.name != MANIFEST:
                shutil.copy(path, folder)
    return True
