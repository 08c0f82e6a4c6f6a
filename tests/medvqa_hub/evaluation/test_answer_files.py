"""Answers made elsewhere: every layout is read, what is wrong is named and counted, failures stay failures."""

import csv
import json
import shutil
import stat
from pathlib import Path

import pytest
from builds import Build, build_release
from openpyxl import Workbook

from medvqa_core import json_lines, workbooks
from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore
from medvqa_hub.cli import run
from medvqa_hub.evaluation.answer_files import FAILED, NO_ANSWER, read_answer_file
from medvqa_hub.evaluation.cxr.studies import load_studies
from mimic_cxr_vqa.release import open_release
from rjua_meddqa import SAMPLE_DIR
from rjua_meddqa.inference.questions import load_questions

REFERENCES = {"a": "yes", "b": "no", "c": "a small effusion", "d": ""}


def lines(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def sheet(path: Path, rows: list[dict]) -> Path:
    book = Workbook()
    for cells in [list(rows[0]), *(list(row.values()) for row in rows)]:
        book.active.append(cells)
    book.save(path)
    return path


def table(path: Path, rows: list[dict], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def answers(file) -> dict:
    return {id: reply.answer if reply.error is None else reply.error for id, reply in file.replies.items()}


def lmms(doc_id, answer, target, **more) -> dict:
    return {
        "doc_id": doc_id,
        "input": "Is there …?",
        "target": target,
        "filtered_resps": answer,
        "doc_hash": "0",
        **more,
    }


TEXTS = dict(zip("abcd", ["yes", "no", "none", ""], strict=True))
NUMBERED = list(enumerate(TEXTS.items()))
LAYOUTS = {
    "lines": lambda f: lines(f / "a.jsonl", [{"id": id, "answer": text} for id, text in TEXTS.items()]),
    "scored": lambda f: lines(
        f / "scored.jsonl",
        [{"qa_id": id, "reference": "?", "answer": text, "error": None} for id, text in TEXTS.items()],
    ),
    "lmms-eval": lambda f: lines(
        f / "x_samples_cxr.jsonl",
        [lmms(0, ["yes"], "yes"), lmms(1, "no", "no"), lmms(2, [["none"]], "a small effusion"), lmms(3, "", "")],
    ),
    "lmms-eval with ids": lambda f: lines(
        f / "x_samples_cxr.jsonl", [lmms(9, text, "?", rouge_l={"id": id}) for id, text in TEXTS.items()]
    ),
    "vlmevalkit": lambda f: sheet(
        f / "m_x.xlsx",
        [{"index": n, "answer": REFERENCES[id], "prediction": text or None} for n, (id, text) in NUMBERED],
    ),
    "vlmevalkit tsv": lambda f: table(
        f / "m_x.tsv",
        [{"index": n, "qa_id": id, "answer": "?", "prediction": text} for n, (id, text) in NUMBERED],
        "\t",
    ),
    "csv": lambda f: table(f / "a.csv", [{"id": id, "answer": text} for id, text in TEXTS.items()]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_says_the_same(layout, tmp_path):
    file = read_answer_file(LAYOUTS[layout](tmp_path), REFERENCES)
    assert answers(file) == {"a": "yes", "b": "no", "c": "none", "d": ""}
    assert file.counts == {"rows": 4, "missing": 0, "doubled": 0, "unknown": 0, "failures": 0}
    assert file.governance is None


def test_missing_doubled_unknown_and_failed_are_named_counted_and_no_answers(tmp_path):
    rows = [{"id": "a", "answer": "yes"}, {"id": "a", "answer": "yes"}, {"id": "b", "answer": "no"},
            {"id": "b", "answer": "yes"}, {"id": "c", "answer": "ERROR"}, {"id": "z", "answer": "no"}]  # fmt: skip
    file = read_answer_file(lines(tmp_path / "a.jsonl", rows), REFERENCES)
    assert answers(file) == {
        "a": "yes", "b": "the file has 2 answers to this question", "c": FAILED, "d": NO_ANSWER,
    }  # fmt: skip
    assert file.counts == {"rows": 6, "missing": 1, "doubled": 2, "unknown": 1, "failures": 1}
    assert file.named == {"missing": ["d"], "doubled": ["a", "b"], "unknown": ["z"], "failures": ["c"]}


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("[LMMS_EVAL_REQUEST_FAILED after 3 retries] timeout", True),
        ("Failed to obtain answer via API.", True),
        ("ERROR", True),
        ("error", False),
        ("The tube is in error; it ends too low.", False),
        ("No ERROR of position.", False),
    ],
)
def test_a_harness_s_failure_text_is_a_failure_and_nothing_else_is(text, failed, tmp_path):
    file = read_answer_file(lines(tmp_path / "a.jsonl", [{"id": "a", "answer": text}]), REFERENCES)
    assert (file.replies["a"].error == FAILED) is failed and (file.replies["a"].answer is None) is failed


def test_our_own_predictions_keep_their_failures_and_their_class(tmp_path):
    with PredictionStore(tmp_path / FILE, Governance.CREDENTIALED, {"model": "m"}) as store:
        store.append([Prediction("0" * 32, "a", "yes"), Prediction("1" * 32, "b", None, "timeout")])
    file = read_answer_file(tmp_path / FILE, REFERENCES)
    assert answers(file) == {"a": "yes", "b": "timeout", "c": NO_ANSWER, "d": NO_ANSWER}
    assert file.governance is Governance.CREDENTIALED


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"id": "z", "answer": "x"}], "none of its 1 rows is about these questions"),
        ([lmms(0, "yes", "no")], "doc_id 0 .*question a"),
        ([{"answer": "x"}], "a row without an id"),
        ([{"id": "a"}], "a row without an answer"),
        ([{"id": "a", "answer": ["x", "y"]}], "an answer is a list"),
        ([["a", "x"]], "line 1"),
    ],
)
def test_unusable_files_say_why(rows, expected, tmp_path):
    with pytest.raises(InputError, match=expected):
        read_answer_file(lines(tmp_path / "a.jsonl", rows), REFERENCES)


def test_a_line_without_end_and_one_of_two_meanings_are_named(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "answer": "yes"}\n\n{"qa_id": "b", "answer": "yes", "answer": "no"}\n')
    with pytest.raises(InputError, match="a.jsonl, line 3: 'answer'"):
        read_answer_file(path, REFERENCES)
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 100)
    path.write_text('{"id": "a", "answer": "yes"}\n{"id": "b", "answer": "' + 80 * "no " + '"}\n')
    with pytest.raises(InputError, match="a.jsonl, line 2: .*100 bytes"):
        read_answer_file(path, REFERENCES)


def test_unknown_and_broken_formats_say_why(tmp_path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.xlsx").write_text("no sheet")
    (tmp_path / "a.tsv").write_text("id\tanswer\na\n")
    for name, expected in (("a.txt", "a.txt"), ("a.xlsx", "cannot be read as XLSX"), ("a.tsv", "row 1"),
                           ("none.jsonl", "cannot be read")):  # fmt: skip
        with pytest.raises(InputError, match=expected):
            read_answer_file(tmp_path / name, REFERENCES)


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=12, seed=1)


def test_evaluate_cxr_scores_a_file_without_images_or_model(build, tmp_path, capsys):
    studies = load_studies(open_release(build.workspace.release), "train", None, limit=6)
    rows = [row for study in studies for row in study.rows]
    given = [{"id": row["qa_id"], "answer": row["answer"]} for row in rows]
    given[0]["answer"] = "[LMMS_EVAL_REQUEST_FAILED after 3 retries]"
    path = lines(tmp_path / "answers.jsonl", given)
    common = ["evaluate", "cxr", "--data", str(build.workspace.root), "--split", "train", "--limit", "6"]
    assert run([*common, "--predictions", str(path), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert f"file of predictions: rows: {len(rows)}, missing: 0, doubled: 0, unknown: 0, failures: 1" in printed
    assert f"failures: {rows[0]['qa_id']}" in printed
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["table_4"]["rouge_l"] == pytest.approx(1.0) and results["counts"]["failed"] == 1
    assert results["model"]["name"] == "answers.jsonl" and results["findings"]["accuracy"] == 1.0
    assert run([*common, "--predictions", str(path), "--out", str(tmp_path / "x"), "--shuffle-images"]) == 1
    assert "cannot be combined" in capsys.readouterr().err


def test_evaluate_meddqa_scores_a_file_without_images(tmp_path, capsys):
    rows = load_questions(SAMPLE_DIR).rows
    path = table(tmp_path / "answers.csv", [{"id": row.id, "answer": row.answer} for row in rows])
    for name in ("questions.jsonl", "annotations.csv", "manifest.json", "reasoning.jsonl"):
        if (SAMPLE_DIR / name).exists():
            (tmp_path / "data").mkdir(exist_ok=True)
            (tmp_path / "data" / name).write_bytes((SAMPLE_DIR / name).read_bytes())
    arguments = ["evaluate", "meddqa", "--data", str(tmp_path / "data"), "--predictions", str(path)]
    assert run([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert "missing: 0" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["counts"] == {"asked": len(rows), "failed": 0, "empty": 0}
    assert results["scores"]["table_5"]["entity_accuracy"] == 1.0 and results["model"]["name"] == "answers.csv"
    assert run([*arguments, "--engine", "esra-rules", "--out", str(tmp_path / "x")]) == 1


def test_joined_files_have_the_strictest_class_among_them(tmp_path):
    def header(governance):
        return {"store": 1, "kind": "predictions", "governance": governance, "settings": {}}

    rows = [header("credentialed"), {"id": "a", "answer": "yes"}, header("open"), {"id": "b", "answer": "no"}]
    assert read_answer_file(lines(tmp_path / "a.jsonl", rows), REFERENCES).governance is Governance.CREDENTIALED


@pytest.mark.parametrize("line", [
    b'{"id": "a", "answer": NaN}', b'{"id": "a", "answer": -Infinity}', b'{"id": "a", "answer": "\\ud800"}',
    b'{"id": "a", "answer": "\xed\xa0\x80"}', b'{"id": "a", "answer": "yes", "error": "timed out"}',
])  # fmt: skip
def test_what_is_no_text_and_what_failed_is_no_answer(line, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(line)
    reply = read_answer_file(tmp_path / "a.jsonl", REFERENCES).replies["a"]
    assert reply.answer is None and reply.error


@pytest.mark.parametrize("cell", ["=No effusion", "#NAME?"])
def test_what_a_spreadsheet_made_of_an_answer_is_none(cell, tmp_path):
    book = Workbook()
    for row in (["id", "prediction"], ["a", cell], ["b", "- no effusion"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    replies = read_answer_file(tmp_path / "a.xlsx", REFERENCES).replies
    assert replies["a"].answer is None and replies["b"].answer == "- no effusion"


def test_a_workbook_that_unpacks_beyond_the_bound_is_not_opened(tmp_path, monkeypatch):
    Workbook().save(tmp_path / "a.xlsx")
    monkeypatch.setattr(workbooks, "LARGEST", 1000)
    with pytest.raises(InputError, match="1,000"):
        read_answer_file(tmp_path / "a.xlsx", REFERENCES)


def test_an_id_of_mimic_s_range_makes_a_file_credentialed(tmp_path):
    rows = [{"id": "a", "answer": "yes"}, {"id": "s50414267-edema-1", "answer": "no"}]
    assert read_answer_file(lines(tmp_path / "a.jsonl", rows), REFERENCES).governance is Governance.CREDENTIALED
    rows[1]["id"] = "s95000001-edema-1"
    assert read_answer_file(lines(tmp_path / "b.jsonl", rows), REFERENCES).governance is None


@pytest.mark.parametrize("name", ["scored.jsonl", "scored-shuffled.jsonl", "predictions.jsonl"])
def test_a_file_of_a_run_has_the_class_that_its_results_state(name, tmp_path):
    """`scored.jsonl` states none itself: what a model of a stricter class wrote was open to the next evaluation."""
    path = lines(tmp_path / name, [{"id": "a", "answer": "yes"}])
    for stated in ("no-derivatives", "credentialed"):
        (tmp_path / "results.json").write_text(json.dumps({"governance": stated}))
        assert read_answer_file(path, REFERENCES).governance == stated
    (tmp_path / "results.json").write_text(json.dumps({"governance": "public"}))
    with pytest.raises(GovernanceError, match="'public'"):
        read_answer_file(path, REFERENCES)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(InputError, match=r"results\.json"):
        read_answer_file(path, REFERENCES)
    path.rename(tmp_path / "mine.jsonl")  # somebody's own file beside a run is not the run's
    assert read_answer_file(tmp_path / "mine.jsonl", REFERENCES).governance is None


@pytest.mark.parametrize("stated", [None, "open", "credentialed"])
def test_results_are_never_of_a_weaker_class_than_the_data(stated, build, tmp_path):
    """A file without a word, or with a milder one, has the data's; a stricter one counts."""
    data = shutil.copytree(build.workspace.root, tmp_path / "cxr")
    for part in ("questions", "release"):
        path = data / part / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"governance": "no-derivatives"}))
    studies = load_studies(open_release(data), "test", None)
    rows = [{"id": row["qa_id"], "answer": "No."} for study in studies for row in study.rows]
    header = {"store": 1, "kind": "predictions", "governance": stated, "settings": {}}
    path = lines(tmp_path / "a.jsonl", [header, *rows] if stated else rows)
    words = ["--data", str(data), "--predictions", str(path), "--encoder", "none", "--examples", "0"]
    assert run(["evaluate", "cxr", *words, "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())["governance"]
    assert found == ("credentialed" if stated == "credentialed" else "no-derivatives")
    with PredictionStore(tmp_path / "out" / FILE, Governance(found), read_only=True):
        pass
    others = stat.S_IMODE((tmp_path / "out" / "results.json").stat().st_mode) & 0o077
    assert (others == 0) == (found == "credentialed")


@pytest.mark.parametrize("value", ["0.5", "nan", "-inf", "sure"])
def test_a_log_probability_is_a_number_of_at_most_zero(value, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(f"id,answer,logprob\na,yes,-0.25\nb,no,\nc,no,{value}\n")
    with pytest.raises(InputError, match="logprob"):
        read_answer_file(path, dict.fromkeys("abc"))
    path.write_text("id,answer,logprob\na,yes,-0.25\nb,no,\na,yes,-0.26\n")  # the same answer twice
    replies = read_answer_file(path, dict.fromkeys("ab")).replies
    assert [replies[id].details for id in "ab"] == [{"logprob": -0.25}, {}]
