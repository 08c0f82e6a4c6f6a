"""The memorisation check: counted by hand, and a model that copies against one that does not."""

import itertools
import random

import numpy as np
import pytest

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import Prediction, PredictionStore
from medvqa_hub.publishing.memorisation import Reports, check, check_predictions
from medvqa_hub.publishing.phrases import Phrases, longest_runs


def text(first: int, last: int) -> str:
    return " ".join(f"w{number}" for number in range(first, last))


def test_runs_counted_by_hand():
    """w0…w11 against a source with w2…w10 (9 words) and, elsewhere, w0…w7 (8)."""
    source = Phrases([f"x y {text(2, 11)} z", text(0, 8)])
    said = Phrases([text(0, 12), text(0, 7), "W0, w1 w2. W3-w4 w5/w6 w7!", text(2, 11) + " z"])
    assert longest_runs(said, source, 4).tolist() == [9, 0, 8, 10]


def test_a_run_does_not_go_on_in_the_next_report():
    said = [text(0, 12)]
    assert longest_runs(Phrases(said), Phrases([text(0, 6), text(6, 12)]), 1).tolist() == [0]
    assert longest_runs(Phrases([text(0, 6), text(6, 12)]), Phrases(said), 2).tolist() == [0, 0]


def test_runs_are_those_of_a_search_word_by_word():
    """Random words of a small vocabulary, so that there are many partial runs; the reference tries every substring."""
    draw = random.Random(0)
    made = [[draw.choice("ab") for _ in range(draw.randrange(0, 60))] for _ in range(40)]
    texts, sources = [" ".join(words) for words in made[:20]], [" ".join(words) for words in made[20:]]

    def reference(words: str) -> int:
        found = words.split()
        spans = itertools.combinations(range(len(found) + 1), 2)
        runs = [b - a for a, b in spans if b - a >= 8 and any(f" {' '.join(found[a:b])} " in f" {s} " for s in sources)]
        return max(runs, default=0)

    found = longest_runs(Phrases(texts), Phrases(sources), 20)
    assert found.tolist() == [reference(words) for words in texts]
    assert len(set(found.tolist())) > 3  # the case says something


def test_shares_counted_by_hand():
    """An answer of 11 words has 4 phrases. The first two stand in one training patient's report, the second of these
    also in a held-out one; the third stands in reports of two training patients; the fourth nowhere."""
    training = Reports([text(0, 9), "before " + text(2, 10), text(2, 10) + " after"], [1, 2, 3])
    held_out = Reports([text(1, 9) + " now"], [9])
    found = check([text(0, 11)], training, held_out)
    assert (found.answers, found.phrases, found.training_reports, found.held_out_reports) == (1, 4, 3, 1)
    assert (found.in_training, found.in_held_out, found.of_one_patient) == (0.75, 0.25, 0.25)
    assert (found.longest, found.longest_held_out) == ((9,), (8,))


def test_two_reports_of_a_patient_are_one_patient_s():
    training = Reports([text(0, 8), text(0, 8), text(50, 60)], [1, 1, 2])
    assert check([text(0, 8)], training, Reports([text(90, 99)], [3])).of_one_patient == 1.0


def _reports(number: int, seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(f"v{word}" for word in draw.integers(0, 10_000, 40)) for _ in range(number)]


def test_a_model_that_copies_is_seen_and_one_that_does_not_is_not():
    """What both sides have in common is everybody's; the difference is the model's memory."""
    common = text(0, 10)
    training = [f"{common} {report}" for report in _reports(60, 1)]
    held_out = [f"{common} {report}" for report in _reports(30, 2)]
    sides = Reports(training, range(60)), Reports(held_out, range(100, 130))
    copies = [" ".join(report.split()[5:40]) for report in training[:20]]
    fresh = [f"{common} {' '.join(words.split()[:20])}" for words in _reports(20, 3)]
    copying, honest = check(copies, *sides), check(fresh, *sides)
    assert copying.in_training == 1.0 and copying.of_one_patient > 0.9 and copying.longest == (35,) * 5
    assert copying.in_held_out < 0.02 and copying.in_training_at_equal_size > 10 * copying.in_held_out
    assert honest.of_one_patient == 0.0 and honest.longest == honest.longest_held_out == (10,) * 5
    assert honest.in_training == honest.in_training_at_equal_size == honest.in_held_out > 0


def test_training_reports_are_drawn_to_the_number_of_held_out_ones():
    """With ten times as many training reports everything is found there; the drawn tenth tells less."""
    training = Reports([text(100 * n, 100 * n + 8) for n in range(100)], range(100))
    found = check([text(100 * n, 100 * n + 8) for n in range(100)], training, Reports(["x " * 9] * 10, [1] * 10))
    assert (found.in_training, found.in_training_at_equal_size) == (1.0, 0.1)


@pytest.mark.parametrize(
    ("answers", "training", "held_out"),
    [([], ["a"], ["b"]), (["a short answer"], ["a"], ["b"]), ([text(0, 9)], [], ["b"]), ([text(0, 9)], ["a"], [])],
)
def test_where_nothing_can_be_compared_nothing_is_said(answers, training, held_out):
    with pytest.raises(InputError, match="evaluate cxr"):
        check(answers, Reports(training, [1] * len(training)), Reports(held_out, [2] * len(held_out)))


def test_predictions_of_a_workspace(tmp_path, built):
    """Copies of training findings are found; the studies that were asked about are not held out."""
    from mimic_cxr_vqa.parquet_files import read_table

    rows = read_table(built.workspace.questions / "studies.parquet").to_pylist()
    trained = [row for row in rows if row["split"] == "train" and row["findings"]]
    asked = next(row for row in rows if row["split"] == "test")
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, Governance.OPEN, {"model": "f" * 32}) as store:
        for number, row in enumerate(trained[:3]):
            id = f"s{asked['study_id']}-edema-{number + 1}"
            store.append(
                [Prediction(store.key(n=number), id, row["findings"]), Prediction(store.key(m=number), id, None, "no")]
            )
    found = check_predictions(path, built.workspace.root, "f" * 32, Governance.OPEN)
    assert found.in_training == 1.0 and max(found.longest) > 8
    assert found.training_reports == sum(row["split"] == "train" for row in rows)
    assert found.held_out_reports == sum(row["split"] != "train" for row in rows) - 1
    assert (found.asked, found.cut) == (6, 0)
    with pytest.raises(InputError, match="another model"):
        check_predictions(path, built.workspace.root, "0" * 32, Governance.OPEN)


def test_most_questions_have_to_be_answered(tmp_path, built):
    """Failures say nothing: a run that failed nearly everywhere shows no memory."""
    path = tmp_path / "predictions.jsonl"
    with PredictionStore(path, Governance.OPEN, {"model": "f" * 32}) as store:
        store.append([Prediction(store.key(n=0), "s1-edema-1", text(0, 20), details={"truncated": True})])
        store.append([Prediction(store.key(n=n), f"s1-edema-{n}", None, "no room") for n in range(1, 4)])
    with pytest.raises(InputError, match="1 of 4 .*--retry-failed"):
        check_predictions(path, built.workspace.root, "f" * 32, Governance.OPEN)
