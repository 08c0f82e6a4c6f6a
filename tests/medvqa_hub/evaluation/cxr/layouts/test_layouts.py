"""Public datasets in their published layouts: which questions, about which images, of which class; what is refused."""

import json
from pathlib import Path

import pytest
from chat_server import ChatServerDouble, completion, is_probe
from public_layouts import WRITERS

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.governance import Governance
from medvqa_hub.cli import run
from medvqa_hub.evaluation.comparing import compare_runs
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.options import DataOptions
from medvqa_hub.evaluation.cxr.prompts import StudyPrompt

CLASSES = {
    "vqa-rad": Governance.OPEN,
    "slake": Governance.SHARE_ALIKE,
    "medical-diff-vqa": Governance.CREDENTIALED,
    "rexvqa": Governance.CREDENTIALED,
}


@pytest.fixture(params=WRITERS)
def written(request, tmp_path) -> tuple[str, Path]:
    folder = tmp_path / request.param
    folder.mkdir()
    return request.param, WRITERS[request.param](folder)


def read(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def log(path: Path, answers: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"id": id, "answer": text}) + "\n" for id, text in answers.items()))
    return path


def open_studies(name, folder, split="test", **more):
    return open_data(DataOptions(folder, split, name, **more)).studies


def rows_of(name, folder) -> dict[str, dict]:
    return {row["qa_id"]: row for study in open_studies(name, folder, "test") for row in study.rows}


def evaluate(name, folder, out, *more) -> int:
    return run(["evaluate", "cxr", "--layout", name, "--data", str(folder), "--out", str(out), "--scored", *more])


def test_vqa_rad_by_hand(tmp_path):
    found = open_studies("vqa-rad", WRITERS["vqa-rad"](tmp_path), "test")
    assert [(study.images[0].name, [row["qa_id"] for row in study.rows]) for study in found] == [
        ("synpic54610.jpg", ["vqa-rad-1", "vqa-rad-2"]),
        ("synpic676.jpg", ["vqa-rad-3", "vqa-rad-4"]),
    ]
    assert found[0].rows[0] == {
        "qa_id": "vqa-rad-1", "category": "PRES", "label_value": None, "question": "Is there a pneumothorax?",
        "answer": "No", "answer_type": "closed",
    }  # fmt: skip
    assert found[1].rows[1]["answer"] == "3"
    assert [row["qa_id"] for study in open_studies("vqa-rad", tmp_path, "train") for row in study.rows] == ["vqa-rad-5"]
    with pytest.raises(InputError, match="validate"):
        open_studies("vqa-rad", tmp_path, "validate")


def test_slake_is_read_in_english_under_either_name_of_its_validation_file(tmp_path):
    rows = rows_of("slake", WRITERS["slake"](tmp_path))
    assert list(rows) == ["slake-9835", "slake-9838", "slake-9836"]
    assert [len(study.rows) for study in open_studies("slake", tmp_path, "validate")] == [1]
    (tmp_path / "validation.json").rename(tmp_path / "validate.json")
    assert [len(study.rows) for study in open_studies("slake", tmp_path, "validate")] == [1]


def test_medical_diff_vqa_shows_two_images_for_a_difference_and_one_else(tmp_path):
    studies = open_studies("medical-diff-vqa", WRITERS["medical-diff-vqa"](tmp_path), "test")
    shown = {study.study_id: ([path.stem for path in study.images], len(study.rows)) for study in studies}
    assert shown == {
        "50414267": (["aa-bb"], 3), "50414267-53189527": (["aa-bb", "cc-dd"], 1), "53189527": (["cc-dd"], 2),
    }  # fmt: skip
    text = StudyPrompt("short").text(studies[1], studies[1].rows[0])
    assert text.splitlines()[:2] == [
        "Image 1: main image (PA).",
        "Image 2: reference image, of an earlier or later study (AP).",
    ]
    assert {study.subject_id for study in studies} == {"10000032"}
    types = {row["question"]: row["answer_type"] for study in studies for row in study.rows}
    assert types["is there edema?"] == "closed" and types["where in the image is the effusion located?"] == "open"


def test_rexvqa_asks_with_options_and_never_shows_the_report(tmp_path):
    studies = open_studies("rexvqa", WRITERS["rexvqa"](tmp_path), "test")
    assert [(study.study_id, len(study.images), study.views) for study in studies] == [
        ("s1", 2, ("PA", "LATERAL")), ("s2", 1, ("PA",)),
    ]  # fmt: skip
    prompt = StudyPrompt("choice", indication=True)
    request = prompt.request(studies[0], prompt.encode(studies[0]), studies[0].rows[0])
    assert request.messages[1].text.splitlines() == [
        "Image 1: PA view.", "Image 2: LAT view.", "Indication: Cough.", "Question: What is seen?",
        "A. Effusion", "B. Left pleural effusion", "C. Pneumothorax", "D. None of these",
    ]  # fmt: skip
    assert len(request.messages[1].images) == 2 and "secret" not in str(request.messages)


def test_one_command_scores_them_all_by_a_model(written, tmp_path, capsys):
    name, folder = written
    rows = rows_of(name, folder)

    def know(body):
        if is_probe(body):
            return completion("Hello.")
        text = body["messages"][-1]["content"][-1]["text"]
        question = next(line for line in text.splitlines() if line.startswith("Question: ")).removeprefix("Question: ")
        answers = {row["answer"] for row in rows.values() if row["question"] == question}
        return completion(f"{answers.pop()}." if len(answers) == 1 else "I cannot tell")

    with ChatServerDouble(know) as double:
        engine = ["--engine", f"server:{double.endpoint}", "--i-run-this-server", "--blank-images"]
        assert evaluate(name, folder, tmp_path / "out", *engine) == 0
    printed = capsys.readouterr().out
    assert "Right answers" in printed and "By answer type" in printed
    results = read(tmp_path / "out")
    assert results["governance"] == CLASSES[name] and results["data"]["questions"] == len(rows)
    if name != "medical-diff-vqa":  # there one question has two answers
        assert results["short_answers"]["exact"] == 1.0 and results["short_answers"]["closed_accuracy"] == 1.0
        assert results["table_4"]["rouge_l"] == pytest.approx(1.0)
        assert results["short_answers"]["open_recall"] in (1.0, None)
    for file in ("results-blank.json", "chart.png", "examples.png", "scored.jsonl"):
        assert (tmp_path / "out" / file).exists()


def test_perfect_and_empty_answers(written, tmp_path):
    name, folder = written
    rows = rows_of(name, folder)
    said = {
        "perfect": {id: f"The answer is {row['answer']}." if row.get("options") else row["answer"]
                    for id, row in rows.items()},
        "empty": dict.fromkeys(rows, ""),
        "failed": dict.fromkeys(rows, "ERROR"),
    }  # fmt: skip
    for kind, answers in said.items():
        path = log(tmp_path / f"{kind}.jsonl", answers)
        assert evaluate(name, folder, tmp_path / kind, "--predictions", str(path), "--failed", "empty") == 0
    perfect, empty, failed = (read(tmp_path / kind) for kind in said)
    exact = 1.0 if name != "rexvqa" else 0.0  # a letter in a sentence is right, and not exact
    assert perfect["short_answers"]["exact"] == exact and perfect["short_answers"]["closed_accuracy"] == 1.0
    assert perfect["table_4"]["bleu_1"] == pytest.approx(1.0, abs=1e-6)
    for result in (empty, failed):
        assert result["short_answers"]["exact"] == result["short_answers"]["closed_accuracy"] == 0.0
        assert result["table_4"]["rouge_l"] == 0.0
    assert failed["counts"]["failed"] == len(rows) and empty["counts"]["empty_answers"] == len(rows)
    made = compare_runs([tmp_path / "perfect", tmp_path / "failed"], resamples=20)
    for result, place in ((perfect, 0), (failed, 1)):
        assert made.scores["closed accuracy"][place][0] == result["short_answers"]["closed_accuracy"]
        assert made.scores["bleu_1"][place][0] == pytest.approx(result["table_4"]["bleu_1"])


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        ("vqa-rad", lambda f: (f / "VQA_RAD Image Folder/synpic676.jpg").unlink(), "synpic676.jpg"),
        ("vqa-rad", lambda f: (f / "VQA_RAD Dataset Public.json").unlink(), "VQA_RAD Dataset Public.json"),
        ("slake", lambda f: (f / "test.json").write_text('[{"qid": 1}]'), "question 0 .*img_name"),
        ("slake", lambda f: edit(f / "test.json", 0, answer_type="MAYBE"), "'MAYBE'"),
        ("slake", lambda f: edit(f / "test.json", 0, img_name="../../x.jpg"), "leaves its root"),
        ("slake", lambda f: edit(f / "test.json", 0, qid=9836), "slake-9836"),
        ("medical-diff-vqa", lambda f: (f / "mimic_all.csv").write_text("subject_id,study_id,dicom_id,view\n"),
         "mimic_all.csv"),
        ("rexvqa", lambda f: edit(f / "metadata/test_vqa_data.json", "id_1", correct_answer="E"), "'E'"),
        ("rexvqa", lambda f: edit(f / "metadata/test_vqa_data.json", "id_1", options=["Left", "Right"]), "options"),
    ],
)  # fmt: skip
def test_damaged_folders_are_refused(name, damage, expected, tmp_path):
    damage(WRITERS[name](tmp_path))
    with pytest.raises(InputError, match=expected):
        open_studies(name, tmp_path, "test")


def edit(path: Path, place, **change) -> None:
    found = json.loads(path.read_text())
    found[place] |= change
    path.write_text(json.dumps(found))


def test_missing_images_can_be_skipped_and_unknown_layouts_are_refused(tmp_path):
    WRITERS["vqa-rad"](tmp_path)
    (tmp_path / "VQA_RAD Image Folder/synpic676.jpg").unlink()
    assert len(open_studies("vqa-rad", tmp_path, "test", missing_images="skip")) == 1
    with pytest.raises(ConfigError, match="pathvqa.*vqa-rad, slake"):
        open_studies("pathvqa", tmp_path, "test")
    with pytest.raises(InputError, match="none"):
        open_studies("slake", tmp_path / "none", "test")
