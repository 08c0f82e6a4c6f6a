"""The judge without a model: each check by hand, and what it must not object to."""

from pathlib import Path

import pytest
from builds import build_release
from pairs import pair

from medvqa_core.governance import Governance
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS, find_problems
from mimic_cxr_vqa.judging.pairs import iterate_pairs
from mimic_cxr_vqa.judging.probing import inject_errors, measure_probe, probe_requests
from mimic_cxr_vqa.judging.rule_judge import COSTS, RuleJudge, judge_by_rules
from mimic_cxr_vqa.judging.run_judge import judge_all
from mimic_cxr_vqa.judging.verdicts import open_verdicts
from mimic_cxr_vqa.schema import CATEGORIES, HEART

EFFUSION = "There is a small left pleural effusion. The heart is not enlarged. No pneumothorax."
HEARTS = "The heart is normal in size. There is a small left pleural effusion."


@pytest.mark.parametrize(
    "answer, findings, category, reasons",
    [
        ("Yes, there is a small left pleural effusion.", EFFUSION, "Pleural Effusion", []),
        ("There is a small pleural effusion on the left.", EFFUSION, "Pleural Effusion", []),
        ("No pleural effusion is seen.", EFFUSION, "Pleural Effusion", ["polarity"]),
        ("No, there is a small left pleural effusion.", EFFUSION, "Pleural Effusion", ["polarity"]),
        ("Yes, a pneumothorax is seen.", EFFUSION, "Pneumothorax", ["polarity"]),
        ("No pneumonia is seen.", EFFUSION, "Pneumonia", []),  # silent: absent (paper, Section 3.1)
        ("Yes, pneumonia is seen.", EFFUSION, "Pneumonia", ["polarity"]),
        ("A small right pleural effusion is seen.", EFFUSION, "Pleural Effusion", ["side", "missing"]),
        ("A pleural effusion is seen on the left.", EFFUSION, "Pleural Effusion", ["missing"]),
        ("A small left pleural effusion of 3 cm is seen.", EFFUSION, "Pleural Effusion", ["number"]),
        ("A large left pleural effusion is seen.", EFFUSION, "Pleural Effusion", ["degree", "missing"]),
        ("A small left pleural effusion is seen, unchanged.", EFFUSION, "Pleural Effusion", ["change"]),
        ("A small left pleural effusion is possible.", EFFUSION, "Pleural Effusion", ["certainty"]),
        ("The image is of good quality.", EFFUSION, "Pleural Effusion", ["silent", "missing"]),
        ("A small left pleural effusion and edema are seen.", EFFUSION, "Pleural Effusion", ["ground"]),
        ("No abnormality is seen.", EFFUSION, "No Finding", ["polarity"]),
        ("Yes, there is a small left pleural effusion.", EFFUSION, "No Finding", []),
        ("Yes, the heart is normal in size.", HEARTS, HEART, []),
        ("No, the heart is enlarged.", HEARTS, HEART, ["polarity"]),
        ("Pneumonia is seen.", "Possible pneumonia.", "Pneumonia", ["certainty"]),
        ("No pneumonia is seen.", "Possible pneumonia.", "Pneumonia", ["polarity"]),
        (
            "Bilateral pleural effusions are seen.",
            "Small bilateral pleural effusions.",
            "Pleural Effusion",
            ["missing"],
        ),
        ("There is a small left effusion.", "Small bilateral effusions.", "Pleural Effusion", ["missing"]),
        # other words for the same place, number or device
        ("Atelectasis at both lung bases is seen.", "Bibasilar atelectasis.", "Atelectasis", []),
        ("Atelectasis at the left base is seen.", "Bibasilar atelectasis.", "Atelectasis", ["missing"]),
        ("A fracture of the left 6th rib is seen.", "A fracture of the left sixth rib.", "Fracture", []),
        (
            "A fracture of the left 8th rib is seen.",
            "A fracture of the left sixth rib.",
            "Fracture",
            ["number", "missing"],
        ),
        ("An ET tube is seen.", "Endotracheal tube in place.", "Support Devices", []),
        ("Calcified pleural thickening is seen.", "Pleural thickening.", "Pleural Other", ["degree"]),
    ],
)
def test_each_check_by_hand(answer, findings, category, reasons):
    verdict, found = judge_by_rules(pair(answer, findings, category))
    assert found == reasons
    assert (verdict == BEST) == (not reasons)


def test_a_wrong_polarity_costs_everything_and_a_missing_detail_completeness_alone():
    wrong, _ = judge_by_rules(pair("No pleural effusion is seen.", EFFUSION))
    assert wrong == {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}
    thin, _ = judge_by_rules(pair("A pleural effusion is seen on the left.", EFFUSION))
    assert thin == BEST | {"completeness": "Partially Complete"}


def test_costs_are_categories_of_their_dimensions():
    assert all(not find_problems(BEST | cost) for cost in COSTS.values())


def test_what_the_impression_alone_affirms_may_be_said():
    assert (
        judge_by_rules(pair("A pleural effusion is possible.", "Clear lungs.", impression="Pleural effusion."))[1] == []
    )


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("text", ["", ".", "Yes", "no,", "left left 3", "XXXX ___", "a" * 3000])
def test_any_answer_to_any_question_gets_a_whole_verdict(category, text):
    verdict, _ = judge_by_rules(pair(text, "Small left effusion; 2.3 cm nodule.", category))
    assert not find_problems(verdict)


def probe(pairs, tmp_path, per_kind):
    planted = inject_errors(pairs, per_kind, seed=0)
    path = tmp_path / "judge" / "rules" / "probe.jsonl"
    judge_all(path, Governance.OPEN, RuleJudge(), probe_requests(planted))
    with open_verdicts(path, Governance.OPEN) as store:
        return measure_probe(store, planted)


def test_planted_errors_are_noticed_on_drawn_reports(tmp_path):
    """Every kind of injected error is caught at a rate of at least 0.9 on synthetic reports."""
    build = build_release(tmp_path, studies=40, seed=7)
    found = probe([pair for study in iterate_pairs(build.workspace) for pair in study], tmp_path, per_kind=40)
    assert all(row["rate"] >= 0.9 for row in found["recall"].values()), found["recall"]
    assert found["false_alarms"]["rate"] <= 0.03 and found["failed"] == 0


def test_right_answers_in_other_words_are_rarely_objected_to() -> None:
    """The odd lines were used for development: 0 of 20 objections there, 2 of 20 on the even lines."""
    lines = Path(__file__).with_name("free_answers.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    objected = [bool(judge_by_rules(pair(answer, findings, category))[1]) for category, findings, answer in rows]
    assert sum(objected[::2]) == 0 and sum(objected[1::2]) <= 2


def test_paraphrases_pass_and_their_wrong_versions_do_not() -> None:
    """The odd lines were used for development: 0 of 20 objections there, 1 of 20 on the even lines."""
    lines = Path(__file__).with_name("paraphrases.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    objected = [bool(judge_by_rules(pair(right, findings, category))[1]) for category, findings, right, _ in rows]
    noticed = [bool(judge_by_rules(pair(wrong, findings, category))[1]) for category, findings, _, wrong in rows]
    assert sum(objected[::2]) == 0 and sum(objected[1::2]) <= 1
    assert all(noticed)
