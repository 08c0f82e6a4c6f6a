"""Drafts by a model: what the page does not say is dropped and counted, verdicts are the rules', failures are named."""

import json

import pytest
from meddqa_boxes import box, page
from meddqa_server import asked, serve

from medvqa_hub.cli import run
from rjua_meddqa.inference.drafting import draft_from_reply, is_printed
from rjua_meddqa.released import read_annotations, write_annotations
from rjua_meddqa.restoration.pages import Page, to_json
from rjua_meddqa.schema import HIGH, UNDECIDED, Annotation, TableRow

BOXES = [
    *(box("性别：男", 0, 0), box("床号：", 200, 0)),
    *(box("项目", 0, 40), box("结果", 200, 40), box("参考值", 300, 40)),
    *(box("尿酸", 0, 80), box("470", 200, 80), box("155-428", 300, 80)),
    *(box("肌酐", 0, 120), box("70", 200, 120), box("57-97", 300, 120)),
]
TRUE = {
    "fields": [{"key": "性别", "value": "男"}, {"key": "床号", "value": "无"}],
    "rows": [
        {"item": "尿酸", "result": "470", "range": "155-428", "unit": "", "is_normal": "是"},
        {"item": "肌酐", "result": "70", "range": "57-97", "unit": ""},
    ],
}


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
        ({"fields": [{"key": "姓名", "value": "男"}], "rows": []}, "fields_not_on_page"),
        ({"fields": [{"key": "性别", "value": "女"}], "rows": []}, "fields_not_on_page"),
        ({"fields": [], "rows": [{"item": "尿素", "result": "470", "range": "", "unit": ""}]}, "rows_not_on_page"),
        ({"fields": [], "rows": [{"item": "尿酸", "result": "47", "range": "", "unit": ""}]}, "rows_not_on_page"),
        ({"fields": [], "rows": [{"item": "尿酸", "result": "4.70", "range": "", "unit": ""}]}, "rows_not_on_page"),
    ],
)
def test_what_it_does_not_say_is_dropped_and_counted(reply, lost):
    """47 is on the page only as the beginning of 470."""
    draft, dropped = drafted(reply)
    assert draft.key_values == () and draft.table == ()
    assert {name: count for name, count in dropped.items() if count} == {lost: 1}


def test_a_range_that_is_not_there_or_is_another_rows_gives_no_verdict():
    row = {"item": "尿酸", "result": "470", "unit": ""}
    for reference, written, lost in (("150-400", "无", 1), ("57-97", "57-97", 0)):
        draft, dropped = drafted({"fields": [], "rows": [row | {"range": reference}]})
        assert draft.table == (TableRow("尿酸", "470", written, UNDECIDED),)
        assert dropped["ranges_not_on_page"] == lost


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
