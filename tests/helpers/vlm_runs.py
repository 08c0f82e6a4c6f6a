"""Short runs of `train vlm` for tests: a tiny model of random weights on a small build, and a run that stops."""

import sys
from pathlib import Path
from typing import Any

from builds import Build
from paths import REPOSITORY

from medvqa_hub.training.recipes import DataSettings
from medvqa_hub.training.training_data import load_data
from medvqa_hub.training.vlm.recipe import VlmRecipe, load_vlm_recipe
from medvqa_hub.training.vlm.run import train_vlm

if str(REPOSITORY / "benchmarks") not in sys.path:
    sys.path.append(str(REPOSITORY / "benchmarks"))
from tiny_vlm import write_tiny_vlm

FAST = {
    "training.max_steps": 6, "training.save_every": 2, "training.log_every": 1, "training.rows_per_step": 4,
    "training.rows_per_batch": 2, "training.warmup_steps": 2, "data.train_studies": 2, "grpo.answers": 2,
    "grpo.max_new_tokens": 4,
}  # fmt: skip


def write_model(folder: Path, build: Build) -> Path:
    """A tiny model whose tokenizer knows the build's words."""
    data = load_data(build.workspace.root, None, DataSettings(validation_split=None), images=False)
    return write_tiny_vlm(folder, data.texts(), data.governance, width=32, vocabulary=320)


def vlm_recipe(name: str = "tiny-vlm-sft", **changes: Any) -> VlmRecipe:
    """A shipped recipe, made short by FAST; `section__key=value` changes more."""
    fast = {key: value for key, value in FAST.items() if "grpo" in name or not key.startswith("grpo")}
    merged = {**fast, **{key.replace("__", "."): value for key, value in changes.items()}}
    return load_vlm_recipe(name, [f"{key}={'null' if value is None else value}" for key, value in merged.items()])


def run_vlm(build: Build, model: Path, out: Path, recipe: VlmRecipe, **options: Any) -> list[str]:
    """Train; the lines that the user sees."""
    lines: list[str] = []
    train_vlm(recipe, str(model), build.workspace.root, out, build.tree, log=lines.append, **options)
    return lines


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    (file,) = (folder / "best").glob("*.safetensors")
    return load_file(file)
