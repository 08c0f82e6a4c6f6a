"""Findings and devices of the frontal view. Each painter returns the attenuation that a finding adds.

Painters use the study's own random streams, so that frontal and lateral images agree and a finding does not affect the
position of others. Strengths are chosen so that each finding is visible at 96 x 96 pixels.
"""

from typing import Any

import numpy as np

from mimic_cxr_vqa.phantom.canvas import band, mottle, outline, ramp
from mimic_cxr_vqa.phantom.frontal import FrontalChest, RngFor, Side, pneumothorax_air, strength
from mimic_cxr_vqa.phantom.specs import Finding, StudySpec, chest_tube_side

ZONE_Y = {"upper": 0.25, "mid": 0.44, "lower": 0.61}
SIZE = {"mild": 0.8, "moderate": 1.0, "severe": 1.25}  # extent or density of findings without their own measure
LESION_RADIUS = {"mild": 0.029, "moderate": 0.036, "severe": 0.054}  # of the image width. The chest is about 40 cm


def add_findings(chest: FrontalChest, spec: StudySpec, rng_for: RngFor) -> np.ndarray:
    """Return the sum of all findings that overlay the lungs."""
    added = np.zeros_like(chest.canvas.x)
    for label, finding in spec.drawn.items():
        if label in _PAINTERS:
            contrast = strength(finding) * rng_for(f"{label} contrast").uniform(0.75, 1.1)
            added += contrast * _PAINTERS[label](chest, finding, rng_for(label))
    return added


def _effusion(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Fluid with a concave upper border along the chest wall. A small effusion only blunts the angle."""
    added: Any = 0.0
    for side in chest.affected(finding):
        level, climb = {"mild": (0.105, 0.125), "moderate": (0.0, 0.12), "severe": (-0.2, 0.13)}[finding.severity]
        level += rng.uniform(-0.02, 0.01)
        part = np.clip(side.u / np.float32(0.36), 0, 1.1)
        surface = side.dome_y + level - climb * part**3
        added = added + 0.9 * side.cavity * ramp(surface - chest.canvas.y, 0.035)
    return added


def _pneumothorax(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Air without markings outside of a thin white line. The lung inside is slightly denser."""
    side, air, line = pneumothorax_air(chest, finding)
    return 0.38 * line - 0.17 * air + 0.07 * (side.cavity - air)


def _opacity(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """One hazy patch without a border."""
    added: Any = 0.0
    for side in chest.affected(finding):
        x, y = _place(side, finding.zone, rng)
        rx, ry = rng.uniform(0.05, 0.07, 2) * SIZE[finding.severity]
        added = added + 0.55 * chest.canvas.haze(x, y, rx, ry) * side.cavity
    return added


def _consolidation(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """A dense lobe with a sharp edge at the fissure and dark bronchi in it."""
    added: Any = 0.0
    y = chest.canvas.y
    extent = {"mild": 0.75, "moderate": 0.9, "severe": 1.0}[finding.severity]
    for side in chest.affected(finding):
        tilt = np.float32(rng.uniform(-0.12, 0.12)) * (side.u - 0.2)
        upper = ramp(y + tilt - 0.41, 0.008) * ramp(0.41 - 0.27 * extent - y, 0.05)
        mid = ramp(0.43 - y + tilt, 0.008) * ramp(y - 0.43 - 0.15 * extent, 0.03)
        lower = ramp(0.53 + 0.1 * (1 - extent) - y + np.float32(0.25) * (side.u - 0.2), 0.008)
        lobe = {"upper": upper, "mid": mid, "lower": lower}[finding.zone] * side.cavity
        centre = {"upper": 0.28, "mid": 0.5, "lower": 0.66}[finding.zone]
        bronchi = []
        for angle in rng.uniform(-0.5, 0.5, 4):
            bronchi.append(([side.to_xy(0.1, centre), side.to_xy(0.24, centre + 0.14 * np.sin(angle))], 0.008, 1.0))
        added = added + lobe * (0.72 - 0.35 * chest.canvas.strokes(bronchi))
    return added


def _pneumonia(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """A cluster of overlapping patches."""
    canvas = chest.canvas
    added = np.zeros_like(canvas.x)
    count = {"mild": 8, "moderate": 11, "severe": 15}[finding.severity]
    for side in chest.affected(finding):
        x, y = _place(side, finding.zone, rng)
        for du, dy, r in zip(
            *rng.normal(0, (0.045, 0.05), (count, 2)).T, rng.uniform(0.012, 0.022, count), strict=True
        ):
            blob = canvas.disc(x + du, y + dy, r, r * 0.9, 0.018)
            added = np.maximum(added, (0.5 + 0.2 * (r > 0.017)) * blob * side.cavity)
    return added * (1 + 0.35 * mottle(canvas.size, 40, rng))


def _atelectasis(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Plate-like bands above a raised diaphragm (raised in `build_chest`)."""
    lines = []
    for side in chest.affected(finding):
        for number in range({"mild": 2, "moderate": 3, "severe": 4}[finding.severity]):
            y = side.dome_y - 0.035 - 0.042 * number + rng.uniform(-0.008, 0.008)
            start, length = rng.uniform(0.1, 0.14), rng.uniform(0.14, 0.19)
            slope = rng.uniform(-0.16, 0.2)
            ends = [side.to_xy(start, y), side.to_xy(start + length, y + slope * length)]
            lines.append((ends, rng.uniform(0.012, 0.017), 1.0))
    return 0.6 * chest.canvas.strokes(lines) * chest.lungs


def _edema(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """Haze around both hila, and short horizontal Kerley lines at the lower chest wall."""
    added, lines = 0.0, []
    for side in chest.sides.values():
        haze = chest.canvas.haze(*side.to_xy(0.13, 0.47), 0.085, 0.14)
        added = added + 0.42 * SIZE[finding.severity] * haze * side.cavity
        for y in 0.5 + 0.022 * np.arange(10):
            end = float(outline(np.array([y]), ((0.45, 0.325), (0.62, 0.345), (0.78, 0.35)))[0]) * chest.anatomy.width
            lines.append(([side.to_xy(end - rng.uniform(0.035, 0.055), y), side.to_xy(end, y)], 0.006, 1.0))
    return added * (1 + 0.25 * mottle(chest.canvas.size, 30, rng)) + 0.35 * chest.canvas.strokes(lines) * chest.lungs


def _lesion(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """A round nodule (or a mass) with a sharp border."""
    added: Any = 0.0
    radius = LESION_RADIUS[finding.severity]
    for side in chest.affected(finding):
        x, y = _place(side, finding.zone, rng)
        r = chest.canvas.ellipse(x, y, radius, radius)
        ball = np.sqrt(np.clip(1 - r * r, 0, 1))
        added = added + (0.5 * ball + 0.45 * ramp((r - 1) * radius, 0.006)) * np.maximum(side.cavity, 0.3)
    return added


def _pleural_other(chest: FrontalChest, finding: Finding, rng: np.random.Generator) -> np.ndarray:
    """An apical cap (upper), calcified plaques (mid) or a thick pleura along the wall (lower)."""
    added: Any = 0.0
    canvas = chest.canvas
    thick = {"mild": 0.038, "moderate": 0.046, "severe": 0.054}[finding.severity]
    for side in chest.affected(finding):
        if finding.zone == "upper":
            cap = ramp(canvas.y - 0.125 - 1.2 * thick - 0.25 * np.maximum(side.u - 0.1, 0), 0.012)
            peel = ramp(side.wall - thick - side.u, 0.01) * ramp(canvas.y - 0.26, 0.06)
            added = added + 0.85 * np.maximum(cap, peel) * side.cavity
        elif finding.zone == "lower":
            start, end = rng.uniform(0.36, 0.42), rng.uniform(0.66, 0.72)
            swell = outline(canvas.y, ((start - 0.06, 0.0), (start + 0.05, 1.0), (end - 0.05, 1.0), (end + 0.04, 0.0)))
            added = added + 0.9 * ramp(side.wall - thick * swell - side.u, 0.01) * (swell > 0.05) * side.cavity
        else:
            added = added + _plaques(chest, side, thick, rng)
    return added


def _plaques(chest: FrontalChest, side: Side, thick: float, rng: np.random.Generator) -> np.ndarray:
    shapes = []
    for y in (0.36, 0.46, 0.56, 0.66):
        u = 0.325 * chest.anatomy.width - rng.uniform(0.0, 0.05)
        angles = np.linspace(0, 2 * np.pi, 9)[:-1]
        radius = rng.uniform(0.7, 1.2, 8)
        y = y + rng.uniform(-0.02, 0.02)
        corners = [
            side.to_xy(u + thick * 0.6 * r * np.cos(a), y + 0.033 * r * np.sin(a))
            for a, r in zip(angles, radius, strict=True)
        ]
        shapes.append((corners, 1.0))
    dome = band(chest.canvas.y - side.dome, 0.014, 0.006) * ramp(np.abs(side.u - 0.2) - 0.06, 0.02)
    return 0.95 * chest.canvas.polygons(shapes) * ramp(side.u - side.wall - 0.01, 0.01) + 0.5 * dome


def _place(side: Side, zone: str, rng: np.random.Generator) -> tuple[float, float]:
    """A position in a zone of the lung, away from the heart."""
    near, far = {"upper": (0.13, 0.19), "mid": (0.18, 0.25), "lower": (0.2, 0.27)}[zone]
    if side.name == "left" and zone == "lower":
        near = 0.245
    return side.to_xy(float(rng.uniform(near, far)), ZONE_Y[zone] + float(rng.uniform(-0.03, 0.03)))


def add_devices(chest: FrontalChest, spec: StudySpec) -> np.ndarray:
    """Return tubes, lines and metal. The chest tube is on the side of the air or fluid that it drains."""
    tube_side = chest.sides[chest_tube_side(spec)]
    lines, shapes = [], []
    for device in spec.devices:
        if device == "endotracheal tube":
            lines += [([(0.488, 0.0), (0.49, 0.3)], 0.006, 0.8), ([(0.504, 0.0), (0.503, 0.3)], 0.006, 0.8)]
        elif device == "enteric tube":
            path = [(0.512, 0.0), (0.512, 0.3), (0.52, 0.6), (0.525, 0.78), (0.56, 0.86), (0.63, 0.9), (0.68, 0.88)]
            lines.append((path, 0.009, 0.75))
        elif device == "central line":
            lines.append(([(0.33, 0.0), (0.36, 0.1), (0.42, 0.2), (0.448, 0.28), (0.45, 0.43)], 0.008, 0.8))
        elif device == "chest tube":
            path = [
                tube_side.to_xy(u, y) for u, y in ((0.46, 0.68), (0.34, 0.6), (0.28, 0.45), (0.22, 0.28), (0.17, 0.18))
            ]
            lines += [(path, 0.018, 0.55), (path, 0.006, 1.0)]
        elif device == "pacemaker":
            shapes.append(([(0.72, 0.16), (0.775, 0.15), (0.8, 0.19), (0.78, 0.235), (0.725, 0.23)], 1.0))
            lead = [(0.72, 0.2), (0.62, 0.19), (0.53, 0.23), (0.46, 0.32), (0.45, 0.5), (0.47, 0.62)]
            lines += [(lead, 0.008, 0.9), ([*lead[:-1], (0.49, 0.7), (0.6, 0.73)], 0.008, 0.9)]
        elif device == "port":
            ring = [(0.26 + 0.022 * np.cos(a), 0.24 + 0.022 * np.sin(a)) for a in np.linspace(0, 6.3, 20)]
            lines += [
                (ring, 0.009, 1.0),
                ([(0.28, 0.24), (0.34, 0.16), (0.42, 0.18), (0.45, 0.3), (0.45, 0.4)], 0.007, 0.7),
            ]
        elif device == "sternotomy wires":
            for y in np.arange(0.3, 0.62, 0.065):
                loop = [(0.485, y), (0.5, y - 0.012), (0.515, y), (0.51, y + 0.014), (0.49, y + 0.012), (0.485, y)]
                lines.append((loop, 0.007, 0.95))
    return 1.2 * chest.canvas.strokes(lines) + 1.6 * chest.canvas.polygons(shapes)


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
