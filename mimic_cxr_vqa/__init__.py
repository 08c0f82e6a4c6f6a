"""MIMIC-CXR-VQA: a visual question answering dataset made from radiology reports.

Importing this package registers the builder, so that `datasets.load_dataset("mimic_cxr_vqa", …)` works in any folder.
"""

import importlib
import os

from medvqa_core.load_dataset_hook import register_builder

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
register_builder("mimic_cxr_vqa", "mimic_cxr_vqa.builder", version="2")

_PUBLIC = {"MimicCxrVqa": "builder", "SAMPLE_DIR": "workspace", "open_release": "release"}  # name -> module
__all__ = ["MimicCxrVqa", "SAMPLE_DIR", "open_release"]


def __getattr__(name: str):
    """Import public names on first use, which keeps importing the package fast."""
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"mimic_cxr_vqa.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'mimic_cxr_vqa' does not have an attribute {name!r}. Available: {', '.join(__all__)}")
