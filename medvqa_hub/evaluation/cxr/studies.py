"""The studies of one split with their images, views and questions, and the two image controls.

`shuffle_images` gives every study the images of another patient; `blank_images` gives it images without content. A
model that looks at its images answers worse with either; one that has learned the questions' statistics does not.
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

BLANK_SIZE = 64  # pixels; the processors resize it
BLANK_GREY = 105  # what augmentation fills borders with: near the mean grey of radiographs


@dataclass(frozen=True)
class Study:
    """Attributes:
    images: the files in the order of the release; None stands for a blank image.
    views: ViewPosition of each image, as the source spells it.
    rows: the questions: `qa_id`, `category`, `label_value`, `question`, `answer` (the reference); of public sets
        `answer_type` in place of the label, and `options` (letter -> text) where there are some.
    indication: why the examination was made, where that is known.
    captions: what each image is called in a prompt; empty: by its view.
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
    """The studies of `split`, in the order of the release.

    Args:
        image_root: folder of the images; default: the variable MIMIC_CXR_JPG_ROOT. Without either, images are blank.
        limit: the first so many studies only.
        missing_images: `error`, or `skip` studies that lack one.

    Raises:
        InputError: the release has no answers or no such split, an image is missing, nothing is left.
        ConfigError: `limit` is below one.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit is {limit}; allowed are 1 and more studies")
    if split not in release.files:
        raise InputError(f"{release.folder} has no split {split!r}; it has {', '.join(release.files)}")
    image_root = image_root or os.environ.get(IMAGE_VARIABLE)
    studies = list(islice(_iterate(release, split, image_root, missing_images), limit and min(limit, sys.maxsize)))
    if not studies:
        raise InputError(f"{release.folder}: no study of the {split} split is left to ask about")
    return studies


def _iterate(release: Release, split: str, image_root: Path | str | None, missing_images: str) -> Iterator[Study]:
    from datasets import Image, List, load_dataset

    import mimic_cxr_vqa  # noqa: F401 - registers the builder

    options = {"data_dir": str(release.folder), "image_root": str(image_root) if image_root else None}
    # Streamed: the other splits are neither read nor are their images looked for.
    rows = load_dataset(
        "mimic_cxr_vqa", "studies", split=split, streaming=True, missing_images=missing_images, **options
    )
    if image_root:
        rows = rows.cast_column("images", List(Image(decode=False)))
    for row in rows:
        images = [Path(image["path"]) for image in row["images"]] if image_root else [None] * len(row["images"])
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
    """`studies` with a blank image, of one grey, in the place of each image; number and views stay."""
    return [replace(study, images=(None,) * len(study.images)) for study in studies]


def shuffle_images(studies: Sequence[Study], seed: int) -> list[Study]:
    """`studies` with their images (and views) permuted, so that none keeps those of its own patient.

    Studies are laid in a circle, a patient's together and patients in random order; each takes the images of the one
    that is k further on, with k drawn between the largest patient's number of studies and its complement: that step
    leaves every patient.

    Raises:
        InputError: one patient has more than half of the studies, so that no such permutation exists.
    """
    rng = random.Random(seed)
    by_patient = sorted(range(len(studies)), key=lambda index: studies[index].subject_id)
    patients = [list(group) for _, group in groupby(by_patient, key=lambda index: studies[index].subject_id)]
    most = max(map(len, patients), default=0)
    if not studies or 2 * most > len(studies):
        raise InputError(
            f"one patient has {most} of {len(studies)} studies: their images cannot be exchanged between patients; "
            "evaluate more studies (a larger --limit, or none)"
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
