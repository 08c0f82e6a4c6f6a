"""The bundled synthetic reports are complete, small and up to date."""

import json

from PIL import Image

from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.released import read_annotations, read_questions
from rjua_meddqa.sample_writer import REPORTS, write_sample
from rjua_meddqa.schema import LABORATORY

TEXTS = ("annotations.csv", "questions.jsonl", "reasoning.jsonl", "contexts.csv", "findings.csv", "README.md")


def test_the_sample_is_complete_and_shows_every_sort_of_page():
    manifest = json.loads((SAMPLE_DIR / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["complete"] and manifest["governance"] == "open"
    annotations = read_annotations(SAMPLE_DIR / "annotations.csv")
    assert len(annotations) == REPORTS
    assert {annotation.image_type for annotation in annotations} == {"pdf", "photo", "screenshot"}
    assert {annotation.image_quality for annotation in annotations} == {"high", "low"}
    assert len({annotation.report_type for annotation in annotations} - {LABORATORY}) >= 3
    for annotation in annotations:
        with Image.open(SAMPLE_DIR / "images" / annotation.img_path) as image:
            image.load()


def test_its_questions_are_about_its_images():
    images = {annotation.img_path for annotation in read_annotations(SAMPLE_DIR / "annotations.csv")}
    assert {question.img_path for question in read_questions(SAMPLE_DIR / "questions.jsonl")} == images


def test_the_writer_writes_these_texts_today(tmp_path):
    """Images are left out, because their bytes depend on the version of the font."""
    write_sample(tmp_path / "sample")
    for name in TEXTS:
        written = (tmp_path / "sample" / name).read_bytes()
        assert written == (SAMPLE_DIR / name).read_bytes(), f"{name}: make sample"
    names = [sorted(path.name for path in (root / "images").iterdir()) for root in (SAMPLE_DIR, tmp_path / "sample")]
    assert names[0] == names[1]
