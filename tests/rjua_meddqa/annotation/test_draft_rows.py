"""Rows of a draft: cells stay apart, each verdict says why, the unit never runs into the range."""

import pytest

from rjua_meddqa.annotation.draft_rows import judge_row, printed_row, quadruplet
from rjua_meddqa.annotation.groups import ANYONE
from rjua_meddqa.schema import HIGH, NORMAL, UNDECIDED, TableRow


@pytest.mark.parametrize("unit", ["10*9/L", "10E9/L", "10⁹/L", "10~9/L", "10^9/L", "×10^9/L", "109/L", "E9/L"])
@pytest.mark.parametrize(("result", "limits", "verdict"), [("30.0", "4-10", HIGH), ("512", "100-300", HIGH)])
def test_a_unit_that_begins_with_digits_is_not_glued_to_the_range(result, limits, unit, verdict):
    row = judge_row(printed_row("WBC", result, limits, unit), ANYONE)
    assert (row.range, row.unit, row.is_normal) == (limits, unit, verdict)
    written = quadruplet(row)
    assert written.range.removeprefix(limits).strip() == unit
    assert not written.range.startswith(limits + "1")


def test_other_units_stand_right_behind_the_range_as_annotators_write_them():
    row = judge_row(printed_row("尿酸", "470", "155-428", "μmol/L"), ANYONE)
    assert quadruplet(row) == TableRow("尿酸", "470", "155-428μmol/L", HIGH)
    assert row.is_normal_reason


def test_nothing_is_concluded_from_two_lines():
    row = judge_row(printed_row("尿酸", "200", "155-428", "μmol/L", is_one_line=False), ANYONE)
    assert (row.is_normal, row.is_normal_reason) == (UNDECIDED, "result and range are on different lines")
    assert judge_row(printed_row("尿酸", "200", "155-428", "μmol/L"), ANYONE).is_normal == NORMAL


def test_a_missing_cell_is_written_as_missing():
    assert quadruplet(judge_row(printed_row("", "", "--", ""), ANYONE)) == TableRow("无", "无", "无", UNDECIDED)
