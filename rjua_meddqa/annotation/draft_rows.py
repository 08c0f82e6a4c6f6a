"""A quadruplet out of the texts of a printed row."""

import re

from rjua_meddqa.annotation.normality import is_blank, judge
from rjua_meddqa.annotation.ranges import parse_range
from rjua_meddqa.schema import MISSING, TableRow

_FLAG = re.compile(r"(.*\d)\s*[(（]?(HH?|LL?|偏?[高低])[)）]?")
_MISREAD_UNIT = re.compile(r"(?<=mo)[1I|](?=/)")  # mmo1/L


def table_row(item: str, result: str, reference: str, unit: str, flags: str) -> TableRow:
    """A quadruplet of printed texts: the unit follows its range as in the annotation, empty cells say 无."""
    reference, unit = (_MISREAD_UNIT.sub("l", text) for text in (reference, unit))
    if is_blank(reference):
        reference = ""
    if unit and reference[-1:].isdigit() and not reference.lower().endswith(unit.lower()):
        reference += unit
    flagged = _FLAG.fullmatch(result)
    if flagged and (flagged[2] != "L" or parse_range(reference).unit not in ("", "L")):  # 1.5 L may be litres
        result, flags = flagged[1], flags + flagged[2]
    verdict = judge(result, reference, flags).verdict
    return TableRow(item or MISSING, result or MISSING, reference or MISSING, verdict)
