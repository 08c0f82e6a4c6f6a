"""A report's 14 CheXpert labels from its text: 1, 0, -1 or None (not mentioned), by `mentions`.

Findings and impression are both read; what either affirms is positive, else what either doubts is uncertain, else what
either denies is negative. No Finding follows CheXpert (Irvin et al. 2019): positive where none of the other labels is
positive or uncertain, support devices aside; otherwise missing, never 0 or -1.
"""

import re
from collections.abc import Mapping

from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, analyse
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, LABEL_VALUES, NO_FINDING

Labels = dict[str, int | None]

# A consolidation is a lung opacity; without one there may be another.
_CONSOLIDATION = re.compile(r"\bconsol\w*", re.IGNORECASE)
_VALUES = {name: value for value, name in LABEL_VALUES.items()}
_STRONGEST_FIRST = (POSITIVE, UNCERTAIN, NEGATIVE)
_PATHOLOGIES = tuple(label for label in CHEXPERT_LABELS if label not in (NO_FINDING, "Support Devices"))
_NAMES = {1: "positive", 0: "negative", -1: "uncertain", None: "silent"}


def label_text(findings: str | None, impression: str | None) -> Labels:
    """The labels of one report; all None where it has no text."""
    texts = [text for text in (findings, impression) if text and text.strip()]
    labels: Labels = dict.fromkeys(CHEXPERT_LABELS)
    for label in CHEXPERT_LABELS:
        if label != NO_FINDING:
            said = {_polarity(text, label) for text in texts}
            labels[label] = _VALUES[next((p for p in _STRONGEST_FIRST if p in said), NOT_MENTIONED)]
    labels[NO_FINDING] = _no_finding(labels) if any(analyse(text).sentences for text in texts) else None
    return labels


def _polarity(text: str, label: str) -> str:
    """What one text says of a label: `Analysis.polarity`, but "no consolidation" denies no other lung opacity."""
    found = analyse(text).polarity(label)
    if label == "Lung Opacity" and found == NEGATIVE:
        other = analyse(_CONSOLIDATION.sub("thing", text)).polarity(label)
        return NEGATIVE if other == NEGATIVE else NOT_MENTIONED
    return found


def combine(text: Labels, annotated: Mapping[str, int | None]) -> tuple[Labels, dict[str, list[str]]]:
    """Text labels, filled with the positives of an annotation where the text is silent.

    Args:
        annotated: labels of an annotation that lists what it finds (MeSH headings): 1 or None each.

    Returns:
        The labels, and the labels on which the two disagree by kind ("mesh positive, text negative"). No Finding is
        not compared: it follows from the others.
    """
    disagreements: dict[str, list[str]] = {}
    labels = dict(text)
    for label in CHEXPERT_LABELS:
        if label == NO_FINDING or annotated[label] == text[label] or (annotated[label] != 1 and text[label] == 0):
            continue  # an annotation that lists what it finds agrees with a denial
        mesh = "positive" if annotated[label] == 1 else "silent"
        said = _NAMES[text[label]]
        kind = f"mesh positive, text {said}" if mesh == "positive" else f"text {said}, mesh silent"
        disagreements.setdefault(kind, []).append(label)
        if text[label] is None:
            labels[label] = annotated[label]
    if text[NO_FINDING] is not None or annotated[NO_FINDING] is not None:
        labels[NO_FINDING] = _no_finding(labels)
    return labels, disagreements


def _no_finding(labels: Mapping[str, int | None]) -> int | None:
    return None if any(labels[label] in (1, -1) for label in _PATHOLOGIES) else 1
