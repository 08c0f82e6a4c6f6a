"""Asking an engine: order, re-asking, failures and governance, with engines that reply as a test says."""

import json

import pytest
from rows import FIRST_STUDY
from scripted_engine import STUDIES, ScriptedEngine, all_ids, build, records_of

from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.llm.options import EngineOptions
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.answers import answer_questions, count_answers
from mimic_cxr_vqa.generation.chosen_engine import ChosenEngine

BAD, BROKEN = "As the report says, new edema.", ["prohibited:new", "report_reference:report"]


# --- asking


def test_a_study_s_questions_come_together_with_its_texts(tmp_path):
    workspace, engine = build(tmp_path), ScriptedEngine()
    counts = answer_questions(workspace, engine)
    assert [len(call) for call in engine.calls] == [6] * STUDIES and engine.asked == all_ids(workspace)
    for number, call in enumerate(engine.calls):
        for request in call:
            assert (request.findings, request.indication) == (f"Clear lungs, study {number}.", f"indication {number}")
            assert request.category == "Edema" and request.violations == ()
    assert dict(counts) == {"answered": 36, "flagged": 0, "failed": 0, "asked": 36}
    assert records_of(workspace)[7] == {
        "key": records_of(workspace)[7]["key"],
        "qa_id": "s95000002-edema-2",
        "answer": "Answer to s95000002-edema-2.",
        "error": None,
        "attempts": 1,
        "lint": [],
    }


# --- re-asking


@pytest.mark.parametrize("clean_at", [2, 3, None])
def test_a_broken_rule_is_named_and_asked_again_twice_at_most(tmp_path, clean_at):
    target = f"s{FIRST_STUDY + 1}-edema-3"

    def reply(request: AnswerRequest) -> str:
        return BAD if request.qa_id == target and engine.asked.count(target) != clean_at else "Clear."

    workspace, engine = build(tmp_path), ScriptedEngine(reply)
    counts = answer_questions(workspace, engine)
    asked = [request for call in engine.calls for request in call if request.qa_id == target]
    attempts = clean_at or 3
    assert [request.violations for request in asked] == [(), *[tuple(BROKEN)] * (attempts - 1)]
    assert len(engine.asked) == 36 + attempts - 1, "no other question is asked again"
    (record,) = [record for record in records_of(workspace) if record["qa_id"] == target]
    assert (record["attempts"], record["error"]) == (attempts, None)
    assert record["answer"] == ("Clear." if clean_at else BAD)
    assert record["lint"] == ([] if clean_at else BROKEN)
    assert (counts["answered"], counts["flagged"]) == (36, 0 if clean_at else 1)


def test_an_empty_answer_breaks_a_rule(tmp_path):
    workspace = build(tmp_path, studies=1)
    assert answer_questions(workspace, ScriptedEngine(lambda request: " "))["flagged"] == 6
    assert {record["lint"][0] for record in records_of(workspace)} == {"empty"}


# --- failures


def test_a_failure_is_a_record_and_never_an_answer(tmp_path):
    def reply(request: AnswerRequest):
        return Reply(None, "timeout") if request.qa_id.endswith("-3") else "Clear."

    workspace, engine = build(tmp_path), ScriptedEngine(reply)
    assert dict(answer_questions(workspace, engine)) == {"answered": 30, "flagged": 0, "failed": 6, "asked": 36}
    assert len(engine.asked) == 36
    failed = [record for record in records_of(workspace) if record["error"]]
    assert [(r["answer"], r["error"], r["lint"]) for r in failed] == [(None, "timeout", [])] * 6

    again = ScriptedEngine()
    assert answer_questions(workspace, again)["asked"] == 0 and again.calls == []
    assert dict(answer_questions(workspace, again, retry_failed=True)) == {
        "answered": 36,
        "flagged": 0,
        "failed": 0,
        "asked": 6,
    }
    assert again.asked == [f"s{FIRST_STUDY + n}-edema-3" for n in range(STUDIES)]
    assert count_answers(workspace) == {"answered": 36, "flagged": 0, "failed": 0, "open": 0}


def test_a_failure_on_asking_again_is_a_failure(tmp_path):
    workspace = build(tmp_path, studies=1)
    engine = ScriptedEngine(lambda request: Reply(None, "refused") if request.violations else BAD)
    assert answer_questions(workspace, engine)["failed"] == 6
    assert {(r["answer"], r["error"], r["attempts"]) for r in records_of(workspace)} == {(None, "refused", 2)}


# --- governance


@pytest.mark.parametrize(
    "endpoint",
    ["http://10.0.0.7:8000/v1", "https://api.example.com", "http://127.0.0.1@evil.com", "http://127.0.0.1:9"],
)
def test_credentialed_text_is_not_sent_to_another_machine_or_an_unconfirmed_server(tmp_path, endpoint):
    workspace, engine = build(tmp_path, Governance.CREDENTIALED), ScriptedEngine(endpoint=endpoint)
    with pytest.raises(GovernanceError, match="engine scripted"):
        answer_questions(workspace, engine)
    assert engine.calls == [] and not workspace.answers.exists()


@pytest.mark.parametrize(
    ("governance", "endpoint"),
    [
        (Governance.CREDENTIALED, None),
        (Governance.OPEN, "https://api.example.com"),
    ],
)
def test_other_engines_are_asked_and_the_answers_carry_the_class(tmp_path, governance, endpoint):
    workspace = build(tmp_path, governance)
    answer_questions(workspace, ScriptedEngine(endpoint=endpoint))
    assert json.loads(workspace.answers.read_text().splitlines()[0])["governance"] == str(governance)
    assert count_answers(workspace)["answered"] == 36


def test_counts_before_the_first_answer_and_unknown_engines(tmp_path):
    assert count_answers(build(tmp_path)) == {"answered": 0, "flagged": 0, "failed": 0, "open": 36}
    with pytest.raises(ConfigError, match="'gpt'.*extractive"):
        ChosenEngine.choose(EngineOptions(("gpt",)))
    assert ChosenEngine.choose(EngineOptions(("extractive",))).make(Governance.OPEN).name == "extractive"
