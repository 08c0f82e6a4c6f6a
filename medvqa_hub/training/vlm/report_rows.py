"""The rows of report images that an image-text model is trained on: the configuration `chat` of rjua_meddqa.

A page of print is unreadable at a radiograph's size: images are read as evaluation sends them (`ImageRule`), in colour,
their longest side at most `data.report_side` pixels.

The data has one split, since it is a benchmark; which images validate is decided here: the last ones, so that no image
is both learned and validated. Whoever means to report a score on the released questions trains on others: those of
`meddqa generate` about reports of their own lie in the same layout.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.families.history import REPORTS
from medvqa_hub.training.vlm.recipe import VlmData
from medvqa_hub.training.vlm.rows import VlmRows
from rjua_meddqa import data_folder as folders
from rjua_meddqa.inference.page_images import ImageRule

SPLIT = "test"
VALIDATED = 10  # at most one image in so many validates
DEFAULT_SPLITS = ("train", SPLIT)  # what a recipe may call the only one


def holds_reports(data: Path) -> bool:
    """Whether `data` is a folder of questions about report images. Raises InputError where it is broken."""
    return data.is_dir() and not {folders.QUESTIONS, folders.REASONING}.isdisjoint(folders.open_folder(data).files)


def load_report_rows(data: Path, image_root: Path | None, settings: VlmData) -> VlmRows:
    """The rows that `settings` wants.

    Raises:
        ConfigError: `settings` chooses by what reports do not have: turns, categories, labels, another split.
        InputError: a missing image, or no row is left.
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
    held = _held_out(known, settings)
    learned = [image for image in known if image not in held][: settings.train_studies]
    trained, validated = (np.isin(images, chosen) & answered for chosen in (learned, sorted(held)))
    left_out = {
        "no answer": int((~answered).sum()),
        "kept for validation": int(validated.sum()),
        "other reports": int((answered & ~trained & ~validated).sum()),
    }
    if not trained.any():
        raise InputError(f"{data}: no row is left of {len(rows):,}; left out: {left_out}")
    folder = folders.open_folder(data)
    described = {
        "dataset": REPORTS,
        "source": f"RJUA-MedDQA: {folder.source}",
        "fingerprint": folder.fingerprint(),
        "answers": {},
        "studies": len(learned),
        "questions": int(trained.sum()),
    }
    train, validation = (with_reports(rows.select(np.flatnonzero(kept)), settings) for kept in (trained, validated))
    return VlmRows(train, validation if held else None, get_dataset_governance(rows), left_out, described)


def _held_out(images: list[str], settings: VlmData) -> set[str]:
    """The images that validate: none, or the last."""
    if settings.validation_split is None:
        return set()
    if len(images) < 2:
        raise InputError("one image cannot be both learned and validated: --set data.validation_split=null")
    most = max(1, len(images) // VALIDATED)
    return set(images[-min(settings.validation_studies or most, most) :])


def _refuse_other_settings(settings: VlmData) -> None:
    wrong = {
        "data.turns": settings.turns != "question",
        "data.categories": settings.categories is not None,
        "data.label_values": settings.label_values is not None,
        "data.train_split": settings.train_split not in DEFAULT_SPLITS,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            found = getattr(settings, name.removeprefix("data."))
            raise ConfigError(
                f"{name} is {found!r}: questions about report images have one turn, one split, no category and no "
                "label; leave it at its default (--recipe vlm-grpo-reports is for rewards)"
            )


def with_reports(rows: Any, settings: VlmData) -> Any:
    """`rows` whose images are read in colour, as an evaluation sends them."""
    from datasets import Image, List
    from PIL import Image as PillowImage

    rule = ImageRule(settings.report_side)

    def read(batch: dict[str, list]) -> dict[str, list]:
        pages = [[PillowImage.open(io.BytesIO(rule.encode(Path(image["path"])).data)) for image in row] for row in
                 batch["images"]]  # fmt: skip
        return batch | {"images": [[page.convert("RGB") for page in row] for row in pages]}

    return rows.cast_column("images", List(Image(decode=False))).with_transform(read)
