"""JSON files, manifests and digests: one way in and out, with errors that end in what to do."""

import json
import stat

import pytest

from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.files import MANIFEST
from medvqa_core.governance import Governance
from medvqa_core.json_files import (
    find_manifest,
    plain,
    read_json,
    read_manifest,
    read_object,
    write_json,
    write_json_lines,
    write_manifest,
)


def test_a_value_comes_back_and_text_stays_readable(tmp_path):
    path = tmp_path / "folder" / "a.json"
    value = {"项目": ["血糖", 1.5, None], "empty": {}}
    write_json(path, value)
    assert read_json(path, "…") == value
    assert path.read_text("utf-8") == json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def test_the_layout_of_a_file_can_be_kept(tmp_path):
    write_json(tmp_path / "a", {"b": "é", "a": 1}, indent=None, sort_keys=True, ensure_ascii=True, end="")
    assert (tmp_path / "a").read_bytes() == b'{"a": 1, "b": "\\u00e9"}'


def test_private_files_are_their_owners_alone(tmp_path):
    write_json(tmp_path / "a", 1, private=True)
    write_json_lines(tmp_path / "b", [1, {"é": 2}], private=True)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o600, 0o600]
    assert (tmp_path / "b").read_text("utf-8") == '1\n{"é": 2}\n'


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a", {"old": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a", {"new": object()})
    assert read_json(tmp_path / "a", "…") == {"old": 1} and [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[" * 10**5, "cannot be"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(tmp_path, content, problem):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=rf"a: {problem}.*; make it again"):
        read_json(tmp_path / "a", "make it again")
    with pytest.raises(InputError, match="list.*make it again"):
        (tmp_path / "a").write_bytes(b"[]")
        read_object(tmp_path / "a", "make it again")


def test_a_manifest_is_checked(tmp_path):
    good = {"kind": "release", "format": 1, "governance": "open", "counts": {}}
    write_manifest(tmp_path, good, sort_keys=True)
    assert read_manifest(tmp_path, "…", "release", 1, ["counts"]) == good == find_manifest(tmp_path, "…")
    for asked, problem in [
        (("release", 2), "not a release manifest of format 2"),
        (("questions",), "not a questions manifest; build"),
        (("release", 1, ["files"]), "no object 'files'"),
    ]:
        with pytest.raises(InputError, match=f"{MANIFEST}: {problem}"):
            read_manifest(tmp_path, "build it", *asked)


def test_an_absent_manifest_is_an_error_or_empty(tmp_path):
    assert find_manifest(tmp_path, "…") == {} == find_manifest(tmp_path / "none", "…")
    with pytest.raises(InputError, match="build it"):
        read_manifest(tmp_path, "build it")


@pytest.mark.parametrize("governance", [{}, {"governance": "free"}, {"governance": None}, {"governance": ["open"]}])
def test_an_unreadable_class_is_never_an_open_one(tmp_path, governance):
    write_manifest(tmp_path, {"kind": "release"} | governance)
    with pytest.raises(GovernanceError, match="is unknown. Allowed"):
        find_manifest(tmp_path, "build it")


def test_plain_is_what_a_file_gives_back():
    assert plain({"a": (1, Governance.OPEN), 2: None}) == {"a": [1, "open"], "2": None}
