"""The change of a finding from two sizes: "now measures 12 mm, previously 18 mm" is smaller."""

import re

from mimic_cxr_vqa.labeling.fields import LEVELS

_OLD = r"\b(?:previously|formerly|initially|prior|was|were|been|measured|from|versus|compared (?:with|to))\b"
_MEASURE = r"(?P<size>\d+(?:\.\d+)?)(?: ?x ?\d+(?:\.\d+)?)?[ -]?(?P<unit>mm|cm)?\b"
_MEASURED = re.compile(rf"(?P<old>{_OLD}[^,;.\d]{{0,40}})?{_MEASURE}")
_LEVELLED = re.compile(rf"(?P<old>{_OLD} )?\b(?P<size>{'|'.join(LEVELS)})\b")
_COMPARISON = re.compile(r"\b(?:previous\w*|former\w*|prior|now|compared|from|was|measured|initially|today|been)\b")
SAME = 0.05  # measures that differ by less than this share are equal


def read_measured_change(text: str) -> str | None:
    """`larger`, `smaller` or `unchanged` if a text in lower case gives an earlier and a present size.

    The sizes are two measures in mm or cm, or two levels ("now moderate, previously small").
    """
    if not _COMPARISON.search(text):
        return None
    measured = list(_MEASURED.finditer(text))
    units = [match["unit"] for match in measured if match["unit"]]
    if len(measured) == 2 and units:
        scales = [10 if (match["unit"] or units[0]) == "cm" else 1 for match in measured]
        sizes = [float(match["size"]) * scale for match, scale in zip(measured, scales, strict=True)]
        return _compare(sizes, [bool(match["old"]) for match in measured])
    levelled = list(_LEVELLED.finditer(text))
    if len(levelled) == 2:
        return _compare([LEVELS[match["size"]] for match in levelled], [bool(match["old"]) for match in levelled])
    return None


def _compare(sizes: list[float], is_old: list[bool]) -> str | None:
    """The change if exactly one of the two sizes is an earlier one."""
    if is_old[0] == is_old[1]:
        return None
    before, now = sizes if is_old[0] else reversed(sizes)
    if abs(now - before) <= SAME * before:
        return "unchanged"
    return "larger" if now > before else "smaller"
