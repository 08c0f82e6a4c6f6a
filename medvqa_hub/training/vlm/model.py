"""The starting model of `train vlm`: any image-text model of transformers, whole or with an adapter, in 4 or 8 bits.

Only safetensors are read, and a model's own code is not run. A model whose folder does not declare a governance class
is treated as credentialed. `--model-class` declares the class of public models.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.folder_class import GOVERNANCE, read_governance
from medvqa_core.governance import Governance, check_not_lowered, parse
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_object
from medvqa_core.model_folder import find_model_folder
from medvqa_hub.families.checkpoint import fetch_model
from medvqa_hub.families.folders import ANOTHER, as_config_error, refuse_missing_weights
from medvqa_hub.training.arguments import resolve_precision
from medvqa_hub.training.vlm.recipe import LoraSettings, VlmRecipe

ADAPTER = "adapter_config.json"
# Names of the image encoders in transformers' models.
VISION = re.compile(r"(^|.*\.)(vision_tower|vision_model|vision_encoder|visual|image_encoder)(\..*|$)")


@dataclass(frozen=True)
class StartModel:
    """The starting model.

    Attributes:
        name: as the user typed it, a folder or a repository on the Hub.
        folder: with its files.
        base: the base model of the adapter in `folder`. None: `folder` has a whole model.
        governance: class of its training data.
    """

    name: str
    folder: Path
    base: str | None
    governance: Governance


def find_start(model: str, stated: Governance | str | None = None) -> StartModel:
    """Inspect `model`: a folder, the output folder of a run, or a repository on the Hub.

    Args:
        stated: its class, if its folder does not declare one.

    Raises:
        InputError: it does not exist.
        GovernanceError: `stated` is weaker than the class that the folder declares.
    """
    path = Path(model).expanduser()
    folder = find_model_folder(path) if path.is_dir() else fetch_model(model)
    base = None
    if (folder / ADAPTER).is_file():
        base = read_object(folder / ADAPTER, ANOTHER).get("base_model_name_or_path")
        if not base:
            raise InputError(f"{folder / ADAPTER} names no base model. Train the adapter again, or pass a whole model")
    return StartModel(model, folder, base, _find_class(folder, stated))


def _find_class(folder: Path, stated: Governance | str | None) -> Governance:
    wanted = None if stated is None else parse(stated, "--model-class")
    in_config = None
    if not (folder / GOVERNANCE).exists():
        if (folder / "config.json").is_file():
            in_config = read_object(folder / "config.json", ANOTHER).get("governance")
        if in_config is None and wanted is not None:
            return wanted
    declared = read_governance(folder) if in_config is None else parse(in_config, str(folder / "config.json"))
    return declared if wanted is None else check_not_lowered(declared, wanted, f"the model in {folder}")


def load_model(start: StartModel, recipe: VlmRecipe) -> tuple[Any, Any]:
    """Model and processor, ready to train. New adapters are drawn from `training.seed`.

    Raises:
        ConfigError: it cannot be loaded, is not an image-text model, lacks a chat template, or contradicts the recipe.
    """
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor, ProcessorMixin

    options: dict[str, Any] = {"dtype": getattr(torch, resolve_precision(recipe.training.precision))}
    if recipe.lora is not None and recipe.lora.quantize is not None:
        options["quantization_config"] = _quantization(recipe.lora.quantize, options["dtype"])
    if recipe.training.attention is not None:
        options["attn_implementation"] = recipe.training.attention
    torch.manual_seed(recipe.training.seed)
    with as_config_error():
        processor = AutoProcessor.from_pretrained(start.folder, trust_remote_code=False)
        if not isinstance(processor, ProcessorMixin):
            raise ConfigError(
                f"{start.name} has a {type(processor).__name__} and no image processor, so it cannot read images"
            )
        if processor.chat_template is None:
            raise ConfigError(f"{start.name} has no chat template. Use an instruction-tuned model (-Instruct, -it)")
        if start.base is not None:
            announce_fetch(start.base, f"base model of the adapter {start.folder}")
        model, info = AutoModelForImageTextToText.from_pretrained(
            start.base or start.folder,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    refuse_missing_weights(start.base or start.folder, info["missing_keys"])
    if recipe.lora is not None:
        return _with_adapter(model, start, recipe.lora), processor
    if start.base is not None:
        raise ConfigError(
            f"{start.folder} holds an adapter, but the recipe trains all weights. Use a recipe with a section lora, or "
            "merge the adapter into its base first (peft: merge_and_unload)"
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(recipe.training.vision or not VISION.match(name))
    return model, processor


def _quantization(quantize: str, dtype: Any) -> Any:
    from transformers import BitsAndBytesConfig

    if quantize == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def _with_adapter(model: Any, start: StartModel, settings: LoraSettings) -> Any:
    """`model` with a new adapter, or with the adapter of `start` to train further."""
    from peft import LoraConfig, PeftModel, get_peft_model

    wanted = {"r": settings.rank, "lora_alpha": settings.alpha, "lora_dropout": settings.dropout}
    with as_config_error():
        if start.base is not None:
            found = read_object(start.folder / ADAPTER, ANOTHER)
            wrong = [
                f"{name} {found.get(name)}, not {value}" for name, value in wanted.items() if found.get(name) != value
            ]
            if wrong:
                raise ConfigError(
                    f"the adapter in {start.folder} has {'; '.join(wrong)}. Set the same values in the section lora"
                )
            return PeftModel.from_pretrained(model, start.folder, is_trainable=True, use_safetensors=True)
        adapter = LoraConfig(
            **wanted,
            target_modules=settings.targets,
            exclude_modules=None if settings.vision else VISION.pattern,
            task_type="CAUSAL_LM",
        )
        return get_peft_model(model, adapter)
