"""The governance class of a folder of images."""

from pathlib import Path

import pytest

from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from rjua_meddqa.data_folder import SAMPLE_DIR, choose_class, find_class


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((), Governance.CREDENTIALED),  # photographs of one's own
        (("annotations.csv",), Governance.CREDENTIALED),
        (("sampled_image_content_kv_table_annotation.csv",), Governance.SHARE_ALIKE),
        (("image_content_vqa.json",), Governance.SHARE_ALIKE),
    ],
)
def test_images_without_a_manifest(tmp_path: Path, files: tuple[str, ...], expected: Governance) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "page.jpg").touch()
    for name in files:
        (tmp_path / name).touch()
    assert find_class(images) is find_class(images / "page.jpg") is expected
    assert find_class(tmp_path) is expected


def test_images_of_a_data_folder_have_its_class() -> None:
    assert find_class(SAMPLE_DIR / "images") is find_class(SAMPLE_DIR) is Governance.OPEN


def test_other_folders_beside_a_manifest_do_not_have_its_class(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "meddqa", "governance": "open"}')
    (tmp_path / "photos").mkdir()
    assert find_class(tmp_path / "photos") is Governance.CREDENTIALED


def test_the_class_of_images_can_only_be_raised(tmp_path):
    (tmp_path / "photos").mkdir()
    assert choose_class(tmp_path / "photos", None) is Governance.CREDENTIALED
    assert choose_class(SAMPLE_DIR / "images", Governance.CREDENTIALED) is Governance.CREDENTIALED
    assert choose_class(SAMPLE_DIR / "images", Governance.OPEN) is Governance.OPEN
    with pytest.raises(GovernanceError, match="--governance open: .*photos are credentialed"):
        choose_class(tmp_path / "photos", Governance.OPEN)
