"""MIMIC-CXR-VQA: from radiology reports to a visual question answering dataset.

Importing this package registers the builder: `datasets.load_dataset("mimic_cxr_vqa", …)` then works from any folder.
"""

import os

from medvqa_core.load_dataset_hook import register_builder

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
register_builder("mimic_cxr_vqa", "mimic_cxr_vqa.builder", version="2")

__all__ = ["MimicCxrVqa", "SAMPLE_DIR", "open_release"]


def __getattr__(name: str):
    """Load the public names when they are first used: the import above stays light."""
    if name == "MimicCxrVqa":
        from mimic_cxr_vqa.builder import MimicCxrVqa

        return MimicCxrVqa
    if name == "SAMPLE_DIR":
        from mimic_cxr_vqa.workspace import SAMPLE_DIR

        return SAMPLE_DIR
    if name == "open_release":
        from mimic_cxr_vqa.release import open_release

        return open_release
    raise AttributeError(f"module 'mimic_cxr_vqa' has no attribute {name!r}; it has {', '.join(__all__)}")
