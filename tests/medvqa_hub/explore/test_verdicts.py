"""Judges' verdicts beside the answers: those of the very texts, none for an answer that was written again."""

import json
import shutil

import pytest
from builds import build_release

from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import PredictionStore
from medvqa_hub.cli import run
from medvqa_hub.explore.opening import open_folders
from medvqa_hub.explore.row_filters import RowFilter
from medvqa_hub.explore.verdicts import CHOICES, FAILED, FAULTED, FAULTLESS
from mimic_cxr_vqa.judging.dimensions import BEST
from mimic_cxr_vqa.judging.pairs import iterate_pairs
from mimic_cxr_vqa.judging.verdicts import VERDICTS, JudgeRequest, request_key


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Judged by rules; of the first three answers one verdict is made bad, one has failed, one is of another answer."""
    build = build_release(tmp_path_factory.mktemp("judged"), studies=12)
    assert run(["cxr", "judge", "--out", str(build.workspace.root), "--sample-reports", "8"]) == 0
    (file,) = build.workspace.judge.glob(f"*/{VERDICTS}")
    lines = file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines[1:]]
    records[0]["answer"] = json.dumps({**BEST, "correctness": "Incorrect"})
    records[1] |= {"answer": None, "error": "cut off"}
    with PredictionStore(file, Governance.OPEN, read_only=True) as store:
        pairs = {pair.id: pair for study in iterate_pairs(build.workspace) for pair in study}
        pair = pairs[records[2]["qa_id" if "qa_id" in records[2] else "id"]]
        other = type(pair)(pair.request, pair.answer + " So it was.", pair.label_value, pair.images)
        records[2]["key"] = request_key(store, JudgeRequest(other))
    made = [{"key": record["key"], **{n: v for n, v in record.items() if n != "key"}} for record in records]
    text = "\n".join([lines[0], *(json.dumps(record, ensure_ascii=False) for record in made)]) + "\n"
    file.write_text(text, encoding="utf-8")
    return build, made


def shown(view, qa_id):
    """A question as the page shows it."""
    study = int(qa_id.split("-")[0][1:])
    return next(question for question in view.study(study, RowFilter())["questions"] if question["qa_id"] == qa_id)


def test_a_verdict_is_shown_with_the_text_that_it_was_given_on(build):
    folder, records = build
    view = open_folders([folder.workspace.root]).studies
    faulted, failed, of_another, *others = records
    assert shown(view, faulted["id"])["judged"][0]["faults"] == ["Correctness: Incorrect"]
    assert shown(view, failed["id"])["judged"] == [{"judge": "rules", "faults": [], "error": "cut off"}]
    assert shown(view, of_another["id"])["judged"] == []  # never the verdict on an answer that is not there any more
    for record in others[:20]:
        (judged,) = shown(view, record["id"])["judged"]
        wrong = [category for name, category in json.loads(record["answer"]).items() if category != BEST[name]]
        assert [fault.split(": ")[1] for fault in judged["faults"]] == wrong


def test_rows_are_found_by_what_a_judge_says(build):
    folder, records = build
    view = open_folders([folder.workspace.root]).studies

    def found(verdict):
        studies, at = [], 0
        while at is not None:  # a page gives up after a tenth of a second, and says where to go on
            page = view.page(RowFilter(verdict=verdict), at)
            studies, at = [*studies, *page["studies"]], page["next"]
        return {
            question["qa_id"]
            for line in studies
            for question in view.study(line["study_id"], RowFilter(verdict=verdict))["questions"]
            if question["wanted"]
        }

    sound = [record for number, record in enumerate(records) if number != 2 and record["answer"] is not None]
    faulted = {record["id"] for record in sound if json.loads(record["answer"]) != BEST}
    assert found(FAULTED) == faulted and records[0]["id"] in faulted
    assert found(FAULTLESS) == {record["id"] for record in sound} - faulted
    assert found(FAILED) == {records[1]["id"]}
    assert records[0]["id"] in found("correctness:Incorrect") and "correctness:Incorrect" in CHOICES


def test_without_judges_nothing_is_found_and_nothing_shown(build, tmp_path):
    folder, _ = build
    shutil.copytree(folder.workspace.release, tmp_path / "alone" / "release")
    view = open_folders([tmp_path / "alone"]).studies
    assert view.describe()["judges"] == [] and view.page(RowFilter(verdict=FAULTED))["studies"] == []
