"""The rule judge on real reports, on the part that no rule was made from (results/judge_probe.json)."""

import pytest
from judge_probe import probe_rules, real_pairs


@pytest.mark.slow
def test_planted_errors_are_noticed_in_the_held_out_reports(real_data, tmp_path):
    found = probe_rules(real_pairs(tmp_path, real_data / "iu_cxr", "held out"), tmp_path, per_kind=100)
    assert all(row["rate"] >= 0.85 for row in found["recall"].values()), found["recall"]
    assert found["false_alarms"]["rate"] <= 0.03
