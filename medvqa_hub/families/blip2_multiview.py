"""The BLIP-2-MultiView family: its settings and parameter groups, and the model as a recipe names it.

It comes from its own checkpoint, from a BLIP-2 checkpoint, or with random weights; on request quantised, with LoRA.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_object
from medvqa_core.settings import value
from medvqa_hub.families.folders import ANOTHER, refuse_missing_weights, refuse_other_sizes
from medvqa_hub.families.registry import ModelFamily


@dataclass(frozen=True)
class Blip2MultiViewSettings:
    """`model` of kind blip2_multiview."""

    kind: str = value("blip2_multiview", str, choices=("blip2_multiview",))
    size: str | None = value(None, str, choices=("base", "tiny"), optional=True)  # random weights of this size
    from_blip2: str | None = value(None, str, optional=True)  # folder or Hub id of a BLIP-2 to start from
    changes: dict = value({}, dict)  # fields of Blip2MultiViewConfig that differ from the size's
    vocab_size: int = value(512, int, low=150)  # of the tiny tokenizer, made of the training split's words
    dtype: str = value("float32", str, choices=("float32", "bfloat16"))  # of the frozen parts
    quantize: str | None = value(None, str, choices=("4bit", "8bit"), optional=True)
    lora: dict | None = value(None, dict, optional=True)  # fields of peft's LoraConfig, such as r and lora_alpha
    unknown_views: str | dict = value("skip", (str, dict))
    max_question_tokens: int = value(64, int, low=1)
    max_answer_tokens: int = value(256, int, low=1)


class Blip2MultiView(ModelFamily):
    name = "blip2_multiview"
    title = "BLIP-2-MultiView"
    settings = Blip2MultiViewSettings
    keeps_its_base = True
    groups = {
        "lora": r"\.lora_",
        "q_formers": r"branches\..*(qformer|query_tokens)",
        "projections": r"branches\..*projection",
        "prefix": r"prefix_embeddings",
    }

    def check(self, settings: Blip2MultiViewSettings, rates: Mapping[str, float]) -> None:
        """See ModelFamily."""
        if rates.get("lora") and settings.lora is None:
            raise ConfigError("training.learning_rates.lora is set without model.lora; add such as model.lora.r=8")
        if (settings.size is None) == (settings.from_blip2 is None):
            raise ConfigError("set one of model.size (random weights) and model.from_blip2 (a BLIP-2 to start from)")

    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **words: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """See ModelFamily; nothing is augmented."""
        return processor(images=images, views=views, **words)

    def view_is_known(self, settings: Blip2MultiViewSettings) -> Callable[[str | None], bool]:
        """See ModelFamily: one of its views' aliases, or mapped to one."""
        from mimic_cxr_vqa.schema import canonical_view

        unknown = settings.unknown_views
        mapped = {name.strip().upper() for name in unknown} if isinstance(unknown, dict) else set()
        return lambda view: canonical_view(view) is not None or (view or "").strip().upper() in mapped

    def new(self, settings: Blip2MultiViewSettings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
        """See ModelFamily; `texts` are read for the tiny model's tokenizer."""
        import blip2_multiview
        import torch

        limits = {
            "unknown_views": settings.unknown_views,
            "max_question_tokens": settings.max_question_tokens,
            "max_answer_tokens": settings.max_answer_tokens,
        }
        model_class = blip2_multiview.Blip2MultiViewForConditionalGeneration
        if settings.from_blip2 is not None:
            announce_fetch(settings.from_blip2, "model.from_blip2")
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

    def load(self, settings: Blip2MultiViewSettings, folder: Path) -> tuple[Any, Any]:
        """See ModelFamily; quantised and given adapters as the recipe says."""
        import blip2_multiview

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


def _quantise(model: Any, settings: Blip2MultiViewSettings, scratch: Path | None) -> Any:
    """The same model with its frozen parts in 4 or 8 bits; weights are quantised while they are loaded from a file."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        model.save_pretrained(folder)
        return type(model).from_pretrained(folder, **_quantisation(settings))


def _quantisation(settings: Blip2MultiViewSettings) -> dict[str, Any]:
    import torch
    from transformers import BitsAndBytesConfig

    if settings.quantize is None:
        return {"dtype": getattr(torch, settings.dtype)}
    if settings.quantize == "8bit":
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=getattr(torch, settings.dtype))
    return {"dtype": getattr(torch, settings.dtype), "quantization_config": config}


def _with_lora(model: Any, settings: Blip2MultiViewSettings) -> Any:
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
