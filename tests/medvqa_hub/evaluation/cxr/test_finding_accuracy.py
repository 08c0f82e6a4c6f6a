"""Finding accuracy: what an answer says, which rows count, and how near the references themselves come."""

import random
from collections import defaultdict

import pytest
from builds import build_release

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS, answer_polarity, score_findings
from mimic_cxr_vqa.release import open_release

SAID = {
    ("Yes", "Edema"): "positive",
    ("No.", "Edema"): "negative",
    ("yes , there is edema .", "Edema"): "positive",
    ("no , the lungs are clear .", "Edema"): "negative",
    ("No effusion is seen.", "Pleural Effusion"): "negative",
    ("No, no effusion is seen.", "Pleural Effusion"): "negative",
    ("Yes, a small effusion is seen.", "Pleural Effusion"): "positive",
    ("A small effusion is seen.", "Pleural Effusion"): "positive",
    ("There is no evidence.", "Edema"): "negative",
    ("None is seen.", "Fracture"): "negative",
    ("Yes, at the left base.", "Atelectasis"): "positive",
    ("The lungs are clear.", "Pneumonia"): "negative",
    ("Possibly", "Edema"): "uncertain",
    ("Possible pneumonia.", "Pneumonia"): "uncertain",
    ("Pneumothorax cannot be confirmed or excluded: a left pneumothorax is seen.", "Pneumothorax"): "uncertain",
    ("Yes, no effusion is seen.", "Pleural Effusion"): "undecided",
    ("No, a small effusion is seen.", "Pleural Effusion"): "undecided",
    ("", "Edema"): "undecided",
    ("the the the", "Edema"): "undecided",
    ("A rib fracture is seen.", "Edema"): "undecided",
    # No Finding is positive where nothing is wrong
    ("Yes, there is an effusion.", "No Finding"): "negative",
    ("No, no abnormality is seen.", "No Finding"): "positive",
    ("No findings.", "No Finding"): "positive",
    ("Yes", "No Finding"): "negative",
    ("The radiograph shows no abnormal findings", "No Finding"): "positive",
    ("The radiograph shows abnormal findings", "No Finding"): "negative",
    ("No pneumothorax or effusion.", "No Finding"): "positive",
    ("No, no abnormality is seen apart from support devices. A left pacemaker is seen.", "No Finding"): "positive",
    ("the heart", "No Finding"): "undecided",
}


@pytest.mark.parametrize(("answer", "category"), SAID, ids=str)
def test_what_an_answer_says(answer, category):
    assert answer_polarity(answer, category) == SAID[answer, category]


@pytest.mark.parametrize("category", ["Heart", "Cancer"])
def test_categories_without_a_polarity_are_refused(category):
    with pytest.raises(ConfigError, match=category):
        answer_polarity("Yes", category)


def rows_of(*pairs: tuple[str, str]) -> list[dict]:
    return [{"category": category, "label_value": label} for category, label in pairs]


def test_figures_of_a_small_set_by_hand():
    edema = [("Edema", "positive")] * 3 + [("Edema", "negative")]
    fracture = [("Fracture", "negative")] * 2
    unscored = [("Edema", "uncertain"), ("Fracture", "not_mentioned"), ("Heart", "positive")]
    answers = ["Yes", "Possibly", "la la", "No"] + ["Yes", None] + ["Yes", "No", "Yes"]
    found = score_findings(answers, rows_of(*edema, *fracture, *unscored))
    assert found["rows"] == 5 and found["failed"] == 1 and found["uncertain"] == 1 and found["undecided"] == 1
    assert found["accuracy"] == pytest.approx(2 / 5)  # "Yes" and "No" of Edema
    assert found["majority"] == pytest.approx((3 + 1) / 5)
    assert found["by_category"]["Edema"]["recall"] == {"positive": pytest.approx(1 / 3), "negative": 1.0}
    assert found["balanced_accuracy"] == pytest.approx((1 / 3 + 1) / 2)  # Fracture has one label only
    assert found["by_category"]["Fracture"]["balanced_accuracy"] is None
    assert found["spread"]["uncertain"]["positive"] == 1 and found["spread"]["not_mentioned"]["negative"] == 1
    assert "Heart" not in found["by_category"]


def test_nothing_to_score_is_none_and_not_zero():
    found = score_findings([None, "Yes"], rows_of(("Edema", "positive"), ("Heart", "positive")))
    assert found["accuracy"] is None and found["balanced_accuracy"] is None and found["majority"] is None
    assert found["rows"] == 0 and found["failed"] == 1


def test_saying_always_the_same_is_chance_when_balanced():
    rows = rows_of(*[("Edema", "positive")] * 9, ("Edema", "negative"))
    found = score_findings(["Yes"] * 10, rows)
    assert found["accuracy"] == 0.9 == found["majority"] and found["balanced_accuracy"] == 0.5


@pytest.mark.parametrize(
    ("answers", "rows", "message"),
    [
        (["Yes"], [], "1 answers for 0 rows"),
        (["Yes"], rows_of(("Edema", "1.0")), "label value '1.0'"),
        (["Yes"], rows_of(("Lungs", "positive")), "Lungs"),
    ],
)
def test_rows_that_do_not_fit_are_errors(answers, rows, message):
    with pytest.raises(InputError, match=message):
        score_findings(answers, rows)


@pytest.fixture(scope="module")
def phantom_rows(tmp_path_factory) -> list[dict]:
    build = build_release(tmp_path_factory.mktemp("ceiling"), studies=150, seed=3)
    columns = ["study_id", "category", "label_value", "question", "answer"]
    release = open_release(build.workspace.release)
    return [row for batch in release.iterate_all() for row in batch.select(columns).to_pylist()]


def test_references_agree_with_their_labels(phantom_rows):
    ceiling = score_findings([row["answer"] for row in phantom_rows], phantom_rows)
    assert ceiling["rows"] > 3000 and ceiling["accuracy"] >= 0.99 and ceiling["balanced_accuracy"] >= 0.99
    assert all(found["accuracy"] >= 0.97 for found in ceiling["by_category"].values()), ceiling["by_category"]
    assert ceiling["spread"]["uncertain"]["uncertain"] >= 0.9 * sum(ceiling["spread"]["uncertain"].values())


def test_answers_of_other_studies_are_chance(phantom_rows):
    """The negative control: an answer to the same question about another labelled study."""
    pool = defaultdict(list)
    for row in phantom_rows:
        if row["label_value"] in SCORED_LABELS:
            pool[row["question"]].append(row)
    rng = random.Random(0)
    pairs = []
    for row in phantom_rows:
        others = [other["answer"] for other in pool[row["question"]] if other["study_id"] != row["study_id"]]
        if others:
            pairs.append((rng.choice(others), row))
    found = score_findings([answer for answer, _ in pairs], [row for _, row in pairs])
    assert found["rows"] > 3000 and 0.42 < found["balanced_accuracy"] < 0.58
    assert found["accuracy"] <= found["majority"]
