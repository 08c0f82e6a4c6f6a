"""The table of model families: all that training, evaluation and loading ask of a model.

A family is a file beside this one with a subclass of `ModelFamily`, and a line in FAMILIES. Its name is the
`model_type` of its configuration, its import package, and `model.kind` of its recipes; on the command line, and in the
names of the shipped recipes, underscores are hyphens, as is usual there.

What else a model must offer is the same for all:

    processor(text=questions), .batch_decode(sequences), .tokenizer      prompts, answers as text
                                     it may say max_images, image_size, resize_size: what need not be decoded
    model.encode(**image inputs)                                         features of studies, once for all questions
    model(**prompts, study_index, encoder_outputs or image inputs, labels, num_items_in_batch)    .logits, .loss
    model.generate(**prompts, study_index, encoder_outputs, …)           answers as token ids
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
from medvqa_hub.families.folders import ANOTHER, as_config_error, find_model_folder

# Name -> module and class of the family. One more model is its file and a line here.
FAMILIES = {
    "swin_ved": "medvqa_hub.families.swin_ved:SwinVed",
    "blip2_multiview": "medvqa_hub.families.blip2_multiview:Blip2MultiView",
}
WORDS = ("input_ids", "attention_mask", "labels", "study_index", "rows", "number")  # of a batch; the rest are images
NO_DECAY = re.compile(r"bias$|norm", re.IGNORECASE)


class ModelFamily(ABC):
    """One kind of model.

    Attributes:
        name: see the module.
        title: what people call it.
        settings: dataclass of a recipe's section `model`; its fields are made by `medvqa_core.settings.value`, and the
            first one is `kind`, the name.
        groups: parameter group -> pattern of its parameters' names, tried in this order. A group with learning rate 0,
            or without one, is frozen: it takes no gradient, and it runs as in evaluation, without dropout or dropped
            paths, so that a frozen encoder's features are those that it was trained to give.
        augments: whether its processor can augment images.
        keeps_its_base: whether most of it is never trained, so that a checkpoint to go on from holds the rest alone.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[type]
    groups: ClassVar[Mapping[str, str]]
    augments: ClassVar[bool] = False
    keeps_its_base: ClassVar[bool] = False

    def register(self) -> None:
        """Make transformers' Auto classes know the model: importing its package does."""
        importlib.import_module(self.name)

    def check(self, settings: Any, rates: Mapping[str, float]) -> None:
        """Raise a ConfigError if values of `settings`, or learning rates of groups, do not fit each other."""
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
        """Model and processor of a checkpoint to train further; what differs from `settings` is a ConfigError."""

    @abstractmethod
    def collate(
        self, processor: Any, images: list[list], views: list[list], augment: bool = False, seed: int | None = None,
        **words: Any,
    ) -> Mapping[str, Any]:  # fmt: skip
        """A batch by the processor.

        Args:
            images: per study its images; views: per study the view of each.
            augment: draw the training augmentation, from `seed`.
            words: the processor's `text`, `answers` and `study_index`; none encodes the images alone.
        """

    def view_is_known(self, settings: Any) -> Callable[[str | None], bool] | None:
        """Tells whether the model can use an image of a view; None: all of them."""
        return None

    def card_values(self, config: Any) -> dict[str, Any]:
        """What the model's card template, `hub_cards/NAME.md.jinja`, asks of a configuration beside what all ask."""
        return {}

    def open(
        self, settings: Any, init: Path | None, texts: Iterable[str], seed: int = 0, scratch: Path | None = None
    ) -> tuple[Any, Any]:
        """Model and processor to train: of the checkpoint `init`, or new ones with weights drawn from `seed`.

        Raises:
            ConfigError: the checkpoint is of another model, tokenizer or size than the recipe's, or damaged.
            InputError: there is no checkpoint.
        """
        import torch

        torch.manual_seed(seed)
        with as_config_error():
            if init is None:
                return self.new(settings, texts, scratch)
            folder = find_model_folder(init)
            if (folder / "adapter_config.json").exists():
                raise ConfigError(
                    f"{folder} holds a LoRA adapter, not a whole model; merge it into its base first (peft: "
                    "merge_and_unload), or go on with its run in the same output folder"
                )
            found = str(read_object(folder / "config.json", ANOTHER).get("model_type"))
            if found != self.name:
                raise ConfigError(
                    f"{folder} is a checkpoint of {found!r}, and this recipe trains {self.name!r}: name a checkpoint "
                    f"of {self.name!r}, or a recipe of the other model"
                )
            return self.load(settings, folder)

    def group_of(self, name: str) -> str | None:
        """The group that a parameter belongs to; None: always frozen."""
        return next((group for group, pattern in self.groups.items() if re.search(pattern, name)), None)

    def freeze_groups(self, model: Any, rates: Mapping[str, float]) -> None:
        """Let exactly the groups with a rate above 0 take gradients.

        Raises:
            ConfigError: a group that is to be trained has no parameter in this model, or only quantised ones.
        """
        found = dict.fromkeys((group for group, rate in rates.items() if rate), 0)
        for name, parameter in model.named_parameters():
            group = self.group_of(name)
            # peft keeps a frozen twin of each module that it trains whole.
            trained = group in found and parameter.is_floating_point() and ".original_module." not in name
            parameter.requires_grad_(trained)
            if trained:
                found[group] += parameter.numel()
        empty = [group for group, size in found.items() if not size]
        if empty:
            raise ConfigError(
                f"training.learning_rates.{empty[0]} is {rates[empty[0]]}, but this model has nothing there to train; "
                "set it to 0"
            )

    def optimizer_groups(self, model: Any, rates: Mapping[str, float], weight_decay: float) -> list[dict[str, Any]]:
        """Per trained group its weights, and its biases and norms, which never decay; each with its group's `name`."""
        groups = []
        for group, rate in rates.items():
            for decays in (True, False):
                parameters = [
                    parameter
                    for name, parameter in model.named_parameters()
                    if parameter.requires_grad
                    and self.group_of(name) == group
                    and (not NO_DECAY.search(name)) == decays
                ]
                if parameters:
                    decay = weight_decay if decays else 0.0
                    groups.append({"params": parameters, "lr": float(rate), "weight_decay": decay, "name": group})
        return groups


@cache
def _load_family(place: str) -> ModelFamily:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)()


def find_family(name: str) -> ModelFamily:
    """The family of a `model_type`, or of a recipe's `model.kind`. Raises ConfigError where there is none."""
    if name not in FAMILIES:
        raise ConfigError(f"there is no model family {name!r}; allowed: {', '.join(FAMILIES)}")
    return _load_family(FAMILIES[name])


def is_decoder_only(model: Any) -> bool:
    """How `model` writes: on from its prompt (True), or into a decoder of its own that reads the encoded prompt.

    A decoder-only model's answers come with the prompt in front of them, its labels stand among the prompt's places,
    and its logits at a place predict the next one.
    """
    return not model.config.is_encoder_decoder


def through_first_eos(tokens: Any, eos_token_id: int | Sequence[int]) -> Any:
    """Mask (rows, tokens) bool of what belongs to each answer: all tokens up to and with its first [EOS].

    An answer that was cut off before any [EOS] counts whole. Padding is not asked for: a model may well sample the
    padding token inside an answer, and is then held to account for it.

    Args:
        tokens: (rows, tokens) generated answers, without their prompts.
        eos_token_id: the token, or tokens, that end an answer.
    """
    import torch

    ends = torch.isin(tokens, torch.as_tensor(eos_token_id, device=tokens.device))
    return ends.long().cumsum(1) - ends.long() == 0


def image_inputs(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What of a batch goes to `model.encode`."""
    return {name: value for name, value in batch.items() if name not in WORDS}


def frozen_modules(model: Any) -> list[Any]:
    """The largest modules without a trained parameter; those without any parameter at all only inside them."""
    parameters = list(model.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return [model]
    return [module for child in model.children() for module in frozen_modules(child)]
