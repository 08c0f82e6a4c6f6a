"""What `train vlm --data` may be: a release of studies, or a folder of questions about report images."""

from pathlib import Path

from medvqa_hub.training.vlm.recipe import VlmData
from medvqa_hub.training.vlm.report_rows import holds_reports, load_report_rows
from medvqa_hub.training.vlm.rows import VlmRows, load_rows
from mimic_cxr_vqa.release import open_release
from rjua_meddqa.data_folder import open_folder


def fingerprint_of(data: Path) -> str:
    """Changes whenever the content of `data` may have changed. Raises InputError where there is nothing to train on."""
    return open_folder(data).fingerprint() if holds_reports(data) else open_release(data).fingerprint


def open_rows(data: Path, image_root: Path | None, settings: VlmData) -> VlmRows:
    """The rows of either. Raises InputError and ConfigError, as `load_rows` and `load_report_rows`."""
    load = load_report_rows if holds_reports(data) else load_rows
    return load(data, image_root, settings)
