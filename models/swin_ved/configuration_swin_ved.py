"""Configuration of SwinVED: a Swin encoder and a BertGeneration decoder.

`SwinVedConfig.base()` is the paper's model (150.6 M parameters with its vocabulary), `SwinVedConfig.tiny()` is for a
CPU (under 2 M).

In the release every training question was padded to 64 tokens before [BOS]. Here padding does not get a position.
`answer_position=64` restores the released positions for checkpoints that were trained with them.
"""

from typing import Any

from transformers.utils.versions import require_version

# Before all other imports, which fail with a less helpful message in older versions.
require_version("transformers>=5.9", "This model's code needs it: pip install -U transformers")

from transformers import BertGenerationConfig, PreTrainedConfig, SwinConfig  # noqa: E402

PAD_TOKEN_ID, BOS_TOKEN_ID, EOS_TOKEN_ID = 1, 5, 6  # the release's
RELEASED_ANSWER_POSITION = 64


class SwinVedConfig(PreTrainedConfig):
    """Sizes of a SwinVED model.

    Args:
        encoder: SwinConfig, or its values as a dict.
        decoder: BertGenerationConfig, or its values as a dict. Without encoder and decoder, the sizes are those of
            `base`.
        max_images: most images of a study.
        answer_position: position of [BOS], independent of the question's length. None numbers all tokens in order.
        governance: class of the training data. Weights without one are not uploaded (`publishing_swin_ved`).

    Raises:
        ValueError: the encoder's and the decoder's widths differ, or a value is out of range.
    """

    model_type = "swin_ved"
    sub_configs = {"encoder": SwinConfig, "decoder": BertGenerationConfig}

    encoder: Any = None  # SwinConfig, or its values
    decoder: Any = None  # BertGenerationConfig, or its values
    max_images: int = 3
    answer_position: int | None = None
    governance: str | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        if self.encoder is None and self.decoder is None:
            self.encoder, self.decoder = _base_encoder(), _decoder(12_510, 1024, 4096, heads=16, layers=3)
        for name, part in self.sub_configs.items():  # transformers does this only since 5.20
            value = getattr(self, name)
            if not isinstance(value, PreTrainedConfig):
                setattr(self, name, part.from_dict(value or {}))
        super().__post_init__(**kwargs)
        self._check_images()
        self.decoder.is_decoder = True
        self.decoder.add_cross_attention = True
        if self.encoder.hidden_size != self.decoder.hidden_size:
            raise ValueError(
                f"The encoder's features are {self.encoder.hidden_size} wide and the decoder is "
                f"{self.decoder.hidden_size} wide. Set decoder.hidden_size to "
                "encoder.embed_dim * 2 ** (len(encoder.depths) - 1)."
            )
        if self.max_images < 1:
            raise ValueError(f"max_images is {self.max_images}. It must be at least 1.")
        if self.answer_position is not None and not 0 < self.answer_position < self.decoder.max_position_embeddings:
            raise ValueError(
                f"answer_position is {self.answer_position}. It must be None or between 1 and "
                f"{self.decoder.max_position_embeddings - 1} (decoder.max_position_embeddings - 1)."
            )

    def _check_images(self) -> None:
        for name in ("image_size", "patch_size"):
            value = getattr(self.encoder, name)
            if not isinstance(value, int):
                raise ValueError(f"encoder.{name} is {value!r}. Images are square, so it must be one whole number.")
        if self.encoder.num_channels != 3:
            raise ValueError(f"encoder.num_channels is {self.encoder.num_channels}. It must be 3.")
        # transformers shrinks a window to its stage but not the window's position biases, and fails in forward.
        side = self._last_side()
        if self.encoder.window_size > side:
            raise ValueError(
                f"encoder.window_size is {self.encoder.window_size}, but the encoder's last stage has {side} x {side} "
                f"positions at image_size {self.encoder.image_size}. It must be at most {side}."
            )

    def _last_side(self) -> int:
        """Features along one side after the last stage, where Swin pads odd sizes."""
        side = -(-self.encoder.image_size // self.encoder.patch_size)
        for _ in self.encoder.depths[1:]:
            side = -(-side // 2)
        return side

    @property
    def tokens_per_image(self) -> int:
        """Encoder features of one image: 144 at 384 x 384."""
        return self._last_side() ** 2

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> "SwinVedConfig":
        """Build from the values of `config.json`. Raises ValueError for another `model_type`."""
        model_type = config_dict.get("model_type", cls.model_type)
        if model_type != cls.model_type:
            raise ValueError(
                f"The model_type of this checkpoint is {model_type!r}, but SwinVED classes load {cls.model_type!r}. "
                "Load it with AutoConfig and AutoModel."
            )
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def base(cls, vocab_size: int = 12_510, **kwargs: Any) -> "SwinVedConfig":
        """The paper's model: Swin-B patch4 window12 384 and three decoder layers (Section 5.1 and the release)."""
        return cls(encoder=_base_encoder(), decoder=_decoder(vocab_size, 1024, 4096, heads=16, layers=3), **kwargs)

    @classmethod
    def tiny(cls, vocab_size: int = 1_000, **kwargs: Any) -> "SwinVedConfig":
        """Under 2 M parameters up to a vocabulary of 8,000: 64 x 64 images, 16 tokens each."""
        encoder = SwinConfig(
            image_size=64, patch_size=4, embed_dim=32, depths=(1, 1, 2), num_heads=(1, 2, 4), window_size=4
        )
        return cls(encoder=encoder, decoder=_decoder(vocab_size, 128, 256, heads=4, layers=2), **kwargs)


def _base_encoder() -> SwinConfig:
    return SwinConfig(
        image_size=384, patch_size=4, embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), window_size=12
    )


def _decoder(vocab_size: int, width: int, inner_width: int, heads: int, layers: int) -> BertGenerationConfig:
    return BertGenerationConfig(
        vocab_size=vocab_size, hidden_size=width, intermediate_size=inner_width, num_attention_heads=heads,
        num_hidden_layers=layers, layer_norm_eps=1e-5, pad_token_id=PAD_TOKEN_ID, bos_token_id=BOS_TOKEN_ID,
        eos_token_id=EOS_TOKEN_ID, is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
