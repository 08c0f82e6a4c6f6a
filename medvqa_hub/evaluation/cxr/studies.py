"""Studies of a split with their images, views and questions, and two controls.

`shuffle_images` replaces every study's images with those of another patient, and `blank_images` with images without
content. A model that uses the images answers worse with either control.
"""

import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.release import IMAGE_VARIABLE, Release

BLANK_SIZE = 64  # pixels, before the processor resizes it
BLANK_GREY = 105  # near the mean of radiographs, as in augmentation


@dataclass(frozen=True)
class Study:
    """Attributes:
    images: the files in the order of the release. None is a blank image.
    views: ViewPosition of each image in the source's spelling.
    rows: the questions, with `qa_id`, `category`, `label_value`, `question` and `answer` (the reference). Rows of
        public datasets have `answer_type` instead of a label, and `options` (letter -> text) for multiple choice.
    indication: the reason for the examination, if known.
    captions: name of each image in a prompt. By default the view.
    """

    study_id: int | str
    subject_id: int | str
    split: str
    images: tuple[Path | None, ...]
    views: tuple[str | None, ...]
    rows: tuple[dict, ...]
    indication: str | None = None
    captions: tuple[str, ...] = ()


def load_studies(
    release: Release, split: str, image_root: Path | None, limit: int | None = None, missing_images: str = "error"
) -> list[Study]:
    """Load the studies of `split` in the order of the release.

    Args:
        image_root: folder of the images, by default the variable MIMIC_CXR_JPG_ROOT. Without either, images are blank.
        limit: use the first `limit` studies only.
        missing_images: "error", or "skip" studies that lack an image.

    Raises:
        InputError: the split or an image is missing, or no study is left.
        ConfigError: `limit` is below one.
    """
    check_limit(limit)
    if split not in release.files:
        raise InputError(f"{release.folder} does not have a split {split!r}. It has {', '.join(release.files)}.")
    root = image_root or os.environ.get(IMAGE_VARIABLE)
    studies = list(islice(_iterate(release, split, root, missing_images), limit and min(limit, sys.maxsize)))
    if not studies:
        raise InputError(f"The {split} split of {release.folder} has no study that can be used.")
    return studies


def check_limit(limit: int | None) -> None:
    """Raise ConfigError if `--limit` is below one."""
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit is {limit}. It must be at least 1.")


def _iterate(release: Release, split: str, image_root: Path | str | None, missing_images: str) -> Iterator[Study]:
    from datasets import Image, List, load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    options = {"data_dir": str(release.folder), "image_root": str(image_root) if image_root else None}
    # Streamed, so that other splits are not read.
    rows = load_dataset(
        "mimic_cxr_vqa", "studies", split=split, streaming=True, missing_images=missing_images, **options
    )
    if image_root:
        rows = rows.cast_column("images", List(Image(decode=False)))
    for row in rows:
        images = [Path(image["path"]) if image_root else None for image in row["images"]]
        yield Study(
            row["study_id"],
            row["subject_id"],
            row["split"],
            tuple(images),
            tuple(row["views"]),
            tuple(row["questions"]),
            row["indication"],
        )


def blank_images(studies: Sequence[Study]) -> list[Study]:
    """`studies` with a uniformly grey image instead of each image."""
    return [replace(study, images=(None,) * len(study.images)) for study in studies]


def shuffle_images(studies: Sequence[Study], seed: int) -> list[Study]:
    """`studies` with their images and views permuted, so that no study has images of its own patient.

    Studies are arranged in a circle, grouped by patient, with the patients in random order. Each study gets the images
    of the study `step` positions further. `step` is at least the largest number of studies of a patient.

    Raises:
        InputError: one patient has more than half of the studies, so that no such permutation exists.
    """
    rng = random.Random(seed)
    by_patient = sorted(range(len(studies)), key=lambda index: studies[index].subject_id)
    patients = [list(group) for _, group in groupby(by_patient, key=lambda index: studies[index].subject_id)]
    most = max(map(len, patients), default=0)
    if not studies or 2 * most > len(studies):
        raise InputError(
            f"One patient has {most} of {len(studies)} studies, so images cannot be exchanged between patients. "
            "Evaluate more studies (a larger --limit, or none)."
        )
    rng.shuffle(patients)
    circle = [index for patient in patients for index in patient]
    step = rng.randint(most, len(circle) - most)
    exchanged = list(studies)
    for place, index in enumerate(circle):
        giver = studies[circle[(place + step) % len(circle)]]
        assert giver.subject_id != studies[index].subject_id
        exchanged[index] = replace(studies[index], images=giver.images, views=giver.views, captions=giver.captions)
    return exchanged
