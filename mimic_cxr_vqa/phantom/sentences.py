"""The sentences of a synthetic report's findings and impression, from a StudySpec.

The findings mention every finding once, with its side, place and severity, and often compare it with the patient's
previous study. The impression repeats the main findings. `reports` adds headings and layout.
"""

import re

import numpy as np

from mimic_cxr_vqa.phantom import phrases
from mimic_cxr_vqa.phantom.specs import SEVERITIES, Finding, StudySpec, chest_tube_side

_IN_LUNG = ("Atelectasis", "Consolidation", "Edema", "Lung Lesion", "Lung Opacity", "Pneumonia")
_COUNTED = ("Lung Opacity", "Pleural Effusion", "Pneumothorax")  # nouns with an article
_HEART_OR_MEDIASTINUM = ("Cardiomegaly", "Enlarged Cardiomediastinum")


def findings_sentences(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    """Return all statements of the study as sentences in the order of a report."""
    devices = _device_sentences(spec, rng)
    heart = _heart_sentences(spec, rng)
    lungs = [s for label in spec.drawn if label in _IN_LUNG for s in _drawn_sentences(spec, label, rng)]
    others = [
        s
        for label in spec.drawn
        if label not in _IN_LUNG and label not in _HEART_OR_MEDIASTINUM
        for s in _drawn_sentences(spec, label, rng)
    ]
    blocks = [heart, lungs, others, _absence_sentences(spec, rng)]
    if rng.random() < 0.4:
        blocks = [lungs, others, blocks[3], heart]
    blocks = [devices, *blocks] if rng.random() < 0.6 else [*blocks, devices]
    sentences = [sentence for block in blocks for sentence in block]
    if rng.random() < 0.3:
        sentences.append(_finish(_pick(phrases.FILLERS, rng)))
    return sentences or [_finish(_pick(phrases.NORMAL_IMPRESSIONS, rng))]


def impression_sentences(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    """Return one to three main findings, present ones first, or a normal phrase if there are none."""
    drawn = sorted(spec.drawn, key=lambda label: -spec.drawn[label].state)
    if not drawn:
        return [_finish(_pick(phrases.NORMAL_IMPRESSIONS, rng))]
    if "Lung Opacity" in drawn and "Pneumonia" in drawn:
        drawn.remove("Pneumonia")  # mentioned with the opacity
    kept = drawn[: int(rng.integers(1, 4))]
    return [sentence for label in kept for sentence in _drawn_sentences(spec, label, rng, compare=False)]


def _drawn_sentences(spec: StudySpec, label: str, rng: np.random.Generator, compare: bool = True) -> list[str]:
    finding = spec.drawn[label]
    pneumonia = spec.drawn.get("Pneumonia")
    if label == "Lung Opacity" and finding.state == 1 and pneumonia:
        templates = phrases.OPACITY_WITH_PNEUMONIA[pneumonia.state]
    elif label == "Pneumonia" and compare and "Lung Opacity" in spec.drawn and spec.drawn["Lung Opacity"].state == 1:
        return []  # mentioned with the opacity
    elif finding.state == -1:
        templates = phrases.HEDGED[label]
    else:
        templates = phrases.PRESENT.get(f"{label} {finding.zone}") or phrases.PRESENT[label]
    clause = _fill(_pick(templates, rng), label, finding)
    if compare and finding.state == 1 and spec.previous is not None and rng.random() < 0.5:
        clause += ", " + _pick(_change(finding, spec.previous.get(label)), rng)
    sentences = [_finish(clause)]
    if not compare and label == "Lung Opacity" and finding.state == -1 and pneumonia:
        sentences += [_finish(_fill(_pick(phrases.HEDGED["Pneumonia"], rng), "Pneumonia", pneumonia))]
    return sentences


def _change(now: Finding, before: Finding | None) -> tuple[str, ...]:
    if before is None or before.state != 1 or (before.side != now.side and "bilateral" not in (before.side, now.side)):
        return phrases.NEW
    if before.side != now.side:
        return phrases.INCREASED if now.side == "bilateral" else phrases.DECREASED
    step = SEVERITIES.index(now.severity) - SEVERITIES.index(before.severity)
    return phrases.UNCHANGED if step == 0 else phrases.INCREASED if step > 0 else phrases.DECREASED


def _fill(template: str, label: str, finding: Finding) -> str:
    both = finding.side == "bilateral"
    places = phrases.PLACE.get(label, phrases.PLACE[""])
    zone = places.get(finding.zone, "")
    return template.format(
        side=finding.side,
        on="on both sides" if both else f"on the {finding.side}",
        zone=f"{zone}s" if both and label in ("Pneumonia", "Consolidation", "Lung Opacity") else zone,
        sev=phrases.SEVERITY[label][finding.severity],
        There="There is" if label not in _COUNTED else "There are" if both else "There is a",
        s="s" if both else "",
        **{"is": "are" if both else "is"},
    )


def _heart_sentences(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    states = [spec.findings[label].state if label in spec.findings else None for label in _HEART_OR_MEDIASTINUM]
    if states == [0, 0] and rng.random() < 0.7:
        return [_finish(_pick(phrases.NORMAL_HEART_AND_MEDIASTINUM, rng))]
    sentences = []
    for label, state, normal in zip(
        _HEART_OR_MEDIASTINUM, states, (phrases.NORMAL_HEART, phrases.NORMAL_MEDIASTINUM), strict=True
    ):
        if state == 0:
            sentences.append(_finish(_pick(normal, rng)))
        elif state is not None:
            sentences += _drawn_sentences(spec, label, rng)
    return sentences


def _absence_sentences(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    """Findings that are ruled out, several per sentence."""
    nouns, sentences = [], []
    for label, finding in spec.findings.items():
        if finding.state != 0 or label in _HEART_OR_MEDIASTINUM:
            continue
        before = (spec.previous or {}).get(label)
        noun = _pick(phrases.ABSENT[label], rng)
        if (
            before
            and before.state == 1
            and label in ("Pleural Effusion", "Pneumothorax", "Edema")
            and rng.random() < 0.5
        ):
            sentences.append(_finish(_pick(phrases.RESOLVED, rng).format(phrases.ABSENT[label][0])))
        else:
            nouns.append(noun)
    rng.shuffle(nouns)
    clear = not any(label in spec.drawn for label in (*_IN_LUNG, "Pneumothorax")) and rng.random() < 0.7
    if clear and nouns and rng.random() < 0.5:
        link = _pick(("without {}", "without evidence of {}", "with no {}"), rng)
        return [*sentences, _finish(f"{_pick(phrases.CLEAR_LUNGS, rng)} {link}".format(_join(nouns)))]
    if clear:
        sentences.insert(0, _finish(_pick(phrases.CLEAR_LUNGS, rng)))
    cut = int(rng.integers(1, 4))
    for group in (nouns[:cut], nouns[cut:]):
        if group:
            sentences.append(_finish(_pick(phrases.NEGATION, rng).format(_join(group))))
    return sentences


def _device_sentences(spec: StudySpec, rng: np.random.Generator) -> list[str]:
    sentences = []
    for device in spec.devices:
        clause = _pick(phrases.DEVICES[device], rng).format(side=chest_tube_side(spec))
        sentences.append(_finish(clause))
    if spec.removed_device:
        sentences.append(_finish(_pick(phrases.REMOVED_DEVICE, rng).format(spec.removed_device)))
    return sentences


def _join(nouns: list[str]) -> str:
    if len(nouns) == 1:
        return nouns[0]
    nouns = [nouns[0], *(noun.removeprefix("evidence of ") for noun in nouns[1:])]
    return f"{', '.join(nouns[:-1])}{',' if len(nouns) > 2 else ''} or {nouns[-1]}"


def _finish(clause: str) -> str:
    """Add the capital letter and full stop, and correct `a`/`an` and double spaces."""
    clause = re.sub(r"\bevidence of evidence of\b", "evidence of", " ".join(clause.split()))
    clause = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", clause)
    return f"{clause[0].upper()}{clause[1:]}."


def _pick(options: tuple[str, ...], rng: np.random.Generator) -> str:
    return options[rng.integers(len(options))]
