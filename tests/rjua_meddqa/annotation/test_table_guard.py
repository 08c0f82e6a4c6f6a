"""The check of parsers' tables: file formats, each kind of error, and silence on right tables."""

import json

import pytest
from meddqa_boxes import box

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from rjua_meddqa.annotation.table_files import read_tables_file
from rjua_meddqa.annotation.table_guard import DOUBLED, INVENTED, MISSING_TEXT, SHIFTED, check_tables
from rjua_meddqa.restoration.ocr import write_boxes

ROWS = [
    ["项目", "结果", "参考范围"],
    ["钾", "3.1", "3.5-5.3"],
    ["钠", "140", "137-147"],
    ["氯", "99", "96-108"],
    ["钙", "2.3", "2.11-2.52"],
]
BOXES = [box(text, 200 * x, 40 * y) for y, row in enumerate(ROWS) for x, text in enumerate(row)]
CELLS = {(y, x): text for y, row in enumerate(ROWS) for x, text in enumerate(row)}
HTML = "<table>" + "".join("<tr>" + "".join(f"<td>{t}</td>" for t in row) + "</tr>" for row in ROWS) + "</table>"
MARKDOWN = "\n".join("| " + " | ".join(row) + " |" for row in [ROWS[0], ["---"] * 3, *ROWS[1:]])
RECORDS = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
CELL_RECORDS = [{"row": y, "column": x, "text": t} for (y, x), t in CELLS.items()]
DOCLING = [{"text": t, "start_row_offset_idx": y, "start_col_offset_idx": x} for (y, x), t in CELLS.items()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", HTML),
        ("a.md", f"前言\n\n{MARKDOWN}\n\n后记"),
        ("a.json", json.dumps(ROWS)),
        ("b.json", json.dumps(RECORDS)),
        ("c.json", json.dumps({"data": {"table_cells": DOCLING}})),
        (
            "d.json",
            json.dumps({"tables": [{"cells": CELL_RECORDS}]}),
        ),
    ],
)
def test_formats(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_tables_file(tmp_path / name) == [CELLS]


def test_spans_of_html_cells(tmp_path):
    (tmp_path / "a.html").write_text(
        "<table><tr><td rowspan=2>a</td><td colspan='2'>b</td></tr><tr><td>c<td>d</tr></table>", encoding="utf-8"
    )
    assert read_tables_file(tmp_path / "a.html") == [{(0, 0): "a", (0, 1): "b", (1, 1): "c", (1, 2): "d"}]


@pytest.mark.parametrize("text", ["", "no table", '{"a": 1}', "[1, 2]", "[", "<table><td rowspan=x></table>"])
def test_files_without_a_table(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="a.json"):
        read_tables_file(tmp_path / "a.json")


def find(changes, boxes=BOXES):
    grid = {place: text for place, text in (CELLS | changes).items() if text}
    return {(finding.kind, finding.text) for finding in check_tables([grid], boxes)}


def test_a_right_table_has_no_findings():
    assert find({}) == set()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({(1, 1): "3.7"}, {(INVENTED, "3.7"), (MISSING_TEXT, "3.1")}),
        ({(1, 1): "140", (2, 1): "3.1"}, {(SHIFTED, "140"), (SHIFTED, "3.1")}),
        ({(2, 1): "137-147", (2, 2): "140"}, {(SHIFTED, "137-147"), (SHIFTED, "140")}),
        ({(3, 1): "140"}, {(DOUBLED, "140"), (MISSING_TEXT, "99")}),
        ({(3, 0): "", (3, 1): "", (3, 2): ""}, {(MISSING_TEXT, t) for t in ROWS[3]}),
        ({(4, 0): "", (4, 1): "", (4, 2): ""}, {(MISSING_TEXT, t) for t in ROWS[4]}),  # the last row
        ({(5, x): t for x, t in enumerate(ROWS[4])}, {(DOUBLED, t) for t in ROWS[4]}),
        ({(1, 1): "3,1"}, {(INVENTED, "3,1"), (MISSING_TEXT, "3.1")}),
    ],
)
def test_each_kind_of_error(changes, expected):
    assert find(changes) == expected


def test_wrapped_merged_and_misread_cells_are_not_errors():
    boxes = [part for part in BOXES if part.text not in ("钾", "2.3", "2.11-2.52", "137-147")]
    boxes += [box("血清", 0, 34), box("钾测定", 0, 58), box("2.3 2.11-2.52", 400, 160), box("137-147", 400, 80)]
    boxes = [part if part.text != "参考范围" else box("参考范围", 400, 0) for part in boxes]
    boxes = [part for part in boxes if part.text != "项目"] + [box("检验顶目", 0, 0)]
    changes = {(1, 0): "血清钾测定", (0, 0): "检验项目"}
    assert {kind for kind, _ in find(changes, boxes)} <= {SHIFTED}


def test_text_outside_of_the_table_is_not_missing():
    outside = [box("检验者：王", 0, 260), box("姓名：无", 0, -80), box("左肾囊肿", 700, 40)]
    assert find({}, [*BOXES, *outside]) == set()


def test_the_command(tmp_path, capsys):
    write_boxes(tmp_path / "boxes.json", BOXES)
    (tmp_path / "table.md").write_text(MARKDOWN.replace("3.1", "3.7"), encoding="utf-8")
    command = f"meddqa check --table {tmp_path}/table.md --boxes {tmp_path}/boxes.json --out {tmp_path}/out.json"
    assert run(command.split()) == 0
    assert "row 2, column 2: '3.7' [invented]" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["findings"]
    assert [finding["kind"] for finding in found] == [INVENTED, MISSING_TEXT]
    assert run([*command.split(), "--strict"]) == 1
    assert run(f"meddqa check --table {tmp_path}/table.md".split()) == 1
    assert "--boxes" in capsys.readouterr().err
