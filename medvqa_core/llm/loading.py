"""Loads a chat model of `transformers` from a folder or a Hub id, optionally in 4 or 8 bits, or with an adapter.

Code in repositories is never run and only safetensors weights are loaded. An existing folder is loaded without network
requests, and telemetry is off.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medvqa_core.digests import blake2b_files, digest
from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_object
from medvqa_core.model_folder import enter_run

ADAPTER = "adapter_config.json"
_CONTENT = (".safetensors", ".json", ".jinja", ".model", ".txt")  # files that replies depend on
_NOT_CONTENT = {"trainer_state.json", "training.json", "README.txt"}


@dataclass
class LoadedModel:
    """A model that is ready to generate.

    Attributes:
        revision: digest or Hub commit of the weights, and their precision; part of every key.
        processor: a tokenizer, or the processor of an image-text model.
        end_ids: tokens that end a reply.
        positions: longest sequence in tokens, or None if unknown.
        system_role: whether the chat template supports a system message.
    """

    name: str
    revision: str
    model: Any
    processor: Any
    takes_images: bool
    end_ids: tuple[int, ...]
    positions: int | None
    system_role: bool
    description: dict[str, Any] = field(default_factory=dict)

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processor, "tokenizer", self.processor)


def load_model(where: str, load_in: str | None = None) -> LoadedModel:
    """Load a model onto the GPUs, or onto the CPU in float32.

    Args:
        where: a folder of a model, an adapter or a training run, or a Hub id.
        load_in: `4bit` or `8bit`.

    Raises:
        ConfigError: the model is missing, damaged, needs custom code, lacks a chat template, or cannot be quantised.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub.constants
    import torch

    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    base, adapter = _split_adapter(where)
    announce_fetch(base, f"base model of the adapter {adapter}" if adapter else "model")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = _load("AutoConfig", base, where)
    takes_images = _takes_images(config, where)
    options = _quantised(load_in, device) | ({"device_map": "auto"} if device == "cuda" else {})
    options |= {"dtype": "auto" if device == "cuda" else torch.float32, "use_safetensors": True}
    auto = "AutoModelForImageTextToText" if takes_images else "AutoModelForCausalLM"
    model = _load(auto, base, where, **options)
    keep_unpacked(model)
    if adapter:
        model = _with_adapter(model, adapter)
    processor = _load_processor(adapter or base, base, takes_images, where)
    tokenizer = getattr(processor, "tokenizer", processor)
    ends = getattr(model.generation_config, "eos_token_id", None)
    end_ids = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    # Greedy decoding without the penalties that a repository suggests for sampling.
    model.generation_config = type(model.generation_config)(
        eos_token_id=sorted(end_ids) or None, pad_token_id=tokenizer.pad_token_id, use_cache=True
    )
    text_config = config.get_text_config()
    dtype = str(model.dtype).removeprefix("torch.")
    weights = identify_weights(base, config) + (f" + adapter {identify_weights(adapter)}" if adapter else "")
    loaded = LoadedModel(
        name=Path(where).resolve().name if Path(where).is_dir() else where,
        revision=f"{weights}, {load_in or dtype}, schema ignored",
        model=model.eval().requires_grad_(False),
        processor=processor,
        takes_images=takes_images,
        end_ids=tuple(sorted(end_ids)),
        positions=getattr(text_config, "max_position_embeddings", None),
        system_role=_takes_system(processor, takes_images, where),
        description={"weights": weights, "dtype": dtype, "load_in": load_in, "device": device},
    )
    if load_in:
        _try_it(loaded, load_in)
    return loaded


def keep_unpacked(model: Any) -> None:
    """Keep bitsandbytes from packing 4-bit weights again when they are first used on a CPU.

    It rounds their scales to bfloat16, and a checkpoint written after that has other weights than the model had.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def _load(auto: str, base: str, where: str, **options: Any) -> Any:
    import transformers
    from safetensors import SafetensorError

    local = Path(base).is_dir()
    try:
        return getattr(transformers, auto).from_pretrained(
            base, local_files_only=local, trust_remote_code=False, **options
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        if "trust_remote_code" in str(error):
            reason = "it needs code of its own, which is not run"
        hint = "" if local else f". Give a folder, or download it once (hf download {base})"
        raise ConfigError(f"model {where!r} cannot be loaded: {reason}{hint}") from None


def _split_adapter(where: str) -> tuple[str, str | None]:
    """Return (base model, adapter folder). The folder is None if `where` does not hold an adapter."""
    path = Path(where)
    if not path.is_dir():
        if path.is_absolute() or where.startswith((".", "~")) or where.count("/") > 1:
            raise ConfigError(f"model {where!r}: no such folder")
        return where, None
    path = enter_run(path)
    if not (path / ADAPTER).exists():
        return str(path), None
    config = read_object(path / ADAPTER, "save the adapter again")
    if config.get("peft_type") != "LORA" or config.get("megatron_config"):
        # get_base_model() would drop other adapters, so the base model's answers would be reported as the adapter's.
        # Megatron configs also name code to import.
        found = f"peft_type {config.get('peft_type')!r}" + " and megatron_config" * bool(config.get("megatron_config"))
        raise ConfigError(f"{path / ADAPTER}: found {found}. Only LoRA adapters without megatron_config are supported.")
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise ConfigError(f"{path / ADAPTER} does not name its base model (base_model_name_or_path)")
    return base, str(path)


def _with_adapter(model: Any, adapter: str) -> Any:
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, adapter, local_files_only=True).get_base_model()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigError(f"adapter {adapter} cannot be loaded: {' '.join(str(error).split())[:200]}") from None


def _takes_images(config: Any, where: str) -> bool:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    if type(config) in AutoModelForImageTextToText._model_mapping:
        return True
    if type(config) in AutoModelForCausalLM._model_mapping:
        return False
    raise ConfigError(f"model {where!r} is a {config.model_type}: neither a text nor an image-text chat model")


def _quantised(load_in: str | None, device: str) -> dict[str, Any]:
    if load_in is None:
        return {}
    import torch
    from transformers import BitsAndBytesConfig

    if load_in not in ("4bit", "8bit"):
        raise ConfigError(f"--load-in {load_in!r}: allowed are 4bit and 8bit")
    computed_in = torch.bfloat16 if device == "cuda" else torch.float32
    four = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": computed_in}
    return {"quantization_config": BitsAndBytesConfig(**(four if load_in == "4bit" else {"load_in_8bit": True}))}


def _load_processor(first: str, base: str, takes_images: bool, where: str) -> Any:
    """Load the adapter's processor if it has one, else the base model's. Images use the Pillow backend."""
    marks = ("processor_config.json", "preprocessor_config.json") if takes_images else ("tokenizer_config.json",)
    place = first if any((Path(first) / mark).exists() for mark in marks) else base
    if takes_images:
        processor = _load("AutoProcessor", place, where, backend="pil")
    else:
        processor = _load("AutoTokenizer", place, where)
    if not getattr(processor, "chat_template", None) and not getattr(processor, "tokenizer", processor).chat_template:
        raise ConfigError(f"model {where!r} has no chat template: a model that was tuned to follow requests is needed")
    getattr(processor, "tokenizer", processor).padding_side = "left"
    return processor


def _takes_system(processor: Any, takes_images: bool, where: str) -> bool:
    """Whether the template takes a system message; some refuse it."""
    from jinja2 import TemplateError

    texts = [("system", "s"), ("user", "u")]
    messages = [
        {"role": role, "content": [{"type": "text", "text": text}] if takes_images else text} for role, text in texts
    ]
    for first in (0, 1):
        try:
            processor.apply_chat_template(messages[first:], tokenize=False, add_generation_prompt=True)
            return first == 0
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            problem = error
    raise ConfigError(f"model {where!r}: its chat template fails on a plain message ({problem})")


def identify_weights(place: str | Path, config: Any = None) -> str:
    """What tells one set of weights from another: the Hub's commit, or a digest of a folder's files."""
    folder = Path(place)
    if not folder.is_dir():
        return f"commit {getattr(config, '_commit_hash', None) or 'unknown'}"
    files = [p for p in sorted(folder.iterdir()) if p.suffix in _CONTENT and p.name not in _NOT_CONTENT]
    found: Mapping[Path, str] = blake2b_files(files, "Reading weights")
    return f"weights {digest(json.dumps([[path.name, found[path]] for path in files]))[:12]}"


def _try_it(loaded: LoadedModel, load_in: str) -> None:
    """Generate two tokens, because quantised layers fail only when they are used."""
    import torch

    ids = loaded.tokenizer("Hello", return_tensors="pt")["input_ids"].to(loaded.model.device)
    try:
        with torch.inference_mode():
            loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, do_sample=False)
    except (RuntimeError, NotImplementedError, ValueError, OSError, AttributeError) as error:
        reason = " ".join(str(error).split())[:150]
        raise ConfigError(
            f"--load-in {load_in} does not work for this model on this machine ({reason}). Leave it out, or use a GPU"
        ) from None
