"""The SwinVED family: from a checkpoint, or new with random weights or a pretrained Swin encoder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from medvqa_core.errors import ConfigError
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import plain
from medvqa_core.settings import Section
from medvqa_hub.families.folders import as_config_error, refuse_missing_weights, refuse_other_sizes
from medvqa_hub.families.registry import ModelFamily

# A recipe may change these settings of a checkpoint, since its weights do not depend on them.
_RETRAINABLE = ("dropout", "drop_path_rate", "_dropout_prob", "dropout_rate")
_SIZES = (
    "image_size", "patch_size", "embed_dim", "depths", "num_heads", "window_size", "num_hidden_layers", "hidden_size",
    "intermediate_size", "num_attention_heads",
)  # fmt: skip


class SwinVedSettings(Section):
    """`model` of kind swin_ved: sizes of a new model. A checkpoint passed as --init must agree with them."""

    kind: Literal["swin_ved"] = "swin_ved"
    size: Literal["base", "tiny"] = "base"
    encoder: dict[str, Any] = {}  # fields of SwinConfig that differ from the size's
    decoder: dict[str, Any] = {}  # fields of BertGenerationConfig that differ from the size's
    max_images: PositiveInt = 3
    pretrained_encoder: str | None = None  # folder or Hub id of a Swin
    tokenizer: str | None = None  # null: trained on the training split
    vocab_size: Annotated[int, Field(ge=8)] | None = None  # limit of a tokenizer trained here
    min_frequency: PositiveInt = 1
    max_question_tokens: Annotated[int, Field(ge=2)] = 64
    max_answer_tokens: Annotated[int, Field(ge=2)] = 256


class SwinVed(ModelFamily):
    name = "swin_ved"
    title = "SwinVED"
    settings = SwinVedSettings
    groups = {"encoder": r"(^|\.)model\.encoder\.", "decoder": r"(^|\.)decoder\."}
    augments = True
    pads_targets = True
    encoder_group = "encoder"

    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **text: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """See ModelFamily. SwinVED ignores views and uses a study's first images, as in the release."""
        return processor(images=images, truncate_images=True, augment=augment, seed=seed, **text)

    def make_encoder(self, settings: SwinVedSettings, start: Path | None) -> Any:
        """See ModelFamily."""
        import swin_ved
        from transformers import SwinModel

        config = swin_ved.SwinVedConfig.from_pretrained(start) if start else _make_config(settings, vocab_size=8)
        return SwinModel(config.encoder, add_pooling_layer=False)

    def image_encoder(self, model: Any) -> Any:
        return model.model.encoder

    def arrange_images(self, processor: Any, images: list[list], views: list[list]) -> tuple[list[Any], dict[str, Any]]:
        """See ModelFamily."""
        import torch

        studies = [study[: processor.max_images] for study in images]
        mask = [[place < len(study) for place in range(processor.max_images)] for study in studies]
        return [image for study in studies for image in study], {"image_mask": torch.tensor(mask)}

    def use_released_targets(self, model: Any, processor: Any) -> None:
        """See ModelFamily. Answers begin at the same position and end at [EOS] or [PAD]."""
        from swin_ved.convert_swin_ved import set_released_decoding

        model.config.answer_position = processor.max_question_tokens
        processor.check_config(model.config)
        set_released_decoding(model)

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
        """See ModelFamily. `texts` train the tokenizer, unless `settings.tokenizer` names one."""
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
        """See ModelFamily. The checkpoint must have the recipe's sizes."""
        import swin_ved

        processor = swin_ved.SwinVedProcessor.from_pretrained(folder)
        config = swin_ved.SwinVedConfig.from_pretrained(folder)
        processor.check_config(config)
        if settings.tokenizer is not None:
            wanted = load_tokenizer(Path(settings.tokenizer))
            if wanted.get_vocab() != processor.tokenizer.get_vocab():
                raise ConfigError(
                    f"model.tokenizer {settings.tokenizer} differs from the tokenizer of the checkpoint {folder}, "
                    "which cannot change. Set model.tokenizer to null."
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
    """Read SwinVED's tokenizer from `settings.tokenizer`, or train it on `texts`.

    Raises:
        ConfigError: the folder lacks a tokenizer, or the texts lack words.
    """
    import swin_ved

    with as_config_error():
        if settings.tokenizer is not None:
            return load_tokenizer(Path(settings.tokenizer))
        return swin_ved.train_tokenizer(texts, settings.vocab_size, settings.min_frequency)


def load_tokenizer(path: Path) -> Any:
    """Load a tokenizer from its folder, or from a released vocabulary file."""
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
