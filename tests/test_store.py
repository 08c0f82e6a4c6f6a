"""The record store: whatever a kill, a full disk or a stray edit did to its file, what counted once still counts."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medvqa_core import store as store_module
from medvqa_core.errors import ConfigError, GovernanceError, InputError, OutputError
from medvqa_core.governance import Governance
from medvqa_core.store import RecordStore, content_key

OPEN, CREDENTIALED = Governance.OPEN, Governance.CREDENTIALED
SETTINGS = {"engine": "x", "seed": 0}
RECORDS = [{"key": content_key(n=n), "answer": text} for n, text in enumerate(["clear", "an opacité", "no\neffusion…"])]
LAST_LINE = (json.dumps(RECORDS[-1], ensure_ascii=False) + "\n").encode()


def open_store(path: Path, settings=SETTINGS, governance=OPEN, kind="answers", **options) -> RecordStore:
    return RecordStore(path, kind, governance, settings, **options)


def write_store(path: Path, records=RECORDS) -> bytes:
    with open_store(path) as store:
        for record in records:
            store.append([record])
    return path.read_bytes()


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
    with pytest.raises(InputError, match=r"a\.jsonl, line 3: .*remove the line"):
        open_store(path, read_only=read_only)
    assert path.read_bytes() == broken


@pytest.mark.parametrize("read", [lambda s: list(s.records()), lambda s: s.get(RECORDS[1]["key"])])
def test_a_line_broken_behind_its_key_is_named_when_it_is_read(tmp_path, read):
    path = tmp_path / "a.jsonl"
    path.write_bytes(write_store(path).replace(b'"an opacit', b'"an" opacit'))
    with open_store(path) as store, pytest.raises(InputError, match=r"a\.jsonl, line 3: .*remove the line"):
        read(store)


# --- what a file is, and who may write it


def test_another_kind_is_refused(tmp_path):
    write_store(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="a 'answers' store of version 1; expected 'verdicts'.*another output folder"):
        open_store(tmp_path / "a.jsonl", kind="verdicts")


@pytest.mark.parametrize("first", [b'{"kind": "answers"}\n', b"[1]\n", b"index,question\n", b"\xff\n", b"\n", b""])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, first, end):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content := first + b"years of work" + end)
    with pytest.raises((ConfigError, InputError), match=r"a\.jsonl.*choose another output folder"):
        open_store(path)
    assert path.read_bytes() == content


def test_other_settings_are_listed(tmp_path):
    write_store(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="engine was 'x', now 'y', seed was 0, now None; use the same") as caught:
        open_store(tmp_path / "a.jsonl", settings={"engine": "y"})
    assert "a.jsonl" in str(caught.value)


def test_the_same_settings_are_the_same_after_writing_and_reading(tmp_path):
    settings = {"stops": ("a", "b"), "sampling": {"temperature": 0.1}, "none": None}
    with open_store(tmp_path / "a.jsonl", settings=settings):
        pass
    with open_store(tmp_path / "a.jsonl", settings=settings) as store:
        assert store.settings == {"stops": ["a", "b"], "sampling": {"temperature": 0.1}, "none": None}


def test_a_reader_finds_the_settings(tmp_path):
    write_store(tmp_path / "a.jsonl")
    with open_store(tmp_path / "a.jsonl", settings=None, read_only=True) as store:
        assert store.settings == SETTINGS


def test_the_class_of_a_file_stays(tmp_path):
    for governance in Governance:
        with open_store(tmp_path / str(governance), governance=governance):
            pass
    with pytest.raises(GovernanceError, match="credentialed and cannot become open"):
        open_store(tmp_path / "credentialed", governance=OPEN)
    with pytest.raises(ConfigError, match="written as open data and the input is now credentialed"):
        open_store(tmp_path / "open", governance=CREDENTIALED)


def test_a_file_without_a_readable_class_is_not_taken_for_open(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(write_store(path).replace(b'"governance": "open", ', b""))
    with pytest.raises(GovernanceError, match=r"a\.jsonl: governance class '' is unknown"):
        open_store(path)


def test_a_missing_file_is_an_error_for_a_reader(tmp_path):
    with pytest.raises(InputError, match=r"a\.jsonl: no such file; run the step"):
        open_store(tmp_path / "a.jsonl", read_only=True)
    assert os.listdir(tmp_path) == []


def test_a_store_is_the_owner_s_alone(tmp_path):
    write_store(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o600


HOLD = """
import sys
from pathlib import Path
from medvqa_core.store import RecordStore
with RecordStore(Path(sys.argv[1]), "answers", "open", {"engine": "x", "seed": 0}):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_one_process_writes_and_others_may_read(tmp_path):
    path = tmp_path / "a.jsonl"
    write_store(path)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(OutputError, match=r"a\.jsonl is being written by another process; wait"):
            open_store(path)
        with open_store(path, read_only=True) as store:
            assert len(store) == 3
    finally:
        holder.communicate()
    with open_store(path) as store:
        assert len(store) == 3


@pytest.mark.parametrize("wrong", [{"kind": "verdicts"}, {"settings": {}}, {"governance": CREDENTIALED}])
def test_a_refused_opening_lets_go_of_the_file(tmp_path, wrong):
    write_store(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError):
        open_store(tmp_path / "a.jsonl", **wrong)
    with open_store(tmp_path / "a.jsonl"):
        pass


# --- a disk that does not take it


def fill_disk_after(monkeypatch, free: int) -> None:
    """From now on `free` bytes can be written; the rest is refused as a full disk does."""
    room = [free]
    pwrite = os.pwrite

    def limited(descriptor, data, offset):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = pwrite(descriptor, data[: room[0]], offset)
        room[0] -= written
        return written

    monkeypatch.setattr(store_module.os, "pwrite", limited)


@pytest.mark.parametrize("free", [0, 1, 40, len(LAST_LINE) - 1])
def test_a_full_disk_costs_the_batch_and_nothing_before_it(tmp_path, monkeypatch, free):
    path = tmp_path / "a.jsonl"
    whole = write_store(path)
    path.write_bytes(before := whole[: -len(LAST_LINE)])
    with open_store(path) as store:
        fill_disk_after(monkeypatch, free)
        with pytest.raises(OutputError, match=r"cannot write .*a\.jsonl: No space left on device; .*free some space"):
            store.append(RECORDS[2:])
        assert path.read_bytes() == before and len(store) == 2
        assert list(store.records()) == RECORDS[:2]
        monkeypatch.undo()
        store.append(RECORDS[2:])  # space was made
    assert path.read_bytes() == whole


def test_short_writes_are_completed(tmp_path, monkeypatch):
    whole = write_store(tmp_path / "a.jsonl")
    pwrite = os.pwrite
    monkeypatch.setattr(
        store_module.os, "pwrite", lambda descriptor, data, offset: pwrite(descriptor, data[:7], offset)
    )
    assert write_store(tmp_path / "b.jsonl") == whole


def test_a_disk_that_is_full_from_the_start_lets_go_of_the_file(tmp_path, monkeypatch):
    fill_disk_after(monkeypatch, 10)
    with pytest.raises(OutputError, match="free some space"):
        open_store(tmp_path / "a.jsonl")
    monkeypatch.undo()
    assert write_store(tmp_path / "a.jsonl").count(b"\n") == 4


def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write .*file"):
        open_store(tmp_path / "file" / "a.jsonl")
    with pytest.raises(OutputError, match="cannot write .*directory"):
        open_store(tmp_path)
