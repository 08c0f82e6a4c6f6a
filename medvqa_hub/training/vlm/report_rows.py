"""The report images that an image-text model is trained on: the configuration `chat` of rjua_meddqa.

Printed pages are unreadable at a radiograph's size, so images are read as in evaluation (`ImageRule`): in colour, their
longest side at most `data.report_side` pixels.

The data is a benchmark with one split, so the last images are held out for validation. To report a score on the
released questions, train on others, such as those of `meddqa generate` about your own reports.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.families.history import REPORTS
from medvqa_hub.training.vlm.recipe import VlmData
from medvqa_hub.training.vlm.rows import VlmRows, with_images
from rjua_meddqa import data_folder as folders
from rjua_meddqa.inference.page_images import ImageRule

SPLIT = "test"
VALIDATION_SHARE = 10  # at most one image in so many is held out
ALLOWED_SPLITS = ("train", SPLIT)  # names that a recipe may use for the only split


def holds_reports(data: Path) -> bool:
    """Whether `data` is a folder of questions about report images. Raises InputError if it is damaged."""
    return data.is_dir() and not {folders.QUESTIONS, folders.REASONING}.isdisjoint(folders.open_folder(data).files)


def load_report_rows(data: Path, image_root: Path | None, settings: VlmData) -> VlmRows:
    """The rows that `settings` selects.

    Raises:
        ConfigError: `settings` selects by turns, categories, labels or splits, which reports do not have.
        InputError: an image is missing, or all rows were filtered out.
    """
    from datasets import load_dataset
    from datasets.utils.logging import disable_progress_bar

    import rjua_meddqa  # noqa: F401 - registers the builder

    _refuse_other_settings(settings)
    disable_progress_bar()
    options = {"image_root": str(image_root)} if image_root else {}
    rows = load_dataset(
        REPORTS, "chat", data_dir=str(data), split=SPLIT, missing_images=settings.missing_images, **options
    )
    images, answered = np.array(rows["img_path"][:]), np.array([bool(text.strip()) for text in rows["ground_truth"]])
    known = list(dict.fromkeys(images.tolist()))
    held_out = _hold_out(known, settings)
    used = [image for image in known if image not in held_out][: settings.train_studies]
    trained, validated = (np.isin(images, chosen) & answered for chosen in (used, sorted(held_out)))
    left_out = {
        "no answer": int((~answered).sum()),
        "kept for validation": int(validated.sum()),
        "other reports": int((answered & ~trained & ~validated).sum()),
    }
    if not trained.any():
        raise InputError(f"{data}: all {len(rows):,} rows were filtered out. Reasons: {left_out}")
    folder = folders.open_folder(data)
    described = {
        "dataset": REPORTS,
        "source": f"RJUA-MedDQA: {folder.source}",
        "fingerprint": folder.fingerprint(),
        "answers": {},
        "studies": len(used),
        "questions": int(trained.sum()),
    }
    train, validation = (with_reports(rows.select(np.flatnonzero(kept)), settings) for kept in (trained, validated))
    return VlmRows(train, validation if held_out else None, get_dataset_governance(rows), left_out, described)


def _hold_out(images: list[str], settings: VlmData) -> set[str]:
    """The images for validation: none, or the last ones."""
    if settings.validation_split is None:
        return set()
    if len(images) < 2:
        raise InputError(
            f"The data have {len(images)} images, too few for training and validation. Add images, or train without "
            "validation: --set data.validation_split=null"
        )
    most = max(1, len(images) // VALIDATION_SHARE)
    return set(images[-min(settings.validation_studies or most, most) :])


def _refuse_other_settings(settings: VlmData) -> None:
    wrong = {
        "turns": settings.turns != "question",
        "categories": settings.categories is not None,
        "label_values": settings.label_values is not None,
        "train_split": settings.train_split not in ALLOWED_SPLITS,
    }
    for name in (name for name, is_wrong in wrong.items() if is_wrong):
        raise ConfigError(
            f"data.{name} is {getattr(settings, name)!r}. Questions about report images have one turn and one split, "
            "and no category or label. Use the default (--recipe vlm-grpo-reports has rewards for them)"
        )


def with_reports(rows: Any, settings: VlmData) -> Any:
    """`rows` with images read in colour, as in evaluation."""
    from PIL import Image

    rule = ImageRule(settings.report_side)
    return with_images(rows, lambda image: Image.open(io.BytesIO(rule.encode(Path(image["path"])).data)).convert("RGB"))
