"""Writing by rename: what a failure leaves behind, and what is never replaced."""

import errno
import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from medvqa_core import files
from medvqa_core.errors import OutputError
from medvqa_core.files import MANIFEST, atomic_file, atomic_folder, make_folder, output_errors


class Stop(BaseException):
    """As Ctrl-C: no ordinary exception."""


@contextmanager
def files_no_longer_than(size: int):
    """Every write beyond `size` bytes fails, as on a full disk (Python ignores the signal)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def everything_below(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


# --- files


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a" / "b.txt"
    with atomic_file(path, "w") as file:
        file.write("é\r\n")
        assert not path.exists()
    assert path.read_bytes() == "é\r\n".encode()
    assert os.listdir(path.parent) == ["b.txt"]


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    path, synced, fsync = tmp_path / "b.txt", [], os.fsync

    def note(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", note)
    with atomic_file(path, "w") as file:
        file.write("new")
    assert synced == [(False, False), (True, True)], "the file before the rename, its folder after it"


@pytest.mark.parametrize("error", [ValueError, Stop, KeyboardInterrupt])
def test_a_failed_file_leaves_the_old_one_and_nothing_else(tmp_path, error):
    path = tmp_path / "b.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_file(path, "w") as file:
        file.write("new")
        raise error
    assert everything_below(tmp_path) == {"b.txt": b"old"}


def test_a_private_file_is_the_owner_s_alone_from_its_first_byte(tmp_path):
    path = tmp_path / "b.txt"
    with atomic_file(path, private=True) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_is_an_output_error_and_leaves_nothing(tmp_path):
    path = tmp_path / "b.bin"
    path.write_bytes(b"old")
    with (
        files_no_longer_than(1 << 20),
        pytest.raises(OutputError, match="b.bin: File too large"),
        atomic_file(path) as file,
    ):
        file.write(bytes(2 << 20))
    assert everything_below(tmp_path) == {"b.bin": b"old"}


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "choose another folder"),
        (errno.EROFS, "choose another folder"),
        (errno.EIO, "check the path"),
    ],
)
def test_an_error_of_the_system_names_the_path_and_the_remedy(number, remedy):
    with (
        pytest.raises(OutputError, match=f"cannot write out/x: {os.strerror(number)}; .*{remedy}"),
        output_errors("out/x"),
    ):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("write", [lambda p: make_folder(p), lambda p: atomic_file(p).__enter__()])
def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path, write):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="file.*check the path"):
        write(tmp_path / "file" / "below" / "x")
    assert everything_below(tmp_path) == {"file": b"in the way"}


# --- folders

DESCRIBED = '{"kind": "rows"}'


def write_result(path: Path, text: str) -> None:
    with atomic_folder(path, "rows") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "rows").write_text(text)
        assert not (path / "sub" / "rows").exists() or (path / "sub" / "rows").read_text() != text
        (folder / MANIFEST).write_text(DESCRIBED)


def test_a_folder_replaces_an_earlier_result_whole(tmp_path):
    path = tmp_path / "out" / "release"
    write_result(path, "first")
    (path / "stale").write_text("")
    write_result(path, "second")
    assert everything_below(tmp_path / "out") == {
        "release": None,
        f"release/{MANIFEST}": DESCRIBED.encode(),
        "release/sub": None,
        "release/sub/rows": b"second",
    }


@pytest.mark.parametrize("error", [ValueError, Stop, KeyboardInterrupt])
def test_a_failed_folder_leaves_the_earlier_result(tmp_path, error):
    path = tmp_path / "release"
    write_result(path, "first")
    before = everything_below(tmp_path)
    with pytest.raises(error), atomic_folder(path, "rows") as folder:
        (folder / "rows").write_text("half")
        raise error
    assert everything_below(tmp_path) == before


def test_an_empty_folder_may_be_taken(tmp_path):
    (tmp_path / "release").mkdir()
    write_result(tmp_path / "release", "first")
    assert (tmp_path / "release" / "sub" / "rows").read_text() == "first"


def test_what_is_no_earlier_result_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    (tmp_path / "notes").write_text("more work")
    (tmp_path / "webapp").mkdir()
    (tmp_path / "webapp" / MANIFEST).write_text('{"name": "of another program"}')
    before = everything_below(tmp_path)
    for name in ("thesis", "notes", "webapp"):
        with (
            pytest.raises(OutputError, match=f"{name} exists .*'rows'.*Choose another"),
            atomic_folder(tmp_path / name, "rows"),
        ):
            pass
    assert everything_below(tmp_path) == before


def test_leftovers_of_a_killed_run_are_cleared(tmp_path):
    path = tmp_path / "release"
    write_result(path, "first")
    (tmp_path / ".release.partial" / "sub").mkdir(parents=True)
    (tmp_path / ".release.partial" / "half").write_text("")
    (tmp_path / ".release.replaced").mkdir()
    write_result(path, "second")
    assert os.listdir(tmp_path) == ["release"] and (path / "sub" / "rows").read_text() == "second"


def test_a_result_lost_between_two_renames_comes_back(tmp_path):
    """Killed after `release` was moved aside and before the new one took its place."""
    path = tmp_path / "release"
    write_result(path, "first")
    path.rename(tmp_path / ".release.replaced")
    with pytest.raises(ValueError), atomic_folder(path, "rows"):
        raise ValueError
    assert os.listdir(tmp_path) == ["release"] and (path / "sub" / "rows").read_text() == "first"


def test_a_result_behind_a_symbolic_link_is_replaced_there(tmp_path):
    path, big_disk = tmp_path / "release", tmp_path / "big" / "release"
    write_result(big_disk, "first")
    path.symlink_to(big_disk)
    for text in ("second", "third"):
        write_result(path, text)
        assert path.is_symlink() and (big_disk / "sub" / "rows").read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["big", "release"] and os.listdir(tmp_path / "big") == ["release"]


def test_a_disk_that_is_full_inside_a_folder_is_an_output_error(tmp_path):
    path = tmp_path / "release"
    with (
        files_no_longer_than(1 << 20),
        pytest.raises(OutputError, match="release: File too large"),
        atomic_folder(path, "rows") as folder,
    ):
        (folder / "rows").write_bytes(bytes(2 << 20))
    assert os.listdir(tmp_path) == []


def test_a_rename_that_fails_leaves_the_earlier_result(tmp_path, monkeypatch):
    path = tmp_path / "release"
    write_result(path, "first")
    rename = os.rename

    def fail_on_the_new(source, target):
        if str(source).endswith(files.PARTIAL_SUFFIX):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(files.os, "rename", fail_on_the_new)
    with pytest.raises(OutputError, match="Input/output error"):
        write_result(path, "second")
    assert os.listdir(tmp_path) == ["release"] and (path / "sub" / "rows").read_text() == "first"


# --- two writers


@pytest.mark.parametrize(
    ("open_it", "name"),
    [(atomic_file, "b.txt"), (lambda path: atomic_folder(path, "rows"), "release")],
    ids=["file", "folder"],
)
def test_a_second_writer_is_told_and_spoils_nothing(tmp_path, open_it, name):
    """`flock` holds between two openings of one process as it does between two processes."""
    path = tmp_path / name
    with open_it(path) as first:
        with pytest.raises(OutputError, match=f"{name} .*another process"), open_it(path):
            pass
        if name == "release":
            (first / MANIFEST).write_text(DESCRIBED)
        else:
            first.write(b"whole")
    assert os.listdir(tmp_path) == [name]
    with open_it(path) as second:  # the lock has gone with the first
        if name == "release":
            (second / MANIFEST).write_text(DESCRIBED)


def test_leftovers_are_never_another_folder_of_the_user(tmp_path):
    path = tmp_path / "release"
    for sibling in ("release.partial", "release.replaced"):
        (tmp_path / sibling).mkdir()
        (tmp_path / sibling / "thesis.tex").write_text("years of work")
    write_result(path, "first")
    write_result(path, "second")
    assert len(list(tmp_path.rglob("thesis.tex"))) == 2


def test_a_full_disk_that_datasets_found_is_called_one(tmp_path):
    with pytest.raises(OutputError, match="free some space"), output_errors(tmp_path):
        raise OSError("Not enough disk space. Needed: 1.00 MiB (download: 0 bytes, generated: 1.00 MiB)")
