"""The folder of a trained model, and its files that are pushed: weights, configuration, processor, code and history.

Files are selected by name. The code is that of the installed package. The class is the strictest one that the folder
states, or `credentialed` if it states none.
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
from medvqa_core.model_folder import BEST_FOLDER, find_model_folder
from medvqa_hub.families.checkpoint import Checkpoint, open_checkpoint
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
_SAVE_AGAIN = "Save model and processor again (save_pretrained), or train the model again"


@dataclass(frozen=True)
class ModelFolder:
    """Attributes:
    checkpoint: folder, family and fingerprint.
    governance: the strictest class that the folder states.
    stages: training stages (`history`).
    config: config of the model or adapter.
    foreign: the model belongs to transformers and not to one of our families, so that no code is pushed.
    base: repository of the base model, if known. Always known for an adapter.
    is_adapter: the folder holds an adapter of `base`.
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
        """Fingerprints of the releases in the training history."""
        return {stage["data"]["fingerprint"] for stage in self.stages}


def open_model_folder(path: Path) -> ModelFolder:
    """Open a folder that `save_pretrained` of one of our models wrote, or the best model of a training run.

    Raises:
        InputError: the folder does not hold such a model, or a file is missing.
        GovernanceError: it states an unknown class.
    """
    folder = find_model_folder(path)
    checkpoint = open_checkpoint(str(folder))
    for name in _NEEDED:
        found = read_object(folder / name, _SAVE_AGAIN).get("auto_map") or {}
        missing = [auto for auto in _AUTO[name] if auto not in found]
        if missing:
            raise InputError(f"{folder / name} has no auto_map for {', '.join(missing)}. {_SAVE_AGAIN}")
    config = read_object(folder / CONFIG, _SAVE_AGAIN)
    return ModelFolder(checkpoint, find_class(folder, config), read_stages(folder), config)


def find_class(folder: Path, config: dict[str, Any]) -> Governance:
    """The strictest class in configuration, governance files, manifest and history."""
    stated = [read_governance(folder)] if (folder / GOVERNANCE).exists() else []
    if config.get("governance") is not None:
        stated.append(parse(config["governance"], str(folder / CONFIG)))
    if folder.name == BEST_FOLDER and (folder.parent / GOVERNANCE).exists():  # of the training run
        stated.append(read_governance(folder.parent))
    if (folder / MANIFEST).exists():
        found = read_object(folder / MANIFEST, _SAVE_AGAIN).get("governance")
        stated.append(parse(str(found), str(folder / MANIFEST)))
    data = [stage.get("data", {}) for stage in read_stages(folder)]  # can only make the stated class stricter
    minimum = [minimum_class_for_source(found.get("source")) for found in data]
    minimum += [parse(str(found["governance"]), str(folder / HISTORY)) for found in data if "governance" in found]
    return strictest([strictest(stated), *minimum])


def list_files(model: ModelFolder) -> dict[str, Path | bytes]:
    """Files by their name in the repository, without the card.

    Raises:
        InputError: a file is missing or cannot be read.
    """
    folder = model.checkpoint.folder
    files: dict[str, Path | bytes] = {name: folder / name for name in weights_in(folder)}
    for name in (*_NEEDED, *_OPTIONAL):
        if (folder / name).exists() or name in _NEEDED:
            files[name] = folder / name
    config = remove_local_paths({**model.config, "governance": str(model.governance)})
    if config != model.config:  # an unchanged file keeps its fingerprint
        files[CONFIG] = as_json(config)
    files |= {path.name: path for path in list_code(model.checkpoint.kind)}
    return files | list_history(model)


def list_history(model: ModelFolder) -> dict[str, Path | bytes]:
    """Recipe, history and class of the training."""
    folder, files = model.checkpoint.folder, dict[str, Path | bytes]()
    if (folder / RECIPE).is_file():
        recipe = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8"))
        text = yaml.safe_dump(remove_local_paths(recipe), sort_keys=False, allow_unicode=True)
        files[RECIPE] = text.encode()
    if model.stages:
        files[HISTORY] = as_json({STAGES: model.stages})
    files[GOVERNANCE] = as_json({"governance": str(model.governance), "format": GOVERNANCE_FORMAT})
    return files


def as_json(value: Any) -> bytes:
    """`value` as a deterministic JSON file."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def weights_in(folder: Path) -> list[str]:
    """Names of the weight files, with their index."""
    if (folder / ADAPTER).exists():
        return [ADAPTER_WEIGHTS]
    if not (folder / INDEX).exists():
        return [WEIGHTS]
    shards = read_object(folder / INDEX, _SAVE_AGAIN).get("weight_map")
    names = shards.values() if isinstance(shards, dict) else [None]
    if not all(isinstance(name, str) and "/" not in name and name.endswith(".safetensors") for name in names):
        raise InputError(f"{folder / INDEX} has no weight_map of safetensors files. {_SAVE_AGAIN}")
    return [INDEX, *sorted(set(names))]


def list_code(kind: str) -> list[Path]:
    """The files of the installed package that `trust_remote_code` needs."""
    from transformers.dynamic_module_utils import get_relative_import_files

    package = Path(str(importlib.import_module(kind).__file__)).parent
    found: set[Path] = set()
    for part in ("configuration", "modeling", "processing"):
        path = package / f"{part}_{kind}.py"
        found |= {path, *map(Path, get_relative_import_files(path))}
    return sorted(found)


def remove_local_paths(value: Any) -> Any:
    """Replace paths of this machine (absolute or existing) by their last part."""
    if isinstance(value, dict):
        return {key: "" if key == "_name_or_path" else remove_local_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [remove_local_paths(item) for item in value]
    if isinstance(value, str) and "/" in value and (Path(value).is_absolute() or Path(value).exists()):
        return Path(value).name
    return value
