"""Metrics: plain functions with a value per sample, and one `evaluate` module folder per metric (`modules/`).

`load("cxr_vqa")` is `evaluate.load` of the bundled folder and works offline. Use the plain functions in rewards and
loops: they are much faster than a module's `compute`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from medvqa_core.errors import ConfigError

if TYPE_CHECKING:
    import evaluate

FOLDER = Path(__file__).parent / "modules"
MODULES = ("cxr_vqa", "agreement", "soft_accuracy", "meddqa")


def load(name: str) -> "evaluate.EvaluationModule":
    """The `evaluate` module of that name; its inputs stay in memory. Raises ConfigError for an unknown one.

    Examples:
        >>> metric = load("soft_accuracy")
        >>> metric.compute(predictions=["1.10"], references=["1.10"], answer_types=["SA"])["soft_accuracy"]
        1.0
    """
    if name not in MODULES:
        raise ConfigError(f"metric {name!r} is unknown. Allowed: {', '.join(MODULES)}")
    import evaluate

    # Otherwise `evaluate` writes the inputs, which may be credentialed, to a file in the home folder.
    return evaluate.load(str(FOLDER / name), keep_in_memory=True)
