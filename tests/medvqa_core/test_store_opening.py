"""The record store: which files it takes for its own, who may write them, and what a full disk does."""

import errno
import os
import subprocess
import sys

import pytest
from stores import CREDENTIALED, LAST_LINE, OPEN, RECORDS, SETTINGS, open_store, write_store

from medvqa_core import store as store_module
from medvqa_core.errors import ConfigError, GovernanceError, InputError, OutputError
from medvqa_core.governance import Governance

# --- what a file is, and who may write it


def test_another_kind_is_refused(tmp_path):
    write_store(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="'answers'.*'verdicts'.*another output folder"):
        open_store(tmp_path / "a.jsonl", kind="verdicts")


@pytest.mark.parametrize("first", [b'{"kind": "answers"}\n', b"[1]\n", b"index,question\n", b"\xff\n", b"\n", b""])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, first, end):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content := first + b"years of work" + end)
    with pytest.raises((ConfigError, InputError), match=r"a\.jsonl.*another output folder"):
        open_store(path)
    assert path.read_bytes() == content


def test_other_settings_are_listed(tmp_path):
    write_store(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="engine was 'x', now 'y', seed was 0, now None") as caught:
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
    with pytest.raises(GovernanceError, match="credentialed.*open"):
        open_store(tmp_path / "credentialed", governance=OPEN)
    with pytest.raises(ConfigError, match="open.*credentialed.*Remove the file"):
        open_store(tmp_path / "open", governance=CREDENTIALED)


def test_rows_of_openi_go_on_in_a_file_of_their_old_class(tmp_path):
    write_store(tmp_path / "a.jsonl", governance=Governance.SHARE_ALIKE)
    for read_only in (False, True):
        with open_store(tmp_path / "a.jsonl", governance=Governance.NO_DERIVATIVES, read_only=read_only) as store:
            assert len(store) > 0 and store.governance is Governance.NO_DERIVATIVES
    write_store(tmp_path / "b.jsonl", governance=Governance.NO_DERIVATIVES)
    with pytest.raises(GovernanceError, match="no-derivatives.*share-alike"):
        open_store(tmp_path / "b.jsonl", governance=Governance.SHARE_ALIKE)


def test_a_file_without_a_readable_class_is_not_taken_for_open(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(write_store(path).replace(b'"governance": "open", ', b""))
    with pytest.raises(GovernanceError, match=r"a\.jsonl: .*''"):
        open_store(path)


def test_a_missing_file_is_an_error_for_a_reader(tmp_path):
    with pytest.raises(InputError, match=r"a\.jsonl"):
        open_store(tmp_path / "a.jsonl", read_only=True)
    assert os.listdir(tmp_path) == []
    with pytest.raises(InputError, match="cannot be read .*directory"):
        open_store(tmp_path, read_only=True)


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
        with pytest.raises(OutputError, match=r"a\.jsonl .*another process"):
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
        with pytest.raises(OutputError, match=r"a\.jsonl: No space left on device.*free some space"):
            store.append(RECORDS[2:])
        assert path.read_bytes() == before and len(store) == 2
        assert list(store.records()) == RECORDS[:2]
        monkeypatch.undo()
        store.append(RECORDS[2:])  # space was made
    assert path.read_bytes() == whole


def test_records_are_on_the_disk_before_they_count(tmp_path, monkeypatch):
    with open_store(tmp_path / "a.jsonl") as store:
        synced, fsync = [], os.fsync
        monkeypatch.setattr(store_module.os, "fsync", lambda file: (synced.append(os.fstat(file).st_size), fsync(file)))
        store.append(RECORDS)
        assert synced == [store.path.stat().st_size], "one sync, after the last byte"


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
