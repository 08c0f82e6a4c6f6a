"""Writing by rename and paths that stay below their root: what a failure leaves behind, and what is refused."""

import errno
import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core import files
from medvqa_core.errors import InputError, OutputError
from medvqa_core.files import MARKER, atomic_file, atomic_folder, join_under, make_folder, writing


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
        pytest.raises(OutputError, match="cannot write .*b.bin: File too large"),
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
    with pytest.raises(OutputError, match=f"cannot write out/x: {os.strerror(number)}; .*{remedy}"), writing("out/x"):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("write", [lambda p: make_folder(p), lambda p: atomic_file(p).__enter__()])
def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path, write):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot write .*file.*check the path"):
        write(tmp_path / "file" / "below" / "x")
    assert everything_below(tmp_path) == {"file": b"in the way"}


# --- folders


def write_result(path: Path, text: str) -> None:
    with atomic_folder(path) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "rows").write_text(text)
        assert not (path / "sub" / "rows").exists() or (path / "sub" / "rows").read_text() != text
        (folder / MARKER).write_text("{}")


def test_a_folder_replaces_an_earlier_result_whole(tmp_path):
    path = tmp_path / "out" / "release"
    write_result(path, "first")
    (path / "stale").write_text("")
    write_result(path, "second")
    assert everything_below(tmp_path / "out") == {
        "release": None,
        f"release/{MARKER}": b"{}",
        "release/sub": None,
        "release/sub/rows": b"second",
    }


@pytest.mark.parametrize("error", [ValueError, Stop, KeyboardInterrupt])
def test_a_failed_folder_leaves_the_earlier_result(tmp_path, error):
    path = tmp_path / "release"
    write_result(path, "first")
    before = everything_below(tmp_path)
    with pytest.raises(error), atomic_folder(path) as folder:
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
    before = everything_below(tmp_path)
    for name in ("thesis", "notes"):
        with (
            pytest.raises(OutputError, match=f"{name} exists and holds no {MARKER}.*choose another"),
            atomic_folder(tmp_path / name),
        ):
            pass
    assert everything_below(tmp_path) == before


def test_leftovers_of_a_killed_run_are_cleared(tmp_path):
    path = tmp_path / "release"
    write_result(path, "first")
    (tmp_path / "release.partial").mkdir()
    (tmp_path / "release.partial" / "half").write_text("")
    (tmp_path / "release.replaced").mkdir()
    write_result(path, "second")
    assert os.listdir(tmp_path) == ["release"] and (path / "sub" / "rows").read_text() == "second"


def test_a_result_lost_between_two_renames_comes_back(tmp_path):
    """Killed after `release` was moved aside and before the new one took its place."""
    path = tmp_path / "release"
    write_result(path, "first")
    path.rename(tmp_path / "release.replaced")
    with pytest.raises(ValueError), atomic_folder(path):
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
        pytest.raises(OutputError, match="cannot write .*release: File too large"),
        atomic_folder(path) as folder,
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


# --- paths below a root


@pytest.mark.parametrize("relative", ["a.jpg", "p90/p1/s1/x.jpg", "./a/./b", "a//b", "a..b/..c", "...", "a b,c", "é"])
def test_paths_below_the_root_are_joined(tmp_path, relative):
    assert join_under(tmp_path, relative, "row 2") == tmp_path / relative


@pytest.mark.parametrize(
    "relative",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../x",
        "a/..",
        "a/../../x",
        "/etc/passwd",
        "//x",
        "a\\..\\b",
        "\\x",
        "a\0b",
        "/",
        "./..",
    ],
)
def test_paths_that_leave_the_root_are_refused(tmp_path, relative):
    with pytest.raises(InputError, match=r"row 2: path .* leaves its root; allowed are relative paths"):
        join_under(tmp_path, relative, "row 2")


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "", "..a", "a\\b"]), min_size=1, max_size=5).map("/".join))
def test_whatever_is_joined_stays_below(relative):
    root = Path("/nowhere/root")
    try:
        joined = join_under(root, relative, "row 2")
    except InputError:
        return
    assert Path(os.path.normpath(joined)).is_relative_to(root) and os.path.normpath(joined) != str(root)


def test_symbolic_links_may_point_inside_and_not_out(tmp_path):
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (tmp_path / "root-too").mkdir()  # begins like the root
    (root / "inside").symlink_to(root / "real")
    (root / "out").symlink_to(tmp_path / "root-too")
    (root / "dangling").symlink_to(tmp_path / "absent")
    (root / "round").symlink_to(root / "round")
    assert join_under(root, "inside/x.jpg", "row 2") == root / "inside/x.jpg"
    for name in ("out/x.jpg", "out", "dangling"):
        with pytest.raises(InputError, match="row 2: path .* leads out of .* through a symbolic link"):
            join_under(root, name, "row 2")
    assert join_under(root, "round/x", "row 2") == root / "round/x"  # leads nowhere, so not out either


def test_a_root_that_is_itself_a_link_is_fine(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert join_under(tmp_path / "link", "x.jpg", "row 2") == tmp_path / "link" / "x.jpg"
