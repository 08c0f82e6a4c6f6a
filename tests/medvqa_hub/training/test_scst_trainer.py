"""SCSTTrainer: rewards climb, splitting a step changes nothing, a run goes on as if it had not stopped."""

import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
from paths import HELPERS
from scst_runs import ANSWERS, answer_length, make_trainer, studies, weights

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.training import trainer as trainer_module
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.checkpoints import checkpoint_folder
from medvqa_hub.training.scst import training_references
from medvqa_hub.training.training_log import read_log

ONLY_REWARD = {"alpha": 1.0, "gamma": 0.0}
METRICS = {
    "sample_reward", "greedy_reward", "zero_advantage_share", "sample_length", "greedy_length", "sample_entropy",
    "reward_loss", "nll_loss", "unscorable",
}  # fmt: skip


def says_clear(completions: list[str], **columns: list) -> list[float | None]:
    return [float("clear" in text.split()) for text in completions]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reward", "start", "end"), [(answer_length, 0.65, 0.75), (says_clear, 0.5, 0.95)], ids=["length", "one word"]
)
def test_a_rigged_reward_climbs_within_50_steps(tmp_path, reward, start, end):
    trainer = make_trainer(
        tmp_path, reward, ONLY_REWARD, max_steps=50, learning_rates={"decoder": 1e-3}, studies_per_step=4,
        studies_per_batch=4, log_every=5,
    )  # fmt: skip
    trainer.train()
    rewards = [line["sample_reward"] for line in read_log(tmp_path)]
    assert rewards[0] < start
    assert sum(rewards[-2:]) / 2 > end


@pytest.mark.slow
def test_a_compiled_model_learns_the_same(tmp_path, monkeypatch):
    plain = make_trainer(tmp_path / "plain", studies_per_batch=4)
    plain.train()
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "no")  # transformers sets it, pytest restores it
    common = trainer_module.common_arguments
    traced = {"torch_compile_backend": "eager"}
    monkeypatch.setattr(trainer_module, "common_arguments", lambda *args: common(*args) | traced)
    compiled = make_trainer(tmp_path / "compiled", studies_per_batch=4, compile=True)
    compiled.train()
    assert hasattr(compiled.model_wrapped, "_orig_mod")
    torch.testing.assert_close(weights(compiled.model), weights(plain.model), atol=2e-6, rtol=1e-4)


def test_one_batch_of_eight_studies_equals_eight_batches_of_one(tmp_path):
    found = []
    for size in (8, 1):
        trainer = make_trainer(tmp_path / str(size), studies_per_batch=size)
        before = weights(trainer.model)
        trainer.train()
        found.append(weights(trainer.model))
        assert (found[-1] - before).abs().max() > 1e-4
    torch.testing.assert_close(found[0], found[1], atol=2e-6, rtol=1e-4)
    whole, split = read_log(tmp_path / "8"), read_log(tmp_path / "1")
    assert len(whole) == 2
    for first, second in zip(whole, split, strict=True):
        assert set(first) >= METRICS
        for name in (*METRICS, "loss"):
            assert first[name] == pytest.approx(second[name], rel=1e-4, abs=1e-6), name


def test_a_run_that_goes_on_ends_where_an_uninterrupted_one_does(tmp_path):
    whole = make_trainer(tmp_path / "whole", max_steps=4, save_every=2, keep_checkpoints=2)
    whole.train()
    stopped = tmp_path / "stopped"
    checkpoint = checkpoint_folder(stopped, 2)
    shutil.copytree(checkpoint_folder(tmp_path / "whole", 2), checkpoint)
    rest = make_trainer(stopped, max_steps=4, save_every=2, keep_checkpoints=2)
    rest.train(resume_from_checkpoint=str(checkpoint))
    assert torch.equal(weights(rest.model), weights(whole.model))
    logged = read_log(tmp_path / "whole")[-2:]
    for first, second in zip(logged, read_log(stopped), strict=True):
        assert {name: first[name] for name in METRICS} == {name: second[name] for name in METRICS}


def test_a_nan_reward_stops_before_anything_is_learnt(tmp_path):
    def broken(completions, **columns):
        return [math.nan if qa_id == "study3-1" else 0.5 for qa_id in columns["qa_id"]]

    trainer = make_trainer(tmp_path, broken)
    before = weights(trainer.model)
    with pytest.raises(InputError, match="'broken' .*nan.*study3-1"):
        trainer.train()
    assert torch.equal(weights(trainer.model), before)


def test_questions_that_cannot_be_scored_are_counted_and_learnt_from_by_nll_alone(tmp_path):
    def picky(completions, **columns):
        return [None if qa_id.startswith("study1-") else 0.5 for qa_id in columns["qa_id"]]

    make_trainer(tmp_path, picky).train()
    for line in read_log(tmp_path):
        assert (line["unscorable"], line["zero_advantage_share"], line["sample_reward"]) == (3, 1.0, 0.5)
        assert line["loss"] == pytest.approx(0.4 * line["nll_loss"], rel=1e-4)


def test_the_recipe_s_reward_is_made_and_its_stage_is_needed(tmp_path):
    trainer = make_trainer(tmp_path, None)
    assert trainer.self_critical_loss.reward(["no effusion is seen"], answer=["no effusion is seen"]) == [1.0]
    assert not any(module.p for module in trainer.model.modules() if isinstance(module, torch.nn.Dropout))
    with pytest.raises(ConfigError, match="scst"):
        run = TrainingRun(trainer.recipe.model_copy(update={"scst": None}), tmp_path)
        type(trainer)(trainer.model, None, run, studies(), None)


def test_training_references_are_the_split_s_answers(tmp_path):
    trainer = make_trainer(tmp_path)
    found = list(training_references(trainer.train_questions))
    assert len(found) == 8 * 2 + 4 and set(found) == set(ANSWERS)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path):
    found = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        command += [str(HELPERS / "scst_runs.py"), str(out), "2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        assert sorted(done.stdout.split()) == [f"{rank}/{processes}" for rank in range(processes)], "who took part"
        found.append((torch.load(out / "weights.pt", weights_only=True), read_log(out)))
    torch.testing.assert_close(found[0][0], found[1][0], atol=2e-6, rtol=1e-4)
    for one, two in zip(found[0][1], found[1][1], strict=True):
        for name in (*METRICS, "loss"):
            assert one[name] == pytest.approx(two[name], rel=1e-4, abs=1e-6), name
