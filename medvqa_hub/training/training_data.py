"""The rows that a run trains and validates on."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.training.recipes import DataSettings
from mimic_cxr_vqa.release import IMAGE_VARIABLE, open_release


@dataclass(frozen=True)
class TrainingData:
    """Attributes:
    train: rows of the `studies` configuration.
    validation: the same, or None.
    fingerprint: of the release.
    """

    train: Any
    validation: Any | None
    governance: Governance
    fingerprint: str
    folder: Path

    def texts(self) -> Iterator[str]:
        """Questions and answers of the training split."""
        for batch in self.train.select_columns(["questions"]).with_format(None).iter(batch_size=1_000):
            for questions in batch["questions"]:
                for question in questions:
                    yield from filter(None, (question["question"], question["answer"]))


def load_data(data: Path, image_root: Path | None, settings: DataSettings, images: bool = True) -> TrainingData:
    """Load the splits that `settings` names.

    Args:
        data: a release, the folder it was built in, or the authors' CSV files.
        image_root: folder of the images.
        images: whether images are needed.

    Raises:
        InputError: no release, no such split, a missing image, or no image_root.
    """
    release = open_release(data)
    root = image_root or os.environ.get(IMAGE_VARIABLE)
    if images and not root:
        raise InputError(
            f"no images: pass --image-root, the folder that image paths start from, or set {IMAGE_VARIABLE}"
        )
    options = {"image_root": str(root), "missing_images": settings.missing_images} if images else {}
    splits = load_splits(data, "studies", **options)
    train = choose_split(splits, settings.train_split, data)
    if settings.train_studies is not None:
        train = train.select(range(min(settings.train_studies, len(train))))
    name = settings.validation_split
    validation = choose_split(splits, name, data) if name is not None else None
    return TrainingData(train, validation, get_dataset_governance(train), release.fingerprint, release.folder)


def load_splits(data: Path, config: str, **options: Any) -> Any:
    """All splits of a configuration of mimic_cxr_vqa."""
    from datasets import load_dataset
    from datasets.utils.logging import disable_progress_bar

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    disable_progress_bar()
    return load_dataset("mimic_cxr_vqa", config, data_dir=str(data), **options)


def choose_split(splits: Any, name: str, data: Path) -> Any:
    """A split by its name. `validate` is the authors' name of the validation split. Raises InputError."""
    name = "validation" if name == "validate" else name
    if name not in splits:
        raise InputError(f"{data} has no split {name!r}. It has {', '.join(splits)}")
    return splits[name]
