"""Label a report with the 14 CheXpert labels: 1, 0, -1 or None (not mentioned).

Findings and impression are read separately. A positive mention in either decides, then an uncertain one, then a
negative one. No Finding follows CheXpert (Irvin et al. 2019): it is 1 if no other label except Support Devices is 1 or
-1, otherwise None.
"""

import re
from collections.abc import Mapping

from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, analyse
from mimic_cxr_vqa.schema import CHEXPERT_LABELS, LABEL_VALUES, NO_FINDING

Labels = dict[str, int | None]

# A consolidation is a lung opacity, but its absence does not exclude other opacities.
_CONSOLIDATION = re.compile(r"\bconsol\w*", re.IGNORECASE)
_VALUES = {name: value for value, name in LABEL_VALUES.items()}
_STRONGEST_FIRST = (POSITIVE, UNCERTAIN, NEGATIVE)
_PATHOLOGIES = tuple(label for label in CHEXPERT_LABELS if label not in (NO_FINDING, "Support Devices"))


def label_text(findings: str | None, impression: str | None) -> Labels:
    """The labels of one report.

    Examples:
        >>> labels = label_text("Small left effusion. No pneumothorax.", None)
        >>> labels["Pleural Effusion"], labels["Pneumothorax"], labels["Fracture"]
        (1, 0, None)
    """
    texts = [text for text in (findings, impression) if text and text.strip()]
    labels: Labels = dict.fromkeys(CHEXPERT_LABELS)
    for label in CHEXPERT_LABELS:
        if label != NO_FINDING:
            found = {_polarity(text, label) for text in texts}
            labels[label] = _VALUES[next((p for p in _STRONGEST_FIRST if p in found), NOT_MENTIONED)]
    labels[NO_FINDING] = _no_finding(labels) if any(analyse(text).sentences for text in texts) else None
    return labels


def _polarity(text: str, label: str) -> str:
    """`Analysis.polarity`, except that "no consolidation" does not deny other lung opacities."""
    found = analyse(text).polarity(label)
    if label == "Lung Opacity" and found == NEGATIVE:
        other = analyse(_CONSOLIDATION.sub("thing", text)).polarity(label)
        return NEGATIVE if other == NEGATIVE else NOT_MENTIONED
    return found


def _no_finding(labels: Mapping[str, int | None]) -> int | None:
    return None if any(labels[label] in (1, -1) for label in _PATHOLOGIES) else 1
