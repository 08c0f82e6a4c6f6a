"""Finds the model in a folder: a saved model, or the training run that wrote it."""

from pathlib import Path

from medvqa_core.errors import InputError

BEST_FOLDER = "best"  # in the folder of a training run, whose own model files are links into it
RUN = "run.json"  # in that folder


def enter_run(path: Path) -> Path:
    """The folder of the best model if `path` is the folder of a training run, else `path`."""
    is_run = (path / RUN).is_file() or not _holds_model(path)
    return path / BEST_FOLDER if is_run and _holds_model(path / BEST_FOLDER) else path


def _holds_model(path: Path) -> bool:
    return (path / "config.json").is_file() or (path / "adapter_config.json").is_file()


def find_model_folder(path: Path) -> Path:
    """The folder with the weights: `path` itself, or the best model of a training run in `path`.

    Raises:
        InputError: neither exists.
    """
    folder = enter_run(path)
    if not _holds_model(folder):
        raise InputError(
            f"{path}: no model found (looked for config.json and {BEST_FOLDER}/config.json). Pass the folder of a "
            "checkpoint or the output folder of medvqa-hub train."
        )
    return folder
