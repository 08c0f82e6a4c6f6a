"""BLIP-2-MultiView: BLIP-2 with one Q-Former, one set of queries and one projection per radiographic view.

The language model's encoder reads `[AP] q.. [PA] q.. [LAT] q.. [Q] question` (Section 5.2 of the MIMIC-CXR-VQA paper).
The model adds everything up to `[Q]`. Features of missing views are multiplied by zero, as in the released code.

Differences from the released model:
- All images of a batch go through the vision tower in one call, and through each Q-Former once per view.
- The four new token embeddings belong to this model (`prefix_embeddings`) and not to the language model's table. They
  are trained while that table is frozen or quantised, and the tokenizer is unchanged.
- A study's images are encoded once for all its questions (`study_index`).
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    Blip2ForConditionalGeneration,
    Blip2QFormerModel,
    Blip2VisionModel,
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import ModelOutput, can_return_tuple

from .checking_blip2_multiview import (
    check_images,
    check_names,
    check_questions,
    check_text,
)
from .configuration_blip2_multiview import PREFIX_TOKENS, VIEWS, Blip2MultiViewConfig
from .publishing_blip2_multiview import GuardedPush


@dataclass
class Blip2MultiViewOutput(ModelOutput):
    """Encoded images of a batch of studies.

    Args:
        view_features: (studies, 3, queries, text hidden size), zeros where the study lacks the view.
        view_mask: (studies, 3), True if the study has the view.
    """

    view_features: Any = None
    view_mask: Any = None


class Blip2ViewBranch(nn.Module):
    """Queries, Q-Former and projection of one view."""

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__()
        qformer = config.qformer_config
        self.query_tokens = nn.Parameter(torch.zeros(1, config.num_query_tokens, qformer.hidden_size))
        self.qformer = Blip2QFormerModel._from_config(qformer)
        self.projection = nn.Linear(qformer.hidden_size, config.text_config.hidden_size)

    def forward(self, image_states: torch.Tensor, image_study: torch.Tensor, studies: int) -> torch.Tensor:
        """Features (studies, queries, text hidden size) of the images (images, patches, hidden) of this view.

        A study's images are averaged after the Q-Former. The caller masks studies without an image.
        """
        queries = self.query_tokens.expand(image_states.shape[0], -1, -1)
        states = self.qformer(query_embeds=queries, encoder_hidden_states=image_states).last_hidden_state
        total = states.new_zeros(studies, *states.shape[1:]).index_add(0, image_study, states)
        count = torch.bincount(image_study, minlength=studies).clamp(min=1)
        return self.projection((total / count[:, None, None]).to(self.projection.weight.dtype))


class Blip2ViewBranches(nn.Module):
    """The three branches in one module, so that peft can train them by one name."""

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__()
        self.by_view = nn.ModuleDict({view: Blip2ViewBranch(config) for view in VIEWS})
        self.block_shape = (config.num_query_tokens, config.text_config.hidden_size)

    def forward(
        self, image_states: torch.Tensor, image_study: torch.Tensor, image_view: torch.Tensor, studies: int
    ) -> Blip2MultiViewOutput:
        """Route image states (images, patches, hidden) to the branches of their views.

        In training a branch without an image runs on the first image and its block is multiplied by zero, because
        distributed training needs a gradient of every trained weight on every process.
        """
        mask = torch.zeros(studies, len(VIEWS), dtype=torch.bool, device=image_states.device)
        mask[image_study, image_view] = True
        blocks = []
        for number, branch in enumerate(self.by_view.values()):
            chosen = image_view == number
            if chosen.any():
                block = branch(image_states[chosen], image_study[chosen], studies)
            elif self.training:
                block = branch(image_states[:1], torch.zeros_like(image_study[:1]), studies)
            else:
                # On the images' device, because an offloaded branch has none.
                dtype = branch.projection.weight.dtype
                blocks.append(image_states.new_zeros(studies, *self.block_shape, dtype=dtype))
                continue
            blocks.append(block * mask[:, number, None, None].to(block.dtype))
        return Blip2MultiViewOutput(view_features=torch.stack(blocks, dim=1), view_mask=mask)


class Blip2MultiViewPreTrainedModel(GuardedPush, PreTrainedModel):
    config: Blip2MultiViewConfig
    base_model_prefix = "model"
    main_input_name = "pixel_values"
    input_modalities = ("image", "text")
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True
    # The trained parts stay in float, because transformers does not quantise modules that are kept in float32.
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
        """Load as transformers does, then freeze again, because loading sets `requires_grad` on every float weight."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.untie_distinct_weights()
        model.freeze_for_training()
        return loaded

    def untie_distinct_weights(self) -> None:
        """Untie the language model's output layer if it differs from the embeddings."""

    def freeze_for_training(self) -> None:
        """Freeze everything except the Q-Formers, queries, projections and prefix embeddings."""
        self.requires_grad_(False)
        for name, module in self.named_modules():
            if name.rpartition(".")[2] in self.TRAINED_MODULES:
                module.requires_grad_(True)

    def save_pretrained(self, save_directory, **kwargs):
        """Save as transformers does, with the classes of both AutoModel and AutoModelForImageTextToText."""
        if self._auto_class is not None:
            module = type(self).__module__.rsplit(".", 1)[-1]
            self.config.auto_map = {
                **(getattr(self.config, "auto_map", None) or {}),
                "AutoModel": f"{module}.{Blip2MultiViewModel.__name__}",
                "AutoModelForImageTextToText": f"{module}.{Blip2MultiViewForConditionalGeneration.__name__}",
            }
        return super().save_pretrained(save_directory, **kwargs)


class Blip2MultiViewModel(Blip2MultiViewPreTrainedModel):
    """Vision tower and branches, which encode images into features per study and view."""

    # No warning when a whole checkpoint is loaded into this part.
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
        pixel_values: torch.Tensor | None,
        num_images: torch.Tensor,
        image_view: torch.Tensor,
        image_features: torch.Tensor | None = None,
    ) -> Blip2MultiViewOutput:
        """Encode the images of a batch of studies.

        Args:
            pixel_values: (images, 3, H, W), the images of all studies, one study after the other.
            num_images: (studies,) number of images of each study.
            image_view: (images,) 0 AP, 1 PA, 2 LAT.
            image_features: (images, tokens, hidden), what the vision tower returned, instead of `pixel_values`.

        Raises:
            ValueError: a wrong shape, an index out of range, or a study without an image.
        """
        if image_features is not None:
            image_states = image_features.to(self.vision_model.dtype)
        else:
            if not torch.compiler.is_compiling():
                check_images(pixel_values, num_images, image_view, self.config.vision_config.image_size)
            image_states = self.vision_model(pixel_values=pixel_values).last_hidden_state
        studies = torch.arange(len(num_images), device=num_images.device)
        image_study = studies.repeat_interleave(num_images, output_size=len(image_states)).to(image_states.device)
        return self.branches(image_states, image_study, image_view, len(num_images))


class Blip2MultiViewForConditionalGeneration(Blip2MultiViewPreTrainedModel, GenerationMixin):
    """Answers questions about studies. Vision tower and language model are frozen by default."""

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
        # post_init copies the keys that Blip2MultiViewModel ignores, but this class should warn about them.
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
        pixel_values: torch.Tensor | None = None,
        num_images: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        image_features: torch.Tensor | None = None,
    ) -> Blip2MultiViewOutput:
        """Encode images once. `forward` and `generate` take the result as `encoder_outputs` instead of images."""
        return self.model(pixel_values, num_images, image_view, image_features)

    def prepare_language_inputs(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        num_images: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the language model's encoder: embeddings (questions, 3 + 3 queries + 1 + tokens, hidden) and mask.

        Raises:
            ValueError: neither or both of images and `encoder_outputs`, or questions and studies do not fit together.
        """
        if (pixel_values is None) == (encoder_outputs is None):
            raise ValueError("Pass either pixel_values with num_images and image_view, or encoder_outputs of encode().")
        if encoder_outputs is None:
            if num_images is None or image_view is None:
                raise ValueError(
                    "pixel_values needs num_images, a number per study, and image_view, a number per image."
                )
            encoder_outputs = self.model(pixel_values, num_images, image_view)
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

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        num_images: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
        labels: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        image_features: torch.Tensor | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Return logits, and the loss if there are `labels`.

        Args:
            input_ids: (questions, tokens), `Question: .. Answer:`, padded on the right.
            attention_mask: (questions, tokens), 0 on padding.
            pixel_values: (images, 3, H, W), the images of all studies, one study after the other.
            num_images: (studies,) number of images of each study.
            image_view: (images,) 0 AP, 1 PA, 2 LAT.
            study_index: (questions,) the study of each question. None if question i is about study i.
            encoder_outputs: what `encode` returned, instead of the three image arguments.
            labels: (questions, tokens), -100 on padding.
            decoder_input_ids: (questions, tokens), by default made from `labels`.
            decoder_attention_mask: (questions, tokens).
            num_items_in_batch: number of tokens by which the summed loss is divided, as Trainer passes it. By default
                the loss is a mean.
            image_features: features instead of `pixel_values`, see `Blip2MultiViewModel.forward`.
            **kwargs: arguments of every transformers model, such as `past_key_values` and `output_attentions`.

        Raises:
            ValueError: an argument is missing or does not fit.
            TypeError: an unknown argument.
        """
        check_names(kwargs)
        if image_features is not None:
            encoder_outputs = self.encode(None, num_images, image_view, image_features)
        language_model = self.language_model
        if not torch.compiler.is_compiling():
            vocabulary = language_model.get_input_embeddings().num_embeddings
            check_text(input_ids, labels, vocabulary, self.config.max_answer_tokens)
        embeds, mask = self.prepare_language_inputs(
            input_ids, attention_mask, pixel_values, num_images, image_view, study_index, encoder_outputs
        )
        if labels is None and decoder_input_ids is None:
            raise ValueError("Pass labels for a loss or decoder_input_ids for logits, or call generate for answers.")
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
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # half precision is too coarse
            reduction = "mean" if num_items_in_batch is None else "sum"
            wanted = labels.flatten().to(logits.device, torch.long)
            loss = nn.functional.cross_entropy(logits, wanted, reduction=reduction)
            loss = loss if num_items_in_batch is None else loss / num_items_in_batch
            # Rebuilt so that the loss comes first in a tuple.
            outputs = Seq2SeqLMOutput(loss=loss, **outputs)
        return outputs

    @torch.no_grad()
    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        num_images: torch.Tensor | None = None,
        image_view: torch.Tensor | None = None,
        study_index: torch.Tensor | None = None,
        encoder_outputs: Blip2MultiViewOutput | None = None,
        generation_config: GenerationConfig | None = None,
        **kwargs,
    ):
        """Generate answers as token ids (questions, tokens).

        Takes the inputs of `forward` and the arguments of transformers' `generate`. The released model was tested with
        two beams.
        """
        vocabulary = self.language_model.get_input_embeddings().num_embeddings
        check_text(input_ids, None, vocabulary, self.config.max_answer_tokens)
        embeds, mask = self.prepare_language_inputs(
            input_ids, attention_mask, pixel_values, num_images, image_view, study_index, encoder_outputs
        )
        generation_config, kwargs = self._complete(generation_config, kwargs)
        return self.language_model.generate(
            inputs_embeds=embeds, attention_mask=mask, generation_config=generation_config, **kwargs
        )

    def _complete(self, given: GenerationConfig | None, settings: dict) -> tuple[GenerationConfig, dict]:
        """Combine `settings`, `given` and this model's `generation_config`, in this order of precedence.

        Returns:
            The configuration, and the settings that are not part of one. Otherwise the language model's own
            `generation_config` would fill the gaps.
        """
        completed = GenerationConfig() if given is None else copy.deepcopy(given)
        settings = completed.update(**settings)
        only_length = completed.max_length is not None and completed.max_new_tokens is None
        completed.update(**self.generation_config.to_dict(), defaults_only=True, allow_custom_entries=True)
        if only_length:
            completed.max_new_tokens = None  # it would override the given max_length
        return completed, settings

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """`labels` (questions, tokens) shifted right, with padding instead of -100."""
        return self.language_model.prepare_decoder_input_ids_from_labels(labels=labels)

    @classmethod
    def from_blip2(cls, path: str, **kwargs) -> "Blip2MultiViewForConditionalGeneration":
        """Start from a BLIP-2 checkpoint such as "Salesforce/blip2-flan-t5-xl". See `start_from_blip2`."""
        return start_from_blip2(cls, path, **kwargs)

    def untie_distinct_weights(self) -> None:
        """Untie the language model's output layer if it differs from the embeddings, as in FLAN-T5.

        transformers' configuration declares it as tied, and `tie_weights` would overwrite it with the embeddings.
        """
        output, table = self.get_output_embeddings(), self.get_input_embeddings()
        if output.weight is not table.weight:
            self.config.tie_output_layer = False
            self._untie_output_layer()

    def _untie_output_layer(self) -> None:
        language_model = self.language_model
        output = self.get_output_embeddings()
        name = next(name for name, module in language_model.named_modules() if module is output) + ".weight"
        # On the instance, so that later calls such as tie_weights use it.
        ties = language_model._tied_weights_keys
        language_model._tied_weights_keys = {target: source for target, source in ties.items() if target != name}
        language_model.all_tied_weights_keys.pop(name, None)
        self.all_tied_weights_keys.pop(f"language_model.{name}", None)


def start_from_blip2(model_class: type[PreTrainedModel], path: str, **kwargs) -> PreTrainedModel:
    """Return a model in evaluation mode with the weights of a BLIP-2 checkpoint.

    The four new token embeddings are drawn with the mean and standard deviation of the language model's embeddings and
    a fixed seed. The trained parts are in float32 if the checkpoint is loaded in float16.

    Args:
        model_class: `Blip2MultiViewForConditionalGeneration`.
        path: folder or Hub id of a `Blip2ForConditionalGeneration` with an encoder-decoder language model.
        **kwargs: passed to its `from_pretrained`, such as `dtype` and `attn_implementation`.

    Raises:
        ValueError: the checkpoint is not a BLIP-2, or its language model is decoder-only.
        OSError: the checkpoint does not exist.
    """
    if kwargs.get("quantization_config"):
        raise ValueError(
            "from_blip2 does not take quantization_config. Save its result without it, then load that with "
            "from_pretrained(folder, quantization_config=...)."
        )
    found, _ = AutoConfig.from_pretrained(path, return_unused_kwargs=True, **kwargs)
    if found.model_type != "blip-2":
        raise ValueError(f"{path} is a checkpoint of model_type {found.model_type!r}. Expected 'blip-2'.")
    if found.use_decoder_only_language_model:
        raise ValueError(
            f"The language model of {path} is {found.text_config.model_type!r}, which is decoder-only. Expected a "
            "T5-like model, as in Salesforce/blip2-flan-t5-xl."
        )
    blip2 = Blip2ForConditionalGeneration.from_pretrained(path, **kwargs)
    config = Blip2MultiViewConfig(
        vision_config=blip2.config.vision_config,
        qformer_config=blip2.config.qformer_config,
        text_config=blip2.config.text_config,
        num_query_tokens=blip2.config.num_query_tokens,
        dtype=blip2.vision_model.dtype,  # BLIP-2 reports that of its Q-Former, which it keeps in float32
    )
    with torch.device("meta"):  # every weight is replaced below
        model = model_class(config)
    model.model.vision_model = blip2.vision_model
    model.language_model = blip2.language_model
    for branch in model.model.branches.by_view.values():
        branch.qformer = copy.deepcopy(blip2.qformer)
        branch.query_tokens = nn.Parameter(blip2.query_tokens.detach().clone())
        branch.projection = copy.deepcopy(blip2.language_projection)
    table = model.get_input_embeddings().weight.detach()
    noise = torch.randn(len(PREFIX_TOKENS), table.shape[1], generator=torch.Generator().manual_seed(0))
    rows = table.float().mean(0) + noise.to(table.device) * table.float().std(0)
    model.prefix_embeddings.weight = nn.Parameter(rows.to(blip2.language_projection.weight.dtype))
    if config.dtype == torch.float16:
        for part in (model.model.branches, model.prefix_embeddings):
            part.float()
    if kwargs.get("attn_implementation") is not None:
        model.set_attn_implementation(kwargs["attn_implementation"])  # a new model has the default
    model.untie_distinct_weights()
    model.freeze_for_training()
    return model.eval()
