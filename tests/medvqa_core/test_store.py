"""The record store: what counted once still counts, whatever a kill or a stray edit did to the file."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stores import LAST_LINE, RECORDS, open_store, write_store

from medvqa_core.errors import InputError
from medvqa_core.store import content_key

# --- records and keys


def test_records_come_back_in_the_order_of_writing(tmp_path):
    write_store(tmp_path / "a.jsonl")
    for read_only in (True, False):
        with open_store(tmp_path / "a.jsonl", read_only=read_only) as store:
            assert list(store.records()) == RECORDS and len(store) == 3
            assert store.get(RECORDS[1]["key"]) == RECORDS[1] and RECORDS[1]["key"] in store
            assert store.get(content_key(n=9)) is None and content_key(n=9) not in store


def test_the_last_record_of_a_key_holds(tmp_path):
    again = {**RECORDS[0], "answer": "second try"}
    with open_store(tmp_path / "a.jsonl") as store:
        store.append(RECORDS)
        assert store.get(again["key"]) == RECORDS[0]
        store.append([again])
        assert store.get(again["key"]) == again and len(store) == 3
    with open_store(tmp_path / "a.jsonl", read_only=True) as store:
        assert list(store.records()) == [RECORDS[1], RECORDS[2], again]


def test_how_records_are_batched_does_not_show_in_the_file(tmp_path):
    one_by_one = write_store(tmp_path / "a.jsonl")
    with open_store(tmp_path / "b.jsonl") as store:
        store.append([])
        store.append(iter(RECORDS))
    assert (tmp_path / "b.jsonl").read_bytes() == one_by_one
    assert one_by_one.endswith(LAST_LINE) and one_by_one.count(b"\n") == 4


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=20), min_size=1, max_size=4))
@example(["a lone \ud800 surrogate"])
def test_every_text_comes_back_lone_surrogates_too(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("store") / "a.jsonl"
    records = [{"key": content_key(n=n, text=text), "answer": text} for n, text in enumerate(texts)]
    with open_store(path, settings={"text": texts[0]}) as store:
        store.append(records)
    with open_store(path, settings={"text": texts[0]}) as store:
        assert list(store.records()) == records


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("a1\ud800 ", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(JSON, JSON)
def test_keys_are_equal_exactly_when_the_content_is(left, right):
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (content_key(a=left, b=1) == content_key(b=1, a=right)) is same


def test_keys_tell_names_and_types_apart():
    contents = [{"a": 1}, {"b": 1}, {"a": "1"}, {"a": True}, {"a": None}, {}, {"a": "1", "b": ""}, {"a": "", "b": "1"}]
    assert len({content_key(**content) for content in contents}) == len(contents)


def test_keys_are_those_of_every_earlier_version():
    """A change here would make every resumed run start again."""
    assert content_key(question="Is Edema observed?", seed=0) == "64bbbe7497dbb7db9ef713eab516b8f5"


def test_a_wrong_key_is_our_mistake_and_writes_nothing(tmp_path):
    with open_store(tmp_path / "a.jsonl") as store:
        before = store.path.read_bytes()
        with pytest.raises(AssertionError):
            store.append([RECORDS[0], {"key": "short", "answer": ""}])
        assert store.path.read_bytes() == before and len(store) == 0


# --- torn and broken files


@pytest.mark.parametrize("kept", range(len(LAST_LINE)))
def test_a_record_torn_anywhere_is_written_again_as_if_nothing_had_happened(tmp_path, kept):
    path = tmp_path / "a.jsonl"
    whole = write_store(path)
    path.write_bytes(torn := whole[: len(whole) - len(LAST_LINE) + kept])
    with open_store(path, read_only=True) as store:
        assert list(store.records()) == RECORDS[:2]
    assert path.read_bytes() == torn  # a reader changes nothing
    with open_store(path) as store:
        assert list(store.records()) == RECORDS[:2] and RECORDS[2]["key"] not in store
        store.append(RECORDS[2:])
        assert list(store.records()) == RECORDS  # and not what the reader had seen of the torn line
    assert path.read_bytes() == whole


def test_a_header_torn_anywhere_is_written_again(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = write_store(path)
    for kept in range(whole.index(b"\n") + 1):
        path.write_bytes(whole[:kept])
        assert write_store(path) == whole


def test_a_torn_record_longer_than_a_read_block_is_cut_off(tmp_path):
    path = tmp_path / "a.jsonl"
    whole = write_store(path)
    path.write_bytes(whole + b'{"key": "' + b"x" * 200_000)
    with open_store(path) as store:
        assert len(store) == 3
    assert path.read_bytes() == whole


BROKEN = {
    "no JSON": b"what is this\n",
    "empty": b"\n",
    "no key": b'{"answer": "x"}\n',
    "short key": b'{"key": "abc", "answer": "a long enough text to reach column 40"}\n',
    "cut in the middle": LAST_LINE[:50] + b"\n",
    "zeros": bytes(60) + b"\n",
    "not UTF-8 in the key": b'{"key": "' + b"\xff" * 32 + b'"}\n',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("read_only", [False, True])
def test_a_broken_line_before_the_end_is_an_error_that_names_it(tmp_path, line, read_only):
    path = tmp_path / "a.jsonl"
    lines = write_store(path).splitlines(keepends=True)
    path.write_bytes(broken := b"".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(InputError, match=r"a\.jsonl, line 3: "):
        open_store(path, read_only=read_only)
    assert path.read_bytes() == broken


@pytest.mark.parametrize("read", [lambda s: list(s.records()), lambda s: s.get(RECORDS[1]["key"])])
def test_a_line_broken_behind_its_key_is_named_when_it_is_read(tmp_path, read):
    path = tmp_path / "a.jsonl"
    path.write_bytes(write_store(path).replace(b'"an opacit', b'"an" opacit'))
    with open_store(path) as store, pytest.raises(InputError, match=r"a\.jsonl, line 3: "):
        read(store)
