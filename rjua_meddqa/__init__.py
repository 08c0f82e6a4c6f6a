"""RJUA-MedDQA: Chinese medical report images, restored to text, annotated, and turned into questions.

Importing this package registers the builder of `datasets.load_dataset("rjua_meddqa", …)`.
"""

import os

from medvqa_core.load_dataset_hook import register_builder

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
register_builder("rjua_meddqa", "rjua_meddqa.builder", version="1")

__all__ = ["RjuaMeddqa", "SAMPLE_DIR"]


def __getattr__(name: str):
    """Import public names on first use."""
    if name == "RjuaMeddqa":
        from rjua_meddqa.builder import RjuaMeddqa

        return RjuaMeddqa
    if name == "SAMPLE_DIR":
        from rjua_meddqa.data_folder import SAMPLE_DIR

        return SAMPLE_DIR
    raise AttributeError(f"module 'rjua_meddqa' does not have an attribute {name!r}. It has {', '.join(__all__)}.")
