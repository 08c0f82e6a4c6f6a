"""The BLIP-2-MultiView family: from its own checkpoint, a BLIP-2 checkpoint, or random weights.

Its frozen parts can be quantised, and its language model can be trained with LoRA.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_object
from medvqa_core.settings import Section
from medvqa_hub.families.folders import ANOTHER, refuse_missing_weights, refuse_other_sizes
from medvqa_hub.families.registry import ModelFamily


class Blip2MultiViewSettings(Section):
    """`model` of kind blip2_multiview."""

    kind: Literal["blip2_multiview"] = "blip2_multiview"
    size: Literal["base", "tiny"] | None = None  # random weights of this size
    from_blip2: str | None = None  # folder or Hub id of a BLIP-2 to start from
    changes: dict[str, Any] = {}  # fields of Blip2MultiViewConfig that differ from the size's
    vocab_size: Annotated[int, Field(ge=150)] = 512  # of the tiny tokenizer, trained on the training split
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the frozen parts
    quantize: Literal["4bit", "8bit"] | None = None
    lora: dict[str, Any] | None = None  # fields of peft's LoraConfig, such as r and lora_alpha
    unknown_views: str | dict[str, str] = "skip"
    max_question_tokens: PositiveInt = 64
    max_answer_tokens: PositiveInt = 256


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
            raise ConfigError(
                "training.learning_rates.lora is set without model.lora. Add --set model.lora.r=8 or similar"
            )
        if (settings.size is None) == (settings.from_blip2 is None):
            raise ConfigError(
                "set exactly one of model.size (random weights) and model.from_blip2 (a BLIP-2 to start from)"
            )

    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **text: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """See ModelFamily. Images are not augmented."""
        return processor(images=images, views=views, **text)

    def make_encoder(self, settings: Blip2MultiViewSettings, start: Path | None) -> Any:
        """See ModelFamily. Of a BLIP-2 on the Hub, only the configuration in the cache is read."""
        import torch
        from blip2_multiview import Blip2MultiViewConfig
        from transformers import Blip2Config, Blip2VisionModel

        if start is not None:
            config = Blip2MultiViewConfig.from_pretrained(start)
        elif settings.from_blip2 is None:
            config = Blip2MultiViewConfig.tiny(**settings.changes)
        else:
            try:
                config = Blip2Config.from_pretrained(settings.from_blip2, local_files_only=True)
            except OSError:
                return None
        return Blip2VisionModel(config.vision_config).to(getattr(torch, settings.dtype))

    def image_encoder(self, model: Any) -> Any:
        return model.get_encoder("image")

    def arrange_images(self, processor: Any, images: list[list], views: list[list]) -> tuple[list[Any], dict[str, Any]]:
        """See ModelFamily."""
        import torch

        kept, numbers, counts = [], [], []
        for study, names in zip(images, views, strict=True):
            found = [(image, processor.view_number(name)) for image, name in zip(study, names, strict=True)]
            known = [(image, number) for image, number in found if number is not None]
            kept += [image for image, _ in known]
            numbers += [number for _, number in known]
            counts.append(len(known))
        return kept, {"num_images": torch.tensor(counts), "image_view": torch.tensor(numbers)}

    def view_is_known(self, settings: Blip2MultiViewSettings) -> Callable[[str | None], bool]:
        """See ModelFamily. A view is known by one of its aliases, or mapped to a known one by `unknown_views`."""
        from mimic_cxr_vqa.schema import canonical_view

        unknown = settings.unknown_views
        mapped = {name.strip().upper() for name in unknown} if isinstance(unknown, dict) else set()
        return lambda view: canonical_view(view) is not None or (view or "").strip().upper() in mapped

    def new(self, settings: Blip2MultiViewSettings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
        """See ModelFamily. `texts` train the tiny model's tokenizer."""
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
                "model.size base has random weights and no tokenizer, so it is only for benchmarks. To train, set "
                "model.from_blip2 to a BLIP-2 with FLAN-T5, such as Salesforce/blip2-flan-t5-xl"
            )
        if settings.quantize is not None:
            model = _quantise(model, settings, scratch)
        return _with_lora(model, settings), processor

    def load(self, settings: Blip2MultiViewSettings, folder: Path) -> tuple[Any, Any]:
        """See ModelFamily. The recipe decides about quantisation and adapters."""
        import blip2_multiview

        processor = blip2_multiview.Blip2MultiViewProcessor.from_pretrained(folder)
        quantised = "quantization_config" in read_object(folder / "config.json", ANOTHER)
        if quantised and settings.quantize is None:
            raise ConfigError(
                f"{folder} is quantised, and model.quantize is null. Set it to the value of its recipe.yaml"
            )
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
    """Quantise the frozen parts to 4 or 8 bits, by saving and loading the model."""
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
            f"model.lora {settings.lora}: {error}. Allowed are the fields of peft's LoraConfig"
        ) from error
    return get_peft_model(model, config)
