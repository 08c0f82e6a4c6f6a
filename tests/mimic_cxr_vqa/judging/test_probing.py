"""Planted errors: what each kind does to an answer, and judges that the probe has to see through."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import pair

from medvqa_core.governance import Governance
from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.judging.base import verdict_reply
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS
from mimic_cxr_vqa.judging.independence import find_dependence
from mimic_cxr_vqa.judging.injected_errors import ANOTHER, DROPPED, KINDS, NEGATED, NUMBER, SIDE, inject_error
from mimic_cxr_vqa.judging.probing import format_probe, inject_errors, measure_probe, probe_requests, rank_correlation
from mimic_cxr_vqa.judging.run_judge import judge_all
from mimic_cxr_vqa.judging.verdicts import open_verdicts

WORST = {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}


@pytest.mark.parametrize(
    "kind, answer, changed",
    [
        (NEGATED, "Yes, there is a small effusion.", "No, there is no small effusion."),
        (NEGATED, "No, there is no effusion.", "Yes, there is effusion."),
        (NEGATED, "No effusion is seen in the radiograph.", "Effusion is seen in the radiograph."),
        (NEGATED, "The image shows a small effusion.", "The image shows no small effusion."),
        (NEGATED, "Heart size is normal.", "Heart size is abnormal."),
        (NEGATED, "The lungs are clear.", "The lungs are not clear."),
        (NEGATED, "Sternotomy wires", None),
        (SIDE, "A left effusion and a Right mass.", "A right effusion and a Left mass."),
        (SIDE, "Small bilateral effusions are seen.", "Small left effusions are seen."),
        (SIDE, "No effusion is seen.", None),
        (NUMBER, "A 2.3 cm nodule.", "A 5.3 cm nodule."),
        (NUMBER, "Two rib fractures.", "Four rib fractures."),
        (NUMBER, "A nodule.", None),
        (DROPPED, "A right effusion is seen.", "A effusion is seen."),
        (DROPPED, "An effusion is seen. It is loculated.", "An effusion is seen."),
        (DROPPED, "An effusion is seen.", None),
    ],
)
def test_each_kind_by_hand(kind, answer, changed):
    assert inject_error(kind, "s1-x-1", answer) == changed


def test_another_study_s_answer_is_another_text():
    assert inject_error(ANOTHER, "s1", "No effusion.", ["no  effusion."]) is None
    assert inject_error(ANOTHER, "s1", "No effusion.", ["no effusion.", "An effusion."]) == "An effusion."


@given(st.sampled_from([kind for kind in KINDS if kind != ANOTHER]), st.text(max_size=60), st.text(max_size=5))
def test_what_is_planted_differs_and_is_the_same_every_time(kind, answer, pair_id):
    changed = inject_error(kind, pair_id, answer)
    assert changed == inject_error(kind, pair_id, answer)
    assert changed is None or changed.lower() != answer.lower()


@dataclass
class ScriptedJudge:
    """Says what `verdict_of(pair, reverse)` says; None is a failure."""

    verdict_of: object
    name: str = "scripted"
    settings: dict = field(default_factory=lambda: {"judge": "scripted"})
    endpoint: str | None = None
    in_flight: int = 2

    async def judge(self, pairs, reverse=False):
        verdicts = [self.verdict_of(pair, reverse) for pair in pairs]
        return [verdict_reply(v, {}) if v else Reply(None, "unreadable") for v in verdicts]


def material(studies=30):
    """Half of the studies have a small left effusion of 12 mm, half none; reports grow longer."""
    pairs = []
    for n in range(studies):
        there = n % 2
        first = "There is a small left pleural effusion of 12 mm." if there else "No pleural effusion."
        findings = first + " The upper abdomen is unremarkable." * n
        value = "positive" if there else "negative"
        pairs += [pair("", findings, question=q, study=95_000_001 + n, label_value=value) for q in (1, 2)]
    return pairs


def probe(judge, tmp_path, pairs=None):
    planted = inject_errors(pairs or material(), per_kind=20, seed=0)
    path = tmp_path / "judge" / judge.name / "probe.jsonl"
    judge_all(path, Governance.OPEN, judge, probe_requests(planted))
    with open_verdicts(path, Governance.OPEN) as store:
        return measure_probe(store, planted)


def test_a_judge_that_objects_to_everything_or_to_nothing_catches_nothing(tmp_path):
    for verdict, alarms in ((WORST, 1.0), (BEST, 0.0)):
        found = probe(ScriptedJudge(lambda pair, reverse, v=verdict: v, name=f"j{alarms}"), tmp_path)
        assert {row["rate"] for row in found["recall"].values()} == {0.0}
        assert all(row["planted"] == 20 for row in found["recall"].values())
        assert found["false_alarms"]["rate"] == alarms and found["order"]["same"] == 1.0


def test_a_judge_that_knows_catches_everything(tmp_path):
    pairs = material()
    right = {p.pair.request.qa_id: p.unaltered.answer for p in inject_errors(pairs, 20, 0)}
    found = probe(ScriptedJudge(lambda p, _: BEST if p.answer == right[p.id] else WORST), tmp_path, pairs)
    assert {row["rate"] for row in found["recall"].values()} == {1.0} and found["false_alarms"]["flagged"] == 0
    assert "negated" in format_probe(found)


def test_a_judge_that_takes_the_first_category_shows_in_the_order(tmp_path):
    found = probe(ScriptedJudge(lambda pair, reverse: WORST if reverse else BEST), tmp_path)
    assert found["order"]["same"] == 0.0 and set(found["order"]["changed_by_dimension"].values()) == {
        found["order"]["pairs"]
    }


def test_a_judge_that_goes_by_length_shows_in_the_correlation(tmp_path):
    found = probe(ScriptedJudge(lambda p, _: WORST if len(p.request.findings) > 500 else BEST), tmp_path)
    assert found["length"]["report"] < -0.8


def test_unreadable_replies_are_counted_apart(tmp_path):
    found = probe(ScriptedJudge(lambda pair, reverse: None), tmp_path)
    assert found["failed"] == found["requests"] and all(row["rate"] is None for row in found["recall"].values())
    assert "could not be read" in format_probe(found)


def test_rank_correlation_by_hand():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 2, 3], [1, 0, 0, -1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert rank_correlation([1, 1], [1, 2]) is None


@pytest.mark.parametrize(
    "writer, judge, warned",
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", True),
        ("llama3.1:8b", "qwen3:8b", False),
        ("Qwen/Qwen2.5-7B-Instruct", "QwQ-32B", True),
        ("epfl/meditron-7b", "llama3.1", True),
        ("tiny", "tiny", True),
        ("rules", "llama3", False),
        ("rules", "rules", True),
        ("llama3", "rules", False),
        ("google/medgemma-27b", "gemma-3-4b-it", True),
        ("playing-model", "yi-34b", False),
        ("gpt-oss-20b", "openai/gpt-oss-120b", True),
        ("microsoft/phi-4", "phi4:14b", True),
    ],
)
def test_kin_are_warned_of(writer, judge, warned):
    assert (find_dependence({"model": writer}, {"model": judge}) is not None) is warned
