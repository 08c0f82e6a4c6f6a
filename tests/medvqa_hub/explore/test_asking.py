"""Ask: rules and a model behind a server, about a study and a report; what credentialed pages refuse."""

import asyncio

import pytest
from chat_server import ChatServerDouble, completion, connect_to

from medvqa_core.errors import GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import FILE, Prediction, PredictionStore
from medvqa_hub.explore.live_questions import Question
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from mimic_cxr_vqa.workspace import SAMPLE_DIR

STUDY, REPORT = "95000001", "report0005.jpg"


def ask(asker, *parts):
    return asyncio.run(asker.ask(Question(*parts)))


@pytest.fixture(scope="module")
def rules():
    return open_folders([]).ask


def test_rules_answer_from_report_and_page(rules):
    said = ask(rules, "extractive", "study", STUDY, "Cardiomegaly", "Is Cardiomegaly present?")
    assert said["answer"] == "Yes, the heart shows moderate enlargement." and said["error"] is None
    said = ask(rules, "esra-rules", "report", REPORT, "entity_qa", "该报告中年龄是什么？")
    assert said["answer"] == "38岁"


@pytest.mark.parametrize(
    "question",
    [
        ("extractive", "study", "1", "Edema", "Is it?"),
        ("extractive", "study", "../x", "Edema", "Is it?"),
        ("extractive", "study", STUDY, "Liver", "Is it?"),
        ("extractive", "study", STUDY, "Edema", " "),
        ("extractive", "study", STUDY, "Edema", "x" * 2001),
        ("extractive", "report", REPORT, "entity_qa", "?"),
        ("server:http://evil.example", "study", STUDY, "Edema", "Is it?"),
        ("esra-rules", "report", "../../etc/passwd", "entity_qa", "?"),
        ("esra-rules", "report", REPORT, "poem", "?"),
        ("extractive", "file", "/etc/passwd", "Edema", "?"),
    ],
)
def test_what_cannot_be_asked_has_a_reason_and_no_answer(rules, question):
    said = ask(rules, *question)
    assert said["answer"] is None and said["error"]


def test_a_model_sees_the_images_of_what_is_asked_about():
    with ChatServerDouble(lambda body: completion("Yes.")) as double:
        connected = lambda governance: connect_to(double, governance)  # noqa: E731
        asker = open_folders([], ExploreOptions(connect=connected)).ask
        assert ask(asker, "tiny", "study", "95000007", "Edema", "Is Edema there?")["answer"] == "Yes."
        assert ask(asker, "tiny", "report", REPORT, "entity_qa", "年龄？")["answer"]
        study, report = double.requests[-2:]
        for body, text, images in ((study, "Is Edema there?", 2), (report, "年龄？", 1)):
            parts = body["messages"][-1]["content"]
            assert [part["type"] for part in parts].count("image_url") == images
            assert any(text in part.get("text", "") for part in parts)


def test_a_model_is_connected_for_the_strictest_class_of_the_page(tmp_path):
    """A credentialed run beside open rows makes the page credentialed: no model elsewhere is connected for it."""
    run = tmp_path / "run"
    with PredictionStore(run / FILE, Governance.CREDENTIALED, {}) as store:
        store.append([Prediction(store.key(n=1), "s95000001-edema-1", "No.")])
    elsewhere = ExploreOptions(
        predictions=(run,),
        connect=lambda governance: connect_to("server:https://m.example", governance),
    )
    with pytest.raises(GovernanceError, match="credentialed"):
        open_folders([SAMPLE_DIR], elsewhere)
    with ChatServerDouble(lambda body: completion("Yes.")) as double:
        endpoint = f"server:{double.endpoint}"
        local = ExploreOptions(predictions=(run,), connect=lambda governance: connect_to(endpoint, governance))
        with pytest.raises(GovernanceError, match="i-run-this-server"):
            open_folders([SAMPLE_DIR], local)
        assert not double.requests
