"""Guards that block uploads of restricted rows and weights. `load_dataset_hook.py` installs them.

Guarded are `push_to_hub` of datasets, models, tokenizers and processors, remote targets of `save_to_disk` and `to_*`,
`save_pretrained(push_to_hub=True)`, all uploads of `Trainer`, and the repository for completions of TRL's GRPOTrainer.
They reject `no-derivatives` and `credentialed` content before anything is sent. Objects without a declared class are
treated as credentialed. A model that loads an adapter gets the adapter's class if that is stricter.

Joined datasets get the strictest class of their parts. Not guarded are other programs and uploads of files with
`huggingface_hub` itself.
"""

import inspect
import io
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import wrapt

from medvqa_core.dataset_class import describe_dataset, get_dataset_governance, get_splits_governance, stated_class
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance, check_publishable, parse, strictest

HUB = "the Hub"
_LOCAL_PROTOCOLS = ("file", "local", "memory")


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


def guard_dataset(module: Any) -> None:
    _refuse_push(module, "Dataset", get_dataset_governance)
    _refuse_remote_writes(module, "Dataset", get_dataset_governance)
    for name in ("add_column", "add_item"):
        wrapt.wrap_function_wrapper(module, f"Dataset.{name}", _with_foreign_part)
    wrapt.wrap_function_wrapper(module, "Dataset.to_iterable_dataset", _with_same_class)


def guard_stream(module: Any) -> None:
    _refuse_push(module, "IterableDataset", get_dataset_governance)
    _refuse_remote_writes(module, "IterableDataset", get_dataset_governance)
    wrapt.wrap_function_wrapper(module, "IterableDataset.add_column", _with_foreign_part)


def guard_splits(module: Any) -> None:
    for name in ("DatasetDict", "IterableDatasetDict"):
        _refuse_push(module, name, lambda splits: get_splits_governance(splits.values()))
        _refuse_remote_writes(module, name, lambda splits: get_splits_governance(splits.values()))


def _refuse_push(module: Any, name: str, class_of: Callable[[Any], Governance]) -> None:
    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        check_publishable(class_of(instance), f"this {name}", HUB)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, f"{name}.push_to_hub", refuse)


def _refuse_remote_writes(module: Any, name: str, class_of: Callable[[Any], Governance]) -> None:
    """Guard the writing methods of a class. The target is the first argument (of to_sql the second)."""

    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        local, target = _target(wrapped.__name__, args, kwargs)
        if not local:
            check_publishable(class_of(instance), f"this {name}", f"{target!r}")
        return wrapped(*args, **kwargs)

    for method in ("save_to_disk", "to_csv", "to_json", "to_parquet", "to_sql"):
        if hasattr(getattr(module, name), method):
            wrapt.wrap_function_wrapper(module, f"{name}.{method}", refuse)


def _target(method: str, args: tuple, kwargs: dict) -> tuple[bool, str]:
    """Whether the target of a writing method is local, and its name without secrets."""
    names = {"save_to_disk": ("dataset_path", "dataset_dict_path"), "to_sql": ("con",)}.get(method, ("path_or_buf",))
    place = 1 if method == "to_sql" else 0
    target = args[place] if len(args) > place else next((kwargs[name] for name in names if name in kwargs), "")
    if method == "to_sql":
        return _is_local_database(target), "a database"
    shown = str(target).partition("://")[0] + "://…" if isinstance(target, str | PathLike) else type(target).__name__
    return is_local_target(target), shown


def _is_local_database(connection: Any) -> bool:
    """Whether a database is SQLite. Servers count as remote."""
    import sqlite3

    return isinstance(connection, sqlite3.Connection) or str(getattr(connection, "url", connection)).startswith(
        "sqlite:"
    )


def guard_joins(module: Any) -> None:
    def join(wrapped: Callable, _instance: Any, args: tuple, kwargs: dict) -> Any:
        infos = [info for info in (args[0] if args else kwargs["dataset_infos"]) if info is not None]
        merged = wrapped(*args, **kwargs)
        classes = {stated_class(info.description) for info in infos}
        if None in classes and len(classes) > 1:  # only some parts declare a class
            merged.description = describe_dataset(merged.description, Governance.CREDENTIALED)
        return merged

    wrapt.wrap_function_wrapper(module, "DatasetInfo.from_merge", join)


def _with_foreign_part(wrapped: Callable, _instance: Any, args: tuple, kwargs: dict) -> Any:
    """A column or row from elsewhere has no declared class."""
    joined = wrapped(*args, **kwargs)
    joined.info.description = describe_dataset(joined.info.description or "", Governance.CREDENTIALED)
    return joined


def _with_same_class(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
    stream = wrapped(*args, **kwargs)
    stream.info.description = instance.info.description
    return stream


def guard_model(module: Any) -> None:
    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        check_publishable(_class_of_weights(instance) or Governance.CREDENTIALED, _name(instance), HUB)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, "PreTrainedModel.push_to_hub", refuse)


def guard_saved_parts(module: Any) -> None:
    """Guard configurations, tokenizers and processors that declare a class.

    Some have copies of `push_to_hub`, but all upload with the second method.
    """

    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        weights = hasattr(instance, "state_dict")
        default = Governance.CREDENTIALED if weights else Governance.OPEN
        check_publishable(_class_of_weights(instance) or default, _name(instance), HUB)
        return wrapped(*args, **kwargs)

    for method in ("push_to_hub", "_upload_modified_files"):
        wrapt.wrap_function_wrapper(module, f"PushToHubMixin.{method}", refuse)


def guard_adapters(module: Any) -> None:
    """Guard both ways to load an adapter, of peft and of transformers."""

    def load(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        loaded = wrapped(*args, **kwargs)
        given = inspect.signature(wrapped).bind(*args, **kwargs).arguments
        source = given.get("model_id") or given.get("peft_model_id")
        # Adapters that are not local folders have no declared class.
        adapter = read_governance(Path(source)) if source and Path(source).is_dir() else Governance.CREDENTIALED
        own = _class_of_weights(instance)
        if own is not None:  # otherwise it is credentialed anyway
            getattr(instance, "config", instance).governance = str(strictest([own, adapter]))
        return loaded

    for name in ("PeftModel", "PeftAdapterMixin"):
        if hasattr(module, name) and "load_adapter" in vars(getattr(module, name)):
            wrapt.wrap_function_wrapper(module, f"{name}.load_adapter", load)


def guard_trainer(module: Any) -> None:
    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        check_publishable(class_of_trainer(instance), f"{_name(instance.model)} of this {_name(instance)}", HUB)
        model = instance.accelerator.unwrap_model(instance.model)
        if hasattr(type(model), "refuse_upload"):  # further checks of our models
            model.refuse_upload()
        return wrapped(*args, **kwargs)

    for method in ("init_hf_repo", "push_to_hub", "_push_from_checkpoint"):
        wrapt.wrap_function_wrapper(module, f"Trainer.{method}", refuse)
    wrapt.wrap_function_wrapper(module, "Trainer.create_model_card", _with_model_s_own_card)


def _with_model_s_own_card(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
    """Our models write their own card, in `Trainer.push_to_hub` too."""
    result = wrapped(*args, **kwargs)
    model = instance.accelerator.unwrap_model(instance.model)
    if hasattr(type(model), "write_card") and instance.is_world_process_zero():
        output = Path(instance.args.output_dir)
        model.write_card(output, instance.hub_model_id or output.name)
    return result


def guard_completions(module: Any) -> None:
    """GRPOTrainer uploads prompts, images and answers to `log_completions_hub_repo`."""

    def refuse(wrapped: Callable, instance: Any, args: tuple, kwargs: dict) -> Any:
        given = inspect.signature(wrapped).bind(*args, **kwargs).arguments
        if getattr(given.get("args"), "log_completions_hub_repo", None) is not None:
            parts = SimpleNamespace(**{name: given.get(name) for name in ("model", "train_dataset", "eval_dataset")})
            check_publishable(class_of_trainer(parts), f"the completions of this {_name(instance)}", HUB)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, "GRPOTrainer.__init__", refuse)


def class_of_trainer(trainer: Any) -> Governance:
    """The strictest class of the model and its data; `credentialed` if none is declared."""
    classes = [_class_of_weights(trainer.model), getattr(trainer, "governance", None)]
    for data in (getattr(trainer, "train_dataset", None), getattr(trainer, "eval_dataset", None)):
        classes += [_class_of_data(part) for part in (data.values() if isinstance(data, dict) else [data])]
    said = [found for found in classes if found is not None]
    return strictest(said)


def _class_of_data(data: Any) -> Governance | None:
    """The class of a `datasets` object, or None for other objects."""
    return get_dataset_governance(data) if hasattr(data, "info") and hasattr(data.info, "description") else None


def _class_of_weights(part: Any) -> Governance | None:
    """The class that a model's configuration (or the part itself) declares, or None."""
    stated = getattr(getattr(part, "config", part), "governance", None)
    return None if stated is None else parse(stated, "configuration of the model")


def _name(instance: Any) -> str:
    return type(instance).__name__
