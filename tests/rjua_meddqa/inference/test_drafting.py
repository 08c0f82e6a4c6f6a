"""Drafts by a model: what the page does not say is dropped and counted, verdicts are the rules', failures are named."""

import io
import json

import pytest
from meddqa_boxes import box, page
from meddqa_server import asked, parts_of, serve
from PIL import Image

from medvqa_hub.cli import run
from rjua_meddqa.fonts import BUNDLED
from rjua_meddqa.inference.drafting import SEES, draft_from_reply, is_printed
from rjua_meddqa.phantom.varied import draw_varied_page
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.restoration.pages import Page, to_json
from rjua_meddqa.schema import HIGH, UNDECIDED, Annotation, TableRow

BOXES = [
    *(box("性别：男", 0, 0), box("床号：", 200, 0)),
    *(box("项目", 0, 40), box("结果", 200, 40), box("参考值", 300, 40)),
    *(box("尿酸", 0, 80), box("470", 200, 80), box("155-428", 300, 80)),
    *(box("肌酐", 0, 120), box("70", 200, 120), box("57-97", 300, 120)),
]


def entry(**texts) -> dict:
    """An entry of a reply, with the boxes that hold each text."""
    boxes = {
        f"{name}_boxes": [n for n, b in enumerate(BOXES) if text and text in b.text] for name, text in texts.items()
    }
    return texts | boxes


TRUE = {
    "fields": [entry(key="性别", value="男"), entry(key="床号", value="无")],
    "rows": [
        entry(item="尿酸", result="470", range="155-428", unit="") | {"is_normal": "是"},
        entry(item="肌酐", result="70", range="57-97", unit=""),
    ],
}
TRUE["rows"][1]["result_boxes"] = [9]  # not that of 470


def a_page(name="a.png", boxes=BOXES) -> Page:
    return Page(name, 400, 200, tuple(boxes), tuple(boxes), 0, 0.0, "low", "why", "screenshot", page(boxes))


def drafted(reply: dict):
    return draft_from_reply(json.dumps(reply, ensure_ascii=False), a_page())


def test_what_the_page_says_is_kept_and_judged_by_rule():
    """The model calls 470 normal; 155 to 428 says otherwise."""
    draft, dropped = drafted(TRUE)
    assert draft.key_values == (("性别", "男"), ("床号", "无"))
    assert draft.table == (TableRow("尿酸", "470", "155-428", HIGH), TableRow("肌酐", "70", "57-97", "是"))
    assert set(dropped.values()) == {0}


@pytest.mark.parametrize(
    "reply, lost",
    [
        ({"fields": [entry(key="姓名", value="男")], "rows": []}, "fields_not_on_page"),
        ({"fields": [entry(key="性别", value="女")], "rows": []}, "fields_not_on_page"),
        ({"fields": [], "rows": [entry(item="尿素", result="470", range="", unit="")]}, "rows_not_on_page"),
        ({"fields": [], "rows": [entry(item="尿酸", result="47", range="", unit="")]}, "rows_not_on_page"),
        ({"fields": [], "rows": [entry(item="尿酸", result="4.70", range="", unit="")]}, "rows_not_on_page"),
    ],
)
def test_what_it_does_not_say_is_dropped_and_counted(reply, lost):
    """47 is on the page only as the beginning of 470."""
    draft, dropped = drafted(reply)
    assert draft.key_values == () and draft.table == ()
    assert {name: count for name, count in dropped.items() if count} == {lost: 1}


@pytest.mark.parametrize(("reference", "counted"), [("150-400", "ranges_not_on_page"), ("57-97", "ranges_misplaced")])
def test_a_range_that_is_not_there_or_is_another_rows_is_removed(reference, counted):
    rows = [entry(item="尿酸", result="470", range=reference, unit=""), TRUE["rows"][1]]
    draft, dropped = drafted({"fields": [], "rows": rows})
    assert draft.table == (TableRow("尿酸", "470", "无", UNDECIDED), TableRow("肌酐", "70", "57-97", "是"))
    assert dropped[counted] == 1


def test_of_a_reply_with_swapped_rows_none_is_kept():
    one, two = TRUE["rows"]
    names = ("result", "result_boxes")
    rows = [one | {name: two[name] for name in names}, two | {name: one[name] for name in names}]
    draft, dropped = drafted({"fields": [], "rows": rows})
    assert draft.table == () and dropped["rows_misplaced"] == 2


def test_a_text_in_other_boxes_than_named_is_dropped():
    draft, dropped = drafted({"fields": [], "rows": [TRUE["rows"][0] | {"result_boxes": [9]}]})
    assert draft.table == () and dropped["rows_not_on_page"] == 1
    draft, dropped = drafted({"fields": [], "rows": [TRUE["rows"][0] | {"result_boxes": [99]}]})
    assert draft.table == () and dropped["rows_not_on_page"] == 1


def _reply(page) -> dict:
    """The right reply for a synthetic page whose cells do not wrap: each cell is the box of its text in its row."""
    boxes = {}
    for number, found in enumerate(page.boxes):
        boxes.setdefault(found.text, []).append(number)
    rows, used = [], set()
    for row in page.annotation.table:
        items = [n for n in boxes.get(row.item, ()) if n not in used]
        if not items:
            return {}
        used.add(items[0])
        own = page.boxes[items[0]]
        middle, cells = (own.top + own.bottom) / 2, {"item": row.item, "item_boxes": items[:1]}
        for name, text in (("result", row.result), ("range", row.range)):
            level = [n for n in boxes.get(text, ()) if page.boxes[n].top < middle < page.boxes[n].bottom]
            cells |= {name: text if level else "", f"{name}_boxes": level[:1]}
        rows.append(cells | {"unit": "", "unit_boxes": []})
    return {"fields": [], "rows": rows}


def test_right_replies_survive_and_swapped_ones_do_not():
    kept = swapped = total = 0
    for number in (3, 6, 12, 15, 21, 24, 30):  # several tables, columns in any order
        drawn, _ = draw_varied_page(5, number, [BUNDLED])
        reply = _reply(drawn)
        if not reply:
            continue
        restored = Page(
            "a.png", 1, 1, tuple(drawn.boxes), tuple(drawn.boxes), 0, 0.0, "low", "", "pdf", page(drawn.boxes)
        )
        rows = [row for row in reply["rows"] if row["result"]]
        total += len(rows)
        kept += len(draft_from_reply(json.dumps({"fields": [], "rows": rows}), restored)[0].table)
        names = ("result", "result_boxes")
        moved = [row | {n: other[n] for n in names} for row, other in zip(rows, rows[1:] + rows[:1], strict=True)]
        swapped += len(draft_from_reply(json.dumps({"fields": [], "rows": moved}), restored)[0].table)
    assert total > 40 and kept >= 0.95 * total and swapped == 0, (kept, swapped, total)


def test_white_space_means_nothing_within_words_and_parts_numbers():
    assert is_printed("膀胱壁增厚", "膀胱壁\n  增厚") and is_printed("３.１", "钾 3.1 3.5-5.3")
    assert not is_printed("3.13", "钾 3.1 3.5") and not is_printed("1", "12") and not is_printed("3", "3.5")
    assert not is_printed("", "x")


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    second = [*BOXES[:-3], box("肌酐", 0, 120), box("71", 200, 120), box("57-97", 300, 120)]
    written = [to_json(a_page()), to_json(a_page("b.png", second))]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in written)
    (folder / "pages.jsonl").write_text(text, encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps({"kind": "meddqa-pages", "governance": "open"}), encoding="utf-8")
    return folder


def test_the_command_drafts_names_failures_and_measures_both(pages, tmp_path, capsys):
    truth, out = tmp_path / "truth", tmp_path / "drafts"
    truth.mkdir()
    (truth / "images").mkdir()
    table = (TableRow("尿酸", "470", "155-428", HIGH), TableRow("肌酐", "70", "57-97", "是"))
    kv = (("性别", "男"),)
    write_annotations([Annotation("1", "a.png", kv, table, "Laboratory", "pdf", "high")], truth / "annotations.csv")

    def reply(body):
        return "我不会。" if "71" in body["messages"][-1]["content"] else json.dumps(TRUE, ensure_ascii=False)

    with serve(reply) as server:
        command = ["meddqa", "preannotate", "--pages", str(pages), "--out", str(out)]
        model = ["--engine", f"server:{server.endpoint}", "--compare", str(truth)]
        assert run([*command, *model]) == 0
        printed = capsys.readouterr().out
        assert "left out: b.png: no JSON object" in printed and "failed pages: 1" in printed
        assert "rules: key-values 1 of 1, rows 2 of 2" in printed and "model: key-values 1 of 1, rows 2 of 2" in printed
        (one,) = read_annotations(out / "annotations.csv")
        assert one.img_path == "a.png" and one.table == table
        server.requests.clear()
        assert run([*command, *model]) == 0 and asked(server) == []  # nothing twice
        assert run([*command, *model, "--retry-failed"]) == 0 and len(asked(server)) == 1
    assert run([*command, "--model", "x"]) == 1
    assert "--model" in capsys.readouterr().err


def test_models_that_see_images_get_the_page_before_its_text(pages, tmp_path, capsys):
    """A large image is reduced, a damaged one fails its page, and earlier runs are resumed or refused."""
    images, out = tmp_path / "images", tmp_path / "drafts"
    images.mkdir()
    command = ["meddqa", "preannotate", "--pages", str(pages), "--out", str(out)]
    with serve(lambda body: json.dumps(TRUE, ensure_ascii=False)) as server:
        engine = ["--engine", f"server:{server.endpoint}"]
        seeing = [*command, *engine, "--images", str(images)]
        assert run(seeing) == 1 and "a.png" in capsys.readouterr().err and asked(server) == []
        Image.new("L", (2000, 3072), 200).save(images / "a.png")
        (images / "b.png").write_bytes(b"not an image")
        assert run(seeing) == 0
        assert "left out: b.png: " in capsys.readouterr().out
        (body,) = asked(server)
        (data,), text = parts_of(body["messages"][-1])
        assert Image.open(io.BytesIO(data)).size == (1000, 1536)
        assert text.startswith(SEES) and "[5]尿酸" in text
        assert run(seeing) == 0 and len(asked(server)) == 1  # resumed
        Image.new("L", (200, 300), 200).save(images / "a.png")
        assert run(seeing) == 0 and len(asked(server)) == 2  # another image
        assert run([*command, *engine]) == 1  # the earlier run had images
        assert "images" in capsys.readouterr().err
    assert run([*command, "--images", str(images)]) == 1 and "--images" in capsys.readouterr().err


def test_an_earlier_run_of_the_same_prompt_is_resumed_and_another_is_refused(pages, tmp_path, capsys):
    out = tmp_path / "drafts"
    with serve(lambda body: json.dumps(TRUE, ensure_ascii=False)) as server:
        command = ["meddqa", "preannotate", "--pages", str(pages), "--out", str(out)]
        command += ["--engine", f"server:{server.endpoint}"]
        assert run(command) == 0
        path = out / "model_drafts.jsonl"
        header, *records = path.read_text(encoding="utf-8").splitlines()
        settings = json.loads(header)["settings"]
        assert settings["prompt"] == "draft-bd345cb35a53" and "images" not in settings  # as before models saw images
        server.requests.clear()
        assert run(command) == 0 and asked(server) == []
        old = header.replace(settings["prompt"], "draft-000000000000")
        path.write_text("\n".join([old, *records]) + "\n", encoding="utf-8")
        capsys.readouterr()
        assert run(command) == 1 and asked(server) == []
        assert "draft-000000000000" in capsys.readouterr().err
