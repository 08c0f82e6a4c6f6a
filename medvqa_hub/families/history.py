"""What a model was trained on, stage by stage: `training.json` beside its weights, for its card and its licence.

    {"stages": [{"kind": …, "stage": …, "base": …, "data": {…}, "steps": …, "seconds": …, "hardware": …}, …]}

A run that starts from a trained checkpoint carries that one's stages on. No text and no path is in it.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_object, write_json

HISTORY, STAGES = "training.json", "stages"
REPORTS = "rjua_meddqa"  # `dataset` of a stage whose data were report images; of studies there is none
_REMEDY = "train the model again, or remove the file (its history is then unknown)"
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/[0-9a-f]+/?$")  # where a repository's files are kept


def read_stages(folder: Path) -> list[dict[str, Any]]:
    """The stages that a model's folder tells of, oldest first; empty where it tells of none.

    Raises:
        InputError: the file cannot be read.
    """
    path = folder / HISTORY
    found = read_object(path, _REMEDY).get(STAGES) if path.is_file() else None
    return found if isinstance(found, list) else []


def describe_stage(recipe: Any, release: Any, studies: int, questions: int, init: Path | None) -> list[dict[str, Any]]:
    """The stages before, and the one that is about to run.

    Args:
        release: `mimic_cxr_vqa.release.Release` of the data.
        studies, questions: that are trained on.
    """
    stage = {
        "kind": recipe.model.kind,
        "stage": recipe.training.stage,
        "reward": recipe.reward.name if recipe.scst is not None and recipe.reward is not None else None,
        "base": name_of(getattr(recipe.model, "from_blip2", None) or getattr(recipe.model, "pretrained_encoder", None)),
        "data": describe_data(release, studies, questions),
    }
    return [*(read_stages(init) if init is not None else []), stage]


def describe_data(release: Any, studies: int, questions: int) -> dict[str, Any]:
    """What a stage is trained on: where its studies are from, who wrote the answers. Arguments: `describe_stage`."""
    answers = release.manifest.get("answers") or {}
    named = ("engine", "model", "revision", "prompt_version")
    return {
        "source": release.manifest.get("source", "the authors' release" if release.kind == "csv" else None),
        "fingerprint": release.fingerprint,
        "answers": {name: answers[name] for name in named if name in answers},
        "studies": studies,
        "questions": questions,
    }


def name_of(source: str | None) -> str | None:
    """A repository's name, also of its copy in the cache; of a folder the last part alone, since paths name people."""
    if source is None:
        return None
    if cached := _CACHED.search(source):
        return f"{cached[1]}/{cached[2]}"
    is_name = source.count("/") == 1 and not Path(source).exists() and not source.startswith((".", "/", "~"))
    return source if is_name else Path(source).name


def write_stages(folder: Path, stages: list[dict[str, Any]], steps: int, seconds: float, processes: int) -> None:
    """Write the file into a model's folder; the last stage with what it took so far. Nothing where nothing is known."""
    if stages:
        effort = {"steps": steps, "seconds": round(seconds), "hardware": describe_hardware(processes)}
        write_json(folder / HISTORY, {STAGES: [*stages[:-1], {**stages[-1], **effort}]})


def seconds_so_far(folder: Path) -> float:
    """What the run that left a checkpoint had taken; 0 where it does not say."""
    stages = read_stages(folder) or [{}]
    return float(stages[-1].get("seconds", 0))


def describe_hardware(processes: int) -> str:
    """`2 x NVIDIA H100 80GB HBM3`, or the CPU's name and cores."""
    import torch

    if torch.cuda.is_available() and os.environ.get("ACCELERATE_USE_CPU", "").lower() != "true":
        return f"{processes} x {torch.cuda.get_device_name()}"
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}"
