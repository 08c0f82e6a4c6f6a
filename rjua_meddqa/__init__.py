"""RJUA-MedDQA: photographed Chinese medical reports restored to text, annotated, turned into questions and scored.

Importing this package registers the builder: `datasets.load_dataset("rjua_meddqa", …)` then works from any folder.
"""

import os

from medvqa_core.load_dataset_hook import register_builder

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
register_builder("rjua_meddqa", "rjua_meddqa.builder", version="1")

__all__ = ["RjuaMeddqa", "SAMPLE_DIR"]


def __getattr__(name: str):
    """Load the public names when they are first used: the import above stays light."""
    if name == "RjuaMeddqa":
        from rjua_meddqa.builder import RjuaMeddqa

        return RjuaMeddqa
    if name == "SAMPLE_DIR":
        from rjua_meddqa.data_folder import SAMPLE_DIR

        return SAMPLE_DIR
    raise AttributeError(f"module 'rjua_meddqa' has no attribute {name!r}; it has {', '.join(__all__)}")
