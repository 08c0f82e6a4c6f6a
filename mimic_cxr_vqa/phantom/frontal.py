"""The synthetic chest in frontal view (AP, PA): body, bones, lungs, heart and vessels.

This module draws findings that change the outline of an organ: heart width, mediastinal width, raised diaphragm, broken
ribs, thick vessels, collapsed lung. `frontal_findings` draws findings that overlay the lungs.

The patient's right is on the left of the image. A `Side` has its own coordinate `u`, the distance from the midline
towards that side's chest wall.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mimic_cxr_vqa.phantom.canvas import Canvas, band, outline, ramp
from mimic_cxr_vqa.phantom.specs import Finding, StudySpec

FAINT = 0.42  # strength of a hedged finding, against 1 for one that is stated
HEART_RATIO = {"mild": (0.565, 0.59), "moderate": (0.59, 0.635), "severe": (0.635, 0.68)}  # heart / thorax width
_BORDERLINE_RATIO, _NORMAL_RATIO = (0.505, 0.53), (0.40, 0.48)
_MEDIASTINUM = {"mild": 0.055, "moderate": 0.07, "severe": 0.09}  # added to each side
_COLLAPSE = {"mild": 0.035, "moderate": 0.065, "severe": 0.11}  # gap between chest wall and lung edge
LUNG, SOFT_TISSUE = 0.30, 1.05  # attenuation of aerated lung and of the body around it
_TOP, _BOTTOM = 0.09, 0.76  # lung apex and right diaphragm dome
_LEFT_LOWER = 0.025  # how much lower the left dome is
HALF_THORAX = 0.36  # widest inner half width of an average chest

RngFor = Callable[[str], np.random.Generator]


@dataclass(frozen=True)
class Anatomy:
    """The anatomy of a patient, which all their studies share."""

    width: float  # factor on the thorax width
    heart: float  # normal heart width / thorax width
    ribs: float  # distance between ribs
    bulk: float  # factor on soft tissue
    knob: float  # radius of the aortic knob
    dome: float  # shift of both diaphragm domes, down positive
    breast: float  # soft tissue over both lower zones; 0 in half of the patients

    @classmethod
    def sample(cls, rng: np.random.Generator) -> "Anatomy":
        u = rng.uniform
        return cls(
            u(0.94, 1.05),
            u(*_NORMAL_RATIO),
            u(0.07, 0.08),
            u(0.9, 1.1),
            u(0.022, 0.036),
            u(-0.02, 0.02),
            max(0.0, u(-0.16, 0.16)),
        )


@dataclass(frozen=True)
class Side:
    """One hemithorax: masks and outlines over the whole picture."""

    name: str  # left | right, the patient's
    sign: int  # -1 right, +1 left: direction of `u` in x
    u: np.ndarray
    wall: np.ndarray  # u of the inner chest wall
    dome: np.ndarray  # y of the diaphragm
    cavity: np.ndarray  # mask of the pleural cavity, fluid included
    dome_y: float  # y of the top of the diaphragm

    def to_xy(self, u: float, y: float) -> tuple[float, float]:
        return 0.5 + self.sign * u, y


@dataclass(frozen=True)
class FrontalChest:
    """The chest as the painters of findings use it."""

    canvas: Canvas
    anatomy: Anatomy
    sides: dict[str, Side]
    lungs: np.ndarray  # both cavities

    def affected(self, finding: Finding) -> list[Side]:
        """Return the sides of a finding, both for bilateral findings and those without a side."""
        return [side for side in self.sides.values() if finding.side in (side.name, "bilateral", "")]


def strength(finding: Finding | None) -> float:
    """Return how strongly a finding is drawn: 1 if present, FAINT if hedged, else 0."""
    return 0.0 if finding is None or finding.state == 0 else 1.0 if finding.state == 1 else FAINT


def heart_ratio(finding: Finding | None, anatomy: Anatomy, rng: np.random.Generator) -> float:
    """Return heart width over inner thorax width, which is above 0.55 exactly if cardiomegaly is stated."""
    if finding is None or not strength(finding):
        return anatomy.heart
    return float(rng.uniform(*(HEART_RATIO[finding.severity] if finding.state == 1 else _BORDERLINE_RATIO)))


def build_chest(canvas: Canvas, spec: StudySpec, anatomy: Anatomy) -> FrontalChest:
    """Build both hemithoraces. Atelectasis raises the diaphragm on its side."""
    sides = {}
    raised = spec.drawn.get("Atelectasis")
    for name, sign in (("right", -1), ("left", 1)):
        u = np.float32(sign) * (canvas.x - np.float32(0.5))
        loss = strength(raised) * 0.04 if raised and raised.side in (name, "bilateral") else 0.0
        dome_y = _BOTTOM + anatomy.dome + (_LEFT_LOWER if name == "left" else 0.0) - loss
        wall = _wall(canvas.y, anatomy)
        medial = outline(canvas.y, ((0.08, 0.125), (0.12, 0.075), (0.2, 0.055), (0.4, 0.06), (0.8, 0.06)))
        dome = dome_y + outline(u, ((0.0, 0.05), (0.08, 0.015), (0.17, 0.0), (0.25, 0.02), (0.33, 0.075), (0.4, 0.14)))
        inside = ramp(np.maximum(medial - u, u - wall), 0.012)
        cavity = inside * ramp(canvas.y - dome, 0.012)
        sides[name] = Side(name, sign, u, wall, dome, cavity, dome_y)
    return FrontalChest(canvas, anatomy, sides, sides["right"].cavity + sides["left"].cavity)


def draw_normal(chest: FrontalChest, spec: StudySpec, portable: bool, rng_for: RngFor) -> np.ndarray:
    """Return the attenuation of the chest, with organs shaped by the findings."""
    canvas, anatomy, findings = chest.canvas, chest.anatomy, spec.drawn
    body = _body(chest)
    below = ramp(np.where(canvas.x < 0.5, chest.sides["right"].dome, chest.sides["left"].dome) - canvas.y, 0.03)
    tissue = body * (SOFT_TISSUE * anatomy.bulk + 0.3 * below) - chest.lungs * (SOFT_TISSUE * anatomy.bulk - LUNG)
    for side in chest.sides.values():
        breast = canvas.disc(*side.to_xy(0.22, 0.6), 0.15, 0.13, 0.09)
        tissue += anatomy.breast * breast * body
    tissue += _gas(chest, rng_for("gas")) * -0.45
    tissue += _bones(chest, findings.get("Fracture"), rng_for("Fracture"), portable) * body
    tissue += _vessels(chest, findings, rng_for("vessels"))
    tissue += _middle(chest, findings, rng_for) * body
    return tissue


def room(tissue: np.ndarray) -> np.ndarray:
    """Return the visible share of a finding: all of it over the lung, little over heart and spine."""
    return np.clip((np.float32(1.3) - tissue) / np.float32(0.7), 0.35, 1)


def pneumothorax_air(chest: FrontalChest, finding: Finding) -> tuple[Side, np.ndarray, np.ndarray]:
    """Return the side, the mask of free air, and the line of the visceral pleura at its edge."""
    side = chest.affected(finding)[0]
    gap = _COLLAPSE[finding.severity]
    edge: Any = _wall(chest.canvas.y - np.float32(1.5 * gap), chest.anatomy) - np.float32(gap)
    edge = edge - np.float32(gap) * outline(chest.canvas.y, ((0.1, 0.9), (0.5, 0.4), (0.8, 0.0)))
    air = side.cavity * ramp(edge - side.u, 0.006)
    line = side.cavity * band(side.u - edge, 0.009, 0.005)
    return side, air, line


def _wall(y: np.ndarray, anatomy: Anatomy) -> np.ndarray:
    knots = (
        (0.07, 0.08),
        (_TOP, 0.12),
        (0.13, 0.19),
        (0.2, 0.25),
        (0.3, 0.3),
        (0.45, 0.335),
        (0.62, 0.355),
        (0.78, HALF_THORAX),
    )
    return outline(y, knots) * np.float32(anatomy.width)


def _body(chest: FrontalChest) -> np.ndarray:
    y, x = chest.canvas.y, chest.canvas.x
    flank = outline(y, ((0.0, 0.12), (0.06, 0.16), (0.1, 0.36), (0.15, 0.5), (0.35, 0.5), (0.5, 0.455), (1.0, 0.44)))
    return ramp(np.abs(x - np.float32(0.5)) - flank, 0.02)


def _bones(chest: FrontalChest, fracture: Finding | None, rng: np.random.Generator, portable: bool) -> np.ndarray:
    canvas = chest.canvas
    bones = np.zeros_like(canvas.x)
    for side in chest.sides.values():
        broken = fracture if fracture and strength(fracture) and fracture.side in (side.name, "bilateral") else None
        bones += _ribs(chest, side, broken, rng)
        collar = [side.to_xy(u, y) for u, y in ((0.03, 0.185), (0.1, 0.165), (0.2, 0.13), (0.3, 0.115), (0.36, 0.12))]
        bones += 0.22 * canvas.strokes([(collar, 0.022, 1.0), (collar, 0.012, 0.75)])
        blade = 0.29 if portable else 0.37  # PA: turned arms move the shoulder blades off the lungs
        corners = [side.to_xy(blade + u, y) for u, y in ((0.0, 0.16), (0.09, 0.2), (0.05, 0.42), (0.02, 0.4))]
        bones += 0.12 * canvas.polygons([(corners, 1.0)])
    vertebrae = 0.22 + 0.1 * np.sign(np.sin(canvas.y * np.float32(2 * np.pi / 0.062)) + 0.6)
    return bones + vertebrae * ramp(np.abs(canvas.x - np.float32(0.5)) - 0.034, 0.012)


def _ribs(chest: FrontalChest, side: Side, broken: Finding | None, rng: np.random.Generator) -> np.ndarray:
    """Posterior ribs descend outwards, anterior ones inwards. A fracture shifts the outer fragment and leaves a gap."""
    spacing, u, y = chest.anatomy.ribs, side.u, chest.canvas.y
    height = y - np.float32(0.95) * u * u + np.float32(0.3) * np.maximum(u - 0.27, 0)
    contrast = np.float32(1.0)
    first = 0.13
    if broken:
        at = {"upper": 0.25, "mid": 0.42, "lower": 0.56}[broken.zone] + rng.uniform(-0.03, 0.03)
        where = float(rng.uniform(0.2, 0.27))
        count = {"mild": 2, "moderate": 3, "severe": 4}[broken.severity]
        first_rib = round((at - first) / spacing) - count // 2
        rank = np.floor((height - first) / spacing + 0.5)
        hit = (rank >= first_rib) & (rank < first_rib + count)
        force = strength(broken)
        tail = np.clip((side.wall - u) / np.float32(0.1), 0, 1)  # the fragment is attached at its outer end
        height = height + hit * (u > where) * np.float32(-0.034 * force) * tail
        gap = ramp(np.abs(u - where) - 0.009 * force, 0.006) * hit
        contrast = (1 + np.float32(1.8 * force) * hit * ramp(np.abs(u - where) - 0.04, 0.03)) * (1 - gap)
    posterior = (height - first) / spacing
    offset = np.abs(posterior - np.round(posterior)) * spacing
    bone = 0.15 * ramp(offset - 0.012, 0.006) + 0.06 * band(offset - 0.011, 0.004, 0.004)
    rise = (y + np.float32(0.55) * u - 0.3) / np.float32(spacing * 1.1)
    front = np.abs(rise - np.round(rise)) * np.float32(spacing * 1.1)
    bone_front = 0.07 * ramp(front - 0.014, 0.008) * np.clip((u - 0.14) / np.float32(0.08), 0, 1)
    reach = ramp(u - side.wall - 0.015, 0.02) * ramp(0.02 - u, 0.01) * ramp(np.abs(y - 0.47) - 0.39, 0.02)
    return (bone * contrast + bone_front) * reach


def _vessels(chest: FrontalChest, findings: dict[str, Finding], rng: np.random.Generator) -> np.ndarray:
    edema = findings.get("Edema")
    force = strength(edema) * {"mild": 0.6, "moderate": 0.9, "severe": 1.2}[edema.severity] if edema else 0.0
    lines: list[Any] = []
    for side in chest.sides.values():
        hilum = 0.455 if side.name == "right" else 0.435
        for angle in np.linspace(-1.35, 1.4, 10) + rng.normal(0, 0.12, 10):
            upwards = angle < -0.2
            thick = 0.010 * (1 + force * (1.0 if upwards else 0.35))
            _branch(lines, side, 0.07, hilum + 0.035 * float(np.sin(angle)), float(angle), thick, 3, rng)
    vessels = 0.26 * chest.canvas.strokes(lines)
    for side in chest.sides.values():
        y = 0.46 if side.name == "right" else 0.435
        vessels += (0.32 + 0.15 * force) * chest.canvas.haze(*side.to_xy(0.08, y), 0.022, 0.045)
    air = findings.get("Pneumothorax")
    if air:
        side, free, _ = pneumothorax_air(chest, air)
        vessels *= 1 - free * strength(air)
    return vessels * chest.lungs


def _branch(
    lines: list, side: Side, u: float, y: float, angle: float, width: float, depth: int, rng: np.random.Generator
) -> None:
    """Add a vessel and its two daughters, which get thinner and fainter outwards."""
    length = rng.uniform(0.06, 0.1) * (0.75 if depth < 3 else 1.0)
    bend = angle + rng.normal(0, 0.3)
    middle = (u + 0.5 * length * np.cos(angle), y + 0.5 * length * np.sin(angle))
    end = (middle[0] + 0.5 * length * np.cos(bend), middle[1] + 0.5 * length * np.sin(bend))
    lines.append(([side.to_xy(u, y), side.to_xy(*middle), side.to_xy(*end)], width, 0.3 + 0.2 * depth))
    if depth > 1:
        spread = rng.uniform(0.2, 0.5, 2)
        _branch(lines, side, *end, bend - spread[0], width * 0.65, depth - 1, rng)
        _branch(lines, side, *end, bend + spread[1], width * 0.65, depth - 1, rng)


def _middle(chest: FrontalChest, findings: dict[str, Finding], rng_for: RngFor) -> np.ndarray:
    """The airway, and mediastinum, aortic knob and heart as one silhouette."""
    canvas, anatomy = chest.canvas, chest.anatomy
    wide = findings.get("Enlarged Cardiomediastinum")
    extra = _MEDIASTINUM[wide.severity] * (1.0 if wide.state == 1 else FAINT) if wide else 0.0
    swell = outline(canvas.y, ((0.1, 0.3), (0.17, 0.85), (0.3, 1.0), (0.42, 0.7), (0.52, 0.0))) * np.float32(extra)
    ratio = heart_ratio(findings.get("Cardiomegaly"), anatomy, rng_for("Cardiomegaly"))
    width = ratio * 2 * HALF_THORAX * anatomy.width
    apex, atrium = 0.66 * width, 0.34 * width
    floor = _BOTTOM + _LEFT_LOWER + anatomy.dome  # a raised dome does not move the heart
    top = floor - 0.30 - 0.25 * (ratio - 0.44)
    left = outline(
        canvas.y,
        (
            (0.1, 0.05),
            (0.26, 0.058),
            (0.31, 0.058 + anatomy.knob),
            (0.35, 0.066),
            (top, 0.072),
            (top + 0.08, 0.072 + 0.3 * (apex - 0.072)),
            (floor - 0.12, 0.072 + 0.84 * (apex - 0.072)),
            (floor - 0.05, apex * 1.01),
            (floor + 0.02, apex * 0.99),
            (floor + 0.07, apex * 0.85),
        ),
        smoothing=56,
    )
    right = outline(
        canvas.y,
        (
            (0.1, 0.05),
            (0.3, 0.058),
            (top + 0.02, 0.062),
            (floor - 0.19, 0.062 + 0.75 * (atrium - 0.062)),
            (floor - 0.12, atrium * 1.02),
            (floor - 0.06, atrium),
            (floor + 0.02, atrium * 0.8),
        ),
        smoothing=56,
    )
    offset = canvas.x - np.float32(0.5)
    silhouette = ramp(np.maximum(offset - left - swell, -offset - right - swell), 0.014)
    muscle = canvas.haze(0.5 + 0.2 * width, floor - 0.08, 0.42 * width, 0.11)
    airway = ramp(np.abs(canvas.x - 0.497) - 0.014, 0.01) * ramp(canvas.y - 0.38, 0.03)
    return silhouette * (0.68 + 0.22 * muscle) * chest.lungs - 0.24 * airway


def _gas(chest: FrontalChest, rng: np.random.Generator) -> np.ndarray:
    """The stomach bubble below the left dome."""
    u, depth, rx = rng.uniform(0.1, 0.2), rng.uniform(0.05, 0.08), rng.uniform(0.03, 0.06)
    side = chest.sides["left"]
    bubble = chest.canvas.disc(*side.to_xy(u, side.dome_y + depth), rx, rx * 0.6, 0.02)
    return bubble * ramp(side.dome + 0.02 - chest.canvas.y, 0.01)
