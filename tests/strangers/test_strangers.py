"""Cases written by somebody who had not seen the rules. Half A was used for development."""

import pytest
from strangers import ABSTAINED, LABELS, RIGHT, SETS, WRONG, count


@pytest.mark.parametrize(
    ("name", "half", "right", "wrong"),
    [
        ("reports", "A", 85, 0),
        ("reports", "B", 94, 3),
        ("rows", "A", 40, 0),
        ("rows", "B", 39, 0),
        ("pairs", "A", 29, 1),
        ("pairs", "B", 28, 2),
    ],
)
def test_few_are_wrong_and_most_are_right(name, half, right, wrong):
    outcomes = SETS[name]()
    found = count(outcomes, half)
    assert found[WRONG] <= wrong, [outcome.shown for outcome in outcomes if outcome.result == WRONG]
    assert found[RIGHT] >= right, found


def test_constant_rules_fail(monkeypatch):
    """Rules with a constant answer are wrong on most cases."""
    monkeypatch.setattr("strangers.label_text", lambda *_: dict.fromkeys(LABELS.values(), 1))
    monkeypatch.setattr("strangers.judge", lambda *_, **__: ("是", "always"))
    monkeypatch.setattr("strangers.judge_by_rules", lambda _: ({}, []))
    for name, least in (("reports", 1200), ("rows", 45), ("pairs", 36)):
        counts = count(SETS[name](), "A") + count(SETS[name](), "B")
        assert counts[WRONG] >= least, (name, counts)
        assert not counts[ABSTAINED]
