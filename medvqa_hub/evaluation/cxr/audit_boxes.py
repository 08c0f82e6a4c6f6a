"""Regions of findings for the audit: of synthetic studies, or from a table of boxes (CSV).

A table has a row for each box, with these columns. Other columns are ignored.

    image       dicom_id or image_id: the name of the image file without its suffix
    finding     finding, category_name, class_name or category
    corners     left, top, right, bottom as fractions of the image, or in pixels
                x_min, y_min, x_max, y_max (VinDr-CXR), x1, y1, x2, y2 (MIMIC-Ext) or x, y, w, h (MS-CXR)
    size        image_width, image_height or width, height: the image that pixels refer to. Default: the image's file

Names of findings are those of CheXpert, or in NAMES. Rows without corners ("No finding") and of other findings are
counted and left out.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from medvqa_core.csv_files import column_names, iterate_cells
from medvqa_core.errors import InputError
from medvqa_core.json_files import read_object
from medvqa_core.pillow_errors import PILLOW_ERRORS
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.phantom.regions import find_regions
from mimic_cxr_vqa.phantom.specs import sample_studies
from mimic_cxr_vqa.phantom.tree import MARKER
from mimic_cxr_vqa.schema import CHEXPERT_LABELS

Box = tuple[float, float, float, float]  # left, top, right and bottom as fractions of the image
Boxes = Mapping[tuple[str, str], Sequence[Box]]  # by DICOM id and finding
LARGEST_REGION = 0.4  # of the image, because a control of the same size has to fit
MARGIN = 0.035  # of the image, between a region and a control: two pixels of the smallest images
EDGE = 0.02  # share of the image by which a box may extend beyond it
IMAGES, FINDINGS = ("dicom_id", "image_id"), ("finding", "category_name", "class_name", "category")
FRACTIONS = ("left", "top", "right", "bottom")
PIXELS = (("x_min", "y_min", "x_max", "y_max"), ("x1", "y1", "x2", "y2"), ("x", "y", "w", "h"))
SIZES = (("image_width", "image_height"), ("width", "height"))
NAMES = {  # other names of CheXpert's findings, in lower case: VinDr-CXR, PadChest, MIMIC-Ext
    "clavicle fracture": "Fracture",
    "effusion": "Pleural Effusion",
    "enlarged cardiac silhouette": "Cardiomegaly",
    "airspace opacity": "Lung Opacity",
    "infiltration": "Lung Opacity",
    "lung tumor": "Lung Lesion",
    "mass": "Lung Lesion",
    "nodule": "Lung Lesion",
    "nodule/mass": "Lung Lesion",
    "opacity": "Lung Opacity",
    "pleural thickening": "Pleural Other",
    "pulmonary edema": "Edema",
    "rib fracture": "Fracture",
    **{label.lower(): label for label in CHEXPERT_LABELS},
}


@dataclass(frozen=True)
class BoxTable:
    """Attributes:
    described: number of rows, of used boxes, and of boxes that were left out by the name of their finding.
    """

    boxes: Boxes
    described: Mapping[str, object]


def open_boxes(path: Path | None, image_root: Path | None, studies: Sequence[Study]) -> BoxTable:
    """The regions in a table or, without a table, of a synthetic tree. Raises InputError as `read_boxes`."""
    if path is not None:
        return read_boxes(path, studies)
    boxes = _find_synthetic_boxes(image_root, {int(study.study_id) for study in studies}) if image_root else {}
    return BoxTable(boxes, {"source": "synthetic studies", "used": sum(map(len, boxes.values()))} if boxes else {})


def _find_synthetic_boxes(image_root: Path, wanted: set[int]) -> Boxes:
    boxes: dict[tuple[str, str], list[Box]] = defaultdict(list)
    if (image_root / MARKER).is_file():
        tree = read_object(image_root / MARKER, "write the synthetic studies again")
        for spec in sample_studies(tree["studies"], tree["seed"]):
            if spec.study_id in wanted:
                for dicom_id, finding, box in find_regions(spec, tree["size"]):
                    boxes[dicom_id, finding].append((float(box[0]), float(box[1]), float(box[2]), float(box[3])))
    return boxes


def read_boxes(path: Path, studies: Sequence[Study]) -> BoxTable:
    """Read a table of boxes, see the module. Boxes of other images are ignored.

    Raises:
        InputError: a column is missing, a box is not inside its image, or no box is about an image of `studies`.
    """
    files = {image.stem: image for study in studies for image in study.images if image is not None}
    names = column_names(path)
    image, finding = _choose(path, names, IMAGES), _choose(path, names, FINDINGS)
    corners = next((found for found in (FRACTIONS, *PIXELS) if set(found) <= set(names)), None)
    if corners is None:
        raise InputError(f"{path} has no corners of boxes. Expected the columns {', '.join(FRACTIONS)} or {PIXELS}.")
    size = next((found for found in SIZES if set(found) <= set(names)), None)
    boxes: dict[tuple[str, str], list[Box]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    used = rows = 0
    for number, cells in iterate_cells(path, (image, finding, *corners, *(size or ()))):
        rows += 1
        name, id = NAMES.get(cells[finding].strip().lower()), cells[image].strip()
        if not any(cells[corner].strip() for corner in corners):
            left_out["without corners"] += 1
        elif name is None:
            left_out[cells[finding].strip()] += 1
        elif id not in files:
            left_out["of other images"] += 1
        else:
            width, height = _find_size(cells, size, corners, files[id], f"{path}, row {number}")
            boxes[id, name].append(_parse_box(cells, corners, width, height, f"{path}, row {number}"))
            used += 1
    if not used:
        raise InputError(
            f"{path}: none of its {rows} rows is a box of a known finding in these images. Left out: {dict(left_out)}. "
            f"Images have names such as {next(iter(files), None)!r}."
        )
    return BoxTable(boxes, {"source": path.name, "rows": rows, "used": used, "left_out": dict(left_out)})


def _choose(path: Path, names: Sequence[str], allowed: Sequence[str]) -> str:
    found = next((name for name in allowed if name in names), None)
    if found is None:
        raise InputError(f"{path} needs a column {' or '.join(allowed)}. It has {', '.join(names)}.")
    return found


def _find_size(
    cells: Mapping[str, str], size: tuple[str, str] | None, corners: Sequence[str], file: Path, where: str
) -> tuple[float, float]:
    if corners == FRACTIONS:
        return 1, 1
    if size is None:
        try:
            with Image.open(file, formats=("JPEG", "PNG")) as image:
                return image.size
        except PILLOW_ERRORS as error:
            raise InputError(f"{where}: the size of {file} cannot be read. Copy it again, or add its size.") from error
    try:
        return float(cells[size[0]]), float(cells[size[1]])
    except ValueError:
        raise InputError(f"{where}: {size[0]} and {size[1]} must be numbers of pixels.") from None


def _parse_box(cells: Mapping[str, str], corners: Sequence[str], width: float, height: float, where: str) -> Box:
    try:
        left, top, right, bottom = (float(cells[name]) for name in corners)
        if corners[-1] == "h":
            right, bottom = left + right, top + bottom
        box = (left / width, top / height, right / width, bottom / height)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{where}: {', '.join(corners)} must be numbers.") from None
    if all(-EDGE <= value <= 1 + EDGE for value in box):
        x, y, x_end, y_end = (min(max(value, 0.0), 1.0) for value in box)
        box = (x, y, x_end, y_end)
    if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1):
        unit = "fractions from 0 to 1" if corners == FRACTIONS else f"inside an image of {width:g} x {height:g} pixels"
        raise InputError(f"{where}: the box {left:g}, {top:g}, {right:g}, {bottom:g} is invalid. Expected {unit}.")
    return box


def merge_boxes(boxes: Sequence[Box]) -> list[Box]:
    """Replace boxes that overlap, such as those of several readers, with the box around them."""
    merged: list[Box] = []
    for box in boxes:
        while overlapping := [other for other in merged if _overlap(box, other)]:
            merged = [other for other in merged if other not in overlapping]
            lefts, tops, rights, bottoms = zip(box, *overlapping, strict=True)
            box = (min(lefts), min(tops), max(rights), max(bottoms))
        merged.append(box)
    return merged


def find_controls(regions: Sequence[Box]) -> list[Box] | None:
    """A control of the same size for each of `regions`, which do not overlap. None if they do not all fit.

    Controls overlap neither regions nor each other. Each is as close as possible to the mirrored place of its region.
    """
    controls: list[Box] = []
    for box in regions:
        control = _find_control(box, [*regions, *controls])
        if control is None:
            return None
        controls.append(control)
    return controls


def _find_control(box: Box, taken: Sequence[Box]) -> Box | None:
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    if width * height > LARGEST_REGION:
        return None
    steps = np.linspace(0, 1, 21)
    places = [(x * (1 - width), y * (1 - height)) for x in steps for y in steps]
    wide = [(a - MARGIN, b - MARGIN, c + MARGIN, d + MARGIN) for a, b, c, d in taken]
    free = [(x, y) for x, y in places if not any(_overlap((x, y, x + width, y + height), other) for other in wide)]
    if not free:
        return None
    x, y = min(free, key=lambda place: (place[0] - (1 - right)) ** 2 + (place[1] - top) ** 2)
    return x, y, x + width, y + height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
