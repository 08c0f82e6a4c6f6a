"""Properties of a checkpoint that are known without loading it: family, content and governance class."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from medvqa_core.digests import blake2b_files
from medvqa_core.errors import InputError, one_line
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_json
from medvqa_core.model_folder import find_model_folder
from medvqa_hub.families.registry import FAMILIES

# Files that determine the answers. Trainer state, logs and cards may change without changing them.
_FILES = (
    "*.safetensors", "config.json", "generation_config.json", "adapter_config.json", "processor_config.json",
    "preprocessor_config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*",
    "merges.txt", "*.model",
)  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """Attributes:
    name: as the user typed it.
    folder: with its files.
    kind: the name of its family.
    fingerprint: 32 hex digits of its weights, configuration, tokenizer and processor.
    governance: class of its training data; `credentialed` if its folder does not declare one.
    """

    name: str
    folder: Path
    kind: str
    fingerprint: str
    governance: Governance


def open_checkpoint(model: str) -> Checkpoint:
    """Inspect a checkpoint: a folder written by `save_pretrained`, a training run, or a Hub repository.

    Raises:
        InputError: it does not exist, has an unknown type, or lacks safetensors weights or a processor.
    """
    folder = Path(model).expanduser()
    folder = find_model_folder(folder) if folder.is_dir() else fetch_model(model)
    kind = _read_model_type(folder)
    if kind not in FAMILIES:
        raise InputError(
            f"{folder} is a model of type {kind!r}. evaluate cxr --model supports {' and '.join(FAMILIES)}: pass a "
            "checkpoint that medvqa-hub train wrote"
        )
    files = sorted({path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()})
    names = [path.name for path in files]
    if not any(name.endswith(".safetensors") for name in names):
        raise InputError(f"{folder} has a config.json but no *.safetensors weights. Is the checkpoint complete?")
    if not any(name.startswith("tokenizer") for name in names):
        raise InputError(
            f"{folder} has no tokenizer. Save the processor into the same folder: processor.save_pretrained(folder)"
        )
    digests = blake2b_files(files, "Reading the checkpoint")
    whole = "\n".join(f"{path.name} {digests[path]}" for path in files)
    fingerprint = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
    return Checkpoint(str(model), folder, kind, fingerprint, read_governance(folder))


def fetch_model(model: str) -> Path:
    """Download a Hub repository's safetensors weights, configuration and processor, without code.

    Raises:
        InputError: `model` is neither a folder nor a readable repository.
    """
    if Path(model).is_absolute() or model.startswith(".") or model.count("/") != 1:
        raise InputError(f"model {model}: no such folder, and not a repository name (owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    announce_fetch(model, "model")
    try:
        return Path(snapshot_download(model, allow_patterns=[*_FILES, "*.json", "*.jinja"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(f"model {model}: no such folder, and not available on the Hub ({one_line(error)})") from None


def _read_model_type(folder: Path) -> str | None:
    path = folder / "config.json"
    if not path.exists():
        raise InputError(f"{folder} has no config.json, so it is not a checkpoint")
    config = read_json(path, "copy the checkpoint again")
    return config.get("model_type") if isinstance(config, dict) else None
