"""Configuration of BLIP-2-MultiView: a vision tower, a Q-Former per view, an encoder-decoder language model.

The three parts keep transformers' own configurations (`vision_config`, `qformer_config`, `text_config`); this file adds
what joins them, the names of the views, and two presets that need no network: `base()` and `tiny()`.
"""

from transformers.utils.versions import require_version

# In front of all other imports: in older versions these fail with less to say.
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
    """What a BLIP-2-MultiView model is made of.

    Args:
        vision_config: Vision tower, shared by all views.
        qformer_config: Q-Former, one with these sizes per view. Its `encoder_hidden_size` follows `vision_config`.
        text_config: Encoder-decoder language model (T5 and its kin).
        num_query_tokens: Visual tokens per view.
        mask_missing_views: Whether the block of a view that a study lacks is also masked out of attention. The
            released model leaves it visible (zeros, attention mask one), which is the default.
        max_answer_tokens: Longest `labels` that the model takes.
        tie_output_layer: Whether the language model's output layer is its table of embeddings. FLAN-T5 has a layer of
            its own, which transformers, asked by `text_config` alone, would tie. Loading sets it from the weights.
        initializer_range: Standard deviation of the new weights of a model that is built, not loaded.
        governance: Class of the data that the weights learned from; without one they are not uploaded
            (`publishing_blip2_multiview`).

    Raises:
        ValueError: `text_config` is of a decoder-only model.
    """

    model_type = "blip2_multiview"
    keys_to_ignore_at_inference = ["past_key_values", "encoder_last_hidden_state"]
    sub_configs = {"vision_config": Blip2VisionConfig, "qformer_config": Blip2QFormerConfig, "text_config": AutoConfig}

    vision_config: dict | PreTrainedConfig | None = None
    qformer_config: dict | PreTrainedConfig | None = None
    text_config: dict | PreTrainedConfig | None = None
    num_query_tokens: int = 32
    mask_missing_views: bool = False
    max_answer_tokens: int = 256
    tie_output_layer: bool = True
    initializer_range: float = 0.02
    governance: str | None = None

    def __post_init__(self, **kwargs):
        for name, part in self.sub_configs.items():  # not left to transformers, which does it since 5.20
            values = getattr(self, name)
            if not isinstance(values, PreTrainedConfig):
                values = {"model_type": "t5", **(values or {})} if part is AutoConfig else values or {}
                part = CONFIG_MAPPING[values["model_type"]] if part is AutoConfig else part
                setattr(self, name, part.from_dict(values))
        super().__post_init__(**kwargs)
        if not self.text_config.is_encoder_decoder:
            raise ValueError(
                f"text_config is of model_type {self.text_config.model_type!r}, a decoder-only model; BLIP-2-MultiView "
                "needs an encoder-decoder language model, such as T5Config(...)"
            )
        self.qformer_config.encoder_hidden_size = self.vision_config.hidden_size
        self.is_encoder_decoder = True
        # Trainers look for these on the model's own configuration, to pad what they generate and labels alike.
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            setattr(self, name, getattr(self.text_config, name, None))

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs) -> "Blip2MultiViewConfig":
        """As in transformers, but the configuration of another model is an error, where transformers warns and goes on.

        Raises:
            ValueError: `config_dict` names another `model_type`.
        """
        found = config_dict.get("model_type", cls.model_type)
        if found != cls.model_type:
            raise ValueError(
                f"this checkpoint is of model_type {found!r}, {cls.__name__} loads {cls.model_type!r}; start "
                "from a BLIP-2 checkpoint with Blip2MultiViewForConditionalGeneration.from_blip2(...), and load any "
                "other with its own class or an Auto class"
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
        """The same shape with random weights in mind: 28 x 28 images, 4 queries, fast on a CPU.

        Every width is a multiple of 64, the block of 4-bit quantisation.
        """
        vision = Blip2VisionConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=14,
            initializer_range=0.2,  # transformers' 1e-10 would make every image look the same
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
