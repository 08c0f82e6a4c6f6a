"""A trained model's folder, and what of it goes to the Hub: weights, configuration, processor, code, history.

The files are named one by one. The code is that of the installed package, not what lies in the folder; the class is the
strictest of all that the folder says, and `credentialed` where it says nothing.
"""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvqa_core.errors import InputError
from medvqa_core.files import MANIFEST
from medvqa_core.folder_class import GOVERNANCE, GOVERNANCE_FORMAT, read_governance
from medvqa_core.governance import Governance, parse, strictest
from medvqa_core.json_files import read_object
from medvqa_core.minimum_class import minimum_class_for_source
from medvqa_hub.families.checkpoint import Checkpoint, open_checkpoint
from medvqa_hub.families.folders import BEST_FOLDER, find_model_folder
from medvqa_hub.families.history import HISTORY, STAGES, read_stages

ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
RECIPE, WEIGHTS, INDEX, CONFIG, PROCESSOR = (
    "recipe.yaml",
    "model.safetensors",
    "model.safetensors.index.json",
    "config.json",
    "processor_config.json",
)
_NEEDED = (CONFIG, PROCESSOR)
_AUTO = {CONFIG: ("AutoConfig", "AutoModelForImageTextToText"), PROCESSOR: ("AutoProcessor",)}
_OPTIONAL = (
    "generation_config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
)  # fmt: skip
_SAVE_AGAIN = "save model and processor into it again (save_pretrained), or train the model again"


@dataclass(frozen=True)
class ModelFolder:
    """Attributes:
    checkpoint: folder, family, fingerprint.
    governance: the strictest of all that the folder says.
    stages: of its training (`history`).
    config: of the model, or of the adapter.
    foreign: it is a model that transformers knows, of no family of ours: no code goes with it.
    base: repository of the model that it was made from, as far as is known; of an adapter always.
    is_adapter: the folder holds an adapter, which is loaded onto `base`.
    """

    checkpoint: Checkpoint
    governance: Governance
    stages: list[dict[str, Any]]
    config: dict[str, Any]
    foreign: bool = False
    base: str | None = None
    is_adapter: bool = False

    @property
    def data_fingerprints(self) -> set[str]:
        """Of the releases that it was trained on, as far as is known."""
        return {stage["data"]["fingerprint"] for stage in self.stages}


def open_model_folder(path: Path) -> ModelFolder:
    """Look at a folder of a model of ours: one that `save_pretrained` wrote, or the best model of a training run.

    Raises:
        InputError: there is none, or something is missing in it.
        GovernanceError: it names an unknown class.
    """
    folder = find_model_folder(path)
    checkpoint = open_checkpoint(str(folder))
    for name in _NEEDED:
        found = read_object(folder / name, _SAVE_AGAIN).get("auto_map") or {}
        missing = [auto for auto in _AUTO[name] if auto not in found]
        if missing:
            raise InputError(f"{folder / name} has no auto_map for {', '.join(missing)}; {_SAVE_AGAIN}")
    config = read_object(folder / CONFIG, _SAVE_AGAIN)
    return ModelFolder(checkpoint, class_of(folder, config), read_stages(folder), config)


def class_of(folder: Path, config: dict[str, Any]) -> Governance:
    """The strictest of what configuration, governance files, manifest and history say; milder words undo nothing."""
    said = [read_governance(folder)] if (folder / GOVERNANCE).exists() else []
    if config.get("governance") is not None:
        said.append(parse(config["governance"], str(folder / CONFIG)))
    if folder.name == BEST_FOLDER and (folder.parent / GOVERNANCE).exists():  # the run that it is the best model of
        said.append(read_governance(folder.parent))
    if (folder / MANIFEST).exists():
        found = read_object(folder / MANIFEST, _SAVE_AGAIN).get("governance")
        said.append(parse(str(found), str(folder / MANIFEST)))
    data = [stage.get("data", {}) for stage in read_stages(folder)]  # raises a class; alone it states none
    floors = [minimum_class_for_source(found.get("source")) for found in data]
    floors += [parse(str(found["governance"]), str(folder / HISTORY)) for found in data if "governance" in found]
    return strictest([strictest(said), *floors])


def files_of(model: ModelFolder) -> dict[str, Path | bytes]:
    """Name in the repository -> file or content, of everything but the card.

    Raises:
        InputError: a file is missing or cannot be read.
    """
    folder = model.checkpoint.folder
    files: dict[str, Path | bytes] = {name: folder / name for name in weights_in(folder)}
    for name in (*_NEEDED, *_OPTIONAL):
        if (folder / name).exists() or name in _NEEDED:
            files[name] = folder / name
    config = without_places({**model.config, "governance": str(model.governance)})
    if config != model.config:  # the same bytes have the same fingerprint
        files[CONFIG] = as_json(config)
    files |= {path.name: path for path in code_of(model.checkpoint.kind)}
    return files | history_of(model)


def history_of(model: ModelFolder) -> dict[str, Path | bytes]:
    """Recipe, history and class: what tells of the training."""
    folder, files = model.checkpoint.folder, dict[str, Path | bytes]()
    if (folder / RECIPE).is_file():
        recipe = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8"))
        text = yaml.safe_dump(without_places(recipe), sort_keys=False, allow_unicode=True)
        files[RECIPE] = text.encode()
    if model.stages:
        files[HISTORY] = as_json({STAGES: model.stages})
    files[GOVERNANCE] = as_json({"governance": str(model.governance), "format": GOVERNANCE_FORMAT})
    return files


def as_json(value: Any) -> bytes:
    """A JSON file of `value`, the same bytes for the same value."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def weights_in(folder: Path) -> list[str]:
    """The weight files that the index names, or the only one; an adapter's are one."""
    if (folder / ADAPTER).exists():
        return [ADAPTER_WEIGHTS]
    if not (folder / INDEX).exists():
        return [WEIGHTS]
    shards = read_object(folder / INDEX, _SAVE_AGAIN).get("weight_map")
    names = shards.values() if isinstance(shards, dict) else [None]
    if not all(isinstance(name, str) and "/" not in name and name.endswith(".safetensors") for name in names):
        raise InputError(f"{folder / INDEX}: no weight_map of safetensors files in the folder; {_SAVE_AGAIN}")
    return [INDEX, *sorted(set(names))]


def code_of(kind: str) -> list[Path]:
    """The files of the installed package that `trust_remote_code` needs: those of the Auto classes, and what they
    import."""
    from transformers.dynamic_module_utils import get_relative_import_files

    package = Path(str(importlib.import_module(kind).__file__)).parent
    found: set[Path] = set()
    for part in ("configuration", "modeling", "processing"):
        path = package / f"{part}_{kind}.py"
        found |= {path, *map(Path, get_relative_import_files(path))}
    return sorted(found)


def without_places(value: Any) -> Any:
    """Without paths of this machine: of a path that is there, or absolute, the last part stays."""
    if isinstance(value, dict):
        return {key: "" if key == "_name_or_path" else without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_places(item) for item in value]
    if isinstance(value, str) and "/" in value and (Path(value).is_absolute() or Path(value).exists()):
        return Path(value).name
    return value
