"""The change of a finding from two measures: "now measures 12 mm, previously 18 mm" is smaller."""

import re

_MEASURE = re.compile(r"(?P<old>\b(?:previously|formerly|initially|prior|was|were|been|measured|from|versus)\b[^,;.\d]{0,40})?"
                      r"(?P<size>\d+(?:\.\d+)?)(?: ?x ?\d+(?:\.\d+)?)?[ -]?(?P<unit>mm|cm)?\b")  # fmt: skip
_COMPARISON = re.compile(r"\b(?:previous\w*|former\w*|prior|now|compared|from|was|measured|initially|today)\b")
SAME = 0.05  # measures that differ by less than this share are equal


def read_measured_change(text: str) -> str | None:
    """`larger`, `smaller` or `unchanged` if a text in lower case gives an earlier and a present measure, in mm or cm."""
    if not _COMPARISON.search(text):
        return None
    found = [match for match in _MEASURE.finditer(text)]
    units = [match["unit"] for match in found]
    if len(found) != 2 or not any(units):
        return None
    sizes = [float(m["size"]) * (10 if (m["unit"] or units[0] or units[1]) == "cm" else 1) for m in found]
    old = [bool(match["old"]) for match in found]
    if old[0] == old[1]:
        return None
    before, now = sizes if old[0] else reversed(sizes)
    if abs(now - before) <= SAME * before:
        return "unchanged"
    return "larger" if now > before else "smaller"
