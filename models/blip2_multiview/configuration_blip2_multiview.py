"""Configuration of BLIP-2-MultiView: a vision tower, a Q-Former per view and an encoder-decoder language model.

`Blip2MultiViewConfig.base()` is the paper's model, `Blip2MultiViewConfig.tiny()` is for a CPU.
"""

from typing import Any

from transformers.utils.versions import require_version

# Before all other imports, which fail with a less helpful message in older versions.
require_version("transformers>=5.9", "This model's code needs it: pip install -U transformers")

from transformers import (  # noqa: E402
    CONFIG_MAPPING,
    AutoConfig,
    Blip2QFormerConfig,
    Blip2VisionConfig,
    PreTrainedConfig,
    T5Config,
)

VIEWS = ("AP", "PA", "LAT")  # the order of the blocks in the prefix, and the meaning of `image_view` 0, 1, 2
PREFIX_TOKENS = ("[AP]", "[PA]", "[LAT]", "[Q]")  # the rows of the model's four new token embeddings, in order


class Blip2MultiViewConfig(PreTrainedConfig):
    """Sizes of a BLIP-2-MultiView model.

    Args:
        vision_config: vision tower, shared by all views.
        qformer_config: sizes of the Q-Former of each view. Its `encoder_hidden_size` follows `vision_config`.
        text_config: encoder-decoder language model such as T5.
        num_query_tokens: visual tokens per view.
        mask_missing_views: whether to mask the block of a missing view in attention. The released model does not.
        max_answer_tokens: longest `labels` that the model takes.
        tie_output_layer: whether the language model's output layer is its embedding table. FLAN-T5 has an output layer,
            but transformers would tie it. Loading sets this from the weights.
        initializer_range: standard deviation of new weights.
        governance: class of the training data. Weights without one are not uploaded (`publishing_blip2_multiview`).

    Raises:
        ValueError: `text_config` is of a decoder-only model.
    """

    model_type = "blip2_multiview"
    keys_to_ignore_at_inference = ["past_key_values", "encoder_last_hidden_state"]
    sub_configs = {"vision_config": Blip2VisionConfig, "qformer_config": Blip2QFormerConfig, "text_config": AutoConfig}

    vision_config: Any = None  # a config, or its values
    qformer_config: Any = None
    text_config: Any = None
    num_query_tokens: int = 32
    mask_missing_views: bool = False
    max_answer_tokens: int = 256
    tie_output_layer: bool = True
    initializer_range: float = 0.02
    governance: str | None = None

    def __post_init__(self, **kwargs):
        for name, part in self.sub_configs.items():  # transformers does this only since 5.20
            values = getattr(self, name)
            if not isinstance(values, PreTrainedConfig):
                values = {"model_type": "t5", **(values or {})} if part is AutoConfig else values or {}
                part = CONFIG_MAPPING[values["model_type"]] if part is AutoConfig else part
                setattr(self, name, part.from_dict(values))
        super().__post_init__(**kwargs)
        if not self.text_config.is_encoder_decoder:
            raise ValueError(
                f"text_config is of model_type {self.text_config.model_type!r}, a decoder-only model. Expected an "
                "encoder-decoder model such as T5Config(...)."
            )
        self.qformer_config.encoder_hidden_size = self.vision_config.hidden_size
        self.is_encoder_decoder = True
        # Trainer reads these from the model's configuration to pad generated tokens and labels.
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            setattr(self, name, getattr(self.text_config, name, None))

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs) -> "Blip2MultiViewConfig":
        """Build from the values of `config.json`. Raises ValueError for another `model_type`."""
        found = config_dict.get("model_type", cls.model_type)
        if found != cls.model_type:
            raise ValueError(
                f"The model_type of this checkpoint is {found!r}, but {cls.__name__} loads {cls.model_type!r}. To "
                "start from BLIP-2, use Blip2MultiViewForConditionalGeneration.from_blip2(...)."
            )
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def base(cls, **changes) -> "Blip2MultiViewConfig":
        """The paper's model (Section 5.2): EVA-CLIP ViT-g/14 at 224, Q-Formers of 768, FLAN-T5-XL."""
        text = T5Config(
            d_model=2048,
            d_kv=64,
            d_ff=5120,
            num_layers=24,
            num_heads=32,
            vocab_size=32128,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,  # T5 1.1: logits are not scaled
            decoder_start_token_id=0,
        )
        parts = {"vision_config": Blip2VisionConfig(), "qformer_config": Blip2QFormerConfig(), "text_config": text}
        return cls(**{**parts, **changes})

    @classmethod
    def tiny(cls, **changes) -> "Blip2MultiViewConfig":
        """A small model for a CPU: 28 x 28 images, 4 queries. Widths are multiples of 64 for 4-bit quantisation."""
        vision = Blip2VisionConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
            initializer_range=0.2,  # with transformers' 1e-10 all images have the same features
        )
        qformer = Blip2QFormerConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            initializer_range=0.2,
        )
        text = T5Config(
            d_model=64,
            d_kv=32,
            d_ff=128,
            num_layers=2,
            num_heads=2,
            vocab_size=512,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            decoder_start_token_id=0,
        )
        parts = {"vision_config": vision, "qformer_config": qformer, "text_config": text}
        return cls(**{**parts, "num_query_tokens": 4, "initializer_range": 0.2, **changes})
