"""Verdicts on drawn cells with known truth: none is wrong, and most of those that can be decided are."""

import pytest
from verdict_cells import draw_cells

from rjua_meddqa.annotation.groups import read_patient
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.schema import ABNORMAL, HIGH, LOW, NORMAL, UNDECIDED

NOT_NORMAL = {ABNORMAL, HIGH, LOW}


@pytest.mark.parametrize(("count", "seed"), [(3_000, 5), pytest.param(40_000, 2024, marks=pytest.mark.slow)])
def test_verdicts_are_right_or_silent(count, seed):
    decidable = decided = 0
    for cell in draw_cells(count, seed):
        verdict, reason = judge(cell.result, cell.reference, cell.flag, cell.unit, read_patient(cell.page))
        agrees = verdict == cell.verdict or (
            {verdict, cell.verdict} <= NOT_NORMAL and ABNORMAL in (verdict, cell.verdict)
        )
        assert agrees or verdict == UNDECIDED, (cell, verdict, reason)
        decidable += cell.verdict is not None
        decided += cell.verdict is not None and verdict != UNDECIDED
    assert decided >= 0.9 * decidable


@pytest.mark.parametrize(
    ("result", "reference"),
    [
        ("35%", "≥0.4"),  # 0.35, not 35
        ("0.62", "<61%"),
        ("12%", "<1.5"),
        ("0.85", "≥80"),
        ("429", ">428:高"),
        ("18", "<19 L"),
        ("429", ">428↑"),
        ("10", "10~9"),  # a range, not a power of ten
        ("0.5(阳性)", "<1"),
        ("1.2E+03", "<5×10^2/L"),
    ],
)
def test_cells_that_were_judged_wrongly(result, reference):
    assert judge(result, reference).verdict in (UNDECIDED, HIGH)


def test_a_range_that_lost_its_group_is_not_judged_by():
    """卵泡期: was read as part of another row. The other groups are not this patient's."""
    man = read_patient([("性别", "男")])
    cell = "3.50-5.30 排卵期:5.95-9.01 黄体期:2.10-3.18"
    assert judge("4.56", cell, unit="mmol/L", patient=man).verdict == UNDECIDED
    assert judge("9.56", cell, unit="mmol/L", patient=man).verdict == UNDECIDED
    assert judge("4.56", "男:3.50-5.30 女:5.95-9.01", patient=man).verdict == NORMAL
