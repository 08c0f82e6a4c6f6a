"""Samples the content of synthetic studies: ids, split, views, findings and devices.

A study is a pure function of (seed, study number). Chronic findings and the split belong to the patient, acute findings
to the study. Labels follow CheXpert: 1 present, 0 absent (not drawn), -1 hedged (drawn faintly), missing if not
mentioned (not drawn). Rates are skewed like those of MIMIC-CXR, but every finding has at least about 6%.

Ids are outside of MIMIC's ranges (subjects from 90,000,001, studies from 95,000,001), so that synthetic rows cannot be
confused with those of patients.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from medvqa_core.digests import digest
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, NO_FINDING

FIRST_SUBJECT, FIRST_STUDY = 90_000_000, 95_000_000  # + patient or study number, both counted from 1
DEVICES_LABEL = "Support Devices"
DISEASES = tuple(name for name in CHEXPERT_LABELS if name not in (NO_FINDING, DEVICES_LABEL))

# label -> (stated present, hedged) among the patients that are not well, (stated absent) where it is neither
_RATES = {
    "Atelectasis": (0.27, 0.05, 0.02),
    "Cardiomegaly": (0.29, 0.05, 0.32),
    "Consolidation": (0.12, 0.03, 0.22),
    "Edema": (0.16, 0.04, 0.14),
    "Enlarged Cardiomediastinum": (0.12, 0.02, 0.17),
    "Fracture": (0.12, 0.02, 0.07),
    "Lung Lesion": (0.13, 0.03, 0.03),
    "Lung Opacity": (0.28, 0.02, 0.05),
    "Pleural Effusion": (0.31, 0.04, 0.28),
    "Pleural Other": (0.12, 0.02, 0.02),
    "Pneumonia": (0.14, 0.07, 0.12),
    "Pneumothorax": (0.12, 0.02, 0.38),
}
_WELL = 0.30  # share of patients without chronic and with few acute findings
_WELL_BUT_ILL_TODAY = 0.12
_MOST_FINDINGS = 5  # present or hedged. More would overlap
CHRONIC = ("Cardiomegaly", "Enlarged Cardiomediastinum", "Fracture", "Lung Lesion", "Pleural Other")
_BILATERAL = {"Pleural Effusion": 0.35, "Atelectasis": 0.3, "Pneumonia": 0.12, "Pleural Other": 0.15}
_NO_SIDE = ("Cardiomegaly", "Enlarged Cardiomediastinum", "Edema")  # midline, or always bilateral
_ZONES = {
    "Lung Opacity": (0.25, 0.3, 0.45),
    "Consolidation": (0.3, 0.3, 0.4),
    "Pneumonia": (0.2, 0.3, 0.5),
    "Lung Lesion": (0.45, 0.35, 0.2),
    "Fracture": (0.1, 0.5, 0.4),
    "Pleural Other": (0.2, 0.4, 0.4),  # apical cap, calcified plaques, thickening along the lateral wall
}
_CHRONIC_DEVICES = ("pacemaker", "sternotomy wires", "port")
_ACUTE_DEVICES = ("endotracheal tube", "enteric tube", "central line", "chest tube")
SEVERITIES = ("mild", "moderate", "severe")
ZONES = ("upper", "mid", "lower")

_VIEW_SETS = (  # (share, views). Unknown views are drawn as frontal
    (0.36, ("AP",)),
    (0.30, ("PA", "LATERAL")),
    (0.07, ("PA", "LL")),
    (0.06, ("AP", "LATERAL")),
    (0.07, ("AP", "AP")),
    (0.05, ("PA", "PA", "LATERAL")),
    (0.05, ("PA",)),
    (0.02, ("PA", "LATERAL", "LATERAL")),
    (0.01, ("AP", "")),
    (0.005, ("",)),
    (0.005, ("AP", "AP LLD")),
)


@dataclass(frozen=True)
class Finding:
    """A mentioned finding. `side` is the patient's `left` or `right`, `bilateral`, or empty if it does not apply."""

    state: int  # 1 present, -1 hedged, 0 absent
    side: str = ""
    zone: str = ""  # upper | mid | lower
    severity: str = "moderate"  # mild | moderate | severe


@dataclass(frozen=True)
class StudySpec:
    """The content of a study.

    Attributes:
        findings: the mentioned ones of the 12 diseases.
        removed_device: a device that the report mentions as removed.
        previous: findings of the patient's previous study, None for the first.
    """

    seed: int
    subject_id: int
    study_id: int
    split: str
    views: tuple[str, ...]
    dicom_ids: tuple[str, ...]
    findings: dict[str, Finding]
    devices: tuple[str, ...] = ()
    removed_device: str = ""
    previous: dict[str, Finding] | None = None
    has_findings_section: bool = True

    @property
    def drawn(self) -> dict[str, Finding]:
        """The findings that are visible in the images: present (1) and hedged (-1, faint)."""
        return {label: finding for label, finding in self.findings.items() if finding.state != 0}

    @property
    def labels(self) -> dict[str, int | None]:
        """The 14 CheXpert labels: 1, 0, -1 or None. No Finding is 1 or None, as in MIMIC-CXR."""
        labels: dict[str, int | None] = dict.fromkeys(CHEXPERT_LABELS)
        labels.update({label: finding.state for label, finding in self.findings.items()})
        if self.devices:
            labels[DEVICES_LABEL] = 1
        elif self.removed_device:
            labels[DEVICES_LABEL] = 0
        labels[NO_FINDING] = None if self.drawn else 1
        return labels


def sample_studies(studies: int, seed: int) -> Iterator[StudySpec]:
    """Yield the first `studies` studies of `seed`, patient by patient.

    The first three patients are in different splits, so that ten studies have all splits.
    """
    return islice(_all_studies(seed), studies)


def _all_studies(seed: int) -> Iterator[StudySpec]:
    number, patient = 0, 0
    while True:
        patient += 1
        count = stream(seed, "patient", patient).choice((1, 2, 3, 4), p=(0.5, 0.25, 0.15, 0.1))
        previous = None
        for _ in range(count):
            number += 1
            spec = _sample_study(seed, patient, number, previous)
            previous = spec.findings
            yield spec


def assign_split(seed: int, patient: int) -> str:
    """Return the split of a patient. Every ten patients have eight in train and one each in validate and test."""
    block, place = divmod(patient - 1, 10)
    if block == 0:
        return ("train", "validate", "test")[place] if place < 3 else "train"
    order = stream(seed, "split", block).permutation(["validate", "test"] + ["train"] * 8)
    return str(order[place])


def chest_tube_side(spec: StudySpec) -> str:
    """Return the side of a chest tube: that of the air or fluid it drains, else the right."""
    drained = spec.drawn.get("Pneumothorax") or spec.drawn.get("Pleural Effusion")
    return "left" if drained and drained.side == "left" else "right"


def _sample_study(seed: int, patient: int, number: int, previous: dict[str, Finding] | None) -> StudySpec:
    chronic_rng, acute_rng = stream(seed, "chronic", patient), stream(seed, "study", number)
    well = chronic_rng.random() < _WELL
    ill_today = not well or acute_rng.random() < _WELL_BUT_ILL_TODAY
    findings: dict[str, Finding] = {}
    for label in DISEASES:
        rng = chronic_rng if label in CHRONIC else acute_rng
        finding = _sample_finding(label, rng)
        if finding and not (well if label in CHRONIC else not ill_today):
            findings[label] = finding
    _drop_surplus(findings, acute_rng)
    _keep_apart(findings)
    for label in DISEASES:
        if acute_rng.random() < _RATES[label][2] and label not in findings:
            findings[label] = Finding(0)
    shares, view_sets = zip(*_VIEW_SETS, strict=True)
    views = view_sets[acute_rng.choice(len(view_sets), p=shares)]
    devices = _sample_devices(well, views, findings, chronic_rng, acute_rng)
    removed = acute_rng.random() < 0.12 and previous is not None and not devices
    return StudySpec(
        seed=seed,
        subject_id=FIRST_SUBJECT + patient,
        study_id=FIRST_STUDY + number,
        split=assign_split(seed, patient),
        views=views,
        dicom_ids=tuple(_dicom_id(seed, number, image) for image in range(len(views))),
        findings={label: findings[label] for label in DISEASES if label in findings},
        devices=devices,
        removed_device=str(acute_rng.choice(_ACUTE_DEVICES)) if removed else "",
        previous=previous,
        has_findings_section=acute_rng.random() >= 0.04,
    )


def _sample_finding(label: str, rng: np.random.Generator) -> Finding | None:
    """A finding that is present or hedged, or None. Always uses the same number of random values."""
    chance, side_chance = rng.random(2)
    zone = ZONES[rng.choice(3, p=_ZONES.get(label, (0, 0, 1)))]
    severity = SEVERITIES[rng.choice(3, p=(0.35, 0.4, 0.25))]
    present, hedged, _ = _RATES[label]
    if chance >= present + hedged:
        return None
    both = _BILATERAL.get(label, 0.0)
    side = "bilateral" if side_chance < both else "right" if side_chance < (1 + both) / 2 else "left"
    return Finding(
        state=1 if chance < present else -1,
        side="" if label in _NO_SIDE else side,
        zone=zone if label in _ZONES else "",
        severity=severity,
    )


def _drop_surplus(findings: dict[str, Finding], rng: np.random.Generator) -> None:
    acute = [label for label in findings if label not in CHRONIC]
    for label in rng.permutation(acute)[: max(0, len(findings) - _MOST_FINDINGS)]:
        del findings[str(label)]


def _keep_apart(findings: dict[str, Finding]) -> None:
    """Move findings that would overlap, and put pneumonia into its opacity."""
    opacity, pneumonia = findings.get("Lung Opacity"), findings.get("Pneumonia")
    if opacity and pneumonia:  # the report calls it an opacity and names its cause
        findings["Pneumonia"] = Finding(pneumonia.state, opacity.side, opacity.zone, pneumonia.severity)
    air = findings.get("Pneumothorax")
    if air:
        other = {"left": "right", "right": "left"}[air.side]
        for label in ("Pleural Effusion", "Consolidation", "Pleural Other"):
            if label in findings:
                f = findings[label]
                findings[label] = Finding(f.state, other, f.zone, f.severity)
    fluid = findings.get("Pleural Effusion")
    if fluid and fluid.severity == "severe":
        for label, f in list(findings.items()):
            if f.zone == "lower" and (fluid.side in (f.side, "bilateral") or f.side == "bilateral"):
                findings[label] = Finding(f.state, f.side, "mid", f.severity)
        if "Atelectasis" in findings and fluid.side == "bilateral":
            findings["Pleural Effusion"] = Finding(fluid.state, fluid.side, fluid.zone, "moderate")


def _sample_devices(
    well: bool,
    views: tuple[str, ...],
    findings: dict[str, Finding],
    chronic_rng: np.random.Generator,
    acute_rng: np.random.Generator,
) -> tuple[str, ...]:
    portable = views[0] == "AP"
    kept = chronic_rng.random(len(_CHRONIC_DEVICES)) < (0.03 if well else 0.09)
    placed = acute_rng.random(len(_ACUTE_DEVICES)) < (0.15 if portable and not well else 0.01)
    if "Pneumothorax" in findings and acute_rng.random() < 0.3:
        placed[_ACUTE_DEVICES.index("chest tube")] = True
    chosen = [name for name, has in zip(_CHRONIC_DEVICES, kept, strict=True) if has]
    return tuple(chosen + [name for name, has in zip(_ACUTE_DEVICES, placed, strict=True) if has])


def _dicom_id(seed: int, number: int, image: int) -> str:
    digits = digest(f"phantom {seed} {number} {image}")
    return "-".join(digits[start : start + 8] for start in range(0, 40, 8))


def stream(seed: int, purpose: str, number: int) -> np.random.Generator:
    """Return an independent random stream per purpose and number, so that studies do not affect each other."""
    return np.random.default_rng([seed, int.from_bytes(purpose.encode()), number])
