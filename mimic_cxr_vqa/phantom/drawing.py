"""Draws one synthetic radiograph (square, 8-bit grey): pose, chest, findings, exposure, noise.

The grey value is 255 (1 - exp(-k A)) ** gamma for attenuation A and exposure k, so that overlaid structures saturate as
on a detector. Anatomy and findings come from the spec. The `rng` only varies pose and exposure, so two images of a
spec differ like two exposures of a patient.
"""

import numpy as np

from mimic_cxr_vqa.phantom.canvas import Canvas, Pose, mottle
from mimic_cxr_vqa.phantom.frontal import Anatomy, build_chest, draw_normal, room
from mimic_cxr_vqa.phantom.frontal_findings import add_devices, add_findings
from mimic_cxr_vqa.phantom.lateral import draw_lateral
from mimic_cxr_vqa.phantom.specs import CHRONIC, StudySpec, stream
from mimic_cxr_vqa.schema import canonical_view

_MARKERS = {  # the lead letter at the patient's left (True) or right (False) shoulder
    True: ((0.88, 0.03), (0.88, 0.07), (0.9, 0.07)),
    False: ((0.1, 0.07), (0.1, 0.03), (0.12, 0.035), (0.12, 0.045), (0.1, 0.05), (0.122, 0.07)),
}


def draw(spec: StudySpec, view: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `spec` as seen in `view`.

    Args:
        view: a ViewPosition. LATERAL and its aliases give a lateral view, all others a frontal one.
        size: height and width in pixels.
        rng: for pose, exposure and noise.

    Returns:
        Image (size, size), uint8, with bright bones.
    """
    portable = view.strip().upper().startswith("AP")
    spread = 1.4 if portable else 1.0
    angle, scale, dx, dy = rng.normal(0, (1.6 * spread, 0.025, 0.012 * spread, 0.012 * spread))
    canvas = Canvas(size, Pose(float(np.clip(angle, -5, 5)), 1.0 + float(np.clip(scale, -0.06, 0.06)), dx, dy))
    anatomy = Anatomy.sample(stream(spec.seed, "anatomy", spec.subject_id))

    def rng_for(purpose: str) -> np.random.Generator:
        return stream(spec.seed, purpose, spec.subject_id if purpose in CHRONIC else spec.study_id)

    if canonical_view(view) == "LAT":
        tissue = draw_lateral(canvas, spec, anatomy, rng_for)
    else:
        chest = build_chest(canvas, spec, anatomy)
        tissue = draw_normal(chest, spec, portable, rng_for)
        tissue += room(tissue) * add_findings(chest, spec, rng_for) + add_devices(chest, spec)
    return _expose(tissue, canvas, portable, rng)


def _expose(tissue: np.ndarray, canvas: Canvas, portable: bool, rng: np.random.Generator) -> np.ndarray:
    size = canvas.size
    exposure, gamma, noise = rng.uniform(0.78, 1.22), rng.uniform(0.8, 1.2), rng.uniform(0.008, 0.02)
    tissue = tissue * (1 + np.float32(0.035) * mottle(size, 5, rng)) + np.float32(0.018) * mottle(size, size // 8, rng)
    tilt = np.float32(rng.normal(0, 0.04)) * (canvas.x - 0.5) + np.float32(rng.normal(0, 0.04)) * (canvas.y - 0.5)
    grey = 1 - np.exp(np.float32(-exposure) * np.maximum(tissue * (1 + tilt), 0))
    grey = np.maximum(grey, 0) ** np.float32(gamma)
    grey = np.maximum(grey, 0.9 * canvas.strokes([(_MARKERS[rng.random() < 0.7], 0.007, 1.0)]))
    grey += rng.standard_normal((size, size), dtype=np.float32) * np.float32(noise * (1.4 if portable else 1.0))
    return np.clip(grey * 255, 0, 255).astype(np.uint8)
