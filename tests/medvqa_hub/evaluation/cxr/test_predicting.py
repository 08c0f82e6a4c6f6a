"""`medvqa-hub predict`: files of questions, what becomes of bad ones, and that `evaluate` scores the answers alike."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builds import Build, build_release
from challenge_files import drop_columns, write_challenge
from chat_server import ChatServerDouble, completion, is_probe
from evaluation_models import save_swin_ved, texts_of
from tiny_language_models import write_image_text_model

from medvqa_core.errors import ConfigError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE
from medvqa_hub.cli import run
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions
from medvqa_hub.evaluation.cxr.predicting import predict_cxr
from mimic_cxr_vqa.release import export_authors_csv, open_release

FEW = ["--beams", "1", "--max-new-tokens", "6"]


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("build"), studies=8, seed=1)


@pytest.fixture(scope="module")
def swin_ved(build, tmp_path_factory) -> Path:
    folder = save_swin_ved(tmp_path_factory.mktemp("swin_ved"), texts_of(open_release(build.workspace.release)))
    write_governance(folder, Governance.OPEN)
    return folder


@pytest.fixture(scope="module")
def answered(build, swin_ved, tmp_path_factory) -> list[dict]:
    """The answers of `evaluate` to the train split, by the model."""
    out = tmp_path_factory.mktemp("evaluated")
    given = ["--data", str(build.workspace.root), "--image-root", str(build.tree), "--split", "train", "--scored"]
    assert run(["evaluate", "cxr", "--model", str(swin_ved), *given, *FEW, "--examples", "0", "--out", str(out)]) == 0
    return json_lines(out / "scored.jsonl")


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table_of(out: Path) -> list[dict]:
    with (out / "answers.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predict(data: Path, out: Path, *more: str) -> int:
    return run(["predict", "--data", str(data), "--out", str(out), *more])


def train_files(build: Build, folder: Path) -> dict[str, Path]:
    """The questions of the train split in each form that predict reads, none with answers."""
    release = open_release(build.workspace.release)
    write_challenge(release, folder / "challenge", "train", "test", without=("answer", "question_value"))
    export_authors_csv(release, folder / "authors")
    (folder / "bare").mkdir()
    drop_columns((folder / "authors" / "train.csv").rename(folder / "bare" / "questions.csv"), ("answer",))
    rows = [row for batch in release.iterate_split("train", {}) for row in batch.to_pylist()]
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        file.write('{"governance": "open"}\n')
        for row in rows:
            images = [f"files/{path}" for path in row["images"]]
            kept = {"id": row["qa_id"], "question": row["question"], "images": images, "views": row["views"]}
            file.write(json.dumps(kept) + "\n")
    with (folder / "rows.csv").open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.writer(file)
        table.writerow(["qa_id", "question", "image_path", "view_position", "study_id"])
        for row in rows:
            images = ",".join(f"files/{path}" for path in row["images"])
            table.writerow([row["qa_id"], row["question"], images, ",".join(row["views"]), row["study_id"]])
    return {
        "release": build.workspace.root,
        "questions": build.workspace.questions,
        "challenge": folder / "challenge",
        "file of the authors' columns": folder / "bare" / "questions.csv",
        "json lines": folder / "rows.jsonl",
        "csv with a byte-order mark": folder / "rows.csv",
    }


def test_every_form_of_questions_gets_the_answers_of_evaluate(build, swin_ved, answered, tmp_path, capsys):
    expected = {row["qa_id"]: row["answer"] for row in answered}
    files = train_files(build, tmp_path)
    classes = {"challenge": "credentialed", "file of the authors' columns": "credentialed"}
    classes["csv with a byte-order mark"] = "credentialed"
    for number, (form, data) in enumerate(files.items()):
        split = [] if form == "challenge" else ["--split", "train"]
        out = tmp_path / f"out{number}"
        given = ["--model", str(swin_ved), "--image-root", str(build.tree), *split, *FEW]
        assert predict(data, out, *given) == 0, (form, capsys.readouterr().err)
        rows = table_of(out)
        assert {row["qa_id"]: row["prediction"] for row in rows} == expected, form
        assert [row["qa_id"] for row in rows] == list(expected), form
        assert {row["governance"] for row in rows} == {classes.get(form, "open")}, form
        header, *lines = json_lines(out / "answers.jsonl")
        assert header["governance"] == classes.get(form, "open") and [row["prediction"] for row in lines] == [
            row["prediction"] for row in rows
        ]


@pytest.mark.parametrize("name", ["answers.csv", "answers.jsonl", FILE])
def test_evaluate_scores_the_answers_as_its_own(build, swin_ved, answered, name, tmp_path):
    given = ["--data", str(build.workspace.root), "--split", "train"]
    images = ["--image-root", str(build.tree)]
    assert run(["predict", *given, *images, "--model", str(swin_ved), *FEW, "--out", str(tmp_path / "p")]) == 0
    again = ["--predictions", str(tmp_path / "p" / name), "--scored", "--out", str(tmp_path / "e")]
    assert run(["evaluate", "cxr", *given, *again]) == 0
    assert json_lines(tmp_path / "e" / "scored.jsonl") == answered


def test_the_class_of_the_answers_reaches_the_results(build, tmp_path):
    """Open questions answered from a credentialed file stay credentialed in both formats."""
    with ChatServerDouble(lambda body: completion("No.")) as double:
        files = train_files(build, tmp_path)
        server = ["--i-run-this-server", "--engine", f"server:{double.endpoint}", "--image-root", str(build.tree)]
        assert predict(files["challenge"], tmp_path / "p", *server) == 0
    for name in ("answers.csv", "answers.jsonl"):
        given = ["--data", str(build.workspace.root), "--split", "train", "--examples", "0"]
        out = tmp_path / f"e-{name}"
        assert run(["evaluate", "cxr", *given, "--predictions", str(tmp_path / "p" / name), "--out", str(out)]) == 0
        assert json.loads((out / "results.json").read_text())["governance"] == "credentialed"


def test_the_order_of_the_file_is_kept_and_each_question_has_its_images(build, tmp_path):
    """Rows of a study need not be adjacent, and may name other images."""
    files = train_files(build, tmp_path)
    path = files["file of the authors' columns"]
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    image = header.index("image_path")
    several = next(row for row in rows if "," in row[image])
    several[image], several[header.index("view_position")] = several[image].split(",")[0], "PA"
    shuffled = rows[::2] + rows[1::2]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *shuffled])
    with ChatServerDouble(lambda body: completion(f"{len(body['messages'][-1]['content']) - 1} images")) as double:
        server = ["--i-run-this-server", "--engine", f"server:{double.endpoint}", "--image-root", str(build.tree)]
        assert predict(path, tmp_path / "out", *server) == 0
    found = [(row["question"], row["prediction"]) for row in table_of(tmp_path / "out")]
    place = header.index("question")
    assert found == [(row[place], f"{len(row[image].split(','))} images") for row in shuffled]


@pytest.mark.slow
def test_a_model_in_this_process_answers_as_it_does_for_evaluate(build, tmp_path):
    model = write_image_text_model(tmp_path / "llava")
    given = ["--data", str(build.workspace.root), "--split", "train", "--limit", "1", "--max-new-tokens", "6"]
    given += ["--image-root", str(build.tree), "--engine", f"transformers:{model}"]
    assert run(["predict", *given, "--out", str(tmp_path / "p")]) == 0
    assert run(["evaluate", "cxr", *given, "--scored", "--failed", "empty", "--out", str(tmp_path / "e")]) == 0
    expected = [
        (row["qa_id"], row["answer"] or "", row["error"] or "") for row in json_lines(tmp_path / "e/scored.jsonl")
    ]
    assert [(row["qa_id"], row["prediction"], row["error"]) for row in table_of(tmp_path / "p")] == expected


HARD = [
    ("q1", 'Is "edema", or\nfluid, seen?', "a.png"),
    ("q2", "Ist ein Erguß zu sehen? 胸腔积液?", "a.png"),
    ("q3", "", "a.png"),
    ("q4", "Is the heart large?", "missing.png"),
    ("q5", "Is it normal?", "broken.png"),
    ("q6", "No image at all?", ""),
]


def write_hard(folder: Path, build: Build) -> Path:
    (folder / "a.png").write_bytes(next(build.tree.rglob("*.jpg")).read_bytes())
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    path = folder / "hard.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "question", "image"])
        table.writerows(HARD)
    return path


def test_bad_rows_are_failures_with_a_reason_and_texts_survive(build, tmp_path, capsys):
    path = write_hard(tmp_path, build)
    with ChatServerDouble(lambda body: completion('Yes, "small";\r\nor\rleft.')) as double:
        server = ["--i-run-this-server", "--engine", f"server:{double.endpoint}"]
        assert predict(path, tmp_path / "out", *server) == 1
        assert "q4: image" in capsys.readouterr().err and not double.requests, "nothing is asked before that is known"
        assert predict(path, tmp_path / "out", *server, "--missing-images", "skip") == 0
    rows = {row["qa_id"]: row for row in table_of(tmp_path / "out")}
    assert list(rows) == [id for id, *_ in HARD] and [row["question"] for row in rows.values()] == [
        q for _, q, _ in HARD
    ]
    assert [id for id, row in rows.items() if row["prediction"]] == ["q1", "q2"]
    assert rows["q1"]["prediction"] == 'Yes, "small";\r\nor\rleft.' and not rows["q1"]["error"]
    reasons = [rows[id]["error"] for id in ("q3", "q4", "q5", "q6")]
    for reason, expected in zip(reasons, ("empty", "is absent", "truncated", "no image"), strict=True):
        assert expected in reason


def test_an_empty_answer_of_a_checkpoint_is_an_answer(build, swin_ved, tmp_path, monkeypatch):
    from medvqa_hub.evaluation.cxr.model_inference import Answer, StudyAnswerer

    monkeypatch.setattr(StudyAnswerer, "answer", lambda self, images, texts, index: [Answer("", 1, False)] * len(texts))
    given = ["--data", str(build.workspace.root), "--split", "train", "--image-root", str(build.tree), "--limit", "1"]
    assert run(["predict", *given, "--model", str(swin_ved), "--out", str(tmp_path / "p")]) == 0
    for name in ("answers.csv", "answers.jsonl"):
        more = ["--predictions", str(tmp_path / "p" / name), "--out", str(tmp_path / name), "--examples", "0"]
        assert run(["evaluate", "cxr", *given[:4], "--limit", "1", *more]) == 0
        counts = json.loads((tmp_path / name / "results.json").read_text())["counts"]
        assert counts["empty_answers"] == counts["questions"] > 0 and counts["failed"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,question,image\na,Q?,x.png\na,R?,x.png\n", "question a occurs twice"),
        ("question,image\nQ?,x.png\n", "row 2 lacks an id"),
        ("id,image\na,x.png\n", "columns question are missing"),
        ("id,question,image\na,Q?,../x.png\n", "leaves its root"),
        ("id,question,image,views\na,Q?,x.png,\"PA,LL\"\n", "2 views of 1 images"),
        ("id,question,image\n", "does not have a question"),
        ("id,question,image\na,Q?\n", "2 fields"),
        ("id,question,image\na,\"Q?,x.png\n", "cut off"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_errors(tmp_path, text, message, capsys):
    (tmp_path / "q.csv").write_text(text)
    assert predict(tmp_path / "q.csv", tmp_path / "out", "--model", "m") == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "id;question;image\r\na;Is it, or not?;a.png\r\n",
        "id\tquestion\timages\na\tIs it, or not?\ta.png\n",
        '"id","question","image_path"\n"a","Is it, or not?","a.png"\n',
        'id,question,image,study_id\n\na,"Is it, or not?",a.png,s\n\n',
        '\ufeff{"question_id": "a", "question": "Is it, or not?", "image": "a.png"}\n',
    ],
)
def test_tables_of_other_programs_are_read(build, tmp_path, text):
    """Also images in files/, the folder of MIMIC-CXR-JPG."""
    path = tmp_path / f"q.{'jsonl' if '{' in text else 'csv'}"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "root" / "files").mkdir(parents=True)
    write_hard(tmp_path / "root" / "files", build)
    with ChatServerDouble(lambda body: completion("No.")) as double:
        server = ["--i-run-this-server", "--engine", f"server:{double.endpoint}"]
        assert predict(path, tmp_path / "out", *server, "--image-root", str(tmp_path / "root")) == 0
    assert [(row["qa_id"], row["question"], row["prediction"]) for row in table_of(tmp_path / "out")] == [
        ("a", "Is it, or not?", "No.")
    ]


def test_windows_1252_is_an_error_that_names_the_line(tmp_path, capsys):
    (tmp_path / "q.csv").write_bytes("id,question,image\na,Œdème?,x.png\n".encode("cp1252"))
    assert predict(tmp_path / "q.csv", tmp_path / "out", "--model", "m") == 1
    assert "line 2" in (error := capsys.readouterr().err) and "UTF-8" in error


def test_a_lower_class_than_the_ids_need_is_refused(build, tmp_path, capsys):
    write_hard(tmp_path, build)
    row = {"id": "s50414267-edema-1", "question": "Q?", "images": ["a.png"]}
    (tmp_path / "q.jsonl").write_text('{"governance": "open"}\n' + json.dumps(row) + "\n")
    assert predict(tmp_path / "q.jsonl", tmp_path / "out", "--model", "m") == 1
    assert "MIMIC" in capsys.readouterr().err


def test_predictions_are_not_a_source(tmp_path):
    with pytest.raises(ConfigError, match="--predictions"):
        predict_cxr(tmp_path, DataOptions(tmp_path), AnswerOptions(predictions=tmp_path / "p.jsonl"))


def test_answers_to_other_questions_are_refused_and_half_of_them_counted(build, tmp_path, capsys):
    with ChatServerDouble(lambda body: completion("No.")) as double:
        server = [
            "--i-run-this-server",
            "--engine",
            f"server:{double.endpoint}",
            "--image-root",
            str(build.tree),
            "--split",
            "train",
        ]
        assert predict(build.workspace.root, tmp_path / "half", *server, "--limit", "2") == 0
        assert predict(write_hard(tmp_path, build), tmp_path / "other", *server[:3], "--missing-images", "skip") == 0
    given = ["evaluate", "cxr", "--data", str(build.workspace.root), "--split", "train", "--examples", "0"]
    half = tmp_path / "half" / "answers.csv"
    assert run([*given, "--predictions", str(half), "--out", str(tmp_path / "e")]) == 0
    counts = json.loads((tmp_path / "e" / "results.json").read_text())["counts"]
    assert counts["answered"] == len(table_of(tmp_path / "half")) and counts["failed"] > 0
    other = tmp_path / "other" / "answers.csv"
    assert run([*given, "--predictions", str(other), "--out", str(tmp_path / "e2")]) == 1
    assert "none of its 6 rows is about these questions" in capsys.readouterr().err


KILL = """
import os
import sys

from medvqa_core.runs.predictions import PredictionStore
from medvqa_hub.cli import run

append = PredictionStore.append

def append_and_die(self, predictions):
    predictions = list(predictions)
    append(self, predictions)
    if predictions:
        os._exit(9)

PredictionStore.append = append_and_die
run(sys.argv[1:])
"""


def test_a_killed_run_resumes_and_asks_nothing_twice(build, tmp_path):
    def asked(double: ChatServerDouble) -> list[tuple]:
        texts = [body["messages"][-1]["content"] for body in double.requests if not is_probe(body)]
        return [(str(parts[:-1]), re.search("Question: (.*)", parts[-1]["text"])[1]) for parts in texts]

    out = tmp_path / "out"
    with ChatServerDouble(lambda body: completion("No.")) as double:
        arguments = ["predict", "--data", str(build.workspace.root), "--split", "train", "--out", str(out)]
        arguments += ["--image-root", str(build.tree), "--engine", f"server:{double.endpoint}", "--slots", "1"]
        command = [sys.executable, "-c", KILL, *arguments]
        assert subprocess.run(command, check=False, capture_output=True).returncode == 9
        recorded, before = len((out / FILE).read_text().splitlines()) - 1, len(asked(double))
        assert recorded > 0 and not (out / "answers.csv").exists()
        assert run(arguments) == 0
        rows = table_of(out)
        assert recorded < len(rows) and len(asked(double)) - before == len(rows) - recorded
        after = len(double.requests)
        assert run(arguments) == 0 and len([b for b in double.requests[after:] if not is_probe(b)]) == 0
    assert len(rows) == len({row["qa_id"] for row in rows}) and {row["prediction"] for row in rows} == {"No."}
