"""The second pass over hard questions: which they are, how losses are measured, and that the pass goes on."""

import json

import numpy as np
import pytest
import torch
from builds import build_release
from scst_models import MODELS, make
from training_runs import fast_recipe, recipe, study_rows

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_hub.families.registry import image_inputs
from medvqa_hub.training import checkpoints, hard_negatives
from medvqa_hub.training.hard_negatives import question_losses, second_pass_recipe, select_by_loss
from medvqa_hub.training.run import train
from medvqa_hub.training.study_questions import StudyQuestions

SECOND_PASS = {
    "training__hard_negatives": True, "training__scheduler": "constant", "training__max_steps": 2,
    "data__train_studies": 4, "data__questions_per_study": 8,
}  # fmt: skip


def test_chosen_are_those_within_half_a_standard_deviation_of_the_mean():
    # mean 3, standard deviation 2: from 2 to 4, limits included
    losses = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 5.0, "e": 0.0, "f": 6.0}
    values = np.array(list(losses.values()))
    assert values.mean() == 3.0
    low, high = 3 - values.std() / 2, 3 + values.std() / 2
    assert select_by_loss(losses) == {name for name, loss in losses.items() if low <= loss <= high} == {"b", "c"}
    assert select_by_loss({"a": 2.0, "b": 2.0}) == {"a", "b"}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("at_once", [1, 2, 3, 50])
def test_losses_are_the_models_own_one_by_one_however_many_go_together(name, at_once):
    model, processor, batch = make(name)
    batch.pop("rows")
    expected = []
    for row in range(3):
        alone = {key: value if key in image_inputs(batch) else value[[row]] for key, value in batch.items()}
        expected.append(model(**alone).loss.item())
    assert question_losses(model, batch, at_once) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_made_of_the_answers_alone_and_of_few_questions_at_once(name):
    model, processor, batch = make(name)
    batch.pop("rows")
    made = []
    hook = model.get_output_embeddings().register_forward_hook(lambda *args: made.append(args[2].shape))
    question_losses(model, batch, 2)
    hook.remove()
    assert sorted(shape[0] for shape in made) == [1, 2]
    longest = int((batch["labels"] != -100).sum(1).max())
    assert max(shape[1] for shape in made) <= longest < batch["labels"].shape[1] + (name != "swin_ved")


def test_running_out_of_memory_is_one_line(build, tmp_path, monkeypatch):
    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(hard_negatives, "question_losses", full)
    settings = fast_recipe(**SECOND_PASS)
    with pytest.raises(ConfigError, match="memory.*training.studies_per_batch"):
        train(settings, build.workspace.root, tmp_path / "out", build.tree)


def test_the_second_pass_goes_on_with_optimizer_and_rate(build, tmp_path, monkeypatch):
    """The rate that a plateau had lowered stays low, and the moments are not those of a new optimizer."""
    from medvqa_hub.training.trainer import SupervisedTrainer

    seen = []
    real = SupervisedTrainer.training_step

    def watched(self, *args):
        groups = self.optimizer.param_groups
        moments = [int(state["step"]) for state in self.optimizer.state.values()]
        seen.append((self.out.name, self.state.global_step, groups[0]["lr"], max(moments, default=0)))
        return real(self, *args)

    monkeypatch.setattr(SupervisedTrainer, "training_step", watched)
    plateau = {"patience": 0, "factor": 0.5, "threshold": 0.9}
    arguments = {f"training__scheduler_arguments.{name}": value for name, value in plateau.items()}
    settings = fast_recipe(
        **{
            **SECOND_PASS,
            "training__scheduler": "plateau",
            "training__max_steps": 3,
            "selection__every": 1,
            **arguments,
        }
    )
    train(settings, build.workspace.root, tmp_path / "out", build.tree)
    first = [entry for entry in seen if entry[0] == "out"]
    second = [entry for entry in seen if entry[0] == checkpoints.SECOND_PASS]
    assert first[0][2] > first[-1][2]
    assert second[0][1:] == (0, first[-1][2] / 2, 3)  # lowered once more after the last step; three steps' moments


def test_a_schedule_that_ends_at_zero_is_refused():
    with pytest.raises(ConfigError, match="cosine.*plateau or constant"):
        fast_recipe(training__hard_negatives=True)


def test_the_pass_is_long_enough_to_show_each_question_once():
    questions = StudyQuestions(study_rows([2, 4, 4, 2]), "split train")
    changed = second_pass_recipe(recipe(training={"studies_per_step": 2, "studies_per_batch": 2}), questions)
    assert changed.training.max_steps == 3  # 12 questions, two studies x two questions a step
    assert not changed.training.hard_negatives


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=10)


def test_a_pass_that_stops_goes_on_and_measures_nothing_twice(build, tmp_path, monkeypatch):
    settings = fast_recipe(**SECOND_PASS)
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
    out = train(settings, build.workspace.root, tmp_path / "out", build.tree, log=said.append)
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

    assert not checkpoints.promote_if_better(tmp_path / "third", tmp_path / "first", False, Governance.OPEN)
    assert content() == "first"
    assert checkpoints.promote_if_better(tmp_path / "second", tmp_path / "first", False, Governance.OPEN)
    assert content() == "second"
    assert checkpoints.promote_if_better(tmp_path / "third", tmp_path / "first", True, Governance.OPEN)
    assert content() == "third"


def test_a_run_that_starts_anew_forgets_the_second_pass_of_another(tmp_path):
    (tmp_path / checkpoints.SECOND_PASS / "checkpoint-000001").mkdir(parents=True)
    checkpoints.restore_best(tmp_path, keep=True)
    assert (tmp_path / checkpoints.SECOND_PASS).exists()
    checkpoints.restore_best(tmp_path, keep=False)
    assert not (tmp_path / checkpoints.SECOND_PASS).exists()
