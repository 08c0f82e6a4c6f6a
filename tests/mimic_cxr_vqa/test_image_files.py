"""Image paths turned into files: the three policies, what counts as missing, and that nothing leaves the root."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rows import qa_batch, qa_row

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa.image_files import IMAGE_STORAGE, ImageFiles


@pytest.fixture(scope="module")
def jpeg(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("jpeg") / "x.jpg"
    Image.linear_gradient("L").save(path)
    return path.read_bytes()


@pytest.fixture
def root(tmp_path, jpeg) -> Path:
    """Two good images; one empty, one cut short, one that is text, and a folder."""
    root = tmp_path / "files"
    (root / "folder.jpg").mkdir(parents=True)
    for name, data in {"a": jpeg, "b": jpeg, "empty": b"", "cut": jpeg[:-200], "text": b"no image"}.items():
        (root / f"{name}.jpg").write_bytes(data)
    return root


def rows_with(*images: list[str] | None) -> pa.Table:
    return pa.Table.from_batches([qa_batch(*[qa_row(n, images=paths) for n, paths in enumerate(images)])])


MISSING = ["absent.jpg", "empty.jpg", "cut.jpg", "text.jpg", "folder.jpg", "a.jpg/x.jpg"]


def test_paths_become_files_and_stay_beside_them(root):
    files = ImageFiles(root, "error")
    table = files.resolve(rows_with(["a.jpg", "b.jpg"], [], ["a.jpg"], None))
    assert table["images"].type == pa.list_(IMAGE_STORAGE)
    a, b = ({"bytes": None, "path": str(root / f"{name}.jpg")} for name in "ab")
    assert table["images"].to_pylist() == [[a, b], [], [a], []]
    assert table["image_paths"].to_pylist() == [["a.jpg", "b.jpg"], [], ["a.jpg"], None]
    assert table["qa_id"].equals(rows_with([], [], [], [])["qa_id"])
    assert dict(files.counts) == {"images": 2, "missing": 0}


@pytest.mark.parametrize("path", MISSING)
def test_policy_error_stops_with_the_file_and_what_to_do(root, path):
    with pytest.raises(InputError, match=rf"image {root}/{path}.*missing_images='skip'"):
        ImageFiles(root, "error").resolve(rows_with(["a.jpg"], [path]))


@pytest.mark.parametrize("path", MISSING)
def test_policy_none_puts_none_in_its_place(root, path):
    files = ImageFiles(root, "none")
    table = files.resolve(rows_with(["a.jpg", path], [path], []))
    assert [[i and i["path"] for i in images] for images in table["images"].to_pylist()] == [
        [str(root / "a.jpg"), None],
        [None],
        [],
    ]
    assert table["image_paths"].to_pylist() == [["a.jpg", path], [path], []]
    assert dict(files.counts) == {"images": 2, "missing": 1}


@pytest.mark.parametrize("path", MISSING)
def test_policy_skip_leaves_the_row_out(root, path):
    files = ImageFiles(root, "skip")
    table = files.resolve(rows_with(["a.jpg"], ["a.jpg", path], [], [path], ["b.jpg"]))
    assert table["image_paths"].to_pylist() == [["a.jpg"], [], ["b.jpg"]]
    assert dict(files.counts) == {"images": 3, "missing": 1, "rows_skipped": 2}


PATHS = st.lists(st.sampled_from(["a.jpg", "b.jpg", "absent.jpg", "empty.jpg"]), max_size=3)


@given(st.lists(PATHS, min_size=1, max_size=8), st.data())
def test_slices_of_rows_give_what_the_rows_give(tmp_path_factory, jpeg, lists, data):
    root = tmp_path_factory.getbasetemp() / "slices"
    root.mkdir(exist_ok=True)
    for name, content in {"a": jpeg, "b": jpeg, "empty": b""}.items():
        (root / f"{name}.jpg").write_bytes(content)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(lists)), st.integers(0, len(lists)))))
    files = {path: str(root / path) if path in ("a.jpg", "b.jpg") else None for paths in lists for path in paths}
    wanted = lists[start:stop]
    table = ImageFiles(root, "none").resolve(rows_with(*lists).slice(start, stop - start))
    assert [[i and i["path"] for i in images] for images in table["images"].to_pylist()] == [
        [files[path] for path in paths] for paths in wanted
    ]
    skipped = ImageFiles(root, "skip").resolve(rows_with(*lists).slice(start, stop - start))
    assert skipped["image_paths"].to_pylist() == [paths for paths in wanted if all(files[path] for path in paths)]


@pytest.mark.parametrize("policy", ["error", "skip", "none"])
@pytest.mark.parametrize("path", ["../a.jpg", "/etc/passwd", "x/../../a.jpg", "link.jpg", "out/a.jpg", "", "a\\b.jpg"])
def test_a_path_that_leaves_the_root_is_an_error_under_every_policy(root, policy, path):
    (root.parent / "a.jpg").write_bytes((root / "a.jpg").read_bytes())
    (root / "link.jpg").symlink_to(root.parent / "a.jpg")
    (root / "out").symlink_to(root.parent)
    with pytest.raises(InputError, match="leaves its root|symbolic link") as caught:
        ImageFiles(root, policy).resolve(rows_with(["a.jpg", path]))
    assert repr(path) in str(caught.value)


@pytest.mark.parametrize("policy", ["error", "skip", "none"])
def test_links_into_a_named_store_are_followed(root, policy):
    """git-annex and DVC: the tree is links into a folder of objects; what was not fetched is a link to nothing."""
    store = root.parent / "objects"
    store.mkdir()
    (store / "k1").write_bytes((root / "a.jpg").read_bytes())
    (root / "annexed.jpg").symlink_to("../objects/k1")
    (root / "elsewhere.jpg").symlink_to("/etc/hosts")
    with pytest.raises(InputError, match="image_store="):
        ImageFiles(root, policy).resolve(rows_with(["annexed.jpg"]))
    images = ImageFiles(root, policy, store)
    assert images.resolve(rows_with(["annexed.jpg"]))["images"][0].as_py()[0]["path"] == str(root / "annexed.jpg")
    with pytest.raises(InputError, match="objects .*symbolic link"):
        images.resolve(rows_with(["elsewhere.jpg"]))
    with pytest.raises(InputError, match="leaves its root"):
        images.resolve(rows_with(["../objects/k1"]))


def test_what_the_store_has_not_is_a_missing_image(root):
    store = root.parent / "objects"
    store.mkdir()
    (root / "annexed.jpg").symlink_to("../objects/not-fetched")
    table = ImageFiles(root, "none", store).resolve(rows_with(["annexed.jpg", "a.jpg"]))
    assert [image and image["path"] for image in table["images"][0].as_py()] == [None, str(root / "a.jpg")]
    with pytest.raises(InputError, match="annexed.jpg is absent"):
        ImageFiles(root, "error", store).resolve(rows_with(["annexed.jpg"]))
    with pytest.raises(InputError, match="nowhere"):
        ImageFiles(root, "none", root / "nowhere")


def test_a_wrong_policy_or_root_is_an_error(root):
    with pytest.raises(ConfigError, match="missing_images='ignore': .*error, skip, none"):
        ImageFiles(root, "ignore")
    for path in (root / "absent", root / "a.jpg"):
        with pytest.raises(InputError, match=f"{path}.*image_root="):
            ImageFiles(path, "skip")
