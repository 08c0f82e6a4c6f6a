"""Paths from data files: whatever they log, what is joined stays below its root."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa_core.errors import InputError
from medvqa_core.files import join_under


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
    with pytest.raises(InputError, match="row 2: path"):
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
        with pytest.raises(InputError, match="row 2: path .*symbolic link"):
            join_under(root, name, "row 2")
    assert join_under(root, "round/x", "row 2") == root / "round/x"  # leads nowhere, so not out either


def test_a_root_that_is_itself_a_link_is_fine(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert join_under(tmp_path / "link", "x.jpg", "row 2") == tmp_path / "link" / "x.jpg"
