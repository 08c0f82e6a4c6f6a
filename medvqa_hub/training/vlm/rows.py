"""The studies that an image-text model is trained on: chosen rows of the configuration `chat`.

Images are decoded at about `data.image_side` pixels, since models that accept any size would make thousands of tokens
of a radiograph of 2544 x 3056 pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medvqa_core.dataset_class import get_dataset_governance
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.families.history import describe_data
from medvqa_hub.training.training_data import choose_split, load_splits
from medvqa_hub.training.vlm.recipe import VlmData
from mimic_cxr_vqa.images import read_film
from mimic_cxr_vqa.labeling.answer_polarity import contradicts
from mimic_cxr_vqa.release import open_release


@dataclass(frozen=True)
class VlmRows:
    """Attributes:
    train, validation: rows of the configuration `chat`. The second may be None.
    left_out: reason -> rows of the training split that are not trained on.
    described: the data in the model's history.
    """

    train: Any
    validation: Any | None
    governance: Governance
    left_out: dict[str, int]
    described: dict[str, Any]


def load_rows(data: Path, image_root: Path | None, settings: VlmData) -> VlmRows:
    """The splits that `settings` names.

    Raises:
        InputError: no release, no such split, a missing image, no image root, or all rows were filtered out.
    """
    options = {"image_root": str(image_root)} if image_root else {}
    splits = load_splits(data, "chat", missing_images=settings.missing_images, turns=settings.turns, **options)

    def choose(name: str, studies: int | None) -> tuple[Any, dict[str, int]]:
        split = choose_split(splits, name, data)
        rows, left_out = _choose_rows(split, settings, studies)
        if not len(rows):
            raise InputError(f"{data}, split {name}: all {len(split):,} rows were filtered out. Reasons: {left_out}")
        return with_films(rows, settings.image_side), left_out

    train, left_out = choose(settings.train_split, settings.train_studies)
    validation = None
    if settings.validation_split is not None:
        validation, _ = choose(settings.validation_split, settings.validation_studies)
    plain = train.with_format(None)
    questions = sum(map(len, plain["ground_truth"])) if settings.turns == "study" else len(plain)
    described = describe_data(open_release(data), len(set(plain["study_id"])), questions)
    return VlmRows(train, validation, get_dataset_governance(train), left_out, described)


def _choose_rows(rows: Any, settings: VlmData, studies: int | None) -> tuple[Any, dict[str, int]]:
    """The rows that `settings` selects, and the number of rows left out by reason."""
    left_out: dict[str, int] = {}
    kept = np.ones(len(rows), bool)

    def keep(reason: str, wanted: np.ndarray) -> None:
        left_out[reason] = int((kept & ~wanted).sum())
        np.logical_and(kept, wanted, out=kept)

    ids = np.array(rows.with_format("numpy")["study_id"][:])
    if studies is not None:
        first = dict.fromkeys(ids.tolist())
        keep("other studies", np.isin(ids, list(first)[:studies]))
    for column, chosen in (("category", settings.categories), ("label_value", settings.label_values)):
        if chosen is not None:
            _refuse_whole_studies(settings, f"data.{column}")
            keep(f"other {column.replace('_', ' ')}", np.isin(np.array(rows[column][:]), chosen))
    if settings.label_conflicts == "leave_out":
        _refuse_whole_studies(settings, "data.label_conflicts")
        answers = zip(rows["ground_truth"], rows["category"], rows["label_value"], strict=True)
        keep("label conflicts", np.array([not contradicts(*answer) for answer in answers], bool))
    return rows.select(np.flatnonzero(kept)), left_out


def _refuse_whole_studies(settings: VlmData, key: str) -> None:
    if settings.turns == "study":
        raise InputError(f"{key} selects questions, but data.turns is 'study', which uses all questions of a study")


def with_films(rows: Any, side: int | None) -> Any:
    """`rows` with images read as grey films, their shorter side at most `side` pixels (None: unchanged)."""
    return with_images(rows, lambda image: read_film(image["bytes"] or Path(image["path"]), side))


def with_images(rows: Any, read: Callable[[dict[str, Any]], Any]) -> Any:
    """`rows` with images read by `read` when they are accessed."""
    from datasets import Image, List

    def transform(batch: dict[str, list]) -> dict[str, list]:
        return batch | {"images": [[read(image) for image in row] for row in batch["images"]]}

    return rows.cast_column("images", List(Image(decode=False))).with_transform(transform)
