"""Pages of another OCR are evaluated as they are, and are not read again by the built-in one."""

import pytest
from PIL import Image

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from rjua_meddqa.restoration.ocr import RapidOcrEngine
from rjua_meddqa.restoration.pages import engine_of_pages, read_pages, restore_folder
from rjua_meddqa.schema import Box


class OtherOcr:
    name, version, settings = "other", "2", {"language": "ch"}

    def read(self, image):
        return [Box(((10, 10), (90, 10), (90, 30), (10, 30)), "钾 4.1", 0.9)]


def test_pages_of_another_ocr_are_not_read_again(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.new("RGB", (300, 200), "white").save(photos / "a.png")
    restore_folder(photos, tmp_path / "pages", OtherOcr(), governance=Governance.OPEN)
    engine = engine_of_pages(tmp_path / "pages")
    known = {"governance": Governance.OPEN, "known": tmp_path / "pages"}
    done = restore_folder(photos, tmp_path / "scores", engine, **known)
    assert done.read_now == 0
    assert [page.restored.text for page in read_pages(tmp_path / "scores")] == ["钾 4.1"]
    Image.new("RGB", (300, 200), "black").save(photos / "a.png")  # an image that it has not read
    with pytest.raises(InputError, match="other has not read"):
        restore_folder(photos, tmp_path / "again", engine, **known)


def test_without_pages_the_built_in_ocr_reads():
    assert engine_of_pages(None) == RapidOcrEngine()
