"""Leave-one-out with a language model: an item whose lines are taken from the page is asked for."""

import json

from meddqa_boxes import box, page
from meddqa_server import asked, parts_of, question_of, serve

from medvqa_hub.cli import run
from rjua_meddqa.released import write_annotations
from rjua_meddqa.restoration.pages import Page, to_json
from rjua_meddqa.schema import Annotation, TableRow

ROWS = (("尿酸", "470"), ("肌酐", "70"), ("尿素", "5.1"))


def build(tmp_path):
    boxes = [box(text, 200 * column, 40 * line) for line, row in enumerate(ROWS) for column, text in enumerate(row)]
    folder, data = tmp_path / "pages", tmp_path / "data"
    for made in (folder, data, data / "images"):
        made.mkdir()
    one = Page("a.png", 400, 200, tuple(boxes), tuple(boxes), 0, 0.0, "low", "why", "pdf", page(boxes))
    (folder / "pages.jsonl").write_text(json.dumps(to_json(one), ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps({"kind": "meddqa-pages", "governance": "open"}), encoding="utf-8")
    table = tuple(TableRow(item, result, "无", "无法判断") for item, result in (*ROWS, ("血氯", "101")))
    write_annotations([Annotation("1", "a.png", (), table, "Laboratory", "pdf", "high")], data / "annotations.csv")
    return data, folder


def honest(body):
    """Reads the line of the item, and says 无 where there is none."""
    text, item = parts_of(body["messages"][-1])[1], question_of(body).removesuffix("的结果是多少?")
    return next((line.split()[1] for line in text.split("\n") if line.startswith(item)), "无")


def inventing(body):
    """The neighbour's value where the item is not there."""
    said = honest(body)
    return "70" if said == "无" else said


def test_who_takes_a_neighbours_value_is_found_out(tmp_path, capsys):
    data, pages = build(tmp_path)
    command = ["meddqa", "leave-one-out", "--data", str(data), "--pages", str(pages)]
    for name, reply, wrong in (("honest", honest, 0), ("inventing", inventing, 3)):
        with serve(reply) as server:
            model = ["--engine", f"server:{server.endpoint}", "--out", str(tmp_path / name)]
            assert run([*command, *model]) == 0
            said = capsys.readouterr().out
            assert f"3 items removed from their pages and asked for; {wrong:,} (" in said
            assert "left in, 3 of 3 items get their own value" in said
            assert "1 items are left out" in said
            assert len(asked(server)) == 6
            assert run([*command, *model]) == 0 and len(asked(server)) == 6
    with serve(lambda body: (400, {})) as server:
        assert run([*command, "--engine", f"server:{server.endpoint}"]) == 1  # no --out
        assert "--out" in capsys.readouterr().err


def test_failed_questions_are_neither_wrong_nor_right(tmp_path, capsys):
    data, pages = build(tmp_path)
    with serve(lambda body: "") as server:
        command = ["meddqa", "leave-one-out", "--data", str(data), "--pages", str(pages), "--out", str(tmp_path / "o")]
        assert run([*command, "--engine", f"server:{server.endpoint}"]) == 0
    said = capsys.readouterr().out
    assert "0 items" in said and "6 questions failed" in said
