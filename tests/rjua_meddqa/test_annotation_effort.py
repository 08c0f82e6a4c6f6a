"""Keystrokes of annotators: nothing for a right draft, and more for each kind of error."""

from dataclasses import replace

import pytest
from meddqa_data import BLOOD
from paths import REPOSITORY

from rjua_meddqa.annotation.drafts import Draft


@pytest.fixture
def effort(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import annotation_effort

    return annotation_effort


def test_keystrokes(effort):
    rows = BLOOD.table

    def count(table=rows):
        return effort.count_edits(Draft(BLOOD.key_values, table), BLOOD)

    right = count()
    assert (right["keystrokes"], right["right"]) == (0, right["fields"])
    assert count((replace(rows[0], result=rows[0].result + "7"), *rows[1:]))["keystrokes"] == 1
    assert count((*rows, replace(rows[0], item="嗜碱性粒细胞")))["keystrokes"] == 1
    missing = sum(map(len, (rows[0].item, rows[0].result, rows[0].range))) + 1
    assert count(rows[1:])["keystrokes"] == missing
    assert effort.count_edits(Draft((), ()), BLOOD)["right"] == 0
    assert effort.edit_distance("3.1", "3.71") == 1
