"""Runs from the command line: stages one after another, going on, refusals, governance, hard negatives."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from builds import build_release
from PIL import Image
from tracking_double import RecordingTracker
from training_runs import FAST, fast_recipe, weights, without_speed

from medvqa_core.errors import ConfigError, GovernanceError, InputError, OutputError
from medvqa_core.folder_class import read_governance, write_governance
from medvqa_core.governance import Governance
from medvqa_core.model_folder import find_model_folder
from medvqa_hub import tracking
from medvqa_hub.cli import run
from medvqa_hub.families.checkpoint import open_checkpoint
from medvqa_hub.publishing.licences import get_model_licence
from medvqa_hub.publishing.model_card import write_model_card
from medvqa_hub.publishing.model_folder import open_model_folder
from medvqa_hub.training import checkpoints, job
from medvqa_hub.training.recipes import DataSettings
from medvqa_hub.training.run import train
from medvqa_hub.training.study_questions import StudyQuestions
from medvqa_hub.training.training_data import load_data
from medvqa_hub.training.training_log import TrainingLog, read_log


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=16)


@pytest.fixture(scope="module")
def stage_1(build, tmp_path_factory):
    out = tmp_path_factory.mktemp("stage1") / "out"
    return go(build, out, fast_recipe("tiny-swin-ved-stage1", training__learning_rates="{encoder: 0, decoder: 1e-3}"))


def go(build, out, recipe=None, init=None, **options):
    return train(recipe or fast_recipe(), build.workspace.root, out, build.tree, init, **options)


class Stopped(BaseException):
    """Stands for a kill: nothing in the code catches it."""


def stop_in(monkeypatch, owner, name: str, call: int) -> None:
    """Raise Stopped in place of call number `call` of `owner.name`."""
    real, calls = getattr(owner, name), []

    def counted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise Stopped
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)


def test_three_stages_from_the_command_line(build, stage_1, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", RecordingTracker)
    monkeypatch.setattr(job, "check_trackers", lambda names: None)
    common = ["--report-to", "tensorboard", "--data", str(build.workspace.root), "--image-root", str(build.tree)]
    for key, value in {**FAST, "training.max_steps": 2}.items():
        if key != "training.learning_rates":
            common += ["--set", f"{key}={'null' if value is None else value}"]
    arguments = ["train", "swin-ved", "--recipe", "tiny-swin-ved-stage2", *common, "--init", str(stage_1)]
    assert run([*arguments, "--out", str(tmp_path / "2")]) == 0
    printed = capsys.readouterr().out
    assert "2 steps of 4 studies x 2 questions" in printed and "governance class: open" in printed
    before, after = weights(stage_1 / "best"), weights(tmp_path / "2" / "best")
    assert before.keys() == after.keys()
    assert not torch.equal(before["decoder.lm_head.bias"], after["decoder.lm_head.bias"])
    arguments = ["train", "swin-ved", "--recipe", "tiny-swin-ved-stage3", *common, "--init", str(tmp_path / "2")]
    arguments += ["--set", "reward.name=rouge_l", "--set", "selection.metric=rouge_l", "--set", "selection.metrics=[]"]
    assert run([*arguments, "--out", str(tmp_path / "3")]) == 0
    assert (tmp_path / "3" / "finished.json").exists()
    assert run([*arguments, "--out", str(tmp_path / "3")]) == 0
    assert "already finished after 2 steps" in capsys.readouterr().out
    second, third = RecordingTracker.opened
    assert all({"loss", "eval_loss", "learning_rate_decoder"} <= names(found) for found in (second, third))
    assert {"sample_reward", "eval_rouge_l"} <= names(third) and "sample_reward" not in names(second)
    step, samples = third.samples[-1]
    assert step == 2 and samples[0].question and samples[0].reference
    assert samples[0].show_images().shape[0] == 320


def names(tracker: RecordingTracker) -> set[str]:
    return {name for _, numbers in tracker.numbers for name in numbers}


def test_studies_with_a_damaged_image_are_left_out_and_counted(build, tmp_path, capsys):
    tree = shutil.copytree(build.tree, tmp_path / "tree")
    study = load_data(build.workspace.root, tree, DataSettings()).train[0]
    (damaged,) = tree.rglob(Path(study["image_paths"][0]).name)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:150] + b"\xff\xd9")  # header and end marker, without pixels

    def run_it(name, **changes):
        recipe = fast_recipe(training__max_steps=2, **changes)
        return train(recipe, build.workspace.root, tmp_path / name, tree)

    with pytest.raises(InputError, match=rf"{study['study_id']}.*--damaged skip"):
        run_it("checked", data__check_images=True)
    assert not (tmp_path / "checked").exists()
    out = run_it("skipped", data__damaged_images="skip")
    assert list(json.loads((out / "damaged_train.json").read_text())) == [str(study["study_id"])]
    assert (out / "finished.json").exists()
    assert "1 studies with a damaged image left out" in (out / "best" / "README.md").read_text()
    damaged.write_bytes(whole)
    words = ["train", "swin-ved", "--recipe", "tiny-swin-ved-stage2", "--data", str(build.workspace.root)]
    words += ["--image-root", str(tree), "--damaged", "skip", "--dry-run", "--out", str(tmp_path / "other")]
    capsys.readouterr()
    assert run(words) == 0
    assert "damaged image" not in capsys.readouterr().out, "the image is whole again"
    questions = StudyQuestions(load_data(build.workspace.root, tree, DataSettings()).train, "split train")
    counts = dict(zip(questions.study_ids.tolist(), questions.counts.tolist(), strict=True))
    last = [questions.places(number).tolist() for number in range(len(questions))][-1]
    questions.leave_out(list(counts)[:2])
    assert dict(zip(questions.study_ids.tolist(), questions.counts.tolist(), strict=True)) == dict(
        list(counts.items())[2:]
    )
    assert questions.places(len(questions) - 1).tolist() == last
    with pytest.raises(InputError, match="image_root"):
        questions.leave_out(list(counts))


def test_the_best_model_has_the_card_that_the_command_writes(stage_1):
    model = open_model_folder(stage_1)
    card = write_model_card(model, "OWNER/NAME", get_model_licence(model.governance, None))
    assert (stage_1 / "best" / "README.md").read_text(encoding="utf-8") == card
    assert "1: decoder" in card and "`recipe.yaml`" in card


def test_a_training_folder_is_a_model_folder(stage_1, tmp_path):
    """The folder, a copy with links and a copy with files in their place load the best model, by every way in."""
    from transformers import AutoModel, AutoModelForImageTextToText, AutoProcessor, pipeline

    followed, linked = tmp_path / "followed", tmp_path / "linked"
    shutil.copytree(stage_1, followed)
    shutil.copytree(stage_1, linked, symlinks=True)
    best = weights(stage_1 / "best")
    for folder in (stage_1, stage_1 / "best", followed, linked):
        found = AutoModelForImageTextToText.from_pretrained(folder).state_dict()
        assert all(torch.equal(found[key], value) for key, value in best.items())
        assert open_checkpoint(str(folder)).fingerprint == open_checkpoint(str(stage_1 / "best")).fingerprint
        assert read_governance(folder) is Governance.OPEN
    model, processor = AutoModel.from_pretrained(stage_1), AutoProcessor.from_pretrained(stage_1)
    found = model.state_dict()
    assert found and all(torch.equal(value, best[f"model.{key}"]) for key, value in found.items())
    size = model.config.encoder.image_size
    assert processor.image_size == size
    answer = pipeline("image-text-to-text", str(stage_1), max_new_tokens=3)
    found = answer(images=[Image.new("L", (size, size))], text="Is there edema?", return_full_text=False)
    assert isinstance(found[0]["generated_text"], str)


def test_the_links_follow_the_best_model(stage_1, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(stage_1, out, symlinks=True)
    assert (out / "recipe.yaml").is_symlink() is False and not (out / "manifest.json").exists()
    (out / "best" / "README.md").unlink()
    (out / "best" / "model-00001-of-00002.safetensors").write_bytes(b"new")
    checkpoints.link_best(out)
    assert not os.path.lexists(out / "README.md") and (out / "model-00001-of-00002.safetensors").read_bytes() == b"new"
    checkpoints.restore_best(out, keep=False)
    assert not any(path.is_symlink() for path in out.iterdir())


def test_a_file_system_without_links_gets_a_warning(stage_1, tmp_path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    shutil.copytree(stage_1 / "best", tmp_path / "out" / "best")
    monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.warns(UserWarning, match="cannot hold links.*best"):
        checkpoints.link_best(tmp_path / "out")
    assert find_model_folder(tmp_path / "out") == tmp_path / "out" / "best"


def test_a_model_with_another_in_its_folder_best_stays_the_model(stage_1, tmp_path):
    shutil.copytree(stage_1 / "best", tmp_path / "model")
    shutil.copytree(stage_1 / "best", tmp_path / "model" / "best")
    assert find_model_folder(tmp_path / "model") == tmp_path / "model"


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        pytest.param(torch.optim.AdamW, "step", 5, marks=pytest.mark.slow),  # between two checkpoints
        pytest.param(torch.optim.AdamW, "step", 2, marks=pytest.mark.slow),  # before the first
        (checkpoints, "save_state", 3),  # while the second checkpoint is written: its optimizer
        pytest.param(checkpoints, "write_governance", 4, marks=pytest.mark.slow),  # … its last files
        pytest.param(checkpoints, "remove_old", 2, marks=pytest.mark.slow),
        pytest.param(job, "write_json", 1, marks=pytest.mark.slow),  # everything done, but for saying so
    ],
)  # fmt: skip
def test_a_run_that_stops_anywhere_ends_like_one_that_never_did(owner, name, call, build, tmp_path, monkeypatch, whole):
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_in(patch, owner, name, call)
        go(build, tmp_path / "out", PLATEAU)
    go(build, tmp_path / "out", PLATEAU)
    assert_same_run(tmp_path / "out", whole)


@pytest.mark.slow
def test_a_run_of_an_earlier_version_goes_on(build, tmp_path, monkeypatch, whole):
    """Its recipe spells the family with a hyphen, its optimizer calls a group a part, its checkpoint has no digests."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_in(patch, torch.optim.AdamW, "step", 5)
        go(build, out, PLATEAU)
    record = json.loads((out / "run.json").read_text())
    record["recipe"]["model"]["kind"] = "swin-ved"
    (out / "run.json").write_text(json.dumps(record))
    path = out / "checkpoint-000003" / "optimizer.pt"
    state = torch.load(path, weights_only=True)
    for group in state["param_groups"]:
        group["part"] = group.pop("name")
    torch.save(state, path)
    manifest = json.loads((path.parent / "manifest.json").read_text())
    del manifest["sha256"]
    (path.parent / "manifest.json").write_text(json.dumps(manifest))
    go(build, out, PLATEAU)
    assert_same_run(out, whole, same_bytes=False)  # the optimizer's state lists its names in another order


PLATEAU = fast_recipe(
    training__scheduler="plateau",  # a score never rises by 1
    training__scheduler_arguments="{patience: 0, factor: 0.5, threshold: 1.0, threshold_mode: abs}",
    selection__metric="bleu_1",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(build, tmp_path_factory):
    """A run that nothing stopped."""
    return go(build, tmp_path_factory.mktemp("whole") / "out", PLATEAU)


def assert_same_run(found, expected, same_bytes=True) -> None:
    assert without_speed(read_log(found)) == without_speed(read_log(expected))
    for name in ("best", "checkpoint-000008"):
        ours, theirs = weights(found / name), weights(expected / name)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
        manifests = [json.loads((folder / name / "manifest.json").read_text()) for folder in (found, expected)]
        if not same_bytes:
            manifests = [{key: value for key, value in one.items() if key != "sha256"} for one in manifests]
        assert manifests[0] == manifests[1]
    assert [step for step, _ in checkpoints.complete_checkpoints(found)] == [8]
    assert not [path.name for path in found.iterdir() if path.name.endswith((".partial", ".replaced"))]


def test_the_plateau_was_reached_in_the_run_that_is_compared(whole):
    rates = [entry["learning_rate_decoder"] for entry in read_log(whole) if "loss" in entry]
    assert rates[0] == 1e-3 and rates[-1] < 1e-3


def test_a_half_written_checkpoint_and_one_without_its_manifest_are_not_picked_up(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole / "checkpoint-000008", out / ".checkpoint-000009.partial")
    shutil.copytree(whole / "checkpoint-000008", out / "checkpoint-000010")
    (out / "checkpoint-000010" / "manifest.json").unlink()
    shutil.copytree(whole / "best", out / "checkpoint-000011")  # complete, but no checkpoint
    shutil.copytree(whole / "checkpoint-000008", out / "checkpoint-000007")
    assert checkpoints.complete_checkpoints(out) == [(7, out / "checkpoint-000007")]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"])
def test_a_changed_checkpoint_is_not_gone_on_from(whole, tmp_path, name):
    """One flipped bit in the weights or the optimizer's state trains another model, and nothing else would show it."""
    shutil.copytree(whole, tmp_path / "out")
    _, last = checkpoints.complete_checkpoints(tmp_path / "out")[-1]
    checkpoints.check_unchanged(last)
    data = bytearray((last / name).read_bytes())
    data[len(data) // 2] ^= 0x10
    (last / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}: .*remove it and run"):
        checkpoints.check_unchanged(last)
    (last / name).unlink()
    with pytest.raises(InputError, match=f"{name}: "):
        checkpoints.check_unchanged(last)


def test_a_best_model_that_was_moved_aside_comes_back(whole, tmp_path):
    shutil.copytree(whole / "best", tmp_path / ".best.replaced")
    checkpoints.restore_best(tmp_path, keep=True)
    assert (tmp_path / "best" / "config.json").exists()
    checkpoints.restore_best(tmp_path, keep=False)
    assert not (tmp_path / "best").exists()


def test_another_recipe_in_the_same_folder_lists_what_differs(build, whole):
    other = fast_recipe(training__seed=3, training__scheduler="constant", selection__metric="bleu_1")
    with pytest.raises(ConfigError) as caught:
        go(build, whole, other)
    assert "training.seed was 0, now 3" in str(caught.value)
    assert "training.scheduler was 'plateau', now 'constant'" in str(caught.value)
    other = whole.parent / "other"
    shutil.copytree(whole / "best", other)
    with pytest.raises(ConfigError, match="starting checkpoint"):
        go(build, whole, PLATEAU, init=other)


def test_a_best_model_before_the_first_checkpoint_is_not_replaced_by_another_recipe(build, whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole, out, ignore=shutil.ignore_patterns("checkpoint-*", checkpoints.FINISHED))
    before = (out / "best" / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="different run"):
        go(build, out, fast_recipe(training__seed=3))
    assert (out / "best" / "model.safetensors").read_bytes() == before


def test_a_checkpoint_in_the_folder_that_is_written_is_refused(build, whole):
    with pytest.raises(ConfigError, match="(?i)choose another --out"):
        go(build, whole, fast_recipe(), init=whole)


def test_other_data_in_the_same_folder_is_refused(whole, tmp_path):
    other = build_release(tmp_path, studies=12, seed=5)
    with pytest.raises(ConfigError, match="content of the data"):
        go(other, whole, PLATEAU)


def test_a_finished_run_does_nothing(build, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("medvqa_hub.training.run.load_data", None)
    without = tmp_path / "out"  # its checkpoints removed, to have their space
    shutil.copytree(whole, without, ignore=shutil.ignore_patterns("checkpoint-*"))
    for out in (whole, without):
        said = []
        assert go(build, out, PLATEAU, log=said.append) == out
        assert "after 8 steps" in said[0] and str(out / "best") in said[0] and len(said) == 1
        assert (out / "best" / "config.json").exists()


def test_a_start_that_failed_leaves_the_folder_free_for_another(build, tmp_path):
    out = tmp_path / "out"
    wrong = fast_recipe(model__tokenizer=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        go(build, out, wrong)
    assert go(build, out, fast_recipe(training__max_steps=1)) == out


def test_a_checkpoint_of_another_model_size_or_tokenizer_is_refused(build, stage_1, tmp_path):
    blip2 = fast_recipe("tiny-blip2-multiview", training__learning_rates="{q_formers: 1e-3}")
    with pytest.raises(ConfigError, match="'swin_ved'.*'blip2_multiview'"):
        go(build, tmp_path / "1", blip2, init=stage_1)
    with pytest.raises(ConfigError, match="encoder.embed_dim 32.* 128"):
        go(build, tmp_path / "2", fast_recipe("swin-ved-stage2", training__precision="float32"), init=stage_1)
    arguments = ["train", "tokenizer", "--data", str(build.workspace.root), "--out", str(tmp_path / "t")]
    assert run([*arguments, "--vocab-size", "50"]) == 0
    with pytest.raises(ConfigError, match="model.tokenizer"):
        go(build, tmp_path / "3", fast_recipe(model__tokenizer=str(tmp_path / "t")), init=stage_1)
    with pytest.raises(InputError, match="config.json"):
        go(build, tmp_path / "4", init=tmp_path)


def test_damaged_and_foreign_weights_are_refused(build, stage_1, tmp_path):
    from safetensors.torch import save_file

    cut = tmp_path / "cut"
    shutil.copytree(stage_1 / "best", cut)
    with open(cut / "model.safetensors", "r+b") as file:
        file.truncate(100_000)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        go(build, tmp_path / "1", init=cut)
    less = weights(stage_1 / "best")
    less.pop("decoder.lm_head.bias")
    save_file(less, cut / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"decoder.lm_head.bias"):
        go(build, tmp_path / "2", init=cut)
    # transformers would take none of these weights and go on with random ones
    with pytest.raises(ConfigError, match=r"model.pretrained_encoder .*weights"):
        go(build, tmp_path / "3", fast_recipe(model__pretrained_encoder=str(stage_1 / "best")))


@pytest.mark.parametrize("name", ["swin-ved-stage3", "swin-ved-stage2-released"])
def test_a_dry_run_of_a_full_recipe_needs_no_gpu_and_says_how_many_steps(build, tmp_path, capsys, name):
    arguments = ["train", "swin-ved", "--recipe", name, "--data", str(build.workspace.root), "--out", str(tmp_path)]
    assert run([*arguments, "--image-root", str(build.tree), "--dry-run"]) == 0
    said = capsys.readouterr().out
    questions = sum(len(row) for row in load_data(build.workspace.root, build.tree, DataSettings()).train["questions"])
    if name.endswith("released"):
        assert f"{-(-30 * questions // 256)} steps of 256 questions, in batches of 8" in said
    else:
        assert "steps of 4 studies x 8 questions" in said
    assert not any(tmp_path.iterdir())


def test_a_damaged_image_is_one_line_from_a_worker_too(build, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(build.tree, tree)
    for path in tree.rglob("*.jpg"):
        data = path.read_bytes()
        path.write_bytes(data[:200] + b"\xff\xd9" * (len(data) // 2 - 100))  # damaged in the middle: found when decoded
    recipe = fast_recipe(data__workers=1, training__max_steps=1)
    with pytest.raises(InputError) as caught:
        train(recipe, build.workspace.root, tmp_path / "out", tree)
    assert "cannot be read" in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_tokenizer_trained_before_is_used(build, tmp_path, capsys):
    arguments = ["train", "tokenizer", "--data", str(build.workspace.root), "--out", str(tmp_path / "t")]
    assert run([*arguments, "--vocab-size", "60"]) == 0
    assert "60 tokens in" in capsys.readouterr().out
    assert read_governance(tmp_path / "t") is Governance.OPEN
    out = go(build, tmp_path / "out", fast_recipe(model__tokenizer=str(tmp_path / "t"), training__max_steps=1))
    config = json.loads((out / "best" / "config.json").read_text())
    assert config["decoder"]["vocab_size"] == 60


def test_splits_and_images_that_are_not_there(build, tmp_path, monkeypatch):
    monkeypatch.delenv("MIMIC_CXR_JPG_ROOT", raising=False)
    with pytest.raises(InputError, match="'dev'.*train, validation, test"):
        go(build, tmp_path / "1", fast_recipe(data__validation_split="dev"))
    with pytest.raises(InputError, match="--image-root"):
        train(fast_recipe(), build.workspace.root, tmp_path / "2")


def test_governance_follows_the_checkpoint_and_cannot_be_lowered(build, stage_1, tmp_path):
    strict = tmp_path / "strict"
    shutil.copytree(stage_1 / "best", strict)
    write_governance(strict, Governance.CREDENTIALED)
    out = go(build, tmp_path / "out", fast_recipe(training__max_steps=1), init=strict)
    for folder in (out, out / "best", out / "checkpoint-000001"):
        assert read_governance(folder) is Governance.CREDENTIALED
        assert folder.stat().st_mode & 0o077 == 0
    (strict / "governance.json").unlink()  # a checkpoint that does not say could be anything
    out = go(build, tmp_path / "unsaid", fast_recipe(training__max_steps=1), init=strict)
    assert read_governance(out) is Governance.CREDENTIALED
    for folder in ("checkpoint-000001", "best"):
        shutil.rmtree(out / folder)
    (out / "finished.json").unlink()
    with pytest.raises(GovernanceError, match="credentialed"):
        go(build, out, fast_recipe(training__max_steps=1))


def test_two_runs_cannot_write_the_same_folder(build, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    log = TrainingLog(out)
    (out / "run.json").write_text("{}")  # of the first, which has no checkpoint yet
    with pytest.raises(OutputError, match=str(out)):
        go(build, out, fast_recipe(training__max_steps=1))
    assert (out / "run.json").read_text() == "{}"
    log.close()


def test_without_validation_the_last_model_is_the_best(build, tmp_path):
    out = go(build, tmp_path / "out", fast_recipe(data__validation_split=None, training__max_steps=2))
    ours, last = weights(out / "best"), weights(out / "checkpoint-000002")
    assert all(torch.equal(ours[name], last[name]) for name in last)
    assert json.loads((out / "finished.json").read_text())["best_step"] == 2


def test_log_lines_of_later_steps_are_dropped(tmp_path):
    log = TrainingLog(tmp_path)
    log.cut_after(0)
    for step in (1, 2, 3):
        log.append({"step": step})
    log.close()
    with open(tmp_path / "training_log.jsonl", "ab") as file:
        file.write(b'{"step": 4, "lo')
    log = TrainingLog(tmp_path)
    log.cut_after(2)
    log.append({"step": 3, "again": True})
    log.close()
    assert read_log(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]
