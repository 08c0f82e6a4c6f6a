"""The model and processor that a recipe names: from a checkpoint, or new.

A new SwinVED has random weights, or a pretrained Swin encoder, and a tokenizer trained on the training split. A new
BLIP-2-MultiView starts from a BLIP-2 checkpoint, or has random weights.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.store import content_key
from medvqa_hub.training.checkpoints import find_model_folder, read_json
from medvqa_hub.training.recipes import Blip2Settings, Recipe, SwinVedSettings

# These change how a checkpoint trains, not what its weights mean: a recipe may set them anew.
_RETRAINABLE = ("dropout", "drop_path_rate", "_dropout_prob", "dropout_rate")
_MODEL_TYPES = {"swin-ved": "swin_ved", "blip2-multiview": "blip2_multiview"}


def load_model(
    recipe: Recipe, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
) -> tuple[Any, Any]:
    """Model and processor.

    Args:
        init: folder of a checkpoint to start from; None starts as the recipe says.
        texts: questions and answers of the training split, read when a tokenizer is to be trained.
        seed: of new weights.
        scratch: folder for a model that must be saved before it can be quantised.

    Raises:
        ConfigError: the checkpoint is of another model, tokenizer or size than the recipe's.
        InputError: there is no checkpoint.
    """
    import torch

    torch.manual_seed(seed)
    with _as_config_error():
        if recipe.model.kind == "swin-ved":
            if init is not None:
                return _swin_ved_from(recipe.model, find_model_folder(init))
            return _new_swin_ved(recipe.model, texts)
        if init is not None:
            return _blip2_from(recipe.model, find_model_folder(init))
        return _new_blip2(recipe.model, texts, scratch)


def train_tokenizer(settings: SwinVedSettings, texts: Iterable[str]) -> Any:
    """SwinVED's tokenizer: read from `settings.tokenizer`, or trained on `texts`.

    Raises:
        ConfigError: the folder holds no tokenizer, or the texts no word.
    """
    import swin_ved

    with _as_config_error():
        if settings.tokenizer is not None:
            return load_tokenizer(Path(settings.tokenizer))
        return swin_ved.train_tokenizer(texts, settings.vocab_size, settings.min_frequency)


def load_tokenizer(path: Path) -> Any:
    """A saved tokenizer's folder, or a released vocabulary file."""
    import swin_ved
    from transformers import PreTrainedTokenizerFast

    if path.is_file():
        return swin_ved.load_vocabulary(path)
    return PreTrainedTokenizerFast.from_pretrained(str(path))


def fingerprint_of_model(folder: Path) -> str:
    """32 hex digits that change with the folder's weights and configuration."""
    names = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".yaml"))
    return content_key(files=[(path.name, _digest(path)) for path in names])


def kind_of_model(folder: Path) -> str:
    """`model_type` of a checkpoint's configuration."""
    if (folder / "config.json").exists():
        return str(read_json(folder / "config.json").get("model_type"))
    return "a peft adapter"


def _new_swin_ved(settings: SwinVedSettings, texts: Iterable[str]) -> tuple[Any, Any]:
    import swin_ved

    tokenizer = train_tokenizer(settings, texts)
    config = _swin_ved_config(settings, len(tokenizer))
    processor = _swin_ved_processor(settings, config, tokenizer)
    model = swin_ved.SwinVedForConditionalGeneration(config)
    if settings.pretrained_encoder is not None:
        from transformers import SwinModel

        encoder = SwinModel.from_pretrained(settings.pretrained_encoder, config=config.encoder, add_pooling_layer=False)
        model.model.encoder.load_state_dict(encoder.state_dict())
    return model, processor


def _swin_ved_config(settings: SwinVedSettings, vocab_size: int) -> Any:
    import swin_ved

    preset = getattr(swin_ved.SwinVedConfig, settings.size)(vocab_size=vocab_size, max_images=settings.max_images)
    parts = {}
    for name in ("encoder", "decoder"):
        part = getattr(preset, name).to_dict()
        changes = getattr(settings, name)
        for key in changes:
            if key not in part:
                raise ConfigError(
                    f"model.{name} has no field {key!r} ({type(getattr(preset, name)).__name__} has none)"
                )
        parts[name] = {**part, **changes}
    encoder = parts["encoder"]
    for derived in ("hidden_size", "num_layers", "stage_names", "out_features", "out_indices"):
        encoder.pop(derived, None)  # follow from depths and embed_dim
    decoder_width = settings.decoder.get("hidden_size")
    width = encoder["embed_dim"] * 2 ** (len(encoder["depths"]) - 1)
    if decoder_width is None:
        parts["decoder"]["hidden_size"] = width
    return swin_ved.SwinVedConfig(**parts, max_images=settings.max_images)


def _swin_ved_processor(settings: SwinVedSettings, config: Any, tokenizer: Any) -> Any:
    import swin_ved

    return swin_ved.SwinVedProcessor.from_config(
        config,
        tokenizer,
        max_question_tokens=settings.max_question_tokens,
        max_answer_tokens=settings.max_answer_tokens,
    )


def _swin_ved_from(settings: SwinVedSettings, folder: Path) -> tuple[Any, Any]:
    import swin_ved

    _check_kind(folder, settings.kind)
    processor = swin_ved.SwinVedProcessor.from_pretrained(folder)
    config = swin_ved.SwinVedConfig.from_pretrained(folder)
    processor.check_config(config)
    if settings.tokenizer is not None:
        wanted = load_tokenizer(Path(settings.tokenizer))
        if wanted.get_vocab() != processor.tokenizer.get_vocab():
            raise ConfigError(
                f"model.tokenizer {settings.tokenizer} is not the tokenizer of {folder}: a checkpoint goes on with its "
                "own; set model.tokenizer to null"
            )
    expected = _swin_ved_config(settings, config.decoder.vocab_size)
    wrong = []
    for name in ("encoder", "decoder"):
        wanted, found = getattr(expected, name).to_dict(), getattr(config, name).to_dict()
        for key, value in getattr(settings, name).items():
            if key.endswith(_RETRAINABLE):
                setattr(getattr(config, name), key, value)
        keys = ("image_size", "patch_size", "embed_dim", "depths", "num_heads", "window_size", "num_hidden_layers",
                "hidden_size", "intermediate_size", "num_attention_heads")  # fmt: skip
        wrong += [
            f"{name}.{key} {_plain(found[key])}, the recipe's {_plain(wanted[key])}"
            for key in keys
            if key in wanted and _plain(wanted[key]) != _plain(found[key])
        ]
    if settings.max_images != config.max_images:
        wrong.append(f"max_images {config.max_images}, the recipe's {settings.max_images}")
    _refuse_other_sizes(folder, wrong)
    return swin_ved.SwinVedForConditionalGeneration.from_pretrained(folder, config=config), processor


def _new_blip2(settings: Blip2Settings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
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


def _blip2_from(settings: Blip2Settings, folder: Path) -> tuple[Any, Any]:
    import blip2_multiview

    if (folder / "adapter_config.json").exists():
        raise ConfigError(
            f"{folder} holds a LoRA adapter, not a whole model; merge it into its base first (peft: merge_and_unload), "
            "or go on with its run in the same output folder"
        )
    _check_kind(folder, settings.kind)
    processor = blip2_multiview.Blip2MultiViewProcessor.from_pretrained(folder)
    quantised = "quantization_config" in read_json(folder / "config.json")
    if quantised and settings.quantize is None:
        raise ConfigError(f"{folder} is quantised, and model.quantize is null: set it to what it was trained with")
    options = {} if quantised else _quantisation(settings)
    model = blip2_multiview.Blip2MultiViewForConditionalGeneration.from_pretrained(folder, **options)
    if settings.size == "tiny" and settings.changes == {}:
        tiny, found = blip2_multiview.Blip2MultiViewConfig.tiny(), model.config
        wrong = [
            f"{name}.hidden_size {getattr(found, name).hidden_size}, the recipe's {getattr(tiny, name).hidden_size}"
            for name in ("vision_config", "qformer_config", "text_config")
            if getattr(found, name).hidden_size != getattr(tiny, name).hidden_size
        ]
        _refuse_other_sizes(folder, wrong)
    return _with_lora(model, settings), processor


def _check_kind(folder: Path, kind: str) -> None:
    found = kind_of_model(folder)
    if found != _MODEL_TYPES[kind]:
        raise ConfigError(
            f"{folder} is a checkpoint of {found!r}, and this recipe trains {kind!r}: name a checkpoint of "
            f"{_MODEL_TYPES[kind]!r}, or a recipe of the other model"
        )


def _refuse_other_sizes(folder: Path, wrong: list[str]) -> None:
    if wrong:
        raise ConfigError(
            f"{folder} is another model than the recipe's: {'; '.join(wrong)}. Use the recipe that it was trained with "
            "(its recipe.yaml says), or another checkpoint"
        )


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _digest(path: Path) -> str:
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


@contextlib.contextmanager
def _as_config_error() -> Iterator[None]:
    """What transformers, tokenizers and our models raise on a wrong folder or value, as an error for the user."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"the model cannot be made: {error}") from error
