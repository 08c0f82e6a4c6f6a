"""The synthetic chest in lateral view: the patient faces left, the lungs overlap, the spine is on the right.

Findings have the height of the frontal image. A finding on one side is drawn slightly weaker than in the frontal view.
"""

from typing import Any

import numpy as np

from mimic_cxr_vqa.phantom.canvas import Canvas, band, mottle, outline, ramp
from mimic_cxr_vqa.phantom.frontal import LUNG, SOFT_TISSUE, Anatomy, RngFor, heart_ratio, room, strength
from mimic_cxr_vqa.phantom.frontal_findings import LESION_RADIUS, SIZE, ZONE_Y
from mimic_cxr_vqa.phantom.specs import Finding, StudySpec

_OVERLAID = 0.85  # strength of a finding in one of the two overlapping lungs
_FRONT = ((0.05, 0.44), (0.12, 0.36), (0.25, 0.265), (0.4, 0.21), (0.6, 0.18), (0.8, 0.19))  # inner side of the sternum
# inner side of the posterior ribs
_BACK = ((0.05, 0.6), (0.12, 0.68), (0.25, 0.755), (0.4, 0.795), (0.6, 0.8), (0.75, 0.785), (0.9, 0.765))


def draw_lateral(canvas: Canvas, spec: StudySpec, anatomy: Anatomy, rng_for: RngFor) -> np.ndarray:
    """Return the attenuation of the chest from the side, with findings and devices."""
    front, back = outline(canvas.y, _FRONT), outline(canvas.y, _BACK)
    raised = 0.03 * strength(spec.drawn.get("Atelectasis"))
    dome = _dome(canvas, anatomy, 0.0)
    other = _dome(canvas, anatomy, 0.035 - 2 * raised)
    inside = ramp(np.maximum(front - canvas.x, canvas.x - back), 0.012)
    lung = inside * ramp(canvas.y - np.maximum(dome, other), 0.012)
    tissue = _normal(canvas, spec, anatomy, rng_for, front, back, lung)
    tissue += 0.35 * lung * ramp(np.minimum(dome, other) - canvas.y, 0.01)  # behind the higher dome
    added = np.zeros_like(tissue)
    for label, finding in spec.drawn.items():
        if label in _PAINTERS:
            force = strength(finding) * (1.0 if finding.side in ("", "bilateral") else _OVERLAID)
            added += force * _PAINTERS[label](canvas, finding, rng_for(label))
    return tissue + room(tissue) * added * lung + _devices(canvas, spec)


def _dome(canvas: Canvas, anatomy: Anatomy, shift: float) -> np.ndarray:
    knots = ((0.15, 0.76), (0.3, 0.735), (0.45, 0.735), (0.6, 0.775), (0.7, 0.83), (0.8, 0.91))
    return outline(canvas.x, knots) + np.float32(anatomy.dome + shift)


def _normal(
    canvas: Canvas,
    spec: StudySpec,
    anatomy: Anatomy,
    rng_for: RngFor,
    front: np.ndarray,
    back: np.ndarray,
    lung: np.ndarray,
) -> np.ndarray:
    x, y = canvas.x, canvas.y
    chest_wall = ramp(np.maximum(front - 0.055 * anatomy.bulk - x, x - back - 0.12 * anatomy.bulk), 0.02)
    body = np.maximum(chest_wall, 0.9 * ramp(np.maximum(0.42 - x, x - 0.7) + 1.2 * np.maximum(y - 0.12, 0), 0.03))
    tissue = body * SOFT_TISSUE * anatomy.bulk * 1.1 - lung * (SOFT_TISSUE * anatomy.bulk * 1.1 - LUNG - 0.06)
    column = back - 0.035
    tissue += (
        0.35 * band(x - column, 0.085, 0.02) * (0.75 + 0.25 * np.sign(np.sin(y * np.float32(2 * np.pi / 0.066)) + 0.5))
    )
    tissue += 0.4 * band(x - front + 0.012, 0.018, 0.008) * ramp(np.abs(y - 0.4) - 0.25, 0.02)  # sternum
    tissue += _ribs(canvas, spec.drawn.get("Fracture"), anatomy, back, rng_for("Fracture")) * body
    tissue += _vessels(canvas, spec, rng_for("lateral vessels")) * lung
    tissue += _heart(canvas, spec, anatomy, rng_for) * lung
    airway = [(0.5, 0.0), (0.53, 0.2), (0.555, 0.4)]
    return tissue - 0.14 * canvas.strokes([(airway, 0.034, 1.0)])


def _ribs(
    canvas: Canvas, fracture: Finding | None, anatomy: Anatomy, back: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Ribs descend forwards. A fracture shifts their front part."""
    spacing = anatomy.ribs
    depth = back - canvas.x
    height = canvas.y - np.float32(0.45) * depth + np.float32(0.5) * depth * depth
    contrast = np.float32(1.0)
    if fracture:
        force = strength(fracture)
        first = round(({"upper": 0.2, "mid": 0.36, "lower": 0.5}[fracture.zone] - 0.1) / spacing)
        rank = np.floor((height - 0.1) / spacing + 0.5)
        hit = (rank >= first) & (rank < first + {"mild": 2, "moderate": 3, "severe": 4}[fracture.severity])
        where = float(rng.uniform(0.13, 0.2))
        tail = np.clip((0.4 - depth) / np.float32(0.15), 0, 1)
        height = height + hit * (depth > where) * np.float32(-0.034 * force) * tail
        gap = ramp(np.abs(depth - where) - 0.008 * force, 0.006) * hit
        contrast = (1 + np.float32(2.0 * force) * hit * ramp(np.abs(depth - where) - 0.035, 0.03)) * (1 - gap)
    rank = (height - 0.1) / spacing
    offset = np.abs(rank - np.round(rank)) * spacing
    reach = ramp(depth - 0.48, 0.08) * ramp(-depth - 0.02, 0.02) * ramp(np.abs(canvas.y - 0.47) - 0.36, 0.03)
    return (0.1 * ramp(offset - 0.012, 0.006) + 0.05 * band(offset - 0.011, 0.004, 0.004)) * contrast * reach


def _vessels(canvas: Canvas, spec: StudySpec, rng: np.random.Generator) -> np.ndarray:
    edema = spec.drawn.get("Edema")
    thick = 0.008 * (1 + 0.8 * strength(edema))
    lines = []
    for angle in np.linspace(0, 2 * np.pi, 13, endpoint=False) + rng.normal(0, 0.2, 13):
        bend, length = angle + rng.normal(0, 0.6), rng.uniform(0.05, 0.11)
        start = (0.53 + 0.025 * np.cos(angle), 0.45 + 0.03 * np.sin(angle))
        middle = (start[0] + length * np.cos(angle), start[1] + length * np.sin(angle))
        end = (middle[0] + 0.9 * length * np.cos(bend), middle[1] + 0.9 * length * np.sin(bend))
        lines += [([start, middle], thick, 0.8), ([middle, end], thick * 0.6, 0.6)]
    return 0.24 * canvas.strokes(lines) + (0.4 + 0.15 * strength(edema)) * canvas.haze(0.53, 0.45, 0.035, 0.045)


def _heart(canvas: Canvas, spec: StudySpec, anatomy: Anatomy, rng_for: RngFor) -> np.ndarray:
    """Heart, aortic arch and aorta, and a full anterior mediastinum if it is enlarged."""
    ratio = heart_ratio(spec.drawn.get("Cardiomegaly"), anatomy, rng_for("Cardiomegaly"))
    growth = (ratio / 0.44) ** 1.2
    floor = 0.75 + anatomy.dome
    heart = canvas.disc(0.21 + 0.135 * growth, floor - 0.075 * growth, 0.16 * growth, 0.115 * growth, 0.018, tilt=-48)
    arch_x, arch_y = 0.58, 0.31
    ring = canvas.ellipse(arch_x, arch_y, 0.065, 0.065)
    arch = band((ring - 1) * 0.065, 0.045, 0.015) * ramp(canvas.y - 0.34, 0.03)
    aorta = band(canvas.x - 0.645 - 0.06 * canvas.y, 0.045, 0.02) * ramp(np.abs(canvas.y - 0.55) - 0.24, 0.04)
    wide = spec.drawn.get("Enlarged Cardiomediastinum")
    full: Any = 0.0
    if wide:
        extent = SIZE[wide.severity]
        full = 0.5 * strength(wide) * canvas.disc(0.42, 0.27, 0.15 * extent, 0.15 * extent, 0.05, tilt=-30)
    return 0.5 * heart + 0.3 * arch + 0.18 * aorta + full


def _effusion(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Fluid behind the dome that rises along the posterior and, if large, the anterior wall."""
    level, climb = {"mild": (0.85, 0.07), "moderate": (0.735, 0.1), "severe": (0.56, 0.1)}[finding.severity]
    behind = np.clip((canvas.x - 0.45) / np.float32(0.33), 0, 1.1) ** 3
    before = np.clip((0.45 - canvas.x) / np.float32(0.25), 0, 1.1) ** 3
    surface = level + rng.uniform(-0.015, 0.01) - climb * (behind + 0.6 * before)
    return 0.75 * ramp(surface - canvas.y, 0.035)


def _pneumothorax(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Free air under the apex and behind the sternum, with the pleural line at its edge."""
    gap = {"mild": 0.035, "moderate": 0.06, "severe": 0.1}[finding.severity]
    edge = np.maximum(
        outline(canvas.y - np.float32(1.6 * gap), _FRONT) + gap - canvas.x,
        canvas.x - outline(canvas.y - np.float32(1.6 * gap), _BACK) + 0.3 * gap,
    )
    return 0.42 * band(edge, 0.009, 0.005) - 0.18 * ramp(-edge, 0.006)


def _place(finding: Finding, rng: np.random.Generator) -> tuple[float, float]:
    """A position behind the heart. Random values are used as in the frontal `_place`, which gives the same height."""
    near, far = {"upper": (0.55, 0.66), "mid": (0.58, 0.68), "lower": (0.6, 0.7)}[finding.zone]
    return float(rng.uniform(near, far)), ZONE_Y[finding.zone] + float(rng.uniform(-0.03, 0.03))


def _opacity(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    x, y = _place(finding, rng)
    rx, ry = rng.uniform(0.05, 0.07, 2) * SIZE[finding.severity]
    return 0.6 * canvas.haze(x, y, rx, ry)


def _consolidation(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """A lobe between the fissures: the upper in front, the middle as a wedge over the heart, the lower behind."""
    x, y = canvas.x, canvas.y
    oblique = y - 0.3 - np.float32(0.75) * (0.72 - x)  # negative above and in front of the oblique fissure
    lobes = {
        "upper": ramp(oblique, 0.01) * ramp(y - 0.4, 0.01),
        "mid": ramp(oblique, 0.01) * ramp(0.42 - y, 0.01) * ramp(y - 0.56, 0.03),
        "lower": ramp(-oblique, 0.01),
    }
    return 0.55 * lobes[finding.zone]


def _pneumonia(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    x, y = _place(finding, rng)
    added = np.zeros_like(canvas.x)
    for dx, dy, r in zip(*rng.normal(0, (0.05, 0.05), (11, 2)).T, rng.uniform(0.012, 0.022, 11), strict=True):
        added = np.maximum(added, 0.6 * canvas.disc(x + dx, y + dy, r, r * 0.9, 0.018))
    return added * (1 + 0.35 * mottle(canvas.size, 40, rng))


def _atelectasis(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    lines = []
    for number in range({"mild": 2, "moderate": 3, "severe": 4}[finding.severity]):
        y, start, length = 0.74 - 0.04 * number, rng.uniform(0.48, 0.54), rng.uniform(0.16, 0.2)
        lines.append(([(start, y - 0.03), (start + length, y + rng.uniform(-0.01, 0.05))], 0.014, 1.0))
    return 0.65 * canvas.strokes(lines)


def _edema(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    lines = [([(0.755 - rng.uniform(0.03, 0.05), y), (0.79, y)], 0.006, 1.0) for y in 0.5 + 0.022 * np.arange(12)]
    haze = 0.5 * SIZE[finding.severity] * canvas.haze(0.53, 0.46, 0.12, 0.13)
    return haze * (1 + 0.25 * mottle(canvas.size, 30, rng)) + 0.3 * canvas.strokes(lines)


def _lesion(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    x, y = _place(finding, rng)
    radius = LESION_RADIUS[finding.severity]
    r = canvas.ellipse(x, y, radius, radius)
    return 0.5 * np.sqrt(np.clip(1 - r * r, 0, 1)) + 0.45 * ramp((r - 1) * radius, 0.006)


def _pleural_other(canvas: Canvas, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    thick = {"mild": 0.038, "moderate": 0.046, "severe": 0.054}[finding.severity]
    start, end = {"upper": (0.05, 0.25), "mid": (0.35, 0.6), "lower": (0.45, 0.75)}[finding.zone]
    swell = outline(canvas.y, ((start - 0.04, 0.0), (start + 0.05, 1.0), (end - 0.05, 1.0), (end + 0.04, 0.0)))
    if finding.zone == "mid":  # plaques: lumpy
        swell = swell * (0.65 + 0.5 * np.sin(canvas.y * 90))
    peel = ramp(outline(canvas.y, _BACK) - thick * swell - canvas.x, 0.01)
    if finding.zone == "upper":
        peel = np.maximum(peel, ramp(canvas.y - 0.1 - thick, 0.012))
    return 0.85 * peel * (swell > 0.05)


def _devices(canvas: Canvas, spec: StudySpec) -> np.ndarray:
    lines, shapes = [], []
    for device in spec.devices:
        if device == "endotracheal tube":
            lines += [([(0.49, 0.0), (0.535, 0.28)], 0.006, 0.8), ([(0.505, 0.0), (0.55, 0.28)], 0.006, 0.8)]
        elif device == "enteric tube":
            lines.append(([(0.55, 0.0), (0.6, 0.3), (0.6, 0.6), (0.54, 0.8), (0.42, 0.86)], 0.009, 0.75))
        elif device == "central line":
            lines.append(([(0.4, 0.02), (0.46, 0.15), (0.5, 0.3), (0.5, 0.45)], 0.008, 0.8))
        elif device == "chest tube":
            path = [(0.5, 0.75), (0.55, 0.55), (0.56, 0.35), (0.54, 0.2)]
            lines += [(path, 0.018, 0.55), (path, 0.006, 1.0)]
        elif device == "pacemaker":
            shapes.append(([(0.26, 0.16), (0.29, 0.15), (0.3, 0.23), (0.27, 0.24)], 1.0))
            lines.append(([(0.29, 0.18), (0.42, 0.2), (0.48, 0.35), (0.44, 0.55), (0.3, 0.69)], 0.008, 0.9))
        elif device == "port":
            lines += [([(0.25, 0.24), (0.27, 0.27)], 0.018, 1.0), ([(0.26, 0.25), (0.4, 0.18), (0.5, 0.4)], 0.007, 0.7)]
        elif device == "sternotomy wires":
            for y in np.arange(0.28, 0.6, 0.065):
                x = float(np.interp(y, *np.transpose(_FRONT))) - 0.01
                lines.append(
                    ([(x - 0.014, y), (x, y - 0.012), (x + 0.014, y), (x, y + 0.012), (x - 0.014, y)], 0.007, 0.95)
                )
    return 1.2 * canvas.strokes(lines) + 1.6 * canvas.polygons(shapes)


_PAINTERS = {
    "Atelectasis": _atelectasis,
    "Consolidation": _consolidation,
    "Edema": _edema,
    "Lung Lesion": _lesion,
    "Lung Opacity": _opacity,
    "Pleural Effusion": _effusion,
    "Pleural Other": _pleural_other,
    "Pneumonia": _pneumonia,
    "Pneumothorax": _pneumothorax,
}
