"""Guards that block uploads of restricted rows and weights. `load_dataset_hook.py` installs them.

They refuse an upload only on evidence: the object declares a restricted class (`no-derivatives` or `credentialed`),
holds ids in MIMIC's range, or has the columns of our datasets. Everything else is passed on unchanged. Our training
declares the class in every file that it saves. A `Trainer` declares it in models that it trains on restricted rows.

Only public methods are patched: those in `UPLOADS`, the writing methods of datasets (for remote targets), `Trainer`,
`GRPOTrainer` and `load_adapter`. Not guarded are other programs and uploads of files with `huggingface_hub` itself.
"""

import inspect
import io
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import wrapt

from medvqa_core.folder_class import GOVERNANCE, read_governance, write_governance
from medvqa_core.governance import Governance, check_publishable, strictest

HUB = "the Hub"
_RESTRICTED = {str(name): name for name in Governance if not name.publishable}
_LOCAL_PROTOCOLS = ("file", "local", "memory")
_PARTS = ("config", "generation_config", "tokenizer", "image_processor", "video_processor", "feature_extractor")
# module -> classes with `push_to_hub`, and with `push_to_hub=True` in `save_pretrained`
UPLOADS = {
    "transformers.utils.hub": ("PushToHubMixin",),  # of peft, too
    "transformers.configuration_utils": ("PreTrainedConfig",),
    "transformers.generation.configuration_utils": ("GenerationConfig",),
    "transformers.modeling_utils": ("PreTrainedModel",),
    "transformers.tokenization_utils_base": ("PreTrainedTokenizerBase",),
    "transformers.processing_utils": ("ProcessorMixin",),
    "transformers.image_processing_base": ("ImageProcessingMixin",),
    "transformers.video_processing_utils": ("VideoProcessorMixin",),
    "transformers.feature_extraction_utils": ("FeatureExtractionMixin",),
    "transformers.pipelines.base": ("Pipeline",),
    "sentence_transformers.base.model": ("BaseModel",),
    "datasets.arrow_dataset": ("Dataset",),
    "datasets.dataset_dict": ("DatasetDict", "IterableDatasetDict"),
    "datasets.iterable_dataset": ("IterableDataset",),
}
_WRITERS = ("save_to_disk", "to_csv", "to_json", "to_parquet", "to_sql")
_TARGETS = ("dataset_path", "dataset_dict_path", "path_or_buf", "con")


def install() -> None:
    """Patch the libraries when they are imported."""
    guards = {"transformers.trainer": guard_trainer, "trl.trainer.grpo_trainer": guard_completions}
    guards |= dict.fromkeys(("transformers.integrations.peft", "peft.peft_model"), guard_adapters)
    for module, guard in (guards | dict.fromkeys(UPLOADS, guard_uploads)).items():
        wrapt.register_post_import_hook(guard, module)


def guard_uploads(module: Any) -> None:
    for name in UPLOADS[module.__name__]:
        for method in ("push_to_hub", "save_pretrained", *_WRITERS, "to_iterable_dataset"):
            if method in vars(getattr(module, name)):
                wrapper = _keep_class if method == "to_iterable_dataset" else _refuse_upload
                wrapt.wrap_function_wrapper(module, f"{name}.{method}", wrapper)


def _refuse_upload(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
    method, given = wrapped.__name__, inspect.signature(wrapped).bind(*args, **kwargs).arguments
    target: str | None = HUB
    if method == "save_pretrained":
        pushed = given.get("push_to_hub", given.get("kwargs", {}).get("push_to_hub"))
        target = HUB if pushed else None
    elif method in _WRITERS:
        target = _remote_target(next((given[name] for name in _TARGETS if name in given), ""), method)
    if target is not None:
        check(instance, f"this {type(instance).__name__}", target)
    return wrapped(*args, **kwargs)


def check(part: Any, what: str, target: str = HUB) -> None:
    """Raise a GovernanceError if there is evidence that `part` may not be uploaded."""
    if (found := restriction(part)) is not None:
        check_publishable(found, what, target)


def restriction(part: Any) -> Governance | None:
    """The restricted class of a dataset, model, configuration, tokenizer or processor, or None without evidence."""
    if isinstance(part, dict) and hasattr(part, "push_to_hub"):  # DatasetDict
        found = [restriction(split) for split in part.values()]
    elif hasattr(part, "info") and hasattr(part.info, "description"):
        from medvqa_core.dataset_class import find_restriction  # pyarrow

        found = [find_restriction(part)]
    else:
        holders = [part, *(getattr(part, name, None) for name in _PARTS)]
        holders.append(getattr(getattr(part, "model", None), "config", None))  # of a pipeline
        stated = [getattr(holder, "governance", None) for holder in holders]
        stated += [(getattr(holder, "init_kwargs", None) or {}).get("governance") for holder in holders]
        found = [_RESTRICTED.get(str(name)) for name in stated]
    return strictest(known) if (known := [one for one in found if one is not None]) else None


def declare_part(part: Any, governance: Governance) -> None:
    """Declare the class in a model or processor with its parts, so that every file that they save states it."""
    for holder in (part, *(getattr(part, name, None) for name in _PARTS)):
        if hasattr(holder, "init_kwargs"):  # a tokenizer
            holder.init_kwargs["governance"] = str(governance)
        elif holder is not None and not hasattr(holder, "state_dict"):
            holder.governance = str(governance)


def is_local_target(target: Any) -> bool:
    """Whether writing to `target` (a path, a URL or an open file) stays on this machine."""
    if isinstance(target, str | PathLike):
        text = str(fspath(target))
        protocol, mark, _ = text.partition("://")
        return "::" not in text and (not mark or protocol.lower() in _LOCAL_PROTOCOLS)
    if isinstance(target, io.BytesIO | io.StringIO):
        return True
    try:
        return isinstance(target.fileno(), int)
    except (AttributeError, OSError):
        return False


def _remote_target(target: Any, method: str) -> str | None:
    """The name of a remote target without secrets, or None for a local one. Database servers count as remote."""
    if method == "to_sql":
        import sqlite3

        address = str(getattr(target, "url", target))
        return None if isinstance(target, sqlite3.Connection) or address.startswith("sqlite:") else "a database"
    if is_local_target(target):
        return None
    is_path = isinstance(target, str | PathLike)
    return repr(str(target).partition("://")[0] + "://…" if is_path else type(target).__name__)


def _keep_class(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
    stream = wrapped(*args, **kwargs)
    if "governance class: " in (instance.info.description or ""):  # `datasets` drops it
        stream.info.description = instance.info.description
    return stream


def guard_adapters(module: Any) -> None:
    """A restricted adapter is saved with `governance.json`, and a model that loads it gets this class."""

    def load(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        loaded = wrapped(*args, **kwargs)
        given = inspect.signature(wrapped).bind(*args, **kwargs).arguments
        source = given.get("model_id") or given.get("peft_model_id")
        if source and (Path(source) / GOVERNANCE).is_file():
            _raise_class(instance, read_governance(Path(source)))
        return loaded

    def save(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        result, found = wrapped(*args, **kwargs), restriction(instance)
        folder = Path(inspect.signature(wrapped).bind(*args, **kwargs).arguments["save_directory"])
        if found is not None and folder.is_dir():
            write_governance(folder, found)
        return result

    if hasattr(module, "PeftModel") and "save_pretrained" in vars(module.PeftModel):
        wrapt.wrap_function_wrapper(module, "PeftModel.save_pretrained", save)
    for name in ("PeftModel", "PeftAdapterMixin"):
        if "load_adapter" in vars(getattr(module, name, object)):
            wrapt.wrap_function_wrapper(module, f"{name}.load_adapter", load)


def _raise_class(model: Any, governance: Governance | None) -> None:
    if governance is not None and not governance.publishable:
        declare_part(model, strictest([governance, restriction(model) or governance]))


def guard_trainer(module: Any) -> None:
    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        what = f"{type(instance.model).__name__} of this {type(instance).__name__}"
        if (found := _trainer_restriction(instance)) is not None:
            check_publishable(found, what, HUB)
        model = instance.accelerator.unwrap_model(instance.model)
        if hasattr(type(model), "refuse_upload"):  # further checks of our models
            model.refuse_upload()
        return wrapped(*args, **kwargs)

    def train(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        for part in (instance.model, getattr(instance, "processing_class", None)):
            _raise_class(part, _trainer_restriction(instance))
        return wrapped(*args, **kwargs)

    for method in ("init_hf_repo", "push_to_hub"):
        wrapt.wrap_function_wrapper(module, f"Trainer.{method}", refuse)
    wrapt.wrap_function_wrapper(module, "Trainer.train", train)


def guard_completions(module: Any) -> None:
    """GRPOTrainer uploads prompts, images and answers to `log_completions_hub_repo`."""

    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        given = inspect.signature(wrapped).bind(*args, **kwargs).arguments
        if getattr(given.get("args"), "log_completions_hub_repo", None) is not None:
            for name in ("model", "train_dataset", "eval_dataset"):
                check(given.get(name), f"the completions of this {type(instance).__name__}")
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, "GRPOTrainer.__init__", refuse)


def _trainer_restriction(trainer: Any) -> Governance | None:
    """The strictest restricted class of the trainer, its model and its data."""
    data = [part for name in ("train_dataset", "eval_dataset") for part in _datasets(getattr(trainer, name, None))]
    found = [_RESTRICTED.get(str(getattr(trainer, "governance", None))), *map(restriction, [trainer.model, *data])]
    return strictest(known) if (known := [one for one in found if one is not None]) else None


def _datasets(data: Any) -> list[Any]:
    """The datasets in a dict of them, or in torch's `Subset` and `ConcatDataset`."""
    inner = [] if hasattr(data, "info") else [getattr(data, "dataset", None), *(getattr(data, "datasets", None) or ())]
    parts = [*data.values()] if isinstance(data, dict) else [part for part in inner if part is not None]
    return [found for part in parts for found in _datasets(part)] if parts else [data]
