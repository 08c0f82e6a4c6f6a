"""BLIP-2-MultiView as a recipe names it: from its checkpoint, from a BLIP-2 checkpoint, or with random weights."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.json_files import read_object
from medvqa_hub.training.checkpoints import ANOTHER
from medvqa_hub.training.model_folders import check_kind, refuse_missing_weights, refuse_other_sizes
from medvqa_hub.training.recipes import Blip2Settings


def new_blip2(settings: Blip2Settings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
    """Model and processor; `texts` are read for the tiny model's tokenizer, `scratch` is for quantising."""
    import blip2_multiview
    import torch

    limits = {
        "unknown_views": settings.unknown_views,
        "max_question_tokens": settings.max_question_tokens,
        "max_answer_tokens": settings.max_answer_tokens,
    }
    model_class = blip2_multiview.Blip2MultiViewForConditionalGeneration
    if settings.from_blip2 is not None:
        processor = blip2_multiview.Blip2MultiViewProcessor.from_blip2(settings.from_blip2, **limits)
        model = model_class.from_blip2(settings.from_blip2, dtype=getattr(torch, settings.dtype))
    elif settings.size == "tiny":
        from transformers import T5Config

        processor = blip2_multiview.Blip2MultiViewProcessor.tiny(list(texts), settings.vocab_size, **limits)
        tiny = blip2_multiview.Blip2MultiViewConfig.tiny
        text = {**tiny(**settings.changes).text_config.to_dict(), "vocab_size": len(processor.tokenizer)}
        model = model_class(tiny(**{**settings.changes, "text_config": T5Config(**text)}))
    else:
        raise ConfigError(
            "model.size base has random weights and no tokenizer, which is for measuring; to train, set "
            "model.from_blip2 to a BLIP-2 with FLAN-T5, such as Salesforce/blip2-flan-t5-xl"
        )
    if settings.quantize is not None:
        model = _quantise(model, settings, scratch)
    return _with_lora(model, settings), processor


def blip2_from(settings: Blip2Settings, folder: Path) -> tuple[Any, Any]:
    """Model and processor of a checkpoint, quantised and given adapters as the recipe says."""
    import blip2_multiview

    if (folder / "adapter_config.json").exists():
        raise ConfigError(
            f"{folder} holds a LoRA adapter, not a whole model; merge it into its base first (peft: merge_and_unload), "
            "or go on with its run in the same output folder"
        )
    check_kind(folder, settings.kind)
    processor = blip2_multiview.Blip2MultiViewProcessor.from_pretrained(folder)
    quantised = "quantization_config" in read_object(folder / "config.json", ANOTHER)
    if quantised and settings.quantize is None:
        raise ConfigError(f"{folder} is quantised, and model.quantize is null: set it to what it was trained with")
    options = {} if quantised else _quantisation(settings)
    model, report = blip2_multiview.Blip2MultiViewForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True, **options
    )
    refuse_missing_weights(folder, report["missing_keys"])
    if settings.size == "tiny" and settings.changes == {}:
        tiny, found = blip2_multiview.Blip2MultiViewConfig.tiny(), model.config
        wrong = [
            f"{name}.hidden_size {getattr(found, name).hidden_size}, the recipe's {getattr(tiny, name).hidden_size}"
            for name in ("vision_config", "qformer_config", "text_config")
            if getattr(found, name).hidden_size != getattr(tiny, name).hidden_size
        ]
        refuse_other_sizes(folder, wrong)
    return _with_lora(model, settings), processor


def _quantise(model: Any, settings: Blip2Settings, scratch: Path | None) -> Any:
    """The same model with its frozen parts in 4 or 8 bits; weights are quantised while they are loaded from a file."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        model.save_pretrained(folder)
        return type(model).from_pretrained(folder, **_quantisation(settings))


def _quantisation(settings: Blip2Settings) -> dict[str, Any]:
    import torch
    from transformers import BitsAndBytesConfig

    if settings.quantize is None:
        return {"dtype": getattr(torch, settings.dtype)}
    if settings.quantize == "8bit":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=getattr(torch, settings.dtype))
    return {"dtype": getattr(torch, settings.dtype), "quantization_config": config}


def _with_lora(model: Any, settings: Blip2Settings) -> Any:
    if settings.lora is None:
        return model
    from peft import LoraConfig, get_peft_model

    try:
        config = LoraConfig(
            **{"target_modules": model.LORA_TARGETS, "modules_to_save": model.TRAINED_MODULES, **settings.lora}
        )
    except TypeError as error:
        raise ConfigError(
            f"model.lora {settings.lora}: {error}; allowed are the fields of peft's LoraConfig"
        ) from error
    return get_peft_model(model, config)
