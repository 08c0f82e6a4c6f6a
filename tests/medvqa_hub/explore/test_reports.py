"""Report pages and corrections: what is saved is what the other commands read, and what was not changed stays."""

import json
import shutil
from dataclasses import replace

import pytest

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.annotation.drafts import REASONS
from rjua_meddqa.corrections import Corrections
from rjua_meddqa.released import read_annotations
from rjua_meddqa.restoration.pages import PAGES, to_json

REPORT = "report0005.jpg"


def save(view, path, annotation):
    """Save as a page that has just loaded the report."""
    return view.save(path, {"author": "Ann", "base": view.report(path)["version"], "annotation": annotation})


@pytest.fixture
def opened(tmp_path):
    return open_folders([SAMPLE_DIR], ExploreOptions(corrections=tmp_path / "corrected")).reports


def test_boxes_and_text_belong_together(opened):
    for line in opened.page()["reports"]:
        page = opened.report(line["path"])["page"]
        linked = [box for pieces in page["lines"] for _, box in pieces if box is not None]
        assert sorted(linked) == list(range(len(page["boxes"])))  # every box once
        for pieces in page["lines"]:
            for text, box in pieces:
                assert text.strip() == "" if box is None else text == page["boxes"][box]["text"]


def test_a_correction_is_what_check_and_load_read(opened, tmp_path, capsys):
    before = opened.report(REPORT)
    given = dict(before["annotation"])
    given["table"] = [list(row) for row in given["table"]]
    given["table"][0][1] = "99.9"
    given["table"][0][3] = "否(偏高)"
    after = save(opened, REPORT, given)
    assert after["status"] == "saved" and after["annotation"]["table"] == given["table"]
    assert [(edit["author"], edit["changed"]) for edit in opened.history(REPORT)] == [("Ann", ["table"])]
    kinds = {finding["kind"] for finding in after["findings"]}
    assert "not_on_page" in kinds  # the page does not hold 99.9: the check says so at once

    corrected = tmp_path / "corrected"
    (row,) = read_annotations(corrected / "annotations.csv")
    original = next(row for row in read_annotations(SAMPLE_DIR / "annotations.csv") if row.img_path == REPORT)
    assert row.table[0].result == "99.9" and row.key_values == original.key_values
    assert row.raw["kv"] == original.raw["kv"]  # to the letter
    assert run(["meddqa", "check", "--data", str(corrected)]) == 0
    assert "annotations: 1" in capsys.readouterr().out
    manifest = json.loads((corrected / "manifest.json").read_text())
    assert manifest["governance"] == "open" and manifest["annotations"]["source"] == "explorer"


def test_corrections_go_on_where_they_stopped(opened, tmp_path):
    for path in (REPORT, "report0003.png"):
        save(opened, path, opened.report(path)["annotation"])
    again = open_folders([SAMPLE_DIR], ExploreOptions(corrections=tmp_path / "corrected")).reports
    assert [again.report(path)["status"] for path in (REPORT, "report0003.png", "report0004.jpg")] == [
        "saved",
        "saved",
        "annotated",
    ]
    assert again.page(status="saved")["total"] == 2 and again.page(status="open")["total"] == 12
    save(again, REPORT, again.report(REPORT)["annotation"] | {"image_quality": "low"})
    assert len(read_annotations(tmp_path / "corrected" / "annotations.csv")) == 2  # in its place, not once more


@pytest.mark.parametrize(
    "change",
    [
        {"table": [["a", "b", "c"]]},
        {"table": [["a", "b", "c", "normal"]]},
        {"table": "[]"},
        {"key_values": [["k", 5]]},
        {"key_values": [["k", "v" * 30_000]]},
        {"image_type": "scan"},
        {"report_type": " "},
        {"image_quality": None},
    ],
)
def test_what_is_no_annotation_is_refused_and_nothing_written(opened, change, tmp_path):
    with pytest.raises(InputError):
        save(opened, REPORT, opened.report(REPORT)["annotation"] | change)
    assert not (tmp_path / "corrected").exists()


@pytest.mark.parametrize("path", ["../annotations.csv", "/etc/passwd", "nothing.png", "", "images/../manifest.json"])
def test_only_the_folder_s_reports_are_served(opened, path):
    for look in (opened.report, opened.picture, opened.file):
        with pytest.raises(InputError):
            look(path)


def test_people_s_work_is_not_written_over(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "annotations.csv").write_bytes((SAMPLE_DIR / "annotations.csv").read_bytes())
    with pytest.raises(InputError, match="Choose another folder"):
        open_folders([SAMPLE_DIR], ExploreOptions(corrections=tmp_path / "theirs"))
    with pytest.raises(InputError, match="corrections FOLDER"):
        open_folders([SAMPLE_DIR]).reports.save(REPORT, {})


def test_pages_alone_are_drafted_and_a_changed_row_loses_its_reason(tmp_path):
    sample = open_folders([SAMPLE_DIR]).reports
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / PAGES).write_text(
        json.dumps(to_json(sample.restored(REPORT)), ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (pages / "manifest.json").write_text(json.dumps({"kind": "meddqa-pages", "governance": "share-alike"}))
    asked = ExploreOptions(report_images=SAMPLE_DIR / "images", corrections=tmp_path / "out")
    opened = open_folders([pages], asked)
    assert str(opened.governance) == "share-alike"
    report = opened.reports.report(REPORT)
    assert report["status"] == "draft" and all(report["annotation"]["reasons"])
    given = {**report["annotation"], "table": [list(row) for row in report["annotation"]["table"]]}
    given["table"][0][3] = "无法判断"
    save(opened.reports, REPORT, given)
    (row,) = read_annotations(tmp_path / "out" / "annotations.csv")
    reasons = json.loads(row.extra[REASONS])
    assert reasons[0] == "" and reasons[1:] == report["annotation"]["reasons"][1:]
    assert opened.reports.picture(REPORT).media_type == "image/jpeg"


def test_drafts_in_a_folder_are_shown_as_drafts(opened, tmp_path):
    assert opened.page()["reports"][0]["status"] == opened.report(REPORT)["status"] == "annotated"
    shutil.copytree(SAMPLE_DIR, tmp_path / "drafts")
    manifest = json.loads((SAMPLE_DIR / "manifest.json").read_text(encoding="utf-8"))
    manifest["annotations"] = {**manifest.get("annotations", {}), "source": "draft"}  # as `meddqa preannotate` says
    (tmp_path / "drafts" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    drafts = open_folders([tmp_path / "drafts"], ExploreOptions(corrections=tmp_path / "again")).reports
    assert drafts.page()["reports"][0]["status"] == drafts.report(REPORT)["status"] == "draft"
    save(drafts, REPORT, drafts.report(REPORT)["annotation"])
    assert drafts.report(REPORT)["status"] == "saved"


def test_marks_and_moved_boxes_are_saved_and_shown_again(opened, tmp_path):
    before = opened.report(REPORT)
    opened.save(REPORT, {"author": "Ann", "base": 0, "mark": "flagged"})
    assert opened.report(REPORT)["status"] == "annotated" and not (tmp_path / "corrected/boxes").exists()
    assert [line["path"] for line in opened.page(status="flagged")["reports"]] == [REPORT]
    corners = [box["points"] for box in before["page"]["boxes"]]
    corners[0] = [[x + 3, y + 2] for x, y in corners[0]]
    after = opened.save(REPORT, {"author": "Ann", "base": 1, "boxes": corners})
    again = open_folders([SAMPLE_DIR], ExploreOptions(corrections=tmp_path / "corrected")).reports.report(REPORT)
    assert after == again and sorted(box["points"] for box in again["page"]["boxes"]) == sorted(corners)
    assert len(json.loads((tmp_path / "corrected/boxes/report0005.json").read_text())) == len(corners)
    for wrong in (
        corners[1:],
        [[[0, 0]] * 4] * len(corners),
        [["x"] * 4] * len(corners),
        "all",
        [[[0, 0], [0.001, 0], [0.001, 5], [0, 5]]] * len(corners),
        [[[float("nan"), 0]] * 4] * len(corners),
    ):
        with pytest.raises(InputError):
            opened.save(REPORT, {"author": "Ann", "base": 2, "boxes": wrong})
    for wrong in ({"mark": 1}, {"mark": "x"}, {"base": None}, {"author": 5}, {"annotation": []}, {"annotation": 1}):
        with pytest.raises(InputError):
            opened.save(REPORT, {"author": "Ann", "base": 2, **wrong})
    assert opened.report(REPORT)["version"] == 2


def test_two_annotators_are_compared_and_decided_between(tmp_path):
    """Ann and Bob correct alone. They agree on one report, and on another they differ in one verdict and one pair."""
    sample = {row.img_path: row for row in read_annotations(SAMPLE_DIR / "annotations.csv")}
    original = sample[REPORT]
    other = replace(
        original,
        table=(replace(original.table[0], is_normal="无法判断"), *original.table[1:]),
        key_values=(*original.key_values[:-1], ("新", "值")),
    )
    for name, row in (("ann", original), ("bob", other)):
        saved = Corrections(tmp_path / name, Governance.OPEN)
        saved.save(REPORT, row, name.title(), 0)
        saved.save("report0003.png", sample["report0003.png"], name.title(), 0)
    folders = [tmp_path / "ann", tmp_path / "bob"]
    options = ExploreOptions(corrections=tmp_path / "final", compare=folders)
    view = open_folders([SAMPLE_DIR], options).reports
    found = view.describe()["compared"]
    pairs = len(original.key_values) + len(sample["report0003.png"].key_values)
    rows = len(original.table) + len(sample["report0003.png"].table)
    assert (found["reports"], found["equal"]) == (2, 1)
    assert found["key_values"] == pytest.approx((pairs - 1) / pairs)
    assert found["table"] == pytest.approx((rows - 1) / rows)
    assert found["verdicts"]["rows"] == rows and found["verdicts"]["agreement"] == pytest.approx((rows - 1) / rows)
    assert found["verdicts"]["kappa"] < 1 and found["verdicts"]["ac1"] < 1
    assert [line["path"] for line in view.page(status="differ")["reports"]] == [REPORT]
    assert [line["path"] for line in view.page(status="agree")["reports"]] == ["report0003.png"]
    compared = view.report(REPORT)["compared"]
    assert [one["name"] for one in compared] == ["ann (Ann)", "bob (Bob)"]
    save(view, REPORT, compared[1]["annotation"])
    assert read_annotations(tmp_path / "final" / "annotations.csv")[0].table == other.table
    for wrong in (folders[:1], [tmp_path / "ann", SAMPLE_DIR]):
        with pytest.raises(InputError, match="Expected two|edits.jsonl"):
            open_folders([SAMPLE_DIR], ExploreOptions(compare=wrong))
