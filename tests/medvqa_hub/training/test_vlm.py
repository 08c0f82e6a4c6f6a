"""`train vlm`: TRL's own trainers on our rows, runs that go on, adapters and their class, what is refused."""

import json
import logging

import pytest
import torch
from builds import Build, build_release
from datasets import load_dataset
from tracking_double import RecordingTracker
from vlm_runs import FAST, run_vlm, vlm_recipe, weights, write_model

from medvqa_core.errors import ConfigError, GovernanceError, InputError
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance
from medvqa_hub import tracking
from medvqa_hub.cli import run
from medvqa_hub.training import job
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.training_log import read_log
from medvqa_hub.training.vlm import trainers
from medvqa_hub.training.vlm.model import find_start, load_model
from medvqa_hub.training.vlm.rows import load_rows


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    return build_release(tmp_path_factory.mktemp("vlm"), studies=12)


@pytest.fixture(scope="module")
def model(build, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "tiny", build)


def chat(build: Build, **options):
    return load_dataset(
        "mimic_cxr_vqa",
        "chat",
        data_dir=str(build.workspace.root),
        image_root=str(build.tree),
        split="train",
        **options,
    )


def loaded(model):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    return AutoModelForImageTextToText.from_pretrained(model), AutoProcessor.from_pretrained(model)


def trl_options(tmp_path) -> dict:
    return {
        "output_dir": str(tmp_path / "trl"), "max_steps": 2, "per_device_train_batch_size": 4, "use_cpu": True,
        "bf16": False, "save_strategy": "no", "logging_steps": 1, "learning_rate": 1e-3, "disable_tqdm": True,
    }  # fmt: skip


@pytest.mark.parametrize("turns", ["question", pytest.param("study", marks=pytest.mark.slow)])
def test_trl_s_sft_trainer_reads_the_rows_as_they_are(build, model, tmp_path, turns):
    from trl import SFTConfig, SFTTrainer

    network, processor = loaded(model)
    rows = chat(build, turns=turns)
    rows = rows.select([next(i for i in range(len(rows)) if len(rows[i]["images"]) == 2), *range(3)])
    options = trl_options(tmp_path) | {"assistant_only_loss": turns == "study", "max_length": None}
    trainer = SFTTrainer(network, SFTConfig(**options), train_dataset=rows, processing_class=processor)
    batch = trainer.data_collator([rows[0], rows[1]])
    assert batch["pixel_values"].shape[0] == len(rows[0]["images"]) + len(rows[1]["images"])
    taught = processor.tokenizer.decode(batch["labels"][0][batch["labels"][0] != -100])
    truth = rows[0]["ground_truth"]
    assert taught == "".join(f"{answer}<|end|>" for answer in ([truth] if turns == "question" else truth))
    if turns == "question":
        trainer.train()
        assert [line["step"] for line in trainer.state.log_history if "loss" in line] == [1, 2]


def test_trl_s_grpo_trainer_reads_the_rows_and_hands_a_reward_its_columns(build, model, tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    network, processor = loaded(model)
    seen = []

    def reward(completions, ground_truth, category, label_value, qa_id, **columns):
        seen.extend(zip(qa_id, ground_truth, category, label_value, strict=True))
        return [float(len(completion[0]["content"])) for completion in completions]

    rows = chat(build)
    arguments = GRPOConfig(**trl_options(tmp_path), num_generations=2, max_completion_length=4)
    GRPOTrainer(network, reward, args=arguments, train_dataset=rows, processing_class=processor).train()
    known = set(zip(*(rows[name] for name in ("qa_id", "ground_truth", "category", "label_value")), strict=True))
    assert len(seen) == 8 and set(seen) <= known


@pytest.mark.parametrize("name", ["tiny-vlm-sft", pytest.param("tiny-vlm-grpo", marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_weights(build, model, tmp_path, monkeypatch, name, trackers):
    changes = {"reward__name": "rouge_l", "lora__dropout": 0.2} if "grpo" in name else {"training__max_steps": 9}
    recipe = vlm_recipe(name, **changes)
    run_vlm(build, model, tmp_path / "whole", recipe, report_to=["wandb"])
    trainer = trainers.VlmGrpoTrainer if "grpo" in name else trainers.VlmSftTrainer
    step = trainer.training_step

    def killed(self, *args, **kwargs):
        if self.state.global_step == 5:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(trainer, "training_step", killed)
        run_vlm(build, model, tmp_path / "parts", recipe)
    assert run_vlm(build, model, tmp_path / "parts", recipe, report_to=["wandb"])[-3 if "grpo" in name else -2] == (
        f"Resuming after step 4 of {recipe.training.max_steps}"
    )
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    assert read_log(tmp_path / "whole") == read_log(tmp_path / "parts")
    whole, resumed = trackers
    assert (whole.after, resumed.after) == (0, 4)
    assert [found for found in whole.numbers if found[0] > 4] == resumed.numbers
    assert [found for found in whole.samples if found[0] > 4] == resumed.samples and resumed.samples
    if "grpo" not in name:
        truth = chat(build)["ground_truth"]
        for sample in resumed.samples[-1][1]:
            assert sample.reward is None and sample.reference in truth and sample.show_images().shape[0] == 320
    ends = [json.loads((tmp_path / part / "finished.json").read_text()) for part in ("whole", "parts")]
    assert ends[0] == ends[1]
    assert "already finished" in run_vlm(build, model, tmp_path / "parts", recipe)[0]
    with pytest.raises(ConfigError, match="training.seed was 0, now 1"):
        run_vlm(build, model, tmp_path / "parts", vlm_recipe(name, **changes, training__seed=1))


@pytest.mark.slow
def test_a_reward_of_the_users_file_trains_and_its_change_is_noticed(build, model, tmp_path, capsys):
    code = "def short(completions, answer, **columns):\n    return [-float(len(text)) for text in completions]\n"
    (tmp_path / "mine.py").write_text(code)
    command = [
        "train", "vlm", "--recipe", "tiny-vlm-grpo", "--model", str(model), "--data", str(build.workspace.root),
        "--image-root", str(build.tree), "--out", str(tmp_path / "out"), "--reward", f"{tmp_path / 'mine.py'}:short",
    ]  # fmt: skip
    fast = {**FAST, "training.max_steps": 2, "training.save_every": 1}
    command += [part for key, value in fast.items() for part in ("--set", f"{key}={value}")]
    assert run(command) == 0
    assert "answers scored: 16" in capsys.readouterr().out  # 2 steps of 4 rows with 2 answers
    assert all(line["reward"] < 0 for line in read_log(tmp_path / "out") if "reward" in line)
    (tmp_path / "mine.py").write_text(code + "# changed")
    assert run(command) == 1 and "the reward's code differs" in capsys.readouterr().err


def test_the_order_of_rows_is_the_seed_s_and_every_epoch_has_each_once():
    order = list(trainers.RunOrder(5, 4, 3, seed=0))
    assert len(order) == 12 and sorted(order[:5]) == sorted(order[5:10]) == [0, 1, 2, 3, 4]
    assert order[:5] != order[5:10] and order == list(trainers.RunOrder(5, 4, 3, seed=0))
    assert order != list(trainers.RunOrder(5, 4, 3, seed=1))
    drawn = list(trainers.RunOrder(5, 1, 2, seed=0, answers=3, passes=2))
    assert drawn == 2 * [row for row in order[:2] for _ in range(3)]
    assert len(trainers.RunOrder(5, 1, 2, seed=0, answers=3, passes=2)) == len(drawn) == 12


@pytest.fixture
def trackers(monkeypatch):
    """Trackers that record what they receive."""
    RecordingTracker.opened.clear()
    monkeypatch.setitem(tracking.TRACKERS, "wandb", RecordingTracker)
    monkeypatch.setattr(job, "check_trackers", lambda names: None)
    return RecordingTracker.opened


def test_answers_that_cannot_be_scored_are_counted_and_not_shown(build, model, tmp_path, capfd, caplog, trackers):
    changes = {"data__label_values": ["not_mentioned"], "training__max_steps": 1}
    with caplog.at_level(logging.WARNING):
        recipe = vlm_recipe("tiny-vlm-grpo", **changes)
        lines = run_vlm(build, model, tmp_path / "run", recipe, report_to=["wandb"])
    ((step, (sample,)),) = trackers[0].samples
    assert step == 1 and sample.reward is None and sample.show_images().shape[0] == 320
    assert trackers[0].closed and "completions/mean_length" in trackers[0].numbers[0][1]
    assert "answers scored: 0, answers without a score: 8" in lines
    assert json.loads((tmp_path / "run" / "finished.json").read_text())["answers_without_a_score"] == 8
    assert read_log(tmp_path / "run")[0]["reward"] is None
    texts = set(chat(build)["ground_truth"])
    shown = caplog.text + "".join(capfd.readouterr())
    assert not any(text in shown for text in texts) and "returned None" not in shown


ADAPTER = {"lora__rank": 8, "training__vision": "false", "training__max_steps": 2}


@pytest.fixture(scope="module")
def adapter(build, model, tmp_path_factory):
    """A run that trains an adapter."""
    out = tmp_path_factory.mktemp("adapter") / "run"
    run_vlm(build, model, out, vlm_recipe(**ADAPTER))
    return out


def test_an_adapter_s_folder_has_all_that_loading_it_takes(adapter, model, build):
    files = {path.name for path in (adapter / "best").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "README.md", "governance.json", "recipe.yaml"} <= files
    assert not any(name.endswith((".bin", ".pt", ".pth", ".pkl")) for name in files)
    network, processor = loaded(adapter)
    plain, _ = loaded(model)
    row = chat(build)[0]
    text = processor.apply_chat_template(row["prompt"], add_generation_prompt=True)
    inputs = processor(images=row["images"], text=text, return_tensors="pt")
    with torch.no_grad():
        assert not torch.equal(network(**inputs).logits, plain(**inputs).logits)


def test_an_adapter_is_evaluated_as_any_engine_is(adapter, build, tmp_path):
    words = ["evaluate", "cxr", "--data", build.workspace.root, "--image-root", build.tree, "--split", "train"]
    words += [
        "--engine",
        f"transformers:{adapter}",
        "--bare-question",
        "--limit",
        "1",
        "--max-new-tokens",
        "4",
    ]
    run([str(word) for word in [*words, "--examples", "0", "--encoder", "none", "--out", tmp_path / "out"]])
    store, *answers = map(json.loads, (tmp_path / "out" / "predictions.jsonl").read_text().splitlines())
    studies = chat(build)["study_id"][:]
    assert "adapter weights" in store["settings"]["revision"] and len(answers) == studies.count(studies[0])
    # so little training teaches no end of an answer: every one was written, and is no answer
    assert all("4 tokens" in answer["error"] for answer in answers)


def test_an_adapter_is_trained_on_and_its_class_goes_with_it(adapter, build, tmp_path):
    recipe = vlm_recipe(**ADAPTER)
    lines = run_vlm(build, adapter, tmp_path / "on", recipe)
    assert any(line.startswith("model: adapter on") for line in lines)
    before, after = weights(adapter), weights(tmp_path / "on")
    assert before.keys() == after.keys() and any(not torch.equal(before[key], after[key]) for key in before)
    with pytest.raises(ConfigError, match="r 8, not 4"):
        run_vlm(build, adapter, tmp_path / "other", vlm_recipe(**ADAPTER | {"lora__rank": 4}))
    with pytest.raises(ConfigError, match="merge_and_unload"):
        run_vlm(build, adapter, tmp_path / "other", vlm_recipe("tiny-vlm-sft"))


def test_the_image_encoder_stays_as_it_is_unless_the_recipe_says(model):
    def trained(recipe):
        network, _ = load_model(find_start(str(model)), recipe)
        names = [name for name, parameter in network.named_parameters() if parameter.requires_grad]
        return any("vision" in name for name in names), any("language_model" in name for name in names)

    assert trained(vlm_recipe(training__vision="false")) == (False, True)
    assert trained(vlm_recipe(training__vision="true")) == (True, True)
    assert trained(vlm_recipe("tiny-vlm-grpo", lora__vision="false")) == (False, True)
    assert trained(vlm_recipe("tiny-vlm-grpo", lora__vision="true")) == (True, True)


def test_four_bits_train_an_adapter(build, model, tmp_path):
    pytest.importorskip("bitsandbytes", reason="only on Linux")
    recipe = vlm_recipe("vlm-sft", **{
        "lora__quantize": "4bit", "training__precision": "float32", "data__workers": 0, "training__epochs": None,
        "training__max_steps": 1, "training__rows_per_step": 2, "data__validation_studies": 1,
    })  # fmt: skip
    run_vlm(build, model, tmp_path / "run", recipe)
    assert (tmp_path / "run" / "best" / "adapter_model.safetensors").is_file()
    assert [line for line in read_log(tmp_path / "run") if "eval_loss" in line]


@pytest.mark.parametrize("stated", ["no-derivatives", "credentialed"])
def test_the_class_is_the_stricter_of_rows_and_model_and_holds_at_every_push(
    build, model, tmp_path, stated, monkeypatch
):
    def left(*_args, **_kwargs):
        raise AssertionError("left the machine")

    for name in ("create_repo", "create_commit", "upload_folder", "upload_file", "preupload_lfs_files"):
        monkeypatch.setattr(f"huggingface_hub.HfApi.{name}", left)
    recipe = vlm_recipe("tiny-vlm-grpo", training__max_steps=1, reward__name="rouge_l")
    network, processor = load_model(find_start(str(model)), recipe)
    rows = load_rows(build.workspace.root, build.tree, recipe.data)
    from medvqa_hub.training.vlm.rewards import AnswerReward

    reward = AnswerReward(lambda completions, **columns: [0.0] * len(completions), "none")
    run = TrainingRun(recipe, tmp_path, Governance(stated), base="tiny")
    trainer = trainers.make_trainer(run, network, processor, rows, 1, reward)
    trainer.train()
    trainer.save_best(None, None)
    assert read_governance(tmp_path / "best") is Governance(stated)
    assert f"## Governance class: {stated}" in (tmp_path / "best" / "README.md").read_text()
    for push in (trainer.push_to_hub, lambda: trainer.model.push_to_hub("me/adapter")):
        with pytest.raises(GovernanceError, match="the Hub"):
            push()
    again, _ = loaded(tmp_path / "best")
    with pytest.raises(GovernanceError):
        again.push_to_hub("me/adapter")


def test_a_model_that_does_not_say_its_class_is_credentialed_until_somebody_says(build, model, tmp_path):
    import shutil

    silent = shutil.copytree(model, tmp_path / "silent")
    (silent / "governance.json").unlink()
    config = json.loads((silent / "config.json").read_text())
    del config["governance"]
    (silent / "config.json").write_text(json.dumps(config))
    assert find_start(str(silent)).governance is Governance.CREDENTIALED
    assert find_start(str(silent), "open").governance is Governance.OPEN
    (silent / "governance.json").write_text('{"governance": "credentialed", "format": 2}')
    with pytest.raises(GovernanceError, match="open"):
        find_start(str(silent), "open")


def test_completions_of_restricted_rows_do_not_go_to_a_repository(build, model, tmp_path, monkeypatch):
    from trl import GRPOConfig, GRPOTrainer

    from medvqa_core.dataset_class import declare

    def left(*_args, **_kwargs):
        raise AssertionError("left the machine")

    monkeypatch.setattr("trl.trainer.grpo_trainer.create_repo", left)
    network, processor = loaded(model)
    arguments = GRPOConfig(
        **trl_options(tmp_path), num_generations=2, log_completions=True, log_completions_hub_repo="me/completions"
    )
    rows = declare(chat(build), Governance.CREDENTIALED)
    options = {"args": arguments, "processing_class": processor}
    with pytest.raises(GovernanceError, match="GRPOTrainer"):
        GRPOTrainer(network, lambda **columns: [], train_dataset=rows, **options)
    with pytest.raises(GovernanceError, match="GRPOTrainer"):
        GRPOTrainer(network, lambda **columns: [], arguments, rows, processing_class=processor)
    rows.info.description = chat(build).info.description
    with pytest.raises(AssertionError, match="left the machine"):  # open rows may
        GRPOTrainer(network, lambda **columns: [], train_dataset=rows, **options)


def test_a_dry_run_needs_neither_trl_nor_a_gpu_and_training_says_what_is_missing(
    build, model, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("medvqa_hub.training.vlm.run.importlib.util.find_spec", lambda name: None)
    words = [
        "train",
        "vlm",
        "--model",
        str(model),
        "--data",
        str(build.workspace.root),
        "--image-root",
        str(build.tree),
    ]
    words += ["--out", str(tmp_path / "out"), "--stage", "sft"]
    assert run([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    rows = len(chat(build))
    assert "precision: auto" in said and "rank: 16" in said and "governance class: open" in said
    kept = int(next(line for line in said.splitlines() if line.startswith("training: ")).split()[1].replace(",", ""))
    assert f"{-(-kept // 32)} steps of 32 questions, in batches of 4 questions" in said and 0 < kept <= rows
    assert not (tmp_path / "out").exists()
    assert run(words) != 0
    assert "[trl]" in capsys.readouterr().err


def test_a_model_that_reads_no_images_is_refused(build, tmp_path):
    from tiny_vlm import END, _train_tokenizer
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _train_tokenizer(["is there an effusion"], 300)
    config = Qwen2Config(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        vocab_size=len(tokenizer), eos_token_id=tokenizer.convert_tokens_to_ids(END),
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "text")
    tokenizer.save_pretrained(tmp_path / "text")
    with pytest.raises(ConfigError, match="image"):
        run_vlm(build, tmp_path / "text", tmp_path / "out", vlm_recipe())
    with pytest.raises(InputError, match="config.json"):
        run_vlm(build, tmp_path, tmp_path / "out", vlm_recipe())


def test_a_choice_of_rows_is_counted(build):
    plain = chat(build)
    recipe = vlm_recipe(data__categories="[Pleural Effusion]", data__label_values="[positive, negative]")
    rows = load_rows(build.workspace.root, build.tree, recipe.data)
    studies = list(dict.fromkeys(plain["study_id"]))[:2]
    wanted = [
        row["qa_id"]
        for row in plain.remove_columns("images")
        if row["study_id"] in studies
        and row["category"] == "Pleural Effusion"
        and row["label_value"] in ("positive", "negative")
    ]
    assert rows.train["qa_id"] == wanted and sum(rows.left_out.values()) == len(plain) - len(wanted)
    assert rows.train[0]["images"][0].mode == "L" and rows.train[0]["prompt"][0]["content"][0] == {"type": "image"}


def test_films_are_shrunk_as_they_are_for_our_own_models(build):
    recipe = vlm_recipe(data__image_side=16)
    rows = load_rows(build.workspace.root, build.tree, recipe.data)
    assert min(rows.train[0]["images"][0].size) == 16
