"""Turns the printed cells of a table row into a quadruplet.

`printed_row` tidies the cells, `judge_row` adds the verdict once the page's patient is known, and `quadruplet` writes
the range with its unit like annotators do.
"""

import re

from rjua_meddqa.annotation.groups import Patient
from rjua_meddqa.annotation.normality import is_blank, judge
from rjua_meddqa.annotation.ranges import parse_range
from rjua_meddqa.schema import MISSING, UNDECIDED, DraftRow, PrintedRow, TableRow

_FLAG = re.compile(r"(.*\d)\s*[(（]?(HH?|LL?|偏?[高低])[)）]?")
_MISREAD_UNIT = re.compile(r"(?<=mo)[1I|](?=/)")  # mmo1/L
_CONTINUES_NUMBER = re.compile(r"[\d.,Ee^~-]")


def printed_row(
    item: str, result: str, reference: str, unit: str, flags: str = "", is_one_line: bool = True
) -> PrintedRow:
    """Return a tidied row: a flag is split off the result, and blank cells are "".

    Args:
        unit: text of the unit column. It is not appended to the range, since 4-10 and 10*9/L would give 4-1010*9/L.
        is_one_line: whether result and range are on one printed line (see `schema.PrintedRow`).
    """
    reference, unit = (_MISREAD_UNIT.sub("l", text.strip()) for text in (reference, unit))
    if is_blank(reference):
        reference = ""
    flagged = _FLAG.fullmatch(result)
    if flagged and (flagged[2] != "L" or (parse_range(reference).unit or unit) not in ("", "L")):  # 1.5 L may be litres
        result, flags = flagged[1], flags + flagged[2]
    return PrintedRow(item, result, unit, reference, flags, is_one_line)


def judge_row(row: PrintedRow, patient: Patient) -> DraftRow:
    """Return `row` with its verdict. It is 无法判断 if result and range are on different lines."""
    cells = (row.item, row.result, row.unit, row.range, row.flags, row.is_one_line)
    if not row.is_one_line and row.result and row.range:
        return DraftRow(*cells, UNDECIDED, "result and range are on different lines")
    return DraftRow(*cells, *judge(row.result, row.range, row.flags, row.unit, patient))


def quadruplet(row: DraftRow) -> TableRow:
    """Return `row` as in the released files: the unit right behind the range, 无 for empty cells.

    A space separates a unit such as 10*9/L from the digits of the range.
    """
    reference = row.range
    if row.unit and reference[-1:].isdigit() and not reference.lower().endswith(row.unit.lower()):
        reference += (" " if _CONTINUES_NUMBER.match(row.unit) else "") + row.unit
    return TableRow(row.item or MISSING, row.result or MISSING, reference or MISSING, row.is_normal)
