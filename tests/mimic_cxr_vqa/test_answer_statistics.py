"""Counts of answers by category: hand-computed, of a release's rows and of a build under way."""

import pyarrow as pa
from scripted_engine import ScriptedEngine, build

from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.answer_statistics import count_rows, count_workspace, format_statistics
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.schema import LABEL_CONFLICT

ROWS = [
    ("Edema", "No edema is seen.", []),
    ("Edema", "Yes.", [LABEL_CONFLICT]),
    ("Edema", "New edema, unchanged since.", ["prohibited:new", "prohibited:unchanged", "relative:since"]),
    ("Fracture", "No fracture is seen; none.", ["relative:known"]),
]


def test_rows_are_counted_by_category():
    table = pa.table(
        {
            "category": [row[0] for row in ROWS],
            "answer": [row[1] for row in ROWS],
            "provenance": [{"lint": row[2]} for row in ROWS],
        }
    )
    found = count_rows(table.to_batches(max_chunksize=3))
    edema, whole = found.categories["Edema"], found.categories["all"]
    assert (edema.answers, edema.words, edema.longest, edema.closed) == (3, 9, 4, 1)
    assert (edema.flagged, edema.contradicting) == (1, 1), "a warning is no broken rule, a conflict none either"
    assert edema.rules == {"prohibited:new": 1, "prohibited:unchanged": 1, "relative:since": 1}
    assert (whole.answers, whole.words, whole.longest, whole.flagged) == (4, 14, 5, 1)
    assert found.vocabulary == {"no", "edema", "is", "seen", "yes", "new", "unchanged", "since", "fracture", "none"}
    text = format_statistics(found)
    assert "distinct words: 10" in text and "prohibited:new 1 Edema" in " ".join(text.split())
    assert found.to_json()["categories"]["Fracture"]["words"] == 5
    without = count_rows([table.drop_columns(["provenance"])])
    assert without.categories["all"].flagged == 0 and without.categories["all"].answers == 4


def test_a_build_under_way_says_why_questions_have_no_answer(tmp_path):
    workspace = build(tmp_path / "cxr")

    def reply(request):
        number = request.study_id % 3
        if number == 0:
            return Reply(None, f"no JSON object in {40 + request.study_id % 7} characters")
        return "There is edema." if number == 1 else "No edema is seen."

    answer_questions(workspace, ScriptedEngine(reply), limit=5)
    found = count_workspace(workspace, Governance.OPEN)
    edema = found.categories["Edema"]
    failed = sum(edema.reasons.values())
    assert edema.answers + failed == 30 and list(edema.reasons) == ["no JSON object in ## characters"]
    assert failed in (6, 12) and edema.contradicting in (6, 12), "the label is negative: an edema contradicts it"
    assert found.categories["Fracture"].answers == 0
    assert "no JSON object in ## characters" in format_statistics(found)
