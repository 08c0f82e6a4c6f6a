"""Answers of several machines become the bytes of one machine's, whatever was ready first, killed or done twice."""

import pytest
from kills import killed_copies
from scripted_engine import STUDIES, ScriptedEngine, build, records_of

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from medvqa_core.runs.shards import Shard, parse_shard, shard_files
from mimic_cxr_vqa.generation.answers import answer_questions, merge_answers
from mimic_cxr_vqa.workspace import Workspace


@pytest.fixture
def whole(tmp_path):
    """One machine's answers."""
    workspace = build(tmp_path / "whole")
    answer_questions(workspace, ScriptedEngine())
    return workspace.answers.read_bytes()


@pytest.mark.parametrize("of", [1, 2, 4, STUDIES + 3])
def test_parts_are_disjoint_and_merge_to_one_machine_s_bytes(tmp_path, whole, of):
    workspace, asked = build(tmp_path / "parts"), []
    for number in reversed(range(1, of + 1)):
        engine = ScriptedEngine()
        answer_questions(workspace, engine, shard=Shard(number, of))
        asked += engine.asked
    assert len(asked) == len(set(asked)) == 6 * STUDIES
    if of > 1:
        assert not workspace.answers.exists()
        counts = merge_answers(workspace)
        assert counts == {"merged": 36, "open": 0, "differing": 0, "foreign": 0}
    assert workspace.answers.read_bytes() == whole
    again = ScriptedEngine()
    assert answer_questions(workspace, again)["asked"] == 0 and not again.asked


def test_parts_of_other_folders_and_a_run_that_goes_on_after_merging(tmp_path, whole):
    here, there = build(tmp_path / "here"), build(tmp_path / "there")
    answer_questions(there, ScriptedEngine(), shard=Shard(2, 3))
    answer_questions(here, ScriptedEngine(), limit=2)
    counts = merge_answers(here, [Shard(2, 3).path(there.answers)])
    assert counts == {"merged": 18, "open": 18, "differing": 0, "foreign": 0}
    rest = ScriptedEngine()
    answer_questions(here, rest)
    assert len(rest.asked) == 18
    assert merge_answers(here, [here.answers]) == {"merged": 36, "open": 0, "differing": 0, "foreign": 0}
    assert here.answers.read_bytes() == whole, "merging with itself puts the questions' order back"


def test_an_answer_counts_before_a_failure_and_differing_ones_are_counted(tmp_path):
    first, second = build(tmp_path / "first"), build(tmp_path / "second")
    answer_questions(first, ScriptedEngine(lambda request: Reply(None, "gone")))
    answer_questions(second, ScriptedEngine())
    assert merge_answers(first, [second.answers])["differing"] == 36
    assert all(record["error"] is None for record in records_of(first))


def test_answers_to_other_texts_are_left_out_and_counted(tmp_path):
    here, other = build(tmp_path / "here"), build(tmp_path / "other", findings="Dense lungs, study {}.")
    answer_questions(other, ScriptedEngine())
    assert merge_answers(here, [other.answers]) == {"merged": 0, "open": 36, "differing": 0, "foreign": 36}


def test_what_does_not_belong_together_is_refused_and_changes_nothing(tmp_path, whole):
    here, other = build(tmp_path / "here"), build(tmp_path / "other")
    strict = build(tmp_path / "strict", governance=Governance.CREDENTIALED)
    answer_questions(here, ScriptedEngine())
    answer_questions(other, ScriptedEngine(model="another"))
    answer_questions(strict, ScriptedEngine())
    with pytest.raises(ConfigError, match="model was 'm', now 'another'|model was 'another', now 'm'"):
        merge_answers(here, [other.answers])
    with pytest.raises(GovernanceError, match="cannot become open"):
        merge_answers(here, [strict.answers])
    with pytest.raises(InputError, match="--shard i/n"):
        merge_answers(here)
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(whole.replace(b'"error": null', b'"error" null', 1))
    with pytest.raises(InputError, match="not valid JSON"):
        merge_answers(here, [broken])
    broken.write_bytes(whole.replace(b'"error": null', b'"answer": "Another.", "error": null', 1))
    with pytest.raises(InputError, match="line 2: .*'answer'"):
        merge_answers(here, [broken])
    assert here.answers.read_bytes() == whole
    answer_questions(here, ScriptedEngine())  # and nothing holds its lock


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "1", "a/b", "-1/2", "1/2/3", "١/٢"])
def test_a_part_that_is_none_is_named(text):
    with pytest.raises(ConfigError, match="expected i/n"):
        parse_shard(text)


def test_files_of_parts_are_found_by_number(tmp_path):
    for name in ("shard-10-of-12", "shard-2-of-12", "shard-x-of-2", "part-1"):
        (tmp_path / f"answers.{name}.jsonl").touch()
    names = [path.name for path in shard_files(tmp_path / "answers.jsonl")]
    assert names == ["answers.shard-2-of-12.jsonl", "answers.shard-10-of-12.jsonl"]


MERGE = """
import sys
from kills import kill_at_each_write
from mimic_cxr_vqa.generation.answers import merge_answers
from mimic_cxr_vqa.workspace import Workspace
kill_at_each_write(lambda folder: merge_answers(Workspace(folder)), *sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_merge_loses_nothing(tmp_path, whole):
    source = build(tmp_path / "source")
    for number in (1, 2):
        answer_questions(source, ScriptedEngine(), shard=Shard(number, 2))
    header = whole[: whole.index(b"\n") + 1]
    copies = killed_copies(MERGE, source.root, tmp_path / "copies")
    left = []
    for folder in copies:
        answers = folder / "answers.jsonl"
        left.append(answers.read_bytes() if answers.exists() else b"")
        assert left[-1] == whole or header.startswith(left[-1])
        merge_answers(Workspace(folder))
        assert answers.read_bytes() == whole
    assert whole in left and b"" in left and header in left, "struck before, at and after the rename"
