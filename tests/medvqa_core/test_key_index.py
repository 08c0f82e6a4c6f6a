"""The index of a store's keys: a mapping, whatever its runs."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core import key_index
from medvqa_core.key_index import KeyIndex

KEYS = st.sampled_from([bytes([a]) + bytes(14) + bytes([b]) for a in (0, 1, 255) for b in (0, 1, 255)])


@pytest.mark.parametrize("run", [1, 2, 3, 100])
@given(keys=st.lists(KEYS, max_size=40))
def test_it_is_a_mapping_of_which_the_last_value_counts(run, keys):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "RUN", run)
        index, expected = KeyIndex(), {}
        for offset, key in enumerate(keys):
            index[key] = expected[key] = offset
            assert index.get(key) == offset and key in index
        assert len(index) == len(expected) and list(index.offsets()) == sorted(expected.values())
        assert {key: index.get(key) for key in expected} == expected
        assert b"\7" * 16 not in index and index.get(bytes(15) + b"\7") is None


def test_many_keys_take_little_memory():
    """A dictionary takes 130 bytes per key or more."""
    tracemalloc.start()
    index = KeyIndex()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(key_index, "RUN", 10_000)
            for number in range(100_000):
                index[number.to_bytes(16, "little")] = number
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 30 * 100_000 and index.get((77_777).to_bytes(16, "little")) == 77_777
