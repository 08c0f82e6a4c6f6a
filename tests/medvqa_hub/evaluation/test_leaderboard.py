"""The leaderboard's page and eval.yaml: figures of the results, no row of them, and only verified hashes."""

import html.parser
import json
import shutil
from pathlib import Path

import pytest
import yaml
from builds import Build, build_release

from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from medvqa_hub.evaluation.benchmark_file import make_benchmark_file
from medvqa_hub.evaluation.exporting import result_entries
from medvqa_hub.evaluation.leaderboard import write_leaderboard
from mimic_cxr_vqa.release import open_release


class Page(html.parser.HTMLParser):
    """Checks that tags are closed, and keeps the cells of each table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tables, self.tags = [], [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=12, seed=1)


@pytest.fixture(scope="module")
def runs(build, tmp_path_factory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    rows = [
        row for batch in open_release(build.workspace.release).iterate_split("train", {}) for row in batch.to_pylist()
    ]
    answers = {"<b>knows</b>": lambda row: row["answer"], "denies": lambda row: "No evidence of it is seen."}
    for name, answer in answers.items():
        file = place / f"{name.replace('/', '')}.jsonl"
        file.write_text("".join(json.dumps({"id": row["qa_id"], "answer": answer(row)}) + "\n" for row in rows))
        given = ["--data", str(build.workspace.root), "--split", "train", "--scored", "--examples", "0"]
        out = place / name.replace("/", "")
        assert run(["evaluate", "cxr", *given, "--predictions", str(file), "--out", str(out)]) == 0
    return [place / name.replace("/", "") for name in answers]


def test_the_page_has_the_figures_and_no_row(runs, tmp_path, capsys):
    out = tmp_path / "leaderboard.html"
    assert run(["export", "leaderboard", str(runs[1]), str(runs[0]), "--out", str(out), "--title", "A & B"]) == 0
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags and "<h1>A &amp; B</h1>" in text
    (table,) = page.tables
    assert [row[0] for row in table] == ["model", "<b>knows<b>.jsonl", "denies.jsonl"], "the best first"
    results = json.loads((runs[1] / "results.json").read_text())
    cells = dict(zip(table[0], table[2], strict=True))
    assert cells["ROUGE-L"] == f"{results['table_4']['rouge_l']:.4f}" and cells["rows"] == "verified"
    assert cells["finding accuracy"] == f"{results['findings']['accuracy']:.4f}"
    assert cells["predictions"] == results["hashes"]["predictions"][:12]
    for row in map(json.loads, (runs[0] / "scored.jsonl").open()):
        assert row["qa_id"] not in text and row["question"] not in text and f">{row['answer']}<" not in text


def test_results_without_rows_are_shown_as_such_and_edited_ones_refused(runs, tmp_path):
    run_folder = Path(shutil.copytree(runs[0], tmp_path / "run"))
    (run_folder / "scored.jsonl").write_text(
        (run_folder / "scored.jsonl").read_text().replace('"rouge_l": 1.0', '"rouge_l": 0.9', 1)
    )
    with pytest.raises(InputError, match="scores do not have the hash"):
        write_leaderboard([run_folder], tmp_path / "page.html")
    (run_folder / "scored.jsonl").unlink()
    assert write_leaderboard([run_folder, runs[1]], tmp_path / "page.html") == 1
    (table,) = Page((tmp_path / "page.html").read_text()).tables
    assert sorted(row[-1] for row in table) == ["not given", "rows", "verified"]


def test_other_questions_and_other_scoring_have_tables_of_their_own(build, runs, tmp_path):
    given = ["--data", str(build.workspace.root), "--split", "train", "--examples", "0"]
    file = ["--predictions", str(runs[1].parent / "denies.jsonl")]
    assert run(["evaluate", "cxr", *given, *file, "--limit", "3", "--out", str(tmp_path / "few")]) == 0
    assert run(["evaluate", "cxr", *given, *file, "--failed", "empty", "--out", str(tmp_path / "empty")]) == 0
    assert write_leaderboard([*runs, tmp_path / "few", tmp_path / "empty"], tmp_path / "page.html") == 3


def test_the_hub_s_tasks_are_the_figures_that_results_register(build, runs):
    card = (build.workspace.release / "README.md").read_text(encoding="utf-8")
    content = yaml.safe_load(make_benchmark_file(card, "MIMIC-CXR-VQA"))
    assert set(content) == {"name", "description", "tasks"}
    tasks = {task["id"]: (task["config"], task["split"]) for task in content["tasks"]}
    split = "test" if "test" in open_release(build.workspace.release).files else "train"
    assert set(tasks.values()) == {("default", split)} or split == "train"
    results = json.loads((runs[0] / "results.json").read_text())
    assert {entry.task_id for entry in result_entries(results, "me/rows")} <= set(tasks)
