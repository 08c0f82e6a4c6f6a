"""The SwinVED family: its settings, its parameter groups, and SwinVED as a recipe names it: from a checkpoint, or new.

A new one has random weights, or a pretrained Swin encoder, and a tokenizer trained on the training split.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import plain
from medvqa_core.settings import value
from medvqa_hub.families.folders import as_config_error, refuse_missing_weights, refuse_other_sizes
from medvqa_hub.families.registry import ModelFamily

# These change how a checkpoint trains, not what its weights mean: a recipe may set them again.
_RETRAINABLE = ("dropout", "drop_path_rate", "_dropout_prob", "dropout_rate")
_SIZES = (
    "image_size", "patch_size", "embed_dim", "depths", "num_heads", "window_size", "num_hidden_layers", "hidden_size",
    "intermediate_size", "num_attention_heads",
)  # fmt: skip


@dataclass(frozen=True)
class SwinVedSettings:
    """`model` of kind swin_ved: sizes of a new model, or what a checkpoint passed as --init must agree with."""

    kind: str = value("swin_ved", str, choices=("swin_ved",))
    size: str = value("base", str, choices=("base", "tiny"))
    encoder: dict = value({}, dict)  # fields of SwinConfig that differ from the size's
    decoder: dict = value({}, dict)  # fields of BertGenerationConfig that differ from the size's
    max_images: int = value(3, int, low=1)
    pretrained_encoder: str | None = value(None, str, optional=True)  # folder or Hub id of a Swin
    tokenizer: str | None = value(None, str, optional=True)  # null: trained on the training split
    vocab_size: int | None = value(None, int, low=8, optional=True)  # most words of a tokenizer trained here
    min_frequency: int = value(1, int, low=1)
    max_question_tokens: int = value(64, int, low=2)
    max_answer_tokens: int = value(256, int, low=2)


class SwinVed(ModelFamily):
    name = "swin_ved"
    title = "SwinVED"
    settings = SwinVedSettings
    groups = {"encoder": r"(^|\.)model\.encoder\.", "decoder": r"(^|\.)decoder\."}
    augments = True

    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **words: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """See ModelFamily; views say nothing to SwinVED, and of a study's images it takes the first, as released."""
        return processor(images=images, truncate_images=True, augment=augment, seed=seed, **words)

    def card_values(self, config: Any) -> dict[str, Any]:
        """See ModelFamily."""
        return {
            "max_images": config.max_images,
            "image_size": config.encoder.image_size,
            "tokens_per_image": config.tokens_per_image,
            "decoder_layers": config.decoder.num_hidden_layers,
            "vocab_size": config.decoder.vocab_size,
        }

    def new(self, settings: SwinVedSettings, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
        """See ModelFamily; `texts` are read where there is no `settings.tokenizer`."""
        import swin_ved

        tokenizer = train_tokenizer(settings, texts)
        config = _make_config(settings, len(tokenizer))
        processor = _make_processor(settings, config, tokenizer)
        model = swin_ved.SwinVedForConditionalGeneration(config)
        if settings.pretrained_encoder is not None:
            from transformers import SwinModel

            source = settings.pretrained_encoder
            announce_fetch(source, "model.pretrained_encoder")
            encoder, report = SwinModel.from_pretrained(
                source, config=config.encoder, add_pooling_layer=False, output_loading_info=True
            )
            refuse_missing_weights(f"model.pretrained_encoder {source}", report["missing_keys"])
            model.model.encoder.load_state_dict(encoder.state_dict())
        return model, processor

    def load(self, settings: SwinVedSettings, folder: Path) -> tuple[Any, Any]:
        """See ModelFamily; the checkpoint's sizes must be the recipe's."""
        import swin_ved

        processor = swin_ved.SwinVedProcessor.from_pretrained(folder)
        config = swin_ved.SwinVedConfig.from_pretrained(folder)
        processor.check_config(config)
        if settings.tokenizer is not None:
            wanted = load_tokenizer(Path(settings.tokenizer))
            if wanted.get_vocab() != processor.tokenizer.get_vocab():
                raise ConfigError(
                    f"model.tokenizer {settings.tokenizer} is not the tokenizer of {folder}: a checkpoint goes on with "
                    "its own; set model.tokenizer to null"
                )
        expected = _make_config(settings, config.decoder.vocab_size)
        wrong = []
        for name in ("encoder", "decoder"):
            wanted, found = getattr(expected, name).to_dict(), getattr(config, name).to_dict()
            for key, wish in getattr(settings, name).items():
                if key.endswith(_RETRAINABLE):
                    setattr(getattr(config, name), key, wish)
            wrong += [
                f"{name}.{key} {plain(found[key])}, the recipe's {plain(wanted[key])}"
                for key in _SIZES
                if key in wanted and plain(wanted[key]) != plain(found[key])
            ]
        if settings.max_images != config.max_images:
            wrong.append(f"max_images {config.max_images}, the recipe's {settings.max_images}")
        refuse_other_sizes(folder, wrong)
        model, report = swin_ved.SwinVedForConditionalGeneration.from_pretrained(
            folder, config=config, output_loading_info=True
        )
        refuse_missing_weights(folder, report["missing_keys"])
        return model, processor


def train_tokenizer(settings: SwinVedSettings, texts: Iterable[str]) -> Any:
    """SwinVED's tokenizer: read from `settings.tokenizer`, or trained on `texts`.

    Raises:
        ConfigError: the folder holds no tokenizer, or the texts no word.
    """
    import swin_ved

    with as_config_error():
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


def _make_config(settings: SwinVedSettings, vocab_size: int) -> Any:
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


def _make_processor(settings: SwinVedSettings, config: Any, tokenizer: Any) -> Any:
    import swin_ved

    return swin_ved.SwinVedProcessor.from_config(
        config,
        tokenizer,
        max_question_tokens=settings.max_question_tokens,
        max_answer_tokens=settings.max_answer_tokens,
    )
