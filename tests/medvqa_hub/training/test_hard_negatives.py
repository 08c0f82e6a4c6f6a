"""The second pass over hard questions: which they are, how losses are measured, and that the pass goes on."""

import json

import numpy as np
import pytest
import torch
from builds import build_release
from training_runs import fast_recipe, recipe, study_rows

from medvqa_core.governance import Governance
from medvqa_hub.training import checkpoints, hard_negatives
from medvqa_hub.training.hard_negatives import near_mean, question_losses, second_pass_recipe
from medvqa_hub.training.run import train
from medvqa_hub.training.study_batches import StudyQuestions


def test_chosen_are_those_within_half_a_standard_deviation_of_the_mean():
    # mean 3, standard deviation 2: from 2 to 4, limits included
    losses = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 5.0, "e": 0.0, "f": 6.0}
    values = np.array(list(losses.values()))
    assert values.mean() == 3.0
    low, high = 3 - values.std() / 2, 3 + values.std() / 2
    assert near_mean(losses) == {name for name, loss in losses.items() if low <= loss <= high} == {"b", "c"}
    assert near_mean({"a": 2.0, "b": 2.0}) == {"a", "b"}


def test_loss_of_each_question_by_hand():
    logits = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [[0.0, 3.0], [0.0, 0.0], [0.0, 0.0]]])
    labels = torch.tensor([[-100, 0, 0], [1, -100, -100]])
    log2, likely = np.log(2), -np.log(np.e / (np.e + 1))
    found = question_losses(logits, labels, shifted=False)
    assert found.tolist() == pytest.approx([(likely + log2) / 2, -np.log(np.exp(3) / (np.exp(3) + 1))], abs=1e-6)
    shifted = question_losses(logits[:1], labels[:1], shifted=True)
    assert shifted.tolist() == pytest.approx([(log2 + likely) / 2], abs=1e-6)


def test_the_pass_is_long_enough_to_show_each_question_once():
    questions = StudyQuestions(study_rows([2, 4, 4, 2]), "split train")
    changed = second_pass_recipe(recipe(training={"studies_per_step": 2, "studies_per_batch": 2}), questions)
    assert changed.training.max_steps == 3  # 12 questions, two studies x two questions a step
    assert not changed.training.hard_negatives


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=10)


def test_a_pass_that_stops_goes_on_and_measures_nothing_twice(build, tmp_path, monkeypatch):
    settings = fast_recipe(
        training__hard_negatives=True, training__max_steps=2, data__train_studies=4, data__questions_per_study=8
    )
    real, calls = hard_negatives.question_losses, []

    def counted(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(hard_negatives, "question_losses", counted)
    with pytest.raises(KeyboardInterrupt):
        train(settings, build.workspace.root, tmp_path / "out", build.tree)
    assert not (tmp_path / "out" / "finished.json").exists()
    said = []
    out = train(settings, build.workspace.root, tmp_path / "out", build.tree, say=said.append)
    assert len(calls) == 3  # two batches of two studies, the first measured once
    counts = [line for line in said if line.startswith("second pass over")]
    assert len(counts) == 1
    folder = out / checkpoints.SECOND_PASS
    step, _ = checkpoints.complete_checkpoints(folder)[-1]
    assert step >= 1
    first, second = (json.loads((place / "best" / "manifest.json").read_text()) for place in (out, folder))
    assert first["value"] <= second["value"] or first["value"] == second["value"]
    assert (out / "finished.json").exists()


def test_the_better_of_both_is_kept(tmp_path):
    for number, (name, value) in enumerate({"first": 2.0, "second": 1.0, "third": 3.0}.items()):
        place = tmp_path / name / "best"
        with checkpoints.writing_folder(
            place, checkpoints.BEST, Governance.OPEN, "recipe", {"step": number, "metric": "loss", "value": value}
        ) as folder:
            (folder / "config.json").write_text(name)

    def content() -> str:
        return (tmp_path / "first" / "best" / "config.json").read_text()

    assert not checkpoints.take_better(tmp_path / "third", tmp_path / "first", False, Governance.OPEN)
    assert content() == "first"
    assert checkpoints.take_better(tmp_path / "second", tmp_path / "first", False, Governance.OPEN)
    assert content() == "second"
    assert checkpoints.take_better(tmp_path / "third", tmp_path / "first", True, Governance.OPEN)
    assert content() == "third"


def test_a_run_that_starts_anew_forgets_the_second_pass_of_another(tmp_path):
    (tmp_path / checkpoints.SECOND_PASS / "checkpoint-000001").mkdir(parents=True)
    checkpoints.settle_best(tmp_path, keep=True)
    assert (tmp_path / checkpoints.SECOND_PASS).exists()
    checkpoints.settle_best(tmp_path, keep=False)
    assert not (tmp_path / checkpoints.SECOND_PASS).exists()
