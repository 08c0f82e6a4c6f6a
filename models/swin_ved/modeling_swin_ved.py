"""SwinVED answers questions about the images of a study.

A Swin encoder turns each image into tokens (144 of width 1024 at 384 x 384). A three-layer BertGeneration decoder reads
`[CLS] question [BOS]`, attends to the tokens of all images of the study and writes `answer [EOS]` (paper, Section 5.1).

Differences from the released model:
- `image_mask` marks absent images, and they are not encoded.
- Padding does not get a position or count in the loss. In the release, [EOS] follows the padding of the answer, and
  nearly all of the loss is on [PAD].
- A study's images are encoded once for all its questions (`study_index`), and generation uses the key-value cache.
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
    """Encoded studies, which `forward` and `generate` accept instead of pixels.

    Attributes:
        last_hidden_state: (studies, images * tokens, width), zeros where an image is absent.
        feature_mask: (studies, images * tokens) bool, False where an image is absent. None if all are present.
    """

    last_hidden_state: Any = None
    feature_mask: torch.BoolTensor | None = None


class SwinVedPreTrainedModel(GuardedPush, PreTrainedModel):
    """Base of both SwinVED classes."""

    config_class = SwinVedConfig
    config: SwinVedConfig
    base_model_prefix = "model"
    input_modalities: tuple[str, ...] = ("image", "text")
    supports_gradient_checkpointing = True
    _no_split_modules = ["SwinStage", "BertGenerationLayer"]
    _supports_sdpa = True
    _supports_attention_backend = True

    def enable_input_require_grads(self) -> None:
        """Let gradients pass frozen embeddings. transformers' own method fails on Swin, which returns a tuple.

        A frozen encoder is left out, because its graph would be kept for nothing.
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
        """Save as transformers does, with the classes of both AutoModel and AutoModelForImageTextToText.

        Weights keep the names of the modules. transformers would write Swin's names of version 4, which Trainer does
        not translate when it resumes.
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
    """Forward hook that starts gradients at `output` if `part` has a trained parameter or is None."""
    if part is None or any(parameter.requires_grad for parameter in part.parameters()):
        output.requires_grad_(True)


class SwinVedModel(SwinVedPreTrainedModel):
    """Encodes studies into features."""

    main_input_name = "pixel_values"
    input_modalities = ("image",)
    _keys_to_ignore_on_load_unexpected = [r"^decoder\."]

    def __init__(self, config: SwinVedConfig) -> None:
        super().__init__(config)
        self.encoder = SwinModel(config.encoder, add_pooling_layer=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embeddings.patch_embeddings

    def forward(
        self,
        pixel_values: torch.Tensor | None = None,
        image_mask: torch.Tensor | None = None,
        image_features: torch.Tensor | None = None,
    ) -> SwinVedEncoderOutput:
        """Encode studies. Absent images do not go through the encoder.

        Args:
            pixel_values: (studies, images, 3, H, W).
            image_mask: (studies, images), nonzero where an image is present. None if all are.
            image_features: (present images, tokens, width), what `encoder` returned for them one study after the other,
                instead of `pixel_values`. Needs `image_mask`.

        Raises:
            ValueError: a shape is wrong, a study lacks an image or more than `config.max_images`.
        """
        if image_features is not None and image_mask is not None:
            return self._arrange(image_features, image_mask)
        if pixel_values is None:
            raise ValueError("Pass pixel_values, or image_features with image_mask.")
        check_pixels(self.config, pixel_values, image_mask)
        # A traced graph needs one shape for every mask, so it encodes the absent images and blanks them afterwards.
        compiling = torch.compiler.is_compiling()
        if image_mask is not None and not compiling:
            columns = int(image_mask.any(0).nonzero().max()) + 1
            pixel_values, image_mask = pixel_values[:, :columns], image_mask[:, :columns]
        studies, images = pixel_values.shape[:2]
        # Only the dtype, because weights that accelerate offloads to disk are on no device yet.
        pixel_values = pixel_values.to(self.encoder.embeddings.patch_embeddings.projection.weight.dtype)
        if image_mask is not None:
            image_mask = image_mask.to(pixel_values.device).bool()
            if not compiling and image_mask.all():
                image_mask = None
        if image_mask is None or compiling:
            features = self.encoder(pixel_values.flatten(0, 1)).last_hidden_state
        else:
            return self._arrange(self.encoder(pixel_values[image_mask]).last_hidden_state, image_mask)
        tokens, width = features.shape[1:]
        features = features.reshape(studies, images * tokens, width)
        if image_mask is None:
            return SwinVedEncoderOutput(features)
        feature_mask = image_mask.to(features.device).repeat_interleave(tokens, dim=1)
        return SwinVedEncoderOutput(features.masked_fill(~feature_mask[..., None], 0), feature_mask)

    def _arrange(self, present: torch.Tensor, image_mask: torch.Tensor) -> SwinVedEncoderOutput:
        """Features (present images, tokens, width) by study, with zeros in place of absent images."""
        weight = self.encoder.embeddings.patch_embeddings.projection.weight
        present, image_mask = present.to(weight.dtype), image_mask.bool()
        image_mask = image_mask[:, : int(image_mask.any(0).nonzero().max()) + 1]
        blank = present.new_zeros(image_mask.numel(), *present.shape[1:])
        features = blank.index_copy(0, image_mask.flatten().nonzero().flatten().to(blank.device), present)
        features = features.reshape(len(image_mask), -1, present.shape[-1])
        if image_mask.all():
            return SwinVedEncoderOutput(features)
        return SwinVedEncoderOutput(features, image_mask.to(features.device).repeat_interleave(present.shape[1], dim=1))


class SwinVedForConditionalGeneration(SwinVedPreTrainedModel, GenerationMixin):
    """Answers questions about studies."""

    main_input_name = "input_ids"

    def __init__(self, config: SwinVedConfig) -> None:
        super().__init__(config)
        self.model = SwinVedModel(config)
        self.decoder = SwinVedDecoder(config.decoder)
        self.post_init()
        # transformers' default of 20 tokens cuts off most answers.
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
        """Freeze the image encoder, as in the paper's stage 1."""
        self.model.encoder.requires_grad_(False)

    def encode(
        self,
        pixel_values: torch.Tensor | None = None,
        image_mask: torch.Tensor | None = None,
        image_features: torch.Tensor | None = None,
    ) -> SwinVedEncoderOutput:
        """Encode studies once for any number of questions. See `SwinVedModel.forward`."""
        return self.model(pixel_values, image_mask, image_features)

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
        image_features: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithCrossAttentions:
        """Return logits, and the loss if there are `labels`.

        Trainer's `label_smoothing_factor` is not supported: it does not shift the labels by a token.
        `torch.compile(fullgraph=True)` does not support `study_index`.

        Args:
            input_ids: (questions, tokens), `[CLS] question [BOS]` and, in training, `answer [EOS]`, padded on any side.
            attention_mask: (questions, tokens), 0 on padding. None without padding.
            pixel_values: (studies, images, 3, H, W).
            image_mask: (studies, images), nonzero where an image is present. None if all are.
            study_index: (questions,) the study of each question. None if question i is about study i.
            encoder_outputs: what `encode` returned, instead of `pixel_values` and `image_mask`.
            labels: (questions, tokens), the input ids of answer and [EOS], -100 elsewhere.
            position_ids: (questions, tokens). None counts the tokens that are not padding.
            past_key_values: a StudyCache of earlier tokens, which `attention_mask` covers too.
            use_cache: return a StudyCache. Off by default.
            logits_to_keep: how many of the last tokens to score, 0 for all.
            image_features: features instead of `pixel_values`, see `SwinVedModel.forward`.
            **kwargs: arguments of every transformers model, such as `output_attentions` and `return_dict`.

        Raises:
            ValueError: neither or both of pixels and encoder outputs, or a shape or value that does not fit.
            TypeError: an unknown argument, or another cache than a StudyCache.
        """
        check_names(kwargs)
        if image_features is not None:
            encoder_outputs = self.encode(None, image_mask, image_features)
        encoder_outputs = self._encoder_outputs(pixel_values, image_mask, encoder_outputs)
        features = encoder_outputs.last_hidden_state
        if use_cache and past_key_values is None:
            past_key_values = StudyCache()
        if past_key_values is not None and not isinstance(past_key_values, StudyCache):
            raise TypeError(
                f"past_key_values is a {type(past_key_values).__name__}. Expected a StudyCache, as use_cache=True "
                "returns."
            )
        past_length = 0 if past_key_values is None else past_key_values.get_seq_length()
        if past_length == 0:
            check_questions(self.config, features.shape[0], input_ids, study_index)
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
            # Rebuilt so that the loss comes first in a tuple.
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
        """Generate answers with each study encoded once, whatever the number of beams and samples.

        Takes the arguments of `forward` except labels, and those of transformers' `generate`. Prompts of different
        lengths are padded on the left, as the processor does. By default up to 128 tokens are generated.

        Returns:
            (questions, prompt + new tokens). `processor.batch_decode` returns the answers alone.

        Raises:
            ValueError, TypeError: as in `forward`, or a prompt is missing, contains its answer or is padded on the
                right.
        """
        prompt = inputs if inputs is not None else kwargs.get("input_ids")
        if prompt is None:
            raise ValueError("generate needs input_ids, the prompts `[CLS] question [BOS]` that the processor returns.")
        encoder_outputs = self._encoder_outputs(pixel_values, image_mask, encoder_outputs)
        studies = encoder_outputs.last_hidden_state.shape[0]
        check_questions(self.config, studies, prompt, study_index)
        check_prompts(self.config, prompt, kwargs.get("attention_mask"), kwargs.pop("labels", None))
        if study_index is None:  # generate repeats it for the beams of a question
            study_index = torch.arange(len(prompt), device=prompt.device)
        return super().generate(inputs, *args, study_index=study_index, encoder_outputs=encoder_outputs, **kwargs)

    def _encoder_outputs(
        self,
        pixel_values: torch.Tensor | None,
        image_mask: torch.Tensor | None,
        encoder_outputs: SwinVedEncoderOutput | None,
    ) -> SwinVedEncoderOutput:
        if (pixel_values is None) == (encoder_outputs is None):
            raise ValueError("Pass either pixel_values (with image_mask) or encoder_outputs of model.encode(...).")
        return self.encode(pixel_values, image_mask) if encoder_outputs is None else encoder_outputs

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
            raise ValueError("With a cache and config.answer_position, pass position_ids.")
        bos = input_ids == self.config.decoder.bos_token_id
        # (questions, 1): by how much the answer's positions are shifted, if there is a [BOS].
        first = torch.where(bos.any(1), bos.int().argmax(1), 0)[:, None]
        shift = self.config.answer_position - positions.gather(1, first)
        check_shift(self.config, shift)
        return torch.where(bos.cumsum(1) > 0, positions + shift, positions)

    # Hooks of GenerationMixin for `answer_position`, for a `max_length` given instead of 128 new tokens, and our cache.
    def _prepare_position_ids_for_generation(self, inputs_tensor: torch.Tensor, model_kwargs: dict) -> torch.Tensor:
        if self.config.answer_position is None:
            return super()._prepare_position_ids_for_generation(inputs_tensor, model_kwargs)
        prompt = model_kwargs.get("input_ids", inputs_tensor)
        cache = model_kwargs.get("past_key_values")
        cached = 0 if cache is None else cache.get_seq_length()
        # With a cache the prompt is normally the whole text so far, and generate cuts off the cached part.
        past_length = cached if cached >= prompt.shape[1] else 0
        return self._positions(prompt, model_kwargs.get("attention_mask"), past_length)

    def _prepare_generation_config(self, generation_config: Any, **kwargs: Any) -> tuple[Any, dict]:
        asked = {name: kwargs.get(name, getattr(generation_config, name, None)) for name in _LENGTHS}
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, **kwargs)
        if asked["max_length"] is not None and asked["max_new_tokens"] is None:
            prepared.max_new_tokens = None
        ends, blank = prepared.eos_token_id, self.config.decoder.pad_token_id
        if prepared.num_beams > 1 and isinstance(ends, list) and blank in ends:
            # As in the release, no beam ends: behind its [PAD] or [EOS] it keeps its place to the last step. Ended
            # there, it would leave the place to a beam that the release drops.
            prepared.eos_token_id = None
        return prepared, model_kwargs

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict, *args: Any) -> None:
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args)
        cache = model_kwargs.get("past_key_values")
        if cache is not None and not isinstance(cache, EncoderDecoderCache):
            model_kwargs["past_key_values"] = StudyCache(cache)
