"""Digests: the published values, files by their content, and a file that cannot be read."""

import pytest

from medvqa_core.digests import blake2b_files, digest, digest_file
from medvqa_core.errors import InputError


def test_digests_are_the_published_ones(tmp_path):
    """SHA-256 of "abc" as in FIPS 180-2, appendix B.1; BLAKE2b of "abc" as in RFC 7693, appendix A."""
    (tmp_path / "a").write_bytes(b"abc")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest("abc") == digest(b"abc") == digest_file(tmp_path / "a") == sha256
    assert digest_file(tmp_path / "a", "blake2b").startswith("ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b7")
    with pytest.raises(InputError, match="none: cannot be read"):
        digest_file(tmp_path / "none")


def test_digests_tell_contents_apart_not_names(tmp_path):
    for name, content in {"a": b"1", "b": b"2", "c": b"1"}.items():
        (tmp_path / name).write_bytes(content)
    a, b, c = (tmp_path / name for name in "abc")
    digests = blake2b_files([a, b, c, a], "Reading")
    assert digests[a] == digests[c] != digests[b] and len(digests) == 3
    with pytest.raises(InputError, match="none: cannot be read"):
        blake2b_files([a, tmp_path / "none"], "Reading")
