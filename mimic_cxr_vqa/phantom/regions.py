"""Regions of the findings in synthetic images.

A finding's region is the bounding box of the pixels that change if the finding is left out of the drawing. Pose,
exposure and noise are the same in both drawings.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mimic_cxr_vqa.phantom.drawing import draw
from mimic_cxr_vqa.phantom.specs import StudySpec, stream

Box = tuple[float, float, float, float]  # left, top, right and bottom as fractions of the image
_CHANGED = 6  # grey levels
_OUTLIERS = 1.0  # percent of the changed pixels at each side of the box


def find_regions(spec: StudySpec, size: int) -> Iterator[tuple[str, str, Box]]:
    """Yield DICOM id, finding and region of every visible finding of a study.

    Args:
        size: height and width of the images, as in `write_phantom`.
    """
    for number, (dicom_id, view) in enumerate(zip(spec.dicom_ids, spec.views, strict=True)):
        images = {}
        for left_out in (None, *(name for name, finding in spec.drawn.items() if finding.state == 1)):
            findings = {name: finding for name, finding in spec.findings.items() if name != left_out}
            rng = stream(spec.seed, f"picture {number}", spec.study_id)
            images[left_out] = draw(replace(spec, findings=findings), view, size, rng).astype(int)
        for name, without in images.items():
            rows, columns = np.nonzero(np.abs(images[None] - without) > _CHANGED)
            if name is not None and len(rows):
                ends = (_OUTLIERS, 100 - _OUTLIERS)
                (top, bottom), (left, right) = np.percentile(rows, ends), np.percentile(columns, ends)
                yield dicom_id, name, (left / size, top / size, (right + 1) / size, (bottom + 1) / size)
