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

Below the table is what the folder of a saved model says without loading it: `open_checkpoint`, and `governance_of` of
`medvqa_core.folder_class`.
"""

import contextlib
import hashlib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from medvqa_core.digests import digest_files
from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.folder_class import GOVERNANCE, governance_of, write_governance
from medvqa_core.governance import Governance
from medvqa_core.hub_fetch import announce_fetch
from medvqa_core.json_files import read_json, read_object

__all__ = ["GOVERNANCE", "governance_of", "write_governance"]  # of folder_class; what trains and loads takes them here

# Name -> module and class of the family. One more model is its file and a line here.
FAMILIES = {
    "swin_ved": "medvqa_hub.families.swin_ved:SwinVed",
    "blip2_multiview": "medvqa_hub.families.blip2_multiview:Blip2MultiView",
}
WORDS = ("input_ids", "attention_mask", "labels", "study_index", "rows", "number")  # of a batch; the rest are images
BEST_FOLDER = "best"  # in the folder of a training run
ANOTHER = "choose another folder"  # the remedy for one that cannot be read
# What the answers depend on; the rest of the folder (trainer state, logs, cards) may change without changing them.
_FILES = (
    "*.safetensors", "config.json", "generation_config.json", "adapter_config.json", "processor_config.json",
    "preprocessor_config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*",
    "merges.txt", "*.model",
)  # fmt: skip
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


def find_model_folder(path: Path) -> Path:
    """The folder with the weights: `path` itself, or the best model of a training run at `path`.

    Raises:
        InputError: there is neither.
    """
    for folder in (path, path / BEST_FOLDER):
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return folder
    raise InputError(
        f"{path}: no model there (looked for config.json and {BEST_FOLDER}/config.json); name a checkpoint's folder, "
        "or the output folder of medvqa-hub train"
    )


def refuse_other_sizes(folder: Path, wrong: Sequence[str]) -> None:
    """Raise a ConfigError if there is anything `wrong` about the sizes of the folder's model."""
    if wrong:
        raise ConfigError(
            f"{folder} is another model than the recipe's: {'; '.join(wrong)}. Use the recipe that it was trained with "
            "(its recipe.yaml says), or another checkpoint"
        )


def refuse_missing_weights(folder: str | Path, missing: Collection[str]) -> None:
    """Raise a ConfigError if weights are `missing`; transformers would go on with random ones in their place."""
    if missing:
        some = ", ".join(sorted(missing)[:3])
        raise ConfigError(f"{folder} lacks {len(missing)} weights ({some}, …): it is another model, or was cut short")


@contextlib.contextmanager
def as_config_error() -> Iterator[None]:
    """What transformers, tokenizers and our models raise on a wrong folder or value, as an error for the user."""
    from safetensors import SafetensorError

    try:
        yield
    # RuntimeError is what transformers raises on weights of another size.
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"the model cannot be made: {one_line(error)}") from error


@dataclass(frozen=True)
class Checkpoint:
    """Attributes:
    name: what the user called it.
    folder: where its files lie.
    kind: the name of its family.
    fingerprint: 32 hex digits of its weights, configuration, tokenizer and processor.
    governance: class of the data that it was trained on; `credentialed` where its folder does not say.
    """

    name: str
    folder: Path
    kind: str
    fingerprint: str
    governance: Governance


def open_checkpoint(model: str) -> Checkpoint:
    """Look at a checkpoint: a folder that `save_pretrained` wrote, the best model of a run, or a repository on the Hub.

    Raises:
        InputError: there is none, it is of another kind, it has no safetensors weights, or its processor is missing.
    """
    folder = Path(model).expanduser()
    folder = find_model_folder(folder) if folder.is_dir() else fetch_model(model)
    kind = _model_type(folder)
    if kind not in FAMILIES:
        raise InputError(
            f"{folder} is a model of type {kind!r}; evaluate cxr takes {' and '.join(FAMILIES)}: name the folder "
            "of a checkpoint that medvqa-hub train wrote"
        )
    files = sorted({path for pattern in _FILES for path in folder.glob(pattern) if path.is_file()})
    names = [path.name for path in files]
    if not any(name.endswith(".safetensors") for name in names):
        raise InputError(f"{folder} has a config.json and no *.safetensors weights; is the checkpoint complete?")
    if not any(name.startswith("tokenizer") for name in names):
        raise InputError(
            f"{folder} has no tokenizer; save the processor into the same folder: processor.save_pretrained(folder)"
        )
    digests = digest_files(files, "Reading the checkpoint")
    whole = "\n".join(f"{path.name} {digests[path]}" for path in files)
    fingerprint = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
    return Checkpoint(str(model), folder, kind, fingerprint, governance_of(folder))


def fetch_model(model: str) -> Path:
    """Folder with the files of a repository on the Hub: weights in safetensors, configuration, processor; no code.

    Raises:
        InputError: `model` is neither a folder nor a repository that can be read.
    """
    if Path(model).is_absolute() or model.startswith(".") or model.count("/") != 1:
        raise InputError(f"model {model}: no such folder, and no repository name (owner/name) either")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    announce_fetch(model, "model")
    try:
        return Path(snapshot_download(model, allow_patterns=[*_FILES, "*.json", "*.jinja"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(f"model {model}: no such folder, and not to be had from the Hub ({one_line(error)})") from None


def _model_type(folder: Path) -> str | None:
    path = folder / "config.json"
    if not path.exists():
        raise InputError(f"{folder} has no config.json: it is no checkpoint; name the folder that holds it")
    config = read_json(path, "copy the checkpoint again")
    return config.get("model_type") if isinstance(config, dict) else None
