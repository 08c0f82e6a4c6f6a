"""The metric cxr_findings: values by hand, and wrong texts that it ranks below right ones."""

import pytest

from medvqa_core.errors import InputError
from medvqa_hub.training.rewards import make_reward
from mimic_cxr_vqa import cxr_findings
from mimic_cxr_vqa.cxr_findings import compare_findings, score_findings

REFERENCE = "Small left pleural effusion. No pneumothorax. The heart is moderately enlarged."


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (REFERENCE, 1.0),
        ("Moderate cardiomegaly. A small effusion is seen on the left.", 1.0),
        ("Moderate cardiomegaly.", 2 / (2 + 1)),  # an omitted finding
        ("Moderate cardiomegaly. Small right pleural effusion.", 4 / (4 + 1)),  # the opposite side
        ("Moderate cardiomegaly. Small bilateral pleural effusions.", 4 / (4 + 0.5)),
        ("Moderate cardiomegaly. Large left pleural effusion.", 4 / (4 + 0.5)),
        ("Moderate cardiomegaly. Possible small left pleural effusion.", 4 / (4 + 0.25)),
        ("Moderate cardiomegaly. New small left pleural effusion.", 4 / (4 + 0.25)),
        ("Moderate cardiomegaly. Small left pleural effusion. Left pneumothorax.", 4 / (4 + 2)),  # an invented one
        ("Moderate cardiomegaly. No pleural effusion.", 2 / (2 + 1)),  # wrong polarity
        ("The chest is normal.", 0.0),
    ],
)
def test_values_by_hand(text: str, score: float) -> None:
    assert score_findings(text, REFERENCE) == pytest.approx(score)


def test_serious_errors_cost_more_than_slight_ones() -> None:
    reference = "Small right apical pneumothorax. Mild left basilar atelectasis."
    texts = [
        reference,
        "Right apical pneumothorax, small. Left basilar atelectasis is mild and new.",
        "Large right apical pneumothorax. Mild left basilar atelectasis.",
        "Small left apical pneumothorax. Mild left basilar atelectasis.",
        "No pneumothorax. Mild left basilar atelectasis.",
        "No pneumothorax. Lungs are clear.",
    ]
    scores = [score_findings(text, reference) for text in texts]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == len(scores)


def test_texts_without_findings_agree() -> None:
    assert score_findings("Lungs are clear. No effusion.", "Normal chest radiograph.") == 1.0
    assert compare_findings("Right effusion.", "Normal chest radiograph.").false == 1.0


def test_the_module_returns_samples_and_errors() -> None:
    found = cxr_findings.load().compute(
        predictions=["Left effusion.", "Right effusion.", "x"], references=["Left effusion."] * 2 + [" "], samples=True
    )
    assert found["samples"] == [1.0, pytest.approx(2 / 3), None]
    assert found["cxr_findings"] == pytest.approx(5 / 6) and found["unscorable"] == 1
    assert found["errors"][1]["side"] == 1.0
    with pytest.raises(InputError):
        cxr_findings.cxr_findings_scores(["a"], ["a", "b"])


def test_the_reward_scores_completions_against_answers() -> None:
    reward = make_reward("cxr_findings")
    values = reward(["Left effusion.", "No effusion."], answer=["Left effusion."] * 2)
    assert values == [1.0, 0.0]
