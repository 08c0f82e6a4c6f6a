"""The MedDQA part of the demo: the whole story once, again at no cost, and what it says where something is missing."""

import io
import json

import pytest
from PIL import Image
from rich.console import Console

from medvqa_hub.demo import meddqa as demo_meddqa
from medvqa_hub.demo.meddqa import IMAGES, run_meddqa_demo
from rjua_meddqa import SAMPLE_DIR, fonts
from rjua_meddqa.released import read_annotations

ROWS = sum(len(a.table) for a in read_annotations(SAMPLE_DIR / "annotations.csv") if a.img_path in demo_meddqa.IMAGES)


def tell(out, width: int = 80):
    """(results, printed lines) of one run."""
    text = io.StringIO()
    results = run_meddqa_demo(out, Console(file=text, width=width))
    return results, text.getvalue().splitlines()


@pytest.mark.slow
def test_images_become_text_drafts_questions_scores_and_a_picture(tmp_path, monkeypatch):
    results, lines = tell(tmp_path / "demo")
    assert results["asked_now"] == results["counts"]["asked"] > 200 and results["counts"]["failed"] == 0
    assert set(results["by_image"]) == set(IMAGES)
    assert results["scores"]["all"]["accuracy"] > 0.9 and results["governance"] == "open"
    assert results["scores"]["hallucination"]["marked"]["unanswerable"] == 2 * len(IMAGES)
    printed = " ".join("\n".join(lines).split())
    for said in (
        "6 pages (6 read now)",
        f"{ROWS} of {ROWS} table rows",
        "否(偏高): ",
        " is above ",
        "the text of report0003.png, as restored:",
        "refused: report",
        "-> 无",
        "Table 5",
        "Table 6",
    ):
        assert said in printed
    assert max(map(len, lines[:-1])) <= 80  # the last names the picture's path, or the fonts looked for
    (tmp_path / "demo" / "page.png").unlink()
    monkeypatch.setattr(fonts, "FONT_FOLDERS", (str(tmp_path),) * 3)
    again, lines = tell(tmp_path / "demo")
    assert again["asked_now"] == 0 and again["scores"] == results["scores"]
    printed = " ".join("\n".join(lines).split())
    assert "(0 read now)" in printed
    with Image.open(tmp_path / "demo" / "page.png") as picture:  # drawn with the bundled font
        assert picture.width > 1000


def test_without_the_extra_one_line_says_so_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_meddqa, "find_spec", lambda name: None if name == "rapidocr" else object())
    results, lines = tell(tmp_path / "demo", width=200)
    assert results is None and not (tmp_path / "demo").exists()
    assert lines == ["RJUA-MedDQA is left out: reading images needs rapidocr: pip install 'medvqa-hub[ocr]'"]


def test_the_images_of_the_demo_show_every_kind():
    chosen = [a for a in read_annotations(SAMPLE_DIR / "annotations.csv") if a.img_path in IMAGES]
    assert len(chosen) == len(IMAGES) and demo_meddqa.PICTURED in IMAGES
    assert {a.image_type for a in chosen} == {"photo", "pdf", "screenshot"}
    assert {a.image_quality for a in chosen} == {"high", "low"}
    assert {bool(a.table) for a in chosen} == {True, False}
    manifest = json.loads((SAMPLE_DIR / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["governance"] == "open"
