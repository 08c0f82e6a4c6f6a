"""BLIP-2-MultiView: BLIP-2 with one Q-Former, one set of queries and one projection per radiographic view.

The language model's encoder reads `[AP] q.. [PA] q.. [LAT] q.. [Q] question` (Section 5.2 of the MIMIC-CXR-VQA paper):
the model puts everything up to and with `[Q]` in front of the question's tokens. Vision tower, Q-Former and language
model are transformers' own; this file joins them and builds the prefix.

What differs from the released model:
- All images of a batch go through the vision tower in one call, and through each Q-Former once per view.
- The four new token embeddings are rows of this model (`prefix_embeddings`), not of the language model's table: they
  are trained although that table is frozen or quantised, and the tokenizer stays the language model's own.
- A study's images are encoded once however many questions it has (`study_index`).
"""

import copy

import torch
from torch import nn
from transformers import (
    AutoModelForSeq2SeqLM,
    Blip2VisionModel,
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import Seq2SeqLMOutput

from .branching_blip2_multiview import Blip2MultiViewOutput, Blip2ViewBranch, Blip2ViewBranches
from .checking_blip2_multiview import (
    check_encoder_outputs,
    check_images,
    check_index,
    check_names,
    check_questions,
    check_text,
)
from .configuration_blip2_multiview import PREFIX_TOKENS, VIEWS, Blip2MultiViewConfig
from .starting_blip2_multiview import start_from_blip2


class Blip2MultiViewPreTrainedModel(PreTrainedModel):
    config: Blip2MultiViewConfig
    base_model_prefix = "model"
    main_input_name = "pixel_values"
    input_modalities = ("image", "text")
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True
    # The trained parts stay in float: transformers quantises no module that is to be kept in float32.
    _keep_in_fp32_modules = ["branches"]
    # For peft: LoraConfig(target_modules=LORA_TARGETS, modules_to_save=TRAINED_MODULES).
    TRAINED_MODULES = ["branches", "prefix_embeddings"]
    LORA_TARGETS = r"language_model\..*\.(q|v)"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Blip2ViewBranch):
            init.normal_(module.query_tokens, mean=0.0, std=self.config.initializer_range)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """As in transformers, then frozen like a new model: loading sets `requires_grad` on every float weight."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.untie_distinct_weights()
        model.freeze_for_training()
        return loaded

    def untie_distinct_weights(self) -> None:
        """Nothing to untie without a language model."""

    def freeze_for_training(self) -> None:
        """Freeze all but what the paper trains: three Q-Formers, query sets and projections, and the four new rows."""
        self.requires_grad_(False)
        for name, module in self.named_modules():
            if name.rpartition(".")[2] in self.TRAINED_MODULES:
                module.requires_grad_(True)

    def save_pretrained(self, save_directory, **kwargs):
        """As in transformers; the saved configuration names the classes of both Auto classes, whichever is saved."""
        if self._auto_class is not None:
            module = type(self).__module__.rsplit(".", 1)[-1]
            self.config.auto_map = {
                **(getattr(self.config, "auto_map", None) or {}),
                "AutoModel": f"{module}.{Blip2MultiViewModel.__name__}",
                "AutoModelForImageTextToText": f"{module}.{Blip2MultiViewForConditionalGeneration.__name__}",
            }
        return super().save_pretrained(save_directory, **kwargs)


class Blip2MultiViewModel(Blip2MultiViewPreTrainedModel):
    """Vision tower and branches: images in, features per study and view out."""

    # A whole checkpoint loads into this part without a complaint about the language model.
    _keys_to_ignore_on_load_unexpected = [r"^language_model\.", r"^prefix_embeddings\."]

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__(config)
        self.vision_model = Blip2VisionModel._from_config(config.vision_config)
        self.branches = Blip2ViewBranches(config)
        self.post_init()
        self.freeze_for_training()

    def get_input_embeddings(self):
        return self.vision_model.get_input_embeddings()

    def forward(
        self,
        pixel_values: torch.Tensor,
        image_study: torch.Tensor,
        image_view: torch.Tensor,
        num_studies: int | None = None,
    ) -> Blip2MultiViewOutput:
        """Encode the images of a batch of studies.

        Args:
            pixel_values: (images, 3, H, W), the images of all studies in any order.
            image_study: (images,) which study each image belongs to, 0 and up.
            image_view: (images,) 0 AP, 1 PA, 2 LAT.
            num_studies: Number of studies; the highest of `image_study` plus one when None.

        Raises:
            ValueError: No image, a wrong shape, an index out of range, or a study without an image.
            TypeError: An index is no tensor of whole numbers.
        """
        check_index("image_study", image_study)
        check_index("image_view", image_view)
        if num_studies is None:
            num_studies = int(image_study.max()) + 1 if image_study.numel() else 0
        if not torch.compiler.is_compiling():
            check_images(pixel_values, image_study, image_view, num_studies, self.config.vision_config.image_size)
        image_states = self.vision_model(pixel_values=pixel_values).last_hidden_state
        return self.branches(image_states, image_study, image_view, num_studies)


class Blip2MultiViewForConditionalGeneration(Blip2MultiViewPreTrainedModel, GenerationMixin):
    """Answers questions about studies. Vision tower and language model are frozen from the start."""

    _keep_in_fp32_modules = ["model.branches", "prefix_embeddings"]

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__(config)
        self.model = Blip2MultiViewModel(config)
        self.prefix_embeddings = nn.Embedding(len(PREFIX_TOKENS), config.text_config.hidden_size)
        self.language_model = AutoModelForSeq2SeqLM.from_config(config.text_config)
        self.post_init()
        if not config.tie_output_layer:
            output = self.get_output_embeddings()
            output.weight = nn.Parameter(output.weight.detach().clone())
            self._untie_output_layer()
        # post_init takes over what Blip2MultiViewModel ignores, but here a stray language-model key is worth a warning.
        self._keys_to_ignore_on_load_unexpected -= set(Blip2MultiViewModel._keys_to_ignore_on_load_unexpected)
        self.generation_config.max_new_tokens = 128  # as released
        self.freeze_for_training()

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()

    def set_input_embeddings(self, value):
        self.language_model.set_input_embeddings(value)

    def get_output_embeddings(self):
        return self.language_model.get_output_embeddings()

    def set_output_embeddings(self, value):
        self.language_model.set_output_embeddings(value)

    def get_encoder(self, modality=None):
        return self.language_model.get_encoder() if modality is None else self.model.vision_model

    def get_decoder(self):
        return self.language_model.get_decoder()

    def encode(
        self,
        pixel_values: torch.Tensor,
        image_study: torch.Tensor,
        image_view: torch.Tensor,
        num_studies: int | None = None,
    ) -> Blip2MultiViewOutput:
        """Encode images once; `forward` and `generate` take the result as `encoder_outputs` in place of images."""
        return self.model(pixel_values, image_study, image_view, num_studies)

    def prepare_language_inputs(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        image_study: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the language model's encoder reads: embeddings (questions, 3 + 3 queries + 1 + tokens, hidden) and mask.

        Raises:
            ValueError: Neither or both of images and `encoder_outputs`, or questions and studies do not fit together.
            TypeError: `encoder_outputs` or an index is of another type.
        """
        if (pixel_values is None) == (encoder_outputs is None):
            raise ValueError("pass either pixel_values with image_study and image_view, or encoder_outputs of encode()")
        if pixel_values is not None and (image_study is None or image_view is None):
            raise ValueError(
                "pixel_values came without image_study or image_view; both are needed, one number per image"
            )
        if encoder_outputs is None:
            studies = input_ids.shape[0] if study_index is None else None
            encoder_outputs = self.model(pixel_values, image_study, image_view, studies)
        check_encoder_outputs(encoder_outputs)
        features, view_mask = encoder_outputs.view_features, encoder_outputs.view_mask
        if not torch.compiler.is_compiling():
            check_questions(input_ids, attention_mask, study_index, features.shape[0])
        if study_index is not None:
            features, view_mask = features[study_index], view_mask[study_index]

        questions, _, queries, hidden = features.shape
        text = self.get_input_embeddings()(input_ids)
        tokens = self.prefix_embeddings(torch.arange(len(PREFIX_TOKENS), device=text.device)).to(text.dtype)
        tokens = tokens.expand(questions, -1, -1)
        blocks = torch.cat([tokens[:, : len(VIEWS), None], features.to(text.dtype)], dim=2)  # (questions, 3, 1 + q, ..)
        embeds = torch.cat([blocks.reshape(questions, -1, hidden), tokens[:, len(VIEWS) :], text], dim=1)

        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        mask = attention_mask.new_ones(questions, len(VIEWS), 1 + queries)
        if self.config.mask_missing_views:
            mask[:, :, 1:] = view_mask[..., None].to(mask.dtype)
        question_mark = attention_mask.new_ones(questions, 1)
        return embeds, torch.cat([mask.reshape(questions, -1), question_mark, attention_mask], dim=1)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        image_study: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
        labels: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Logits, and the loss when there are labels.

        Args:
            input_ids: (questions, tokens), `Question: .. Answer:`, padded on the right.
            attention_mask: (questions, tokens), 0 on padding.
            pixel_values: (images, 3, H, W), the images of all studies.
            image_study: (images,) the study of each image.
            image_view: (images,) 0 AP, 1 PA, 2 LAT.
            study_index: (questions,) the study of each question; None when there is one question per study, in order.
            encoder_outputs: What `encode` gave, in place of the three image arguments.
            labels: (questions, tokens), -100 on padding.
            decoder_input_ids: (questions, tokens), made from `labels` when None.
            decoder_attention_mask: (questions, tokens).
            num_items_in_batch: Tokens by which the summed loss is divided (Trainer passes it under gradient
                accumulation); the mean over this batch's labels when None.
            **kwargs: Passed to the language model: `past_key_values`, `use_cache`, and what every transformers model
                takes, such as `output_attentions`.

        Raises:
            ValueError: An argument is missing or does not fit; the message says which and what is allowed.
            TypeError: An argument is of another type, or unknown.
        """
        check_names(kwargs)
        language_model = self.language_model
        if not torch.compiler.is_compiling():
            vocabulary = language_model.get_input_embeddings().num_embeddings
            check_text(input_ids, labels, vocabulary, self.config.max_answer_tokens)
        embeds, mask = self.prepare_language_inputs(
            input_ids, attention_mask, pixel_values, image_study, image_view, study_index, encoder_outputs
        )
        if labels is None and decoder_input_ids is None:
            raise ValueError(
                "neither labels nor decoder_input_ids was passed; pass labels for a loss, decoder_input_ids for "
                "logits, or call generate for answers"
            )
        if decoder_input_ids is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = language_model(
            inputs_embeds=embeds,
            attention_mask=mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            **{**kwargs, "return_dict": True},
        )
        if labels is not None:
            logits = outputs.logits.flatten(0, 1)
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # half precision is too coarse to sum
            reduction = "mean" if num_items_in_batch is None else "sum"
            wanted = labels.flatten().to(logits.device, torch.long)
            loss = nn.functional.cross_entropy(logits, wanted, reduction=reduction)
            outputs.loss = loss if num_items_in_batch is None else loss / num_items_in_batch
        return outputs

    @torch.no_grad()
    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        image_study: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
        generation_config: GenerationConfig | None = None,
        **kwargs,
    ):
        """Generate answers as token ids (questions, tokens).

        Takes the inputs of `forward`, and what `generate` takes anywhere. What neither `generation_config` nor a
        setting says is as in this model's `generation_config`. The released model was tested with two beams.
        """
        vocabulary = self.language_model.get_input_embeddings().num_embeddings
        check_text(input_ids, None, vocabulary, self.config.max_answer_tokens)
        embeds, mask = self.prepare_language_inputs(
            input_ids, attention_mask, pixel_values, image_study, image_view, study_index, encoder_outputs
        )
        generation_config, kwargs = self._complete(generation_config, kwargs)
        return self.language_model.generate(
            inputs_embeds=embeds, attention_mask=mask, generation_config=generation_config, **kwargs
        )

    def _complete(self, given: GenerationConfig | None, settings: dict) -> tuple[GenerationConfig, dict]:
        """The whole configuration of a generation, and what of `settings` is no part of one.

        A setting comes before `given`, and that before this model's configuration: the language model, left to
        itself, would complete them by its own.
        """
        completed = GenerationConfig() if given is None else copy.deepcopy(given)
        settings = completed.update(**settings)
        only_length = completed.max_length is not None and completed.max_new_tokens is None
        completed.update(**self.generation_config.to_dict(), defaults_only=True, allow_custom_entries=True)
        if only_length:
            completed.max_new_tokens = None  # it would win over the length that was asked for
        return completed, settings

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """What the decoder reads to predict `labels` (questions, tokens): shifted right, -100 replaced by padding."""
        return self.language_model.prepare_decoder_input_ids_from_labels(labels=labels)

    @classmethod
    def from_blip2(cls, path: str, **kwargs) -> "Blip2MultiViewForConditionalGeneration":
        """Start from a BLIP-2 checkpoint, say "Salesforce/blip2-flan-t5-xl": see `start_from_blip2`."""
        return start_from_blip2(cls, path, **kwargs)

    def untie_distinct_weights(self) -> None:
        """Take the language model's output layer out of its ties if it is another tensor than the embeddings.

        FLAN-T5 has such a layer and T5 has not, but transformers' configuration of both says that it is tied, and
        `tie_weights`, which `resize_token_embeddings` calls too, would overwrite it with the embeddings.
        """
        output, table = self.get_output_embeddings(), self.get_input_embeddings()
        if output.weight is not table.weight:
            self.config.tie_output_layer = False
            self._untie_output_layer()

    def _untie_output_layer(self) -> None:
        language_model = self.language_model
        output = self.get_output_embeddings()
        name = next(name for name, module in language_model.named_modules() if module is output) + ".weight"
        # On the instance, so that whoever asks later, such as tie_weights, gets the same answer.
        ties = language_model._tied_weights_keys
        language_model._tied_weights_keys = {target: source for target, source in ties.items() if target != name}
        language_model.all_tied_weights_keys.pop(name, None)
        self.all_tied_weights_keys.pop(f"language_model.{name}", None)
