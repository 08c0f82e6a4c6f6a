"""The training history of a model, in `training.json` beside its weights, for its card and licence.

    {"stages": [{"kind": …, "stage": …, "base": …, "data": {…}, "steps": …, "seconds": …, "hardware": …}, …]}

A run that starts from a trained checkpoint copies its stages. The file contains neither texts nor paths.
"""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_object, write_json

HISTORY, STAGES = "training.json", "stages"
REPORTS = "rjua_meddqa"  # `dataset` of a stage trained on report images; absent for chest X-rays
_REMEDY = "train the model again, or remove the file (its history is then unknown)"
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/[0-9a-f]+/?$")  # a repository in the Hub's cache


def read_stages(folder: Path) -> list[dict[str, Any]]:
    """The stages in a model's folder, oldest first, or an empty list.

    Raises:
        InputError: the file cannot be read.
    """
    path = folder / HISTORY
    found = read_object(path, _REMEDY).get(STAGES) if path.is_file() else None
    return found if isinstance(found, list) else []


def describe_stage(recipe: Any, data: dict[str, Any], init: Path | None) -> list[dict[str, Any]]:
    """The stages of `init`, and the one that is about to run on `data` (see `describe_data`)."""
    stage = {
        "kind": recipe.model.kind,
        "stage": recipe.training.stage,
        "reward": recipe.reward.name if recipe.scst is not None and recipe.reward is not None else None,
        "base": name_source(
            getattr(recipe.model, "from_blip2", None) or getattr(recipe.model, "pretrained_encoder", None)
        ),
        "data": data,
    }
    return [*(read_stages(init) if init is not None else []), stage]


def describe_data(
    release: Any, studies: int, questions: int, left_out: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The data of a stage: where its studies come from, and who wrote the answers.

    Args:
        release: a `mimic_cxr_vqa.release.Release`.
        studies, questions: that are trained on.
        left_out: numbers of studies and questions that cannot be used, by reason.
    """
    answers = release.manifest.get("answers") or {}
    named = ("engine", "model", "revision", "prompt_version")
    return {
        "source": release.manifest.get("source", "the authors' release" if release.kind == "csv" else None),
        "fingerprint": release.fingerprint,
        "answers": {name: answers[name] for name in named if name in answers},
        "studies": studies,
        "questions": questions,
        **({"left_out": dict(left_out)} if left_out else {}),
    }


def name_source(source: str | None) -> str | None:
    """A repository's name, also of its copy in the cache. Of a folder only the last part, as paths may name people."""
    if source is None:
        return None
    if cached := _CACHED.search(source):
        return f"{cached[1]}/{cached[2]}"
    is_name = source.count("/") == 1 and not Path(source).exists() and not source.startswith((".", "/", "~"))
    return source if is_name else Path(source).name


def write_stages(folder: Path, stages: list[dict[str, Any]], steps: int, seconds: float, processes: int) -> None:
    """Write `stages` into a model's folder, the last one with its effort so far. Without stages, write nothing."""
    if stages:
        effort = {"steps": steps, "seconds": round(seconds), "hardware": describe_hardware(processes)}
        write_json(folder / HISTORY, {STAGES: [*stages[:-1], {**stages[-1], **effort}]})


def read_seconds(folder: Path) -> float:
    """Training time of a checkpoint's last stage, or 0 if it is unknown."""
    stages = read_stages(folder) or [{}]
    return float(stages[-1].get("seconds", 0))


def describe_hardware(processes: int) -> str:
    """`2 x NVIDIA H100 80GB HBM3`, or the CPU's name and number of cores."""
    import torch

    if torch.cuda.is_available() and os.environ.get("ACCELERATE_USE_CPU", "").lower() != "true":
        return f"{processes} x {torch.cuda.get_device_name()}"
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}"
