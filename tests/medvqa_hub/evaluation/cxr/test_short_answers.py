"""Closed and open answers as right or wrong, by hand; each line of WRONG is what a careless rule would let pass."""

import pytest

from medvqa_hub.evaluation.cxr.short_answers import chosen_option, is_exact, is_right, score_short, word_recall

OPTIONS = {"A": "Effusion", "B": "Left pleural effusion", "C": "No abnormality", "D": "Both A and C"}


def closed(answer, question="Is there edema?"):
    return {"question": question, "answer": answer, "answer_type": "closed", "category": "x"}


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("Yes.", closed("yes")),
        ("yes, mild edema is seen; no effusion", closed("Yes")),
        ("No, there is none.", closed("no")),
        ("X-ray", closed("X Ray")),
        ("This is an axial image", closed("axial", "Is this axial or sagittal?")),
        ("on the left", closed("Left", "Is it on the left or right?")),
        ("CT (computed tomography)", closed("CT")),
    ],
)
def test_right(said, row):
    assert is_right(said, row)


WRONG = [
    ("The lungs are normal.", closed("no"), "a 'no' inside 'normal' or 'not'"),
    ("Nodule", closed("no"), "a 'no' at the start of a word"),
    ("axial or sagittal", closed("axial", "Is this axial or sagittal?"), "both sides named"),
    ("No, yes", closed("yes"), "the second word"),
    ("", closed("no"), "nothing said"),
    ("left-sided", closed("right"), "the other side"),
    ("maybe", closed("yes"), "neither"),
]


@pytest.mark.parametrize(("said", "row", "why"), WRONG, ids=[why for _, _, why in WRONG])
def test_wrong(said, row, why):
    assert not is_right(said, row)


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        ("B", "B"), ("b.", "B"), ("(B) Left pleural effusion", "B"), ("The answer is B.", "B"), ("Answer: **B**", "B"),
        ("Left pleural effusion", "B"), ("There is a left pleural effusion.", "B"), ("Effusion", "A"),
        ("No abnormality is seen", "C"), ("A left pleural effusion", "B"),
        ("The answer is B or the answer is C", None), ("I cannot tell", None), ("", None), ("E", None),
        ("Left pleural effusion, no abnormality", None),
    ],
)  # fmt: skip
def test_options(said, letter):
    assert chosen_option(said, OPTIONS) == letter


def test_recall_and_exact_by_hand():
    assert word_recall("in the left lower lobe", "left lower lobe opacity") == 3 / 4
    assert word_recall("left", "left left") == 1 / 2  # each as often as it stands there
    assert is_exact("The Lungs (both)!", closed("the lungs")) and not is_exact("yes, it is", closed("yes"))


def test_a_summary_by_hand():
    rows = [closed("yes"), closed("no"), {**closed("left lobe"), "answer_type": "open", "category": "y"}, closed("no")]
    found = score_short(["Yes", "Yes it is", "the left one", None], rows)
    assert found["closed_accuracy"] == 0.5 and found["open_recall"] == 0.5 and found["exact"] == pytest.approx(1 / 3)
    assert (found["rows"], found["failed"]) == (3, 1)
    assert found["by_category"]["x"]["accuracy"] == 0.5 and found["by_category"]["y"]["accuracy"] == 0.0
