"""Answering that stops half-way and goes on: nothing finished is lost, nothing is asked twice."""

import pytest
from rows import FIRST_STUDY, study, study_table
from scripted_engine import STUDIES, ScriptedEngine, all_ids, build, number_of, records_of

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.sources.study_set import StudySet
from mimic_cxr_vqa.workspace import Workspace


def fail_at(number: int, error: Exception):
    def reply(request: AnswerRequest) -> str:
        if number_of(request) == number:
            raise error
        return "Clear."

    return reply


@pytest.mark.parametrize("failing", range(STUDIES))
def test_an_engine_that_breaks_down_loses_nothing_that_was_finished(tmp_path, failing):
    """The failing study is the slowest: the others are finished by then. Those behind it wait in a journal."""
    workspace, whole = build(tmp_path / "stopped"), build(tmp_path / "whole")
    engine = ScriptedEngine(fail_at(failing, RuntimeError("boom")), delay=lambda n: 0.1 if n == failing else 0)
    with pytest.raises(RuntimeError, match="boom"):
        answer_questions(workspace, engine)
    before = [qa_id for qa_id in all_ids(workspace) if int(qa_id[1:9]) - FIRST_STUDY < failing]
    assert [record["qa_id"] for record in records_of(workspace)] == before

    second = ScriptedEngine(lambda request: "Clear.")
    assert answer_questions(workspace, second)["asked"] == 6
    assert {number_of(request) for call in second.calls for request in call} == {failing}
    answer_questions(whole, ScriptedEngine(lambda request: "Clear."))
    assert workspace.answers.read_bytes() == whole.answers.read_bytes()


def test_a_changed_report_is_asked_again_and_nothing_else(tmp_path):
    answer_questions(build(tmp_path), ScriptedEngine())
    rows = [study(n, {"Edema": 0}, findings=f"Clear lungs, study {n if n != 2 else 'two'}.") for n in range(STUDIES)]
    workspace = Workspace(tmp_path)
    write_questions(StudySet("phantom", Governance.OPEN, study_table(*rows)), workspace, 0)
    engine = ScriptedEngine()
    answer_questions(workspace, engine)
    assert {number_of(request) for call in engine.calls for request in call} == {2}


@pytest.mark.parametrize(
    ("setting", "value"), [("model", "other"), ("prompt_version", "p2"), ("seed", 1), ("temperature", 0.5)]
)
def test_another_engine_does_not_go_on_with_the_answers_of_the_first(tmp_path, setting, value):
    workspace = build(tmp_path)
    answer_questions(workspace, ScriptedEngine())
    before, other = workspace.answers.read_bytes(), ScriptedEngine(**{setting: value})
    with pytest.raises(ConfigError, match=f"{setting} was .*, now {value!r}"):
        answer_questions(workspace, other)
    assert other.calls == [] and workspace.answers.read_bytes() == before
