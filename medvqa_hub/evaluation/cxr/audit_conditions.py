"""Conditions of an audit: the images and the indication that each question is asked with.

own              the study's images
same, opposite   images of another patient with the same, or with the opposite label of the finding
blank, noise     images without content, and random noise
low_pass         images without details
covered          a uniform patch over the region of the finding
control          the same patch over another place in the image
supporting, contradicting    own images with an indication that agrees, or disagrees, with the label
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageStat

from medvqa_core.csv_files import iterate_cells
from medvqa_core.errors import InputError
from medvqa_core.files import atomic_file, make_folder
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS
from medvqa_hub.evaluation.cxr.model_inference import read_image
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.schema import HEART, NO_FINDING

BOX_COLUMNS = ("dicom_id", "finding", "left", "top", "right", "bottom")
LARGEST_REGION = 0.4  # of the image, because a control of the same size has to fit
LOW_PASS = 16  # pixels that a low-pass image is reduced to
STATEMENTS = {"positive": "Known {}.", "negative": "No {} on a recent examination."}
Box = tuple[float, float, float, float]
Boxes = Mapping[tuple[str, str], Sequence[Box]]  # (DICOM id, finding) -> fractions of the image


@dataclass(frozen=True)
class AuditItem:
    """All questions about one finding of a study. `label` is positive or negative."""

    study: Study
    category: str
    label: str


def list_items(studies: Sequence[Study]) -> list[AuditItem]:
    """The items of studies, for questions with a positive or negative label about one finding."""
    items = []
    for study in studies:
        rows: dict[tuple[str, str], list[dict]] = defaultdict(list)
        for row in study.rows:
            if row["label_value"] in SCORED_LABELS and row["category"] not in (HEART, NO_FINDING):
                rows[row["category"], row["label_value"]].append(row)
        items += [
            AuditItem(replace(study, rows=tuple(found)), category, label) for (category, label), found in rows.items()
        ]
    if not items:
        raise InputError("The split does not have questions with a positive or negative label.")
    return items


def read_boxes(path: Path) -> Boxes:
    """Read a CSV with the columns BOX_COLUMNS, where coordinates are fractions of the image. Raises InputError."""
    boxes: dict[tuple[str, str], list[Box]] = defaultdict(list)
    for number, cells in iterate_cells(path, BOX_COLUMNS):
        try:
            left, top, right, bottom = (float(cells[name]) for name in BOX_COLUMNS[2:])
        except ValueError:
            left = right = top = bottom = -1.0
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            raise InputError(f"{path}, row {number}: coordinates must be fractions of the image, from 0 to 1.")
        boxes[cells["dicom_id"], cells["finding"]].append((left, top, right, bottom))
    return boxes


def make_conditions(
    items: Sequence[AuditItem], boxes: Boxes, folder: Path, seed: int = 0, private: bool = False
) -> dict[str, dict[int, Study]]:
    """The study of each item (by its number) in each condition. Items without a donor or a region are left out.

    Args:
        folder: changed images are written there.
        private: write them for their owner alone.
    """
    make_folder(folder, private)
    writer = _ImageWriter(folder, seed, private)
    conditions: dict[str, dict[int, Study]] = defaultdict(dict)
    for number, item in enumerate(items):
        study = item.study
        conditions["own"][number] = study
        conditions["blank"][number] = replace(study, images=(None,) * len(study.images))
        for name in ("noise", "low_pass"):
            images = tuple(writer.write(path, name) for path in study.images)
            conditions[name][number] = replace(study, images=images)
        for name, same in (("same", True), ("opposite", False)):
            donor = _choose_donor(items, item, same, random.Random(f"{seed} {name} {number}"))
            if donor is not None:
                conditions[name][number] = replace(study, images=donor.images, views=donor.views)
        for name in ("supporting", "contradicting"):
            other = {"positive": "negative", "negative": "positive"}[item.label]
            stated = STATEMENTS[item.label if name == "supporting" else other].format(item.category.lower())
            conditions[name][number] = replace(study, indication=stated)
        regions = [boxes.get((path.stem, item.category), ()) for path in study.images if path is not None]
        controls = [_find_controls(found) for found in regions]
        if item.label == "positive" and any(regions) and list(map(len, controls)) == list(map(len, regions)):
            for name, patches in (("covered", regions), ("control", controls)):
                pairs = zip(study.images, patches, strict=True)
                images = tuple(writer.write(path, name, found) if found else path for path, found in pairs)
                conditions[name][number] = replace(study, images=images)
    return dict(conditions)


def _choose_donor(items: Sequence[AuditItem], item: AuditItem, same: bool, rng: random.Random) -> Study | None:
    donors = [
        other.study
        for other in items
        if other.category == item.category
        and (other.label == item.label) is same
        and other.study.subject_id != item.study.subject_id
    ]
    return rng.choice(donors) if donors else None


def _find_controls(regions: Sequence[Box]) -> list[Box]:
    """A control for each of `regions` for which one fits."""
    found = (_find_control(box, regions) for box in regions)
    return [box for box in found if box is not None]


def _find_control(box: Box, regions: Sequence[Box]) -> Box | None:
    """A box of the same size outside `regions`, as close as possible to the mirrored place. None if none fits."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if width * height > LARGEST_REGION:
        return None
    steps = np.linspace(0, 1, 21)
    places = [(x * (1 - width), y * (1 - height)) for x in steps for y in steps]
    free = [
        (x, y)
        for x, y in places
        if all(x + width <= a or x >= c or y + height <= b or y >= d for a, b, c, d in regions)
    ]
    if not free:
        return None
    x, y = min(free, key=lambda place: (place[0] - (1 - right)) ** 2 + (place[1] - top) ** 2)
    return x, y, x + width, y + height


@dataclass(frozen=True)
class _ImageWriter:
    folder: Path
    seed: int
    private: bool

    def write(self, path: Path | None, name: str, boxes: Sequence[Box] = ()) -> Path | None:
        """Write the changed image and return its path. An image that cannot be read stays as it is."""
        if path is None:
            return None
        places = "".join(f"-{round(100 * value)}" for box in boxes for value in box)
        target = self.folder / f"{path.stem}-{name}{places}.png"
        if target.exists():
            return target
        try:
            image = read_image(path).convert("L")
        except InputError:
            return path
        if name == "noise":
            values = np.random.default_rng([self.seed, len(path.stem), *path.stem.encode()[:8]]).integers(
                0, 256, (image.height, image.width), np.uint8
            )
            image = Image.fromarray(values)
        elif name == "low_pass":
            image = image.resize((LOW_PASS, LOW_PASS), Image.Resampling.BOX).resize(image.size)
        for left, top, right, bottom in boxes:
            x, y = image.size
            edges = (round(left * x), round(top * y), round(right * x), round(bottom * y))
            image.paste(round(ImageStat.Stat(image).mean[0]), edges)
        with atomic_file(target, private=self.private) as file:
            image.save(file, "PNG")
        return target
