"""The soak, small: a server that fails in many ways, a run that is killed, the bytes of an undisturbed one."""

import pytest
from soak import ALWAYS, PASSING, TEXTS, soak


@pytest.mark.slow
def test_a_killed_run_against_a_bad_server_writes_the_bytes_of_an_undisturbed_one(tmp_path):
    found = soak(tmp_path, requests=1000, kills=3, seed=0)
    assert found["killed"]["kills"] >= 1
    assert found["reasons"].pop("answered") == 10 * (100 - len(ALWAYS) - len(TEXTS) - 2)
    assert sum(found["reasons"].values()) == 10 * (len(ALWAYS) + len(TEXTS) + 2)
    assert len(PASSING) == 6 and "status 500, 6 times while a plain request was answered" in found["reasons"]
