"""SwinVED: images of a study in, an answer to each question about them out.

A Swin encoder turns each image into tokens (144 of width 1024 at 384 x 384); a three-layer BertGeneration decoder reads
`[CLS] question [BOS]`, looks at the tokens of all the study's images by cross-attention, and writes `answer [EOS]`
(paper, Section 5.1). Encoder and decoder are transformers' own.

What differs from the release: absent images are never encoded and are masked by `image_mask`, not found by their zeros;
padding takes no position and no part in the loss (there, [EOS] stands in the last place, behind the answer's padding,
and nearly all of the loss is on [PAD]); a study's images are encoded once for all its questions (`study_index`);
generation uses the key-value cache.

Not here: image and text preparation (`processing_swin_ved`), the released weights' names (`convert_swin_ved`).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import EncoderDecoderCache, GenerationMixin, PreTrainedModel, SwinModel
from transformers.modeling_outputs import CausalLMOutputWithCrossAttentions
from transformers.utils import ModelOutput, can_return_tuple

from .attention_swin_ved import StudyCache, SwinVedDecoder, additive_mask, study_fold
from .checking_swin_ved import (
    check_encoder_outputs,
    check_names,
    check_pixels,
    check_positions,
    check_prompts,
    check_questions,
    check_shift,
)
from .configuration_swin_ved import SwinVedConfig
from .publishing_swin_ved import GuardedPush

_LENGTHS = ("max_length", "max_new_tokens")


@dataclass
class SwinVedEncoderOutput(ModelOutput):
    """Encoded studies, accepted by `forward` and `generate` in place of pixels.

    Attributes:
        last_hidden_state: (studies, images * tokens, width); zeros where an image is absent.
        feature_mask: (studies, images * tokens) bool, False where an image is absent; None when all are present.
    """

    last_hidden_state: torch.FloatTensor | None = None
    feature_mask: torch.BoolTensor | None = None


class SwinVedPreTrainedModel(GuardedPush, PreTrainedModel):
    """What both SwinVED classes share: configuration, what they support, and their names for the Hub."""

    config_class = SwinVedConfig
    config: SwinVedConfig
    title = "SwinVED"
    base_model_prefix = "model"
    input_modalities = ("image", "text")
    supports_gradient_checkpointing = True
    _no_split_modules = ["SwinStage", "BertGenerationLayer"]
    _supports_sdpa = True
    _supports_attention_backend = True

    def enable_input_require_grads(self) -> None:
        """Let gradients pass frozen embeddings. transformers' own fails on Swin, whose embedding returns a tuple.

        Images do so only while something in the encoder is trained: a frozen one would keep its graph for nothing.
        """
        self.disable_input_require_grads()
        hooks = []
        for module in self.modules():
            if isinstance(module, SwinModel):
                projection = module.embeddings.patch_embeddings.projection
                hooks.append(projection.register_forward_hook(partial(_require_grads, module)))
            elif isinstance(module, SwinVedDecoder):
                words = module.get_input_embeddings()
                hooks.append(words.register_forward_hook(partial(_require_grads, None)))
        self._require_grads_hooks, self._require_grads_hook = hooks, hooks[0]

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """As every model's; the checkpoint names both classes, so that the Hub copy serves both Auto classes.

        Weights are saved under the names that the modules have. transformers would go back to Swin's names of version
        4, which `from_pretrained` translates and Trainer, when it resumes or loads its best model, does not.
        """
        kwargs.setdefault("save_original_format", False)
        if self._auto_class is not None:
            self.config.auto_map = {
                "AutoConfig": "configuration_swin_ved.SwinVedConfig",
                "AutoModel": "modeling_swin_ved.SwinVedModel",
                "AutoModelForImageTextToText": "modeling_swin_ved.SwinVedForConditionalGeneration",
            }
        super().save_pretrained(*args, **kwargs)


def _require_grads(part: nn.Module | None, module: nn.Module, args: tuple, output: torch.Tensor) -> None:
    """Forward hook: start gradients at `output`, where `part` (None: anything) has a parameter that is trained."""
    if part is None or any(parameter.requires_grad for parameter in part.parameters()):
        output.requires_grad_(True)


class SwinVedModel(SwinVedPreTrainedModel):
    """The image half: studies in, their features out."""

    main_input_name = "pixel_values"
    input_modalities = ("image",)
    _keys_to_ignore_on_load_unexpected = [r"^decoder\."]

    def __init__(self, config: SwinVedConfig) -> None:
        super().__init__(config)
        self.encoder = SwinModel(config.encoder, add_pooling_layer=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embeddings.patch_embeddings

    def forward(self, pixel_values: torch.Tensor, image_mask: torch.Tensor | None = None) -> SwinVedEncoderOutput:
        """Encode studies; only the images that are there go through the encoder.

        Args:
            pixel_values: (studies, images, 3, H, W).
            image_mask: (studies, images), nonzero where an image is present; None says that all are.

        Raises:
            ValueError: a shape does not fit, there are more images than `config.max_images`, or a study has none.
        """
        check_pixels(self.config, pixel_values, image_mask)
        studies, images = pixel_values.shape[:2]
        # The kind of number only: weights that accelerate keeps on disk are on no device until they are used.
        pixel_values = pixel_values.to(self.encoder.embeddings.patch_embeddings.projection.weight.dtype)
        # A traced graph needs one shape for every mask: it encodes the absent images too, and blanks them afterwards.
        compiling = torch.compiler.is_compiling()
        if image_mask is not None:
            image_mask = image_mask.to(pixel_values.device).bool()
            if not compiling and image_mask.all():
                image_mask = None
        if image_mask is None or compiling:
            features = self.encoder(pixel_values.flatten(0, 1)).last_hidden_state
        else:
            present = self.encoder(pixel_values[image_mask]).last_hidden_state
            blank = present.new_zeros(studies * images, *present.shape[1:])
            features = blank.index_copy(0, image_mask.flatten().nonzero().flatten().to(blank.device), present)
        tokens, width = features.shape[1:]
        features = features.reshape(studies, images * tokens, width)
        if image_mask is None:
            return SwinVedEncoderOutput(features)
        feature_mask = image_mask.to(features.device).repeat_interleave(tokens, dim=1)
        return SwinVedEncoderOutput(features.masked_fill(~feature_mask[..., None], 0), feature_mask)


class SwinVedForConditionalGeneration(SwinVedPreTrainedModel, GenerationMixin):
    """The whole model: studies and questions in; loss, logits or answers out."""

    main_input_name = "input_ids"

    def __init__(self, config: SwinVedConfig) -> None:
        super().__init__(config)
        self.model = SwinVedModel(config)
        self.decoder = SwinVedDecoder(config.decoder)
        self.post_init()
        # transformers would stop after 20 tokens, in the middle of most answers.
        self.generation_config.max_new_tokens = 128

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.decoder.set_input_embeddings(value)

    def get_output_embeddings(self) -> nn.Module:
        return self.decoder.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.decoder.set_output_embeddings(new_embeddings)

    def freeze_encoder(self) -> None:
        """Take the image encoder out of training (the paper's stage 1)."""
        self.model.encoder.requires_grad_(False)

    def encode(self, pixel_values: torch.Tensor, image_mask: torch.Tensor | None = None) -> SwinVedEncoderOutput:
        """Encode studies once, to ask about them as often as needed. See `SwinVedModel.forward`."""
        return self.model(pixel_values, image_mask)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        image_mask: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: SwinVedEncoderOutput | None = None,
        labels: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: StudyCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithCrossAttentions:
        """Score tokens, and with `labels` give the loss.

        Trainer's `label_smoothing_factor` does not fit: it compares logits and labels without the step between them.
        `torch.compile(fullgraph=True)` goes without `study_index`, whose groups are made from its values.

        Args:
            input_ids: (questions, tokens), `[CLS] question [BOS]` and, in training, `answer [EOS]`; padded on any side.
            attention_mask: (questions, tokens), 0 on padding; None says that there is none.
            pixel_values: (studies, images, 3, H, W).
            image_mask: (studies, images), nonzero where an image is present; None says that all are.
            study_index: (questions,) the study that each question is about; None: question i is about study i.
            encoder_outputs: what `encode` returned, in place of `pixel_values` and `image_mask`.
            labels: (questions, tokens), the input ids of answer and [EOS], -100 elsewhere. The loss is their mean
                negative log-likelihood, each predicted from the tokens before it.
            position_ids: (questions, tokens); None counts the tokens that are not padding.
            past_key_values: a StudyCache of earlier tokens; `attention_mask` then covers those too.
            use_cache: return a StudyCache. Off by default.
            logits_to_keep: how many of the last tokens to score, 0 for all.
            **kwargs: what every transformers model takes, such as `output_attentions`, `num_items_in_batch` and
                `return_dict` (False: a tuple).

        Returns:
            Loss, logits (questions, tokens, vocabulary), cache, and attentions or hidden states where asked for.

        Raises:
            ValueError: neither or both of pixels and encoder outputs, or a shape or value that does not fit.
            TypeError: encoder outputs, a cache or numbers of another kind, or an unknown argument.
        """
        check_names(kwargs)
        encoder_outputs = self._encoder_outputs(pixel_values, image_mask, encoder_outputs)
        features = encoder_outputs.last_hidden_state
        if use_cache and past_key_values is None:
            past_key_values = StudyCache()
        if past_key_values is not None and not isinstance(past_key_values, StudyCache):
            raise TypeError(
                f"past_key_values is a {type(past_key_values).__name__}; expected a StudyCache, which keeps the "
                "images' keys and values per study (use_cache=True makes one)"
            )
        past_length = 0 if past_key_values is None else past_key_values.get_seq_length()
        if past_length == 0:
            check_questions(self.config, features.shape[0], input_ids, attention_mask, study_index, labels)
        if position_ids is None:
            position_ids = self._positions(input_ids, attention_mask, past_length)
        check_positions(self.config, position_ids, past_length)
        outputs = self.decoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            encoder_hidden_states=features,
            encoder_attention_mask=additive_mask(encoder_outputs.feature_mask, features.dtype),
            study_fold=study_fold(study_index, features.shape[0], past_key_values),
            past_key_values=past_key_values,
            use_cache=past_key_values is not None,
            logits_to_keep=logits_to_keep,
            return_dict=True,
            **kwargs,
        )
        if labels is not None:
            vocab_size = self.config.decoder.vocab_size
            loss = self.loss_function(logits=outputs.logits, labels=labels, vocab_size=vocab_size, **kwargs)
            # Made again, because a tuple of it takes the order in which the values were set: the loss comes first.
            outputs = CausalLMOutputWithCrossAttentions(loss=loss, **outputs)
        return outputs

    @torch.no_grad()
    def generate(
        self,
        inputs: torch.Tensor | None = None,
        *args: Any,
        pixel_values: torch.Tensor | None = None,
        image_mask: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: SwinVedEncoderOutput | None = None,
        **kwargs: Any,
    ) -> Any:
        """Answer questions: `GenerationMixin.generate` with each study encoded once, whatever the beams and samples.

        Takes the arguments of `forward`, but no labels, and of transformers' `generate`. Prompts of different length
        are padded on the left (the processor does that). Without a length, up to 128 tokens are written.

        Returns:
            (questions, prompt + new tokens) with the prompt; `processor.batch_decode` keeps the answers only.

        Raises:
            ValueError: as in `forward`; no prompt, or one that holds its answer or is padded on the right.
            TypeError: as in `forward`.
        """
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        if prompt is None:
            raise ValueError("generate needs input_ids, the prompt `[CLS] question [BOS]` that the processor makes")
        encoder_outputs = self._encoder_outputs(pixel_values, image_mask, encoder_outputs)
        studies = encoder_outputs.last_hidden_state.shape[0]
        check_questions(self.config, studies, prompt, kwargs.get("attention_mask"), study_index, None)
        check_prompts(self.config, prompt, kwargs.get("attention_mask"), kwargs.pop("labels", None))
        if study_index is None:  # the beams of a question share its study from here on
            study_index = torch.arange(len(prompt), device=prompt.device)
        return super().generate(inputs, *args, study_index=study_index, encoder_outputs=encoder_outputs, **kwargs)

    def _encoder_outputs(
        self,
        pixel_values: torch.Tensor | None,
        image_mask: torch.Tensor | None,
        encoder_outputs: SwinVedEncoderOutput | None,
    ) -> SwinVedEncoderOutput:
        if encoder_outputs is None and pixel_values is not None:
            return self.encode(pixel_values, image_mask)
        check_encoder_outputs(pixel_values, image_mask, encoder_outputs)
        return encoder_outputs

    def _positions(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, past_length: int
    ) -> torch.Tensor:
        """Number the tokens that are not padding, (questions, tokens)."""
        tokens = input_ids.shape[1]
        if attention_mask is None:
            positions = torch.arange(past_length, past_length + tokens, device=input_ids.device).expand_as(input_ids)
        else:
            positions = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -tokens:]
        if self.config.answer_position is None:
            return positions
        if past_length:
            raise ValueError("with a cache and config.answer_position, pass position_ids: [BOS] is not in input_ids")
        bos = input_ids == self.config.decoder.bos_token_id
        # (questions, 1): how far the answer's numbers are shifted; nothing is, where there is no [BOS].
        first = torch.where(bos.any(1), bos.int().argmax(1), 0)[:, None]
        shift = self.config.answer_position - positions.gather(1, first)
        check_shift(self.config, shift)
        return torch.where(bos.cumsum(1) > 0, positions + shift, positions)

    # The next three are GenerationMixin's own hooks: positions that know `answer_position`, a length that was asked for
    # in place of our 128 new tokens, and our cache.
    def _prepare_position_ids_for_generation(self, inputs_tensor: torch.Tensor, model_kwargs: dict) -> torch.Tensor:
        if self.config.answer_position is None:
            return super()._prepare_position_ids_for_generation(inputs_tensor, model_kwargs)
        prompt = model_kwargs.get("input_ids", inputs_tensor)
        cache = model_kwargs.get("past_key_values")
        cached = 0 if cache is None else cache.get_seq_length()
        # With a cache, the prompt is normally the whole text so far, and generate cuts off what the cache holds.
        past_length = cached if cached >= prompt.shape[1] else 0
        return self._positions(prompt, model_kwargs.get("attention_mask"), past_length)

    def _prepare_generation_config(self, generation_config: Any, **kwargs: Any) -> tuple[Any, dict]:
        asked = {name: kwargs.get(name, getattr(generation_config, name, None)) for name in _LENGTHS}
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, **kwargs)
        if asked["max_length"] is not None and asked["max_new_tokens"] is None:
            prepared.max_new_tokens = None
        return prepared, model_kwargs

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict, *args: Any) -> None:
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args)
        cache = model_kwargs.get("past_key_values")
        if cache is not None and not isinstance(cache, EncoderDecoderCache):
            model_kwargs["past_key_values"] = StudyCache(cache)
