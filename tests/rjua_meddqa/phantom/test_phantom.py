"""Synthetic reports: exact annotations and boxes, quality by geometry, reproducible, resumable."""

import csv
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvqa_core.errors import ConfigError, OutputError
from rjua_meddqa.annotation.normality import judge
from rjua_meddqa.fonts import BUNDLED, find_font, find_fonts, lacking
from rjua_meddqa.phantom.contexts import contexts, option
from rjua_meddqa.phantom.folder import write_phantom
from rjua_meddqa.phantom.page import draw_page
from rjua_meddqa.phantom.panels import PANELS, SERUM, SHARES, SPECIMENS, WHOLES, Item
from rjua_meddqa.phantom.photo import Effects, judge_corners, photograph, turn
from rjua_meddqa.phantom.report import MEN_ONLY, draw_report
from rjua_meddqa.released import read_annotations, read_questions, read_reasoning
from rjua_meddqa.schema import HIGH, LOW, MISSING, NORMAL, UNDECIDED, Box


@pytest.fixture(scope="module")
def font():
    return find_font()


def reports(count: int):
    return [draw_report(random.Random(f"test {number}")) for number in range(count)]


def test_the_verdict_of_a_row_follows_from_its_numbers():
    item = Item("钾(K)", "mmol/L", 3.5, 5.3, 2)
    rows = [item.draw(random.Random(seed)) for seed in range(300)]
    expected = [NORMAL if 3.5 <= float(row.result) <= 5.3 else HIGH if float(row.result) > 5.3 else LOW for row in rows]
    assert [row.is_normal for row in rows] == expected
    assert {row.range for row in rows} == {"3.50-5.30mmol/L"}
    assert set(expected) == {NORMAL, HIGH, LOW}


def test_items_of_other_ranges():
    limit = Item("甘油三酯(TG)", "mmol/L", None, 1.7, 2).draw(random.Random(0))
    assert limit.range == "<1.7mmol/L" and (float(limit.result) < 1.7) == (limit.is_normal == NORMAL)
    nothing = Item("估算肾小球滤过率(eGFR)", digits=0).draw(random.Random(0))
    assert (nothing.range, nothing.is_normal) == (MISSING, UNDECIDED)


def test_the_judge_of_annotations_agrees_with_every_row():
    rows = [row for report in reports(300) for row in report.table]
    assert len(rows) > 1000
    assert [row for row in rows if judge(row.result, row.range).verdict != row.is_normal] == []


def test_every_finding_has_its_context_and_every_panel_item_its_title():
    titles = {context.title for context in contexts()}
    assert {title for report in reports(300) for _, title in report.findings} <= titles
    named = {title for items in PANELS.values() for item in items for title in (item.when_high, item.when_low)}
    assert named - {""} <= titles


def test_every_printed_word_of_the_annotation_is_in_a_box_inside_the_image(font):
    for number in range(1, 14):
        page = draw_page(0, number, font)
        texts = [box.text for box in page.boxes]
        for row in page.annotation.table:
            assert row.item in texts and any(text.rstrip("↑↓") == row.result for text in texts)
        for key, value in page.annotation.key_values:
            if value != MISSING:
                assert value in "".join(texts) and key in "".join(texts)
        width, height = page.image.size
        for box in page.boxes:
            assert box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height, (number, box.text)


def test_boxes_lie_on_their_ink(font):
    """Each box contains darker pixels than the paper around it."""
    photos = [page for page in (draw_page(1, n, font) for n in range(1, 18)) if page.annotation.image_type == "photo"]
    assert len(photos) > 5
    for page in photos:
        pixels = np.asarray(page.image, dtype=float)
        for box in page.boxes:
            if not box.text.strip("：:"):
                continue
            inside = pixels[int(box.top) : int(box.bottom) + 1, int(box.left) : int(box.right) + 1]
            assert inside.min() < np.percentile(inside, 90) - 40, (page.annotation.img_path, box.text)


def test_texts_do_not_overlap_on_a_sheet(font):
    for number in range(1, 14):
        page = draw_page(2, number, font)
        if page.annotation.image_type == "photo":
            continue
        boxes = sorted(page.boxes, key=lambda box: box.top)
        for i, one in enumerate(boxes):
            for other in boxes[i + 1 :]:
                apart = one.right <= other.left or other.right <= one.left
                assert apart or one.bottom <= other.top or other.bottom <= one.top, (one.text, other.text)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_boxes_turn_with_the_image(degrees):
    image = Image.new("L", (6, 4), 255)
    image.putpixel((5, 0), 0)  # the corner on the upper right
    box = Box(((5, 0), (6, 0), (6, 1), (5, 1)), "x")
    turned, [moved] = turn(image, [box], degrees)
    assert turned.getpixel((int(moved.left), int(moved.top))) == 0


def test_quality_follows_the_corners_and_the_angles():
    page = [(10.0, 10.0), (90.0, 10.0), (90.0, 60.0), (10.0, 60.0)]
    assert judge_corners(page, (100, 70)) == "high"
    assert judge_corners(page, (100, 50)) == "low"  # two corners are cut off
    one_off = [(10.0, 10.0), (90.0, 10.0), (90.0, 75.0), (10.0, 60.0)]
    assert judge_corners(one_off, (100, 70)) == "high"
    side = 50 * math.tan(math.radians(16))
    assert judge_corners([(10.0 + side, 10.0), *page[1:]], (100, 70)) == "low"


def test_a_cut_photo_is_low_and_keeps_its_text(font):
    page = next(page for page in (draw_page(0, n, font) for n in range(1, 60)) if page.annotation.image_type == "pdf")
    effects = Effects(tilt=0.5, pinch=0.02, cut=True, turn=0, blur=0.3, shadow=20, noise=2)
    image, boxes, quality = photograph(page.image, page.boxes, effects, seed=1)
    assert quality == "low"
    assert max(box.bottom for box in boxes) <= image.height


def test_written_files_load_and_do_not_depend_on_the_order(font, tmp_path):
    manifest = write_phantom(tmp_path / "a", 6, seed=5)
    assert manifest["complete"] and manifest["governance"] == "open"
    annotations = read_annotations(tmp_path / "a" / "annotations.csv")
    assert [annotation.img_path for annotation in annotations] == [
        draw_page(5, number, font).annotation.img_path for number in range(1, 7)
    ]
    assert annotations == [draw_page(5, number, font).annotation for number in range(1, 7)]
    questions = read_questions(tmp_path / "a" / "questions.jsonl")
    assert len(questions) == manifest["counts"]["questions"] > 6 * 10
    asked = {question.img_path for question in questions}
    assert asked == {annotation.img_path for annotation in annotations}
    with open(tmp_path / "a" / "contexts.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(contexts())


def test_a_stopped_run_is_finished_with_the_same_files(font, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    write_phantom(whole, 5, seed=1)
    write_phantom(stopped, 5, seed=1)
    manifest = json.loads((stopped / "manifest.json").read_text()) | {"complete": False}
    (stopped / "manifest.json").write_text(json.dumps(manifest))
    for gone in ("questions.jsonl", "annotations.csv"):
        (stopped / gone).unlink()
    next((stopped / "images").iterdir()).unlink()
    assert write_phantom(stopped, 5, seed=1)["counts"]["drawn"] == 1
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(stopped) for path in stopped.rglob("*") if path.is_file())
    for file in files:
        assert (whole / file).read_bytes() == (stopped / file).read_bytes(), file


def test_other_parameters_and_other_folders_are_errors(font, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json.partial").write_text('{"kin')  # killed while writing
    assert write_phantom(tmp_path / "a", 1)["complete"]
    with pytest.raises(ConfigError, match="other parameters"):
        write_phantom(tmp_path / "a", 2)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="another folder"):
        write_phantom(tmp_path / "b", 1)
    with pytest.raises(ConfigError, match="0 reports"):
        write_phantom(tmp_path / "c", 0)


def test_without_a_font_of_the_system_the_bundled_one_draws_every_report(monkeypatch, tmp_path):
    monkeypatch.setattr("rjua_meddqa.fonts.FONT_FOLDERS", (str(tmp_path),) * 3)
    assert find_font() == BUNDLED and find_fonts() == [BUNDLED]
    pages = [draw_page(11, n, BUNDLED, hard) for hard in (False, True) for n in range(1, 14)]
    printed = "".join(box.text for page in pages for box in page.boxes)
    assert len(set(printed)) > 300
    assert lacking(BUNDLED, printed) in ("", "⁹")  # drawn by `raised_digits`


def test_a_character_that_the_bundled_font_lacks_is_known():
    assert lacking(BUNDLED, "检验龘𠮷") == "龘𠮷"
    assert lacking(Path("another.otf"), "龘") == ""


def test_a_finished_run_is_left_as_it_is(font, tmp_path, monkeypatch):
    write_phantom(tmp_path, 3, seed=2)
    (tmp_path / "questions.jsonl").write_text("made by the user since\n")
    monkeypatch.setattr("rjua_meddqa.phantom.folder.draw_page", None)
    assert write_phantom(tmp_path, 3, seed=2)["counts"]["drawn"] == 0
    assert (tmp_path / "questions.jsonl").read_text() == "made by the user since\n"
    monkeypatch.undo()
    next((tmp_path / "images").iterdir()).unlink()
    assert write_phantom(tmp_path, 3, seed=2)["counts"]["drawn"] == 1


def test_a_card_is_written(font, tmp_path):
    write_phantom(tmp_path, 2, seed=4)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "2 images" in card and "seed 4" in card and "governance-open" in card and "synthetic reports" in card


def test_a_missing_font_and_one_without_chinese_characters_are_errors(tmp_path):
    import matplotlib

    with pytest.raises(ConfigError, match=r"none\.ttf"):
        find_font(tmp_path / "none.ttf")
    font = next(Path(matplotlib.get_data_path()).rglob("DejaVuSans.ttf"))
    with pytest.raises(ConfigError, match="--font"):
        find_font(font)


def test_reports_do_not_contradict_themselves():
    for report in reports(400):
        values = dict(report.key_values)
        text = "".join((*values.values(), *(row.item for row in report.table)))
        if any(word in text for word in MEN_ONLY):
            assert values["性别"] == "男"
        if report.table:
            assert values["采样时间"] <= values["报告时间"]
            assert (
                len({SPECIMENS.get(name, SERUM) for name in values["检验目的"].split("+")} - {values["标本种类"]}) == 0
            )
        results = {row.item: float(row.result) for row in report.table if row.result[0].isdigit()}
        for whole, parts in WHOLES.items():
            assert whole not in results or sum(results[part] for part in parts) <= results[whole]
        assert sum(results.get(share, 0) for share in SHARES) <= 100


def test_options_about_advice_are_the_advice(font, tmp_path):
    write_phantom(tmp_path, 12, seed=1)
    advice = {option(context) for context in contexts()} - {""}
    asked = [q for q in read_reasoning(tmp_path / "reasoning.jsonl") if q.task == "advice_qa" and q.answer_type == "MC"]
    assert asked and all(question.answer[2:] in advice for question in asked)
