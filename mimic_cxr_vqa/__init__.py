"""MIMIC-CXR-VQA: a visual question answering dataset made from radiology reports.

Importing this package registers the builder, so that `datasets.load_dataset("mimic_cxr_vqa", …)` works in any folder.
"""

import os

from medvqa_core.load_dataset_hook import register_builder

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
register_builder("mimic_cxr_vqa", "mimic_cxr_vqa.builder", version="2")

__all__ = ["MimicCxrVqa", "SAMPLE_DIR", "open_release"]


def __getattr__(name: str):
    """Import public names on first use, which keeps importing the package fast."""
    if name == "MimicCxrVqa":
        from mimic_cxr_vqa.builder import MimicCxrVqa

        return MimicCxrVqa
    if name == "SAMPLE_DIR":
        from mimic_cxr_vqa.workspace import SAMPLE_DIR

        return SAMPLE_DIR
    if name == "open_release":
        from mimic_cxr_vqa.release import open_release

        return open_release
    raise AttributeError(f"module 'mimic_cxr_vqa' does not have an attribute {name!r}. Available: {', '.join(__all__)}")
