"""Files of answers that an earlier version wrote open, and a run goes on with them to the same bytes."""

import shutil

import pytest
from meddqa_engine import ScriptedEngine as DocumentEngine
from paths import GOLDEN
from scripted_engine import ScriptedEngine

from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.predictions import FILE, PredictionStore, merge_parts
from medvqa_hub.evaluation.cxr.generating import request_keys
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.evaluation.meddqa.inference import ImageSet, answer_questions
from mimic_cxr_vqa.generation import answers
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.workspace import Workspace
from rjua_meddqa.inference.questions import DocumentQuestion

EARLIER = GOLDEN / "earlier_answers"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(EARLIER, tmp_path / "earlier")
    return tmp_path / "earlier"


def reply(request):
    """What the engine said in the earlier version."""
    number = request.qa_id[-1]
    if number == "2":
        return "No edema — bestätigt." if request.violations else "Stable."
    return {"3": "Unchanged.", "4": Reply(None, "timeout")}.get(number, f"Clear: {request.qa_id}.")


def test_a_dataset_goes_on_where_the_earlier_version_stopped(folder):
    workspace, engine = Workspace(folder / "cxr"), ScriptedEngine(reply)
    assert answers.count_answers(workspace) == {"answered": 10, "flagged": 2, "failed": 2, "open": 6}
    counts = answers.answer_questions(workspace, engine)
    assert counts == {"asked": 6, "answered": 15, "flagged": 3, "failed": 3}
    assert {request.study_id for call in engine.calls for request in call} == {95000003}
    assert workspace.answers.read_bytes() == (folder / "cxr/answers.whole.jsonl").read_bytes()


def test_a_release_is_made_of_earlier_answers(folder):
    workspace = Workspace(folder / "cxr")
    manifest = write_release(workspace, allow_missing=True)
    assert {name: manifest["counts"][name] for name in ("rows", "missing", "failed", "flagged")} == {
        "rows": 10,
        "missing": 6,
        "failed": 2,
        "flagged": 2,
    }
    assert manifest["answers"]["model"] == "m"


def test_an_evaluation_on_report_images_goes_on(folder):
    data, engine = folder / "meddqa", DocumentEngine(lambda request: f"答：{request.question}")

    def row(number, image, question, task="entity_qa", kind="single_entity", context=""):
        path = None if image == "none.png" else data / image
        return DocumentQuestion(f"{image}#{number}", image, path, question, "x", task, kind, "high", True, context)

    asked = [
        row(1, "a.png", "血糖是多少？"),
        row(2, "a.png", "血糖正常吗？", "table_nr_qa", "single_nr"),
        row(3, "none.png", "何时？"),
        row(4, "b.png", "有什么建议？", "advice_qa", "SA", "背景知识"),
        row(5, "b.png", "选项？", "disease_qa", "MC", "背景"),
    ]
    found, new = answer_questions(engine, asked, ImageSet(), data / FILE, Governance.SHARE_ALIKE)
    assert new == 2 and engine.asked == ["b.png#4", "b.png#5"]
    assert [p.error for p in found] == [None, "the server said 500", "the image is not there", None, None]
    assert (data / FILE).read_bytes() == (data / "predictions.whole.jsonl").read_bytes()


def test_predictions_of_a_model_are_found_by_the_same_keys_and_its_parts_are_merged(folder):
    path = folder / "evaluation" / FILE
    with PredictionStore(path, Governance.CREDENTIALED, read_only=True) as store:
        settings = store.settings
    assert merge_parts(path, Governance.CREDENTIALED, settings) == 1
    rows = tuple({"qa_id": f"s1-edema-{n + 1}", "question": f"Is there edema {n}?"} for n in range(3))
    image = path.parent / "film"
    study = Study(1, 1, "test", (image,), ("AP",), rows)
    (keys,) = request_keys([study], settings, {image: "0" * 32})
    with PredictionStore(path, Governance.CREDENTIALED, settings) as store:
        assert [(store.find(key).id, store.find(key).answer) for key in keys] == [
            ("s1-edema-1", "No."),
            ("s1-edema-2", None),
            ("s1-edema-3", "Yes — deutlich."),
        ]
        assert store.find(keys[2]).details == {"tokens": 4, "truncated": True}
