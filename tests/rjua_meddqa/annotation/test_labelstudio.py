"""Label Studio: tasks in its format, boxes to the pixel, annotations there and back, work that is not lost."""

import copy
import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_boxes import box, page, turned

from medvqa_core.errors import InputError, MedvqaError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from rjua_meddqa.annotation.labelstudio import (
    keep_unchanged,
    labelling_config,
    make_task,
    parse_annotations,
)
from rjua_meddqa.corrections import Corrections
from rjua_meddqa.data_folder import open_folder
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.restoration.pages import Page, to_json
from rjua_meddqa.schema import Annotation, TableRow

ANNOTATION = Annotation(
    idx="7",
    img_path="a b.png",
    key_values=(("诊断", "前列腺|增生\\\n钙化"), ("性别", "男")),
    table=(TableRow("尿酸", "470", "155-428", "否(偏高)"),),
    report_type="Laboratory",
    image_type="photo",
    image_quality="low",
    extra={"note": "x"},
)


def make_page(boxes, size=(400, 200)):
    return SimpleNamespace(width=size[0], height=size[1], original_boxes=tuple(boxes), boxes=tuple(boxes))


def annotated(task, **changes):
    """The task as Label Studio exports it once somebody has accepted the prediction."""
    annotation = {"id": 11, "result": copy.deepcopy(task["predictions"][0]["result"]), "was_cancelled": False}
    annotation |= {
        "created_at": "2024-01-01T00:00:00Z",
        "updated_at": "2024-01-01T00:00:00Z",
        "completed_by": 1,
    } | changes
    return {"id": 3, **task, "annotations": [annotation]}


def task(boxes=(), annotation=ANNOTATION):
    return make_task(make_page(boxes), annotation, "/data/a.png", Governance.SHARE_ALIKE)


def test_a_box_in_percent_of_the_image():
    (rectangle, text, *_) = task([box("血清", 100, 50, size=20)])["predictions"][0]["result"]
    assert rectangle["type"] == "rectanglelabels" and text["type"] == "textarea"
    assert rectangle["id"] == text["id"] and rectangle["to_name"] == text["to_name"] == "image"
    assert (rectangle["original_width"], rectangle["original_height"]) == (400, 200)
    expected = {"x": 25, "y": 25, "width": 10, "height": 10, "rotation": 0, "rectanglelabels": ["Text"]}
    assert rectangle["value"] == expected and text["value"]["text"] == ["血清"]


def test_a_turned_box_turns_about_its_first_corner():
    (straight,) = turned([box("血清", 0, 0, size=20)], 30)
    value = task([straight])["predictions"][0]["result"][0]["value"]
    assert value["rotation"] == pytest.approx(30) and (value["x"], value["y"]) == (0, 0)
    assert value["width"] == pytest.approx(10) and value["height"] == pytest.approx(10)  # its own sides, not its hull


def corners(entry):
    """The corners of a rectangle in pixels, as Label Studio draws it: turned about its first corner."""
    value, (width, height) = entry["value"], (entry["original_width"], entry["original_height"])
    x, y, across, down = (
        value[name] / 100 * size for name, size in zip(("x", "y", "width", "height"), (width, height) * 2, strict=True)
    )
    cos, sin = (f(math.radians(value["rotation"])) for f in (math.cos, math.sin))
    sides = ((0, 0), (across, 0), (across, down), (0, down))
    return [(x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in sides]


@given(st.floats(-179, 179), st.floats(0, 300), st.floats(0, 150), st.floats(3, 40))
def test_boxes_are_drawn_to_the_pixel(angle, x, y, size):
    (placed,) = turned([box("尿酸 470", x, y, size)], angle)
    rectangle, text = task([placed])["predictions"][0]["result"][:2]
    assert text["value"]["text"] == ["尿酸 470"]
    for point, expected in zip(corners(rectangle), placed.points, strict=True):
        assert math.dist(point, expected) < 1e-6


def test_there_and_back():
    imported = parse_annotations([annotated(task([box("a", 0, 0)]))], "export")
    assert imported.annotations == (ANNOTATION,) and imported.skipped == ()
    assert imported.governance is Governance.SHARE_ALIKE


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs")), max_size=10).map(str.strip)


@given(st.lists(st.tuples(words, words), max_size=3), st.lists(st.tuples(words, words, words, words), max_size=3))
def test_any_bars_and_backslashes_come_back(pairs, rows):
    annotation = replace(ANNOTATION, key_values=tuple(pairs), table=tuple(TableRow(*row) for row in rows))
    (back,) = parse_annotations(json.loads(json.dumps([annotated(task([], annotation))])), "export").annotations
    assert back == annotation


def test_corrections_arrive():
    corrected = annotated(task())
    for entry in corrected["annotations"][0]["result"]:
        if entry["from_name"] == "table":
            entry["value"]["text"] = ["尿酸|  4.70 |155-428 | 否(偏低)", "肌酐 | 79 | 57-97 | 是"]
        if entry["from_name"] == "image_quality":
            entry["value"]["choices"] = ["high"]
    (back,) = parse_annotations([corrected], "export").annotations
    assert back.table == (TableRow("尿酸", "4.70", "155-428", "否(偏低)"), TableRow("肌酐", "79", "57-97", "是"))
    assert back.image_quality == "high" and back.key_values == ANNOTATION.key_values


def test_the_last_annotation_counts_and_cancelled_ones_do_not():
    exported = annotated(task())
    older = copy.deepcopy(exported["annotations"][0]) | {"updated_at": "2023-01-01T00:00:00Z", "result": []}
    cancelled = copy.deepcopy(older) | {"updated_at": "2025-01-01T00:00:00Z", "was_cancelled": True}
    exported["annotations"] = [older, exported["annotations"][0], cancelled]
    assert parse_annotations([exported], "export").annotations == (ANNOTATION,)


def test_tasks_without_annotation_are_named():
    imported = parse_annotations([annotated(task()), task(), annotated(task(), was_cancelled=True)], "export.json")
    assert len(imported.annotations) == 1
    assert [reason for reason in imported.skipped if "not annotated" in reason and "a b.png" in reason]
    assert len(imported.skipped) == 2


def damaged(name, value):
    exported = annotated(task([box("a", 0, 0)]))
    for entry in exported["annotations"][0]["result"]:
        if entry["from_name"] == name:
            entry["value"] = value
    return [exported]


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ({"data": {}}, "not a list of tasks"),
        ([{"data": {"image": "x"}}], "no img_path"),
        ([{"data": "x"}], "no img_path"),
        (damaged("table", {"text": ["尿酸 | 470"]}), "2 fields"),
        (damaged("report_type", {}), "no report_type was chosen"),
        (damaged("image_quality", {"choices": ["medium"]}), "'medium' is unknown"),
        ([annotated(task(), result=None)], "damaged"),
    ],
)
def test_exports_that_cannot_be_read(tasks, problem):
    with pytest.raises(InputError, match=problem):
        parse_annotations(tasks, "export.json")


def _paths(value, path=()):
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _paths(value[key], (*path, key))


@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [None], [5], {"a": 1}, math.inf, [[]], True])
def test_whatever_is_damaged_is_an_error_that_says_so(value):
    whole = annotated(task([box("尿酸", 10, 10)]))
    for path in list(_paths(whole))[1:]:
        broken = copy.deepcopy(whole)
        place = broken
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with suppress(MedvqaError):
            parse_annotations([broken], "file")


def test_report_types_of_the_tasks_can_be_chosen():
    choices = ElementTree.fromstring(labelling_config(["CT", 'X "&" Y', ""])).iter("Choice")
    values = [choice.get("value") for choice in choices]
    assert values.count("CT") == 1 and 'X "&" Y' in values and "" not in values


def test_labelling_config_names_what_tasks_use():
    root = ElementTree.fromstring(labelling_config())
    names = {element.get("name") for element in root.iter() if element.get("name")}
    result = task([box("a", 0, 0)])["predictions"][0]["result"]
    assert {entry["from_name"] for entry in result} | {"image"} == names
    assert all(element.get("toName") == "image" for element in root.iter() if element.get("toName"))
    choices = {element.get("value") for element in root.iter("Choice")}
    assert {value for entry in result for value in entry["value"].get("choices", [])} <= choices


def test_what_nobody_corrected_is_written_to_the_letter(tmp_path):
    source = tmp_path / "a.csv"
    cell = "{'申请': '血脂全套(新) ','性别':'男'}"
    source.write_text(
        f'idx,img_path,kv,table,report_type,image_type,image_quality\r\n1,a.png,"{cell}",, MRI,pdf,high\r\n',
        encoding="utf-8",
        newline="",
    )
    originals = read_annotations(source)
    imported = parse_annotations([annotated(task([], originals[0]))], "export").annotations
    assert imported[0] != originals[0]  # the space at the end is lost on the way
    write_annotations(keep_unchanged(imported, originals), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == source.read_bytes()
    changed = replace(imported[0], key_values=(("性别", "女"),))
    write_annotations(keep_unchanged([changed], originals), tmp_path / "c.csv")
    assert "女" in (tmp_path / "c.csv").read_text(encoding="utf-8")


@pytest.fixture
def pages(tmp_path):
    """A folder as `meddqa esra` writes it, with one page."""
    folder = tmp_path / "pages"
    folder.mkdir()
    boxes = [box("项目", 0, 40), box("结果", 200, 40), box("参考值", 300, 40), box("性别：男", 0, 0)]
    boxes += [box("尿酸", 0, 80), box("470", 200, 80), box("155-428", 300, 80)]
    restored = page(boxes)
    written = Page("a b.png", 400, 200, tuple(boxes), tuple(boxes), 0, 0.0, "low", "why", "screenshot", restored)
    (folder / "pages.jsonl").write_text(json.dumps(to_json(written), ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps({"kind": "meddqa-pages", "governance": "open"}), encoding="utf-8")
    return folder


def test_from_pages_through_label_studio_and_back(pages, tmp_path, capsys):
    drafts, tasks, final = (str(tmp_path / name) for name in ("drafts", "tasks", "final"))
    assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", drafts, "--image-type", "photo"]) == 0
    (drafted,) = read_annotations(tmp_path / "drafts" / "annotations.csv")
    assert drafted.key_values == (("性别", "男"),) and drafted.table == (
        TableRow("尿酸", "470", "155-428", "否(偏高)"),
    )
    assert json.loads((tmp_path / "drafts" / "manifest.json").read_text())["governance"] == "open"
    assert run(["meddqa", "labelstudio-export", "--data", drafts, "--pages", str(pages), "--out", tasks]) == 0
    (made,) = json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    assert made["data"]["image"] == "/data/local-files/?d=images/a%20b.png"
    export = tmp_path / "export.json"
    export.write_text(json.dumps([annotated(made)]), encoding="utf-8")
    assert run(["meddqa", "labelstudio-import", "--export", str(export), "--out", final, "--data", drafts]) == 0
    assert "no findings" in capsys.readouterr().out
    assert (tmp_path / "final" / "annotations.csv").read_bytes() == (
        tmp_path / "drafts" / "annotations.csv"
    ).read_bytes()
    # the type of an image: as it looks, or named in a file
    types = tmp_path / "types.csv"
    types.write_text("img_path,image_type\nimages/a b.png,pdf\n", encoding="utf-8")
    for options, expected in (([], "screenshot"), (["--image-types", str(types)], "pdf")):
        assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", drafts, *options]) == 0
        assert read_annotations(tmp_path / "drafts" / "annotations.csv")[0].image_type == expected
    # drafts may be drafted again, corrected annotations are not written over
    assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", drafts]) == 0
    assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", final]) == 1
    assert "not drafts" in capsys.readouterr().err


def test_authors_and_times_survive_label_studio(pages, tmp_path):
    """Two people correct in the explorer, a third in Label Studio. An unchanged annotation is no edit."""
    drafts, mine, back = (tmp_path / name for name in ("drafts", "mine", "back"))
    assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", str(drafts)]) == 0
    (draft,) = read_annotations(drafts / "annotations.csv")
    corrections = Corrections(mine, Governance.OPEN)
    corrections.save(draft.img_path, replace(draft, report_type="CT"), "Ann", 0, time="2024-01-01T00:00:00+00:00")
    corrections.save(draft.img_path, replace(draft, report_type="MRI"), "Bob", 1, mark="flagged")
    export = ["meddqa", "labelstudio-export", "--data", str(mine), "--pages", str(pages), "--out"]
    assert run([*export, str(tmp_path / "tasks")]) == 0
    (made,) = json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    unchanged = annotated(made, completed_by={"id": 4, "email": "eve@example.org"}, updated_at="2030-01-01T00:00:00Z")
    changed = copy.deepcopy(unchanged)
    for entry in changed["annotations"][0]["result"]:
        if entry["from_name"] == "report_type":
            entry["value"]["choices"] = ["Clinical"]
    file, after = tmp_path / "export.json", corrections.history(draft.img_path)
    command = ["meddqa", "labelstudio-import", "--export", str(file), "--out"]
    for task, out, added in ((unchanged, back, 0), (changed, back, 1), (changed, mine, 1)):
        file.write_text(json.dumps([task]), encoding="utf-8")
        for _ in range(2):  # the second time adds nothing
            assert run([*command, str(out)]) == 0
            history = Corrections(out, Governance.OPEN).history(draft.img_path)
            assert history[:2] == after and len(history) == 2 + added
    edit, annotation = history[2]
    assert (edit.author, edit.time, edit.change) == (
        "eve@example.org", "2030-01-01T00:00:00Z", {"report_type": "Clinical"}
    )  # fmt: skip
    assert annotation == replace(draft, report_type="Clinical") and annotation.raw == draft.raw
    for damage in ({"change": {"table": [["a"]]}}, {"change": 5}, {"author": ""}, {"change": {"mark": "x"}}):
        task = copy.deepcopy(changed)
        task["data"]["history"][1] |= damage
        file.write_text(json.dumps([task]), encoding="utf-8")
        assert run([*command, str(tmp_path / "damaged")]) == 1
        assert not (tmp_path / "damaged" / "edits.jsonl").exists()


def test_questions_of_drafts_are_said_to_be(pages, tmp_path, capsys):
    drafts, tasks, final, asked, sure = (str(tmp_path / name) for name in ("drafts", "tasks", "final", "asked", "sure"))
    assert run(["meddqa", "preannotate", "--pages", str(pages), "--out", drafts]) == 0
    capsys.readouterr()
    assert run(["meddqa", "generate", "--data", drafts, "--out", asked]) == 0
    assert "labelstudio-export" in capsys.readouterr().err
    assert open_folder(Path(drafts)).drafted and open_folder(Path(asked)).drafted
    assert "uncorrected drafts" in (Path(asked) / "README.md").read_text(encoding="utf-8")
    assert run(["meddqa", "labelstudio-export", "--data", drafts, "--pages", str(pages), "--out", tasks]) == 0
    (made,) = json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    (tmp_path / "export.json").write_text(json.dumps([annotated(made)]), encoding="utf-8")
    assert run(["meddqa", "labelstudio-import", "--export", str(tmp_path / "export.json"), "--out", final]) == 0
    capsys.readouterr()
    assert run(["meddqa", "generate", "--data", final, "--out", sure]) == 0
    assert "nobody has corrected" not in capsys.readouterr().err + (Path(sure) / "README.md").read_text(
        encoding="utf-8"
    )
    assert not open_folder(Path(sure)).drafted


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("preannotate --pages {tmp}/none --out {tmp}/o", "meddqa esra"),
        ("preannotate --pages {tmp}/pages --out {tmp}/o --image-type fax", "'fax' is unknown"),
        ("labelstudio-export --data {tmp} --pages {tmp}/pages --out {tmp}/o", "annotations.csv"),
        ("labelstudio-import --export {tmp}/none.json --out {tmp}/o", "no such file"),
        ("labelstudio-import --export {tmp}/pages/pages.jsonl --out {tmp}/o", "not a list of tasks"),
        ("check --data {tmp}", "annotations.csv"),
    ],
)
def test_commands_say_what_is_wrong(pages, tmp_path, capsys, command, problem):
    assert run(["meddqa", *command.format(tmp=tmp_path).split()]) == 1
    assert problem in capsys.readouterr().err
