"""The registry of model families and the interface that a family implements.

To add a family, write a subclass of `ModelFamily` in its own file and add a line to FAMILIES. The family's name is the
`model_type` of its configuration, its import package, and `model.kind` of its recipes. Commands and names of
recipe files spell it with hyphens.

All models also share this interface. Q questions are about S studies.

    processor(images=None, text=None, answers=None, study_index=None)    a batch
        images: S lists of PIL images. Alone, they give the image inputs only.
        text: Q questions. Evaluation, validation and feature caches call the processor with text but without images,
            so a prompt with placeholders has a fixed number of them.
        answers: Q texts. They add `labels`, which are -100 outside of the answer and its [EOS].
        study_index: Q integers, the study of each question, which the batch has as a tensor. Without it, question i is
            about study i.
        The batch has `input_ids` and `attention_mask` (Q, tokens). A decoder-only model's prompts end with a token that
        the answer follows and are padded on the left. With answers, padding is on the right. Everything that is not in
        TEXT_KEYS is an image input.
    processor.batch_decode(sequences, skip_special_tokens=True)          answers as text, without the prompts
    processor.tokenizer
    processor.max_images, .image_size, .resize_size                      optional, limit what is decoded
    model.encode(**image inputs)                                         ModelOutput of tensors, once for all questions
    model(**prompts, study_index, encoder_outputs or image inputs, labels, num_items_in_batch)    .logits, .loss
        num_items_in_batch: divides the sum of the losses of all label tokens. None: their number.
        logits_to_keep: of a decoder-only model, as in transformers.
    model.generate(**prompts, study_index, encoder_outputs, …)           answers as token ids
    model.config.image_token_id      of a decoder-only model with placeholders: generation_config.suppress_tokens
                                     must contain it (`check_placeholder`)
"""

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from medvqa_core.errors import ConfigError
from medvqa_core.json_files import read_object
from medvqa_core.model_folder import find_model_folder
from medvqa_core.registry import load_entry
from medvqa_hub.families.folders import ANOTHER, as_config_error

FAMILIES = {  # name -> module and class
    "swin_ved": "medvqa_hub.families.swin_ved:SwinVed",
    "blip2_multiview": "medvqa_hub.families.blip2_multiview:Blip2MultiView",
}
# Keys of a batch that are not image inputs.
TEXT_KEYS = ("input_ids", "attention_mask", "position_ids", "labels", "study_index", "rows", "number")
NO_DECAY = re.compile(r"bias$|norm", re.IGNORECASE)


class ModelFamily(ABC):
    """One kind of model.

    Attributes:
        name: see the module.
        title: the name for readers.
        settings: the `Section` of a recipe's `model`. Its first field is `kind`, the name.
        groups: parameter group -> pattern of parameter names, tried in this order. A group without a learning rate is
            frozen: it gets no gradient and runs in evaluation mode, so a frozen encoder gives the features that it was
            trained to give.
        augments: whether its processor can augment images.
        encoder_group: the group of the image encoder, if it can be trained.
        pads_targets: whether the released code counts padding among the targets (`training.targets: released`).
        keeps_its_base: whether most weights are never trained. Checkpoints then hold the trained weights only.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[type]
    groups: ClassVar[Mapping[str, str]]
    augments: ClassVar[bool] = False
    keeps_its_base: ClassVar[bool] = False
    pads_targets: ClassVar[bool] = False
    encoder_group: ClassVar[str | None] = None

    def register(self) -> None:
        """Register the model with transformers' Auto classes, which importing its package does."""
        importlib.import_module(self.name)

    def check(self, settings: Any, rates: Mapping[str, float]) -> None:
        """Raise a ConfigError if settings, or learning rates of groups, contradict each other."""
        return

    @abstractmethod
    def new(self, settings: Any, texts: Iterable[str], scratch: Path | None) -> tuple[Any, Any]:
        """Model and processor as `settings` describe them.

        Args:
            texts: questions and answers of the training split, for a tokenizer that is to be trained.
            scratch: folder for a model that must be saved before it can be quantised.
        """

    @abstractmethod
    def load(self, settings: Any, folder: Path) -> tuple[Any, Any]:
        """Model and processor of a checkpoint to train further. Raises ConfigError if it differs from `settings`."""

    @abstractmethod
    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **text: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """Make a batch with the processor.

        Args:
            images: the images of each study.
            views: the view of each image.
            augment: draw the training augmentation from `seed`.
            text: the processor's `text`, `answers`, `study_index` and `released_targets`. Without them only images
                are encoded.
        """

    def use_released_targets(self, model: Any, processor: Any) -> None:
        """Prepare a model to be trained with `training.targets: released` (only if `pads_targets`)."""
        raise NotImplementedError(f"{self.title} has pads_targets, but does not implement use_released_targets")

    def image_encoder(self, model: Any) -> Any:
        """The part of `model` that turns pixels (images, 3, H, W) into features, for cached features."""
        raise ConfigError(
            f"{self.title} does not support cached features. Set data.cache_features to null, or leave out "
            "--feature-cache"
        )

    def make_encoder(self, settings: Any, start: Path | None) -> Any:
        """An image encoder like that of the recipe's model, with random weights, to estimate the cost of cached
        features. None: its sizes are not known without a download."""
        return None

    def arrange_images(self, processor: Any, images: list[list], views: list[list]) -> tuple[list[Any], dict[str, Any]]:
        """The images that the processor would keep, in order, and the model's image inputs other than pixels.

        Only called for cached features, by families that implement `image_encoder`.
        """
        raise NotImplementedError(f"{self.title} has an image_encoder, but does not implement arrange_images")

    def view_is_known(self, settings: Any) -> Callable[[str | None], bool] | None:
        """A function that tells whether the model can use an image of a view. None: all views."""
        return None

    def card_values(self, config: Any) -> dict[str, Any]:
        """Values that only this model's card template, `hub_cards/NAME.md.jinja`, uses."""
        return {}

    def open(
        self, settings: Any, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
    ) -> tuple[Any, Any]:
        """Model and processor to train: from the checkpoint `init`, or new with weights drawn from `seed`.

        Raises:
            ConfigError: the checkpoint is damaged, its model, tokenizer or size differs from the recipe's, or the model
                can generate its image placeholder.
            InputError: the checkpoint is missing.
        """
        import torch

        torch.manual_seed(seed)
        with as_config_error():
            model, processor = self.new(settings, texts, scratch) if init is None else self._load(settings, init)
        check_placeholder(model)
        return model, processor

    def _load(self, settings: Any, init: Path) -> tuple[Any, Any]:
        folder = find_model_folder(init)
        if (folder / "adapter_config.json").exists():
            raise ConfigError(
                f"{folder} holds a LoRA adapter, not a whole model. Merge it into its base first (peft: "
                "merge_and_unload), or resume its run in the same output folder"
            )
        found = str(read_object(folder / "config.json", ANOTHER).get("model_type"))
        if found != self.name:
            raise ConfigError(
                f"{folder} is a checkpoint of {found!r}, and this recipe trains {self.name!r}. Choose another "
                "checkpoint or another recipe"
            )
        return self.load(settings, folder)

    def find_group(self, name: str) -> str | None:
        """The group of a parameter. None: always frozen."""
        return next((group for group, pattern in self.groups.items() if re.search(pattern, name)), None)

    def freeze_groups(self, model: Any, rates: Mapping[str, float]) -> None:
        """Enable gradients in exactly the groups with a rate above 0.

        Raises:
            ConfigError: all parameters of a group to be trained are missing or quantised.
        """
        sizes = dict.fromkeys((group for group, rate in rates.items() if rate), 0)
        for name, parameter in model.named_parameters():
            group = self.find_group(name)
            # peft keeps a frozen copy of each module that it trains whole.
            trained = group in sizes and parameter.is_floating_point() and ".original_module." not in name
            parameter.requires_grad_(trained)
            if trained and group is not None:
                sizes[group] += parameter.numel()
        empty = [group for group, size in sizes.items() if not size]
        if empty:
            raise ConfigError(
                f"training.learning_rates.{empty[0]} is {rates[empty[0]]}, but this model has no such parameters to "
                "train. Set it to 0"
            )

    def optimizer_groups(self, model: Any, rates: Mapping[str, float], weight_decay: float) -> list[dict[str, Any]]:
        """Two optimizer groups per trained group: weights, and biases and norms, which never decay."""
        groups: dict[tuple[str, bool], dict[str, Any]] = {}
        for group, rate in rates.items():
            for decays in (True, False):
                decay = weight_decay if decays else 0.0
                groups[group, decays] = {"params": [], "lr": float(rate), "weight_decay": decay, "name": group}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups[str(self.find_group(name)), not NO_DECAY.search(name)]["params"].append(parameter)
        return [group for group in groups.values() if group["params"]]


@cache
def _load_family(place: str) -> ModelFamily:
    return load_entry(place)()


def find_family(name: str) -> ModelFamily:
    """The family of a `model_type` or of a recipe's `model.kind`. Raises ConfigError if it is unknown."""
    if name not in FAMILIES:
        raise ConfigError(f"unknown model family {name!r}. Allowed: {', '.join(FAMILIES)}")
    return _load_family(FAMILIES[name])


def unwrap(model: Any) -> Any:
    """The model inside wrappers of torch.compile and distributed training."""
    model = getattr(model, "_orig_mod", model)
    return getattr(model, "module", model)


def is_decoder_only(model: Any) -> bool:
    """Whether `model` continues its prompt, instead of writing into a decoder that reads the encoded prompt.

    The answers of a decoder-only model include the prompt, its labels include places for it, and its logits at a place
    predict the next token.
    """
    return not model.config.is_encoder_decoder


def check_placeholder(model: Any) -> None:
    """Raise a ConfigError if a decoder-only model can generate the placeholder of its image features.

    Answers are read again as `input_ids`, where a placeholder in an answer would ask for features that do not exist.
    """
    token = getattr(model.config, "image_token_id", None)
    if token is None or not is_decoder_only(model) or token in (model.generation_config.suppress_tokens or ()):
        return
    raise ConfigError(
        f"this model can generate its image placeholder (config.image_token_id {token}). Set "
        f"model.generation_config.suppress_tokens = [{token}] before it is saved"
    )


def through_first_eos(tokens: Any, eos_token_id: int | Sequence[int]) -> Any:
    """Boolean mask (rows, tokens) of each answer: all tokens through its first [EOS], or all if there is none.

    Padding is not considered, since a model may sample the padding token inside an answer.

    Args:
        tokens: (rows, tokens) generated answers, without their prompts.
        eos_token_id: the token, or tokens, that end an answer.
    """
    import torch

    ends = torch.isin(tokens, torch.as_tensor(eos_token_id, device=tokens.device))
    return ends.long().cumsum(1) - ends.long() == 0


def image_inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `model.encode` in a batch."""
    return {name: value for name, value in batch.items() if name not in TEXT_KEYS}


def frozen_modules(model: Any) -> list[Any]:
    """The largest modules whose parameters are all frozen. Modules without parameters count only inside of these."""
    parameters = list(model.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return [model]
    return [module for child in model.children() for module in frozen_modules(child)]
