"""The same replies through --engine, --predictions, lmms-eval and VLMEvalKit have the same score."""

import json

from meddqa_server import build_told_apart, evaluate, question_of, serve
from openpyxl import Workbook

from medvqa_hub.cli import run
from medvqa_hub.evaluation import harness_tasks
from rjua_meddqa.inference.questions import load_questions
from rjua_meddqa.inference.replies import READER
from rjua_meddqa.released import write_questions
from rjua_meddqa.schema import DISEASE, MULTIPLE_CHOICE, ReasoningQuestion

RIGHT = (
    *("B", "（B）", "选B。", "答案是B", "b", "**B. 贫血**", "B.贫血", "贫血", '{"answer": "B"}', "<answer>B</answer>"),
    *("<think>A？</think>答案：B", "排除A，故选B", "The answer is B."),
)
WRONG = ("A", "不选B", "A或B", "无法判断图片内容，请上传清晰的图片", "答案：A\n答案：B", "B.缺铁")
REPLIES = (*RIGHT, *WRONG)
READABLE_WRONG = 1  # of WRONG, "A"


def build(root):
    """A folder with one multiple-choice question for each reply."""
    build_told_apart(root)
    rows = [
        ReasoningQuestion(
            *("blood.png", f"问题:{n}. 诊断？\n选项:A.缺铁;B.贫血;C.无法判断\n", "B.贫血"),
            *(DISEASE, MULTIPLE_CHOICE, "背景", "photo", "high", "1"),
        )
        for n in range(len(REPLIES))
    ]
    (root / "questions.jsonl").unlink()
    write_questions(rows, root / "reasoning.jsonl")
    return root


def reply_to(question):
    return REPLIES[int(question.removeprefix("问题:").strip().partition(".")[0])]


def score_through_engine(data, out):
    with serve(lambda body: reply_to(question_of(body))) as server:
        results = evaluate(data, out, server)
    assert results["reader"] == READER
    return results["scores"]["table_5"]["mc_accuracy"], results["counts"]["failed"]


def score_file(data, file, out):
    assert run(["evaluate", "meddqa", "--data", str(data), "--predictions", str(file), "--out", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["reader"] == READER
    return results["scores"]["table_5"]["mc_accuracy"], results["counts"]["failed"]


def score_as_vlmevalkit(data, out):
    assert run(["export", "vlmevalkit", "--meddqa", "--data", str(data), "--out", str(out), "--name", "M"]) == 0
    book = Workbook()
    book.active.append(["index", "id", "prediction"])
    for place, row in enumerate(load_questions(data).rows):
        book.active.append([place, row.id, reply_to(row.question)])
    book.save(out / "M.xlsx")
    return score_file(data, out / "M.xlsx", out / "scores")


def score_as_lmms_eval(data):
    records = []
    for row in load_questions(data).rows:
        doc = {"id": row.id, "question": row.question, "answer": row.answer, "task": row.task}
        doc |= {"answer_type": row.answer_type, "image_quality": row.quality}
        records.append(harness_tasks.meddqa_record(doc, [reply_to(row.question)])["mc_accuracy"])
    assert {record["reader"] for record in records} == {READER}
    return tuple(harness_tasks.meddqa_measure(records, name) for name in ("mc_accuracy", "failed"))


def test_every_door_gives_the_same_score(tmp_path):
    data = build(tmp_path / "data")
    said = [{"id": row.id, "answer": reply_to(row.question)} for row in load_questions(data).rows]
    file = tmp_path / "said.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in said), encoding="utf-8")
    expected = (len(RIGHT) / len(REPLIES), len(WRONG) - READABLE_WRONG)
    assert score_through_engine(data, tmp_path / "engine") == expected
    assert score_file(data, file, tmp_path / "file") == expected
    assert score_as_vlmevalkit(data, tmp_path / "kit") == expected
    assert score_as_lmms_eval(data) == expected


def test_replies_of_an_earlier_reader_are_read_again(tmp_path):
    """A resumed run does not mix the answers of two readers."""
    data = build(tmp_path / "data")
    score_through_engine(data, tmp_path / "out")
    path = tmp_path / "out" / "predictions.jsonl"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    changed = next(row for row in rows if row.get("said") == "选B。")
    changed["answer"] = "A.缺铁"
    path.write_text("\n".join([header, *(json.dumps(row) for row in rows)]) + "\n", encoding="utf-8")
    assert score_through_engine(data, tmp_path / "out")[0] == len(RIGHT) / len(REPLIES)
