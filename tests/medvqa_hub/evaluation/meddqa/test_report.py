"""Runs as one table: the paper's shape, its rows marked, pairs of Table 8, errors by cause."""

import csv
import io
import json
import re
import stat

import pytest
from meddqa_server import build_told_apart, evaluate, knowing, question_of, serve
from paths import REAL_DATA

from medvqa_core.errors import InputError, OutputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.evaluation.meddqa import paper_rows as paper
from medvqa_hub.evaluation.meddqa.report import write_report
from medvqa_hub.evaluation.meddqa.tables import build_tables, read_run, show
from rjua_meddqa.data_folder import record_part

SEED = REAL_DATA.parent / "seeds" / "004_97aa4403a3948ca2.txt"


def wrong(body: dict) -> str:
    """A model that gives another row's result, and HTML."""
    question = question_of(body)
    return "140" if "钾" in question else "<script>alert(1)</script>"


@pytest.fixture
def data(tmp_path):
    return build_told_apart(tmp_path / "data")


@pytest.fixture
def runs(data, tmp_path):
    """A perfect model with context and without, and one that is wrong."""
    with serve(knowing(data)) as server:
        evaluate(data, tmp_path / "with", server, model="perfect")
        evaluate(data, tmp_path / "without", server, model="perfect", context=False)
    with serve(wrong) as server:
        evaluate(data, tmp_path / "wrong", server, model="wrong")
    return [tmp_path / name for name in ("with", "without", "wrong")]


def test_the_papers_rows_are_those_of_the_paper():
    if not SEED.exists():
        pytest.skip(f"the paper's text is not at {SEED}")
    text = SEED.read_text(encoding="utf-8", errors="replace")
    printed = {
        tuple(map(float, re.findall(r"\d\.\d+|(?<=\s)0(?=\s)", line.partition(" ")[2]))) for line in text.splitlines()
    }
    for rows in (paper.ROWS_5, paper.ROWS_6, paper.ROWS_7):
        for method, row in rows.items():
            assert tuple(map(float, row)) in printed, method
    for method, triples in paper.ROWS_8.items():
        assert tuple(value for triple in triples for value in triple) in printed, method
    assert all(len(row) == len(paper.TABLE_5) for row in paper.ROWS_5.values())
    assert all(len(row) == len(paper.TABLE_6) for row in paper.ROWS_6.values())
    assert all(len(row) == len(paper.TABLE_7) for row in paper.ROWS_7.values())


def test_tables_hold_the_runs_and_the_papers_rows_in_italics(runs, tmp_path):
    (markdown, said) = write_report(runs, tmp_path / "out")
    lines = markdown.splitlines()
    assert (
        "| perfect (image) | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) | "
        "1.00 (1.00–1.00) | 1.00 (1.00–1.00) | 1.00 |" in lines
    )  # one image has the short answer: no interval
    assert any(line.startswith("| *GPT-4v-[API] (other data)* | *0.45* | *0.38* |") for line in lines)
    assert "tables.md" in said
    cells = list(csv.DictReader(io.StringIO((tmp_path / "out" / "tables.csv").read_text(encoding="utf-8"))))
    assert {cell["source"] for cell in cells} == {"this run", paper.SOURCE}
    mine = [cell for cell in cells if cell["method"] == "perfect (image)" and "Table 5" in cell["table"]]
    assert [cell["value"] for cell in mine] == ["1"] * 7


def test_table_8_pairs_the_runs_that_differ_in_their_context_alone(runs):
    results = [read_run(run) for run in runs]
    table = build_tables(results)[3]
    ours = [row for row in table.rows if not row.is_paper]
    assert [row.method for row in ours] == ["perfect (image)"]
    values = [value for value, _ in ours[0].cells]
    assert values == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, None, None, None]
    assert build_tables(results[1:])[3].rows[0].is_paper  # one of a pair is none
    other = results[1] | {"model": results[1]["model"] | {"shots": 3}}
    assert build_tables([results[0], other])[3].rows[0].is_paper


def test_errors_are_counted_by_cause(runs):
    table = build_tables([read_run(runs[2])])[-1]
    heads = [head for _, head in table.heads]
    rows = {row.method: dict(zip(heads, (value for value, _ in row.cells), strict=True)) for row in table.rows}
    assert rows["wrong (image), table"]["wrong row"] > 0 and rows["wrong (image), entity"]["hallucinated"] > 0


@pytest.mark.parametrize("stated", ["open", "credentialed"])
def test_a_report_states_its_class_and_its_files_are_as_private_as_it(stated, runs, data, tmp_path):
    results = json.loads((runs[1] / "results.json").read_text())
    (runs[1] / "results.json").write_text(json.dumps(results | {"governance": stated}))
    out = tmp_path / "out"
    for _ in range(2):  # written again in place
        write_report(runs[:2], out)
    assert json.loads((out / "manifest.json").read_text())["governance"] == stated
    paths = [out, *out.iterdir()]
    assert {path.name for path in paths[1:]} == {"manifest.json", "tables.md", "tables.csv"}
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in paths} == {stated == "credentialed"}
    with pytest.raises(OutputError, match="of kind 'meddqa-report'"):
        record_part(out, "questions", Governance.CREDENTIALED, {})
    (out / "manifest.json").write_text(json.dumps({"kind": "meddqa", "format": 1, "governance": stated}))
    with pytest.raises(OutputError, match="another folder"):
        write_report(runs[:2], out)


def test_counts_are_whole_and_differences_signed():
    assert [show(None), show(1), show(1.0), show(0.0, True)] == ["-", "1", "1.00", "+0.00"]


def test_what_is_no_run_is_named(tmp_path, capsys):
    (tmp_path / "results.json").write_text('{"kind": "cxr-evaluation"}')
    with pytest.raises(InputError, match="Evaluate again"):
        read_run(tmp_path)
    assert run(["evaluate", "meddqa-report", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 1
    assert "medvqa-hub evaluate meddqa" in capsys.readouterr().err
