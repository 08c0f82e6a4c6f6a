"""What is noted against an answer: conflict with its label, words of comparison; and what leaves such rows out."""

import pyarrow as pa
import pytest

from medvqa_hub.evaluation.cxr.finding_accuracy import score_findings, without_conflicts
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.generation.lint import find_flags
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.schema import LABEL_CONFLICT
from mimic_cxr_vqa.sources.openi import PROJECTIONS, REPORTS, read_studies
from mimic_cxr_vqa.sources.registry import SourceOptions
from mimic_cxr_vqa.study_rows import group_by_study
from mimic_cxr_vqa.workspace import Workspace


@pytest.mark.parametrize(
    ("answer", "category", "label", "conflict"),
    [
        ("No, there is no edema.", "Edema", "positive", True),
        ("Yes, there is edema.", "Edema", "negative", True),
        ("Yes, there is edema.", "Edema", "positive", False),
        ("Edema is possible.", "Edema", "positive", False),
        ("No, there is no edema.", "Edema", "uncertain", False),
        ("Yes, there is edema.", "Edema", "not_mentioned", False),
        ("Yes, there is scoliosis.", "No Finding", "positive", True),
        ("No, the radiograph shows no abnormal findings.", "No Finding", "positive", False),
        ("No, the heart is enlarged.", "Heart", "positive", False),
    ],
)
def test_an_answer_that_says_the_opposite_of_its_label_is_flagged(answer, category, label, conflict):
    assert (LABEL_CONFLICT in find_flags(answer, category, label)) == conflict


def build(folder, findings, impression, mesh, labels="text", **how):
    row = f'1,{mesh},,,,,"{findings}","{impression}"\n'
    (folder / REPORTS).write_text("uid,MeSH,Problems,image,indication,comparison,findings,impression\n" + row)
    (folder / PROJECTIONS).write_text("uid,filename,projection\n1,a.png,Frontal\n")
    workspace = Workspace(folder / "out")
    write_questions(read_studies(folder, SourceOptions(labels=labels)), workspace, 0)
    answer_questions(workspace, ExtractiveEngine(), **how)
    manifest = write_release(workspace)
    return manifest, pa.Table.from_batches(open_release(workspace.root).iterate_all())


def test_conflicts_are_counted_in_the_manifest_and_seen_in_both_configurations(tmp_path):
    manifest, rows = build(tmp_path, "There is no pleural effusion. Nodule.", "", "Pleural Effusion", "mesh")
    flagged = {row["qa_id"] for row in rows.to_pylist() if LABEL_CONFLICT in row["provenance"]["lint"]}
    assert flagged == {f"s1-pleural_effusion-{number}" for number in range(1, 7)}
    assert manifest["counts"]["label_conflicts"] == 6 and manifest["counts"]["flagged"] == 0
    (study,) = group_by_study(rows, None).to_pylist()
    assert {q["qa_id"] for q in study["questions"] if q[LABEL_CONFLICT]} == flagged


def test_a_positive_of_the_impression_alone_is_not_denied_and_both_sections_affirm_it(tmp_path):
    for folder, how, said in (("a", {}, "possible"), ("b", {"answer_from": "findings+impression"}, "Yes, ")):
        (tmp_path / folder).mkdir()
        _, rows = build(tmp_path / folder, "Right opacity.", "There is pneumonia.", "", **how)
        answers = [r["answer"] for r in rows.to_pylist() if r["qa_id"] == "s1-pneumonia-1"]
        assert len(answers) == 1 and said in answers[0], answers


def test_finding_accuracy_can_leave_conflicts_out():
    row = {"category": "Edema", "label_value": "positive"}
    rows = [row, row | {LABEL_CONFLICT: True}]
    answers = ["Yes, there is edema.", "No, there is no edema."]
    assert score_findings(answers, rows)["accuracy"] == 0.5
    assert score_findings(*without_conflicts(answers, rows))["accuracy"] == 1.0
