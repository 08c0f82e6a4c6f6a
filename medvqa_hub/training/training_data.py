"""The rows that a run trains and validates on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.training.recipes import DataSettings


@dataclass(frozen=True)
class TrainingData:
    """Splits to train and validate on.

    Attributes:
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
        """Questions and answers of the training split; missing answers are left out."""
        for batch in self.train.select_columns(["questions"]).with_format(None).iter(batch_size=1_000):
            for questions in batch["questions"]:
                for question in questions:
                    yield question["question"]
                    if question["answer"]:
                        yield question["answer"]


def load_data(data: Path, image_root: Path | None, settings: DataSettings, images: bool = True) -> TrainingData:
    """Load the splits that `settings` names.

    Args:
        data: a release, the folder it was built in, or the authors' CSV files.
        image_root: folder of the images.
        images: whether images are needed.

    Raises:
        InputError: no release, no such split, a missing image, or no image_root.
    """
    import os

    from datasets import load_dataset
    from datasets.utils.logging import disable_progress_bar

    import mimic_cxr_vqa  # noqa: F401 - registers the builder
    from mimic_cxr_vqa.release import IMAGE_VARIABLE, open_release

    release = open_release(data)
    root = image_root or os.environ.get(IMAGE_VARIABLE)
    if images and not root:
        raise InputError(
            f"no images: pass --image-root, the folder that image paths start from, or set {IMAGE_VARIABLE}"
        )
    disable_progress_bar()
    options = {"image_root": str(root), "missing_images": settings.missing_images} if images else {}
    splits = load_dataset("mimic_cxr_vqa", "studies", data_dir=str(data), **options)

    def choose(name: str) -> Any:
        name = "validation" if name == "validate" else name
        if name not in splits:
            raise InputError(f"{data} has no split {name!r}; it has {', '.join(splits)}")
        return splits[name]

    train = choose(settings.train_split)
    if settings.train_studies is not None:
        train = train.select(range(min(settings.train_studies, len(train))))
    validation = choose(settings.validation_split) if settings.validation_split is not None else None
    return TrainingData(train, validation, get_dataset_governance(train), release.fingerprint, release.folder)
