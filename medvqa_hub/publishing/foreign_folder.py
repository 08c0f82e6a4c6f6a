"""A folder of somebody else's image-text model, whole or as an adapter (`train vlm` writes both), and what of it goes.

Weights in safetensors, configuration, processor, recipe, history; no code, neither the folder's nor ours: what
transformers and peft cannot load by themselves is refused. The class is the strictest of all that the folder says; an
adapter without `governance.json` is credentialed, whatever else it says.
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
    class_of,
    history_of,
    weights_in,
    without_places,
)

BASE = "base_model_name_or_path"
_CODE = (".py", ".pyc", ".so")
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
_SETTINGS = (  # may name places of this machine
    "generation_config.json", "processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json",
    "tokenizer_config.json",
)  # fmt: skip
_WORDS = (
    "tokenizer.json", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json",
)  # fmt: skip


def is_foreign(folder: Path) -> bool:
    """Whether `folder` holds an adapter, or a model of no family of ours."""
    return (folder / ADAPTER).exists() or read_object(folder / CONFIG, ANOTHER).get("model_type") not in FAMILIES


def open_foreign_folder(folder: Path, base: str | None = None) -> ModelFolder:
    """Look at such a folder.

    Args:
        base: repository of the model that it was made from, where the folder names none.

    Raises:
        InputError: code or pickles lie in it, something is missing, or transformers does not know the model.
        ConfigError: an adapter's base is not known, or is another one than `base`.
        GovernanceError: it names an unknown class.
    """
    _refuse_ours(folder, folder)
    _refuse_code(folder)
    adapter = (folder / ADAPTER).exists()
    config = read_object(folder / (ADAPTER if adapter else CONFIG), ANOTHER)
    governance = class_of(folder, config)
    if adapter:
        governance = strictest([governance, read_governance(folder), *_class_of_base(folder, config)])
        kind, found = "adapter", str(config.get(BASE) or "")
    else:
        kind, found = _known_type(folder, config), str(config.get("_name_or_path") or "")
    stages = read_stages(folder)
    # The history knows what was a folder when it trained; the path alone may look like a repository's name elsewhere.
    name = stages[-1].get("base") if stages else name_source(found or None)
    known = name if name and "/" in name else None
    if base is not None and known is not None and base != known:
        raise ConfigError(f"--base-model {base}: {folder} says that it was made from {known}; leave the option out")
    if base is not None and base.count("/") != 1:
        raise ConfigError(f"--base-model {base!r}: expected a repository, owner/name")
    if adapter and base is None and known is None:
        raise ConfigError(
            f"the adapter in {folder} belongs to a model on this machine ({name or 'it does not say which'}), and "
            "nobody else could load it: name the base's repository (--base-model OWNER/NAME; push it first where there "
            "is none), or merge the adapter into its base and push the whole (peft: merge_and_unload)"
        )
    checkpoint = Checkpoint(str(folder), folder, kind, identify_weights(folder), governance)
    return ModelFolder(checkpoint, governance, stages, config, True, base or known, adapter)


def _refuse_code(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        kind = "code" if path.suffix in _CODE else "a pickle" if path.suffix in _PICKLES else None
        if kind is not None:
            raise InputError(
                f"{path} is {kind}: of models that are not ours only safetensors and settings are pushed; take it out "
                "if the model loads without it, else it cannot be pushed"
            )
    for name in (CONFIG, ADAPTER, *_SETTINGS):
        found = read_object(folder / name, ANOTHER) if (folder / name).exists() else {}
        if found.get("auto_map"):
            raise InputError(f"{folder / name} asks for code of its own (auto_map), which is not pushed")
        library = (found.get("auto_mapping") or {}).get("parent_library") or "transformers."
        if not str(library).startswith("transformers.") or found.get("megatron_config"):
            raise InputError(f"{folder / name} makes peft import more than transformers, and is not pushed")
    weights = [ADAPTER_WEIGHTS] if (folder / ADAPTER).exists() else weights_in(folder)
    for name in (*weights, "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no {name}; save model and processor into it again (save_pretrained)")
    if not any((folder / name).is_file() for name in ("processor_config.json", "preprocessor_config.json")):
        raise InputError(f"{folder} has no processor; save it into the same folder: processor.save_pretrained(folder)")


def _refuse_ours(base: Path, folder: Path) -> None:
    """Raise where `base`, of an adapter in `folder`, is a model of a family of ours."""
    if (base / CONFIG).is_file() and read_object(base / CONFIG, ANOTHER).get("model_type") in FAMILIES:
        raise InputError(
            f"{folder} holds a LoRA adapter of a model of ours, which is pushed whole: merge it into its base first "
            "(peft: merge_and_unload)"
        )


def _class_of_base(folder: Path, config: Mapping[str, Any]) -> list[Governance]:
    """What the base says of itself, where it lies on this machine and says anything."""
    base = Path(str(config.get(BASE) or "/nowhere"))
    if not (base / CONFIG).is_file():
        return []
    _refuse_ours(base, folder)
    found = read_object(base / CONFIG, ANOTHER)
    return [class_of(base, found)] if (base / GOVERNANCE).is_file() or found.get("governance") else []


def _known_type(folder: Path, config: Mapping[str, Any]) -> str:
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    kind = str(config.get("model_type"))
    if kind not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise InputError(f"{folder} is a model of type {kind!r}, and no image-text model that transformers knows")
    return kind


def foreign_files(model: ModelFolder) -> dict[str, Path | bytes]:
    """Name in the repository -> file or content, of everything but the card.

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
        files[CONFIG] = as_json(without_places({**model.config, "governance": str(model.governance)}))
    return files | history_of(model)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Without places of this machine among the values themselves; what lies deeper are words and templates."""
    return {key: without_places(value) if isinstance(value, str) else value for key, value in settings.items()}
