"""The folder of an image-text model of another family, or of its adapter, as `train vlm` writes it.

Only safetensors, configuration, processor, recipe and history are pushed, no code. Models that need their own code are
refused. The class is the strictest one that the folder states. An adapter without `governance.json` is credentialed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.folder_class import GOVERNANCE, read_governance
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import read_object
from medvqa_core.llm.loading import identify_weights
from medvqa_hub.families.checkpoint import Checkpoint
from medvqa_hub.families.folders import ANOTHER
from medvqa_hub.families.history import name_source, read_stages
from medvqa_hub.families.registry import FAMILIES
from medvqa_hub.publishing.model_folder import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    CONFIG,
    ModelFolder,
    as_json,
    find_class,
    list_history,
    remove_local_paths,
    weights_in,
)

BASE = "base_model_name_or_path"
_CODE = (".py", ".pyc", ".so")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
_SETTINGS = (  # may contain local paths
    "generation_config.json", "processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json",
    "tokenizer_config.json",
)  # fmt: skip
_WORDS = (
    "tokenizer.json", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json",
)  # fmt: skip


def is_foreign(folder: Path) -> bool:
    """Whether `folder` holds an adapter, or a model of another family."""
    return (folder / ADAPTER).exists() or read_object(folder / CONFIG, ANOTHER).get("model_type") not in FAMILIES


def open_foreign_folder(folder: Path, base: str | None = None) -> ModelFolder:
    """Open the folder of a model of another family, or of an adapter.

    Args:
        base: repository of the base model, if the folder does not name it.

    Raises:
        InputError: the folder holds code or pickles, a file is missing, or transformers does not support the model.
        ConfigError: the base of an adapter is unknown, or differs from `base`.
        GovernanceError: the folder states an unknown class.
    """
    _refuse_ours(folder, folder)
    _refuse_code(folder)
    adapter = (folder / ADAPTER).exists()
    config = read_object(folder / (ADAPTER if adapter else CONFIG), ANOTHER)
    governance = find_class(folder, config)
    if adapter:
        governance = strictest([governance, read_governance(folder), *_find_base_class(folder, config)])
        kind, found = "adapter", str(config.get(BASE) or "")
    else:
        kind, found = _known_type(folder, config), str(config.get("_name_or_path") or "")
    stages = read_stages(folder)
    # The history states whether the base was a folder. The path alone may look like the name of a repository.
    name = stages[-1].get("base") if stages else name_source(found or None)
    known = name if name and "/" in name else None
    if base is not None and known is not None and base != known:
        raise ConfigError(f"--base-model {base}: {folder} was made from {known}. Remove the option.")
    if base is not None and base.count("/") != 1:
        raise ConfigError(f"--base-model {base!r}: expected a repository, owner/name")
    if adapter and base is None and known is None:
        raise ConfigError(
            f"the adapter in {folder} belongs to a local model ({name or 'unknown'}), so that nobody else could load "
            "it. Pass the repository of its base (--base-model OWNER/NAME), or merge the adapter into its base "
            "(merge_and_unload) and push the result."
        )
    checkpoint = Checkpoint(str(folder), folder, kind, identify_weights(folder), governance)
    return ModelFolder(checkpoint, governance, stages, config, True, base or known, adapter)


def _refuse_code(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        kind = "code" if path.suffix in _CODE else "a pickle" if path.suffix in _PICKLES else None
        if kind is not None:
            raise InputError(
                f"{path} is {kind}. Only safetensors and settings of models of other families can be pushed. Remove it "
                "if the model loads without it."
            )
    for name in (CONFIG, ADAPTER, *_SETTINGS):
        found = read_object(folder / name, ANOTHER) if (folder / name).exists() else {}
        if found.get("auto_map"):
            raise InputError(f"{folder / name} needs its own code (auto_map), which cannot be pushed")
        library = (found.get("auto_mapping") or {}).get("parent_library") or "transformers."
        if not str(library).startswith("transformers.") or found.get("megatron_config"):
            raise InputError(f"{folder / name} makes peft import other packages than transformers")
    weights = [ADAPTER_WEIGHTS] if (folder / ADAPTER).exists() else weights_in(folder)
    for name in (*weights, "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}. Save model and processor again (save_pretrained).")
    if not any((folder / name).is_file() for name in ("processor_config.json", "preprocessor_config.json")):
        raise InputError(f"{folder} has no processor. Save it there with processor.save_pretrained(folder).")


def _refuse_ours(base: Path, folder: Path) -> None:
    """Raise if `base`, the base model of an adapter in `folder`, belongs to one of our families."""
    if (base / CONFIG).is_file() and read_object(base / CONFIG, ANOTHER).get("model_type") in FAMILIES:
        raise InputError(
            f"{folder} holds a LoRA adapter of one of our models. Merge it into its base first (merge_and_unload)."
        )


def _find_base_class(folder: Path, config: Mapping[str, Any]) -> list[Governance]:
    """The class that a local base model states, if any."""
    base = Path(str(config.get(BASE) or "/nowhere"))
    if not (base / CONFIG).is_file():
        return []
    _refuse_ours(base, folder)
    found = read_object(base / CONFIG, ANOTHER)
    return [find_class(base, found)] if (base / GOVERNANCE).is_file() or found.get("governance") else []


def _known_type(folder: Path, config: Mapping[str, Any]) -> str:
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    kind = str(config.get("model_type"))
    if kind not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise InputError(f"{folder}: type {kind!r} is not an image-text model of transformers")
    return kind


def foreign_files(model: ModelFolder) -> dict[str, Path | bytes]:
    """Files by their name in the repository, without the card.

    Raises:
        InputError: a file is missing or cannot be read.
    """
    folder = model.checkpoint.folder
    files: dict[str, Path | bytes] = {name: folder / name for name in weights_in(folder)}
    files |= {name: folder / name for name in _WORDS if (folder / name).exists()}
    for name in _SETTINGS:
        if (folder / name).exists():
            files[name] = as_json(_plain(read_object(folder / name, ANOTHER)))
    if model.is_adapter:
        files[ADAPTER] = as_json({**_plain(model.config), BASE: model.base})
    else:
        files[CONFIG] = as_json(remove_local_paths({**model.config, "governance": str(model.governance)}))
    return files | list_history(model)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without local paths among their values."""
    return {key: remove_local_paths(value) if isinstance(value, str) else value for key, value in settings.items()}
