"""SupervisedTrainer: the loss and its normalisation, groups and freezing, validation, broken numbers, writing."""

import json
import resource
from types import SimpleNamespace

import pytest
import torch
from training_runs import FIRST_STUDY, recipe, study_rows, weights
from transformers import Trainer

from medvqa_core.errors import ConfigError, OutputError
from medvqa_core.folder_class import read_governance
from medvqa_core.governance import Governance
from medvqa_hub.families.registry import FAMILIES, find_family
from medvqa_hub.training import arguments, checkpoints, trainer
from medvqa_hub.training.arguments import TrainingRun
from medvqa_hub.training.batch_loading import choose_workers
from medvqa_hub.training.recipe_files import count_batches, count_steps
from medvqa_hub.training.study_batches import StudiesInOrder
from medvqa_hub.training.trainer import SupervisedTrainer, TrainingError, make_arguments
from medvqa_hub.training.training_log import TrainingLog, read_log

ROWS = study_rows([2, 3, 2, 4, 3, 2])
TEXTS = [text for row in ROWS["questions"] for question in row for text in (question["question"], question["answer"])]
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
NO_DROPOUT = {"encoder": {"drop_path_rate": 0.0, **STILL}, "decoder": STILL}


def make_trainer(out, validation=ROWS, log=None, rows=ROWS, **sections) -> SupervisedTrainer:
    settings = recipe(**sections)
    model, processor = settings.open_model(None, TEXTS)
    return SupervisedTrainer(model, processor, TrainingRun(settings, out, Governance.OPEN, log), rows, validation)


def losses_of(out) -> list[float]:
    return [entry["loss"] for entry in read_log(out) if "loss" in entry]


def run(out, **sections) -> list[float]:
    out.mkdir()
    log = TrainingLog(out)
    make_trainer(out, log=log, **sections).train()
    log.close()
    return losses_of(out)


def test_loss_is_the_mean_over_all_tokens_of_the_step_however_it_is_split(tmp_path):
    """One batch of four studies, two of two, four of one: answers of unequal length, so means of means would differ."""
    found = {
        size: run(tmp_path / str(size), model=NO_DROPOUT, training={"studies_per_batch": size, "max_steps": 3})
        for size in (4, 2, 1)
    }
    assert found[2] == pytest.approx(found[4], abs=1e-5)
    assert found[1] == pytest.approx(found[4], abs=1e-5)
    trainer = make_trainer(tmp_path / "check", model=NO_DROPOUT)
    batch = trainer.batches[0]
    with torch.no_grad():
        inputs = {name: value for name, value in batch.items() if name not in ("rows", "number")}
        logits = trainer.model.eval()(**inputs).logits
    log_probabilities = torch.log_softmax(logits[:, :-1].double(), -1)
    targets = batch["labels"][:, 1:]
    picked = log_probabilities.gather(-1, targets.clamp(min=0)[..., None])[..., 0][targets != -100]
    assert found[4][0] == pytest.approx(-picked.mean().item(), abs=1e-5)


def compile_without_compiler(monkeypatch) -> None:
    """Let torch.compile trace models by its backend `eager`."""
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "no")  # transformers sets it, pytest restores it
    common = trainer.common_arguments
    traced = {"torch_compile_backend": "eager"}
    monkeypatch.setattr(trainer, "common_arguments", lambda *args: common(*args) | traced)


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 2], ids=["whole steps", "accumulated"])
def test_a_compiled_model_and_either_attention_train_alike(tmp_path, monkeypatch, size):
    split = {"studies_per_batch": size, "max_steps": 3}
    expected = run(tmp_path / "plain", model=NO_DROPOUT, training={**split, "attention": "eager"})
    sdpa = make_trainer(tmp_path / "kind", model=NO_DROPOUT, training={"attention": "sdpa"}).model
    assert {part.config._attn_implementation for part in sdpa.modules() if hasattr(part, "config")} == {"sdpa"}
    assert run(tmp_path / "sdpa", model=NO_DROPOUT, training={**split, "attention": "sdpa"}) == pytest.approx(
        expected, abs=1e-4
    )
    compile_without_compiler(monkeypatch)
    compiled = make_trainer(tmp_path / "compiled", model=NO_DROPOUT, training={**split, "compile": True})
    compiled.train()
    assert hasattr(compiled.model_wrapped, "_orig_mod") and not hasattr(compiled.model, "_orig_mod")
    assert run(tmp_path / "log", model=NO_DROPOUT, training={**split, "compile": True}) == pytest.approx(
        expected, abs=1e-4
    )
    names = weights(tmp_path / "compiled" / "checkpoint-000003").keys()
    assert names == weights(tmp_path / "plain" / "checkpoint-000003").keys()


def test_dropout_depends_on_the_batch_alone(tmp_path):
    """The same run twice, with other random numbers drawn before and between."""
    first = run(tmp_path / "first", training={"max_steps": 3})
    torch.manual_seed(1234)
    assert run(tmp_path / "second", training={"max_steps": 3}) == first


def test_stage_1_leaves_the_encoder_as_it_was_and_trains_the_decoder(tmp_path):
    trainer = make_trainer(tmp_path, training={"learning_rates": {"encoder": 0.0, "decoder": 1e-3}})
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    trainer.train()
    moved = {name for name, value in trainer.model.named_parameters() if not torch.equal(value, before[name])}
    assert moved and all(name.startswith("decoder.") for name in moved)
    trainer.model.train()
    trainer.set_frozen_eval()
    assert not any(module.training for module in trainer.model.model.encoder.modules())
    assert trainer.model.decoder.training


def test_each_group_has_its_own_rate_and_norms_do_not_decay(tmp_path):
    rates = {"encoder": 1e-4, "decoder": 2e-3}
    trainer = make_trainer(tmp_path, training={"learning_rates": rates, "weight_decay": 0.1})
    groups = trainer.create_optimizer().param_groups
    assert {(group["name"], group["lr"], group["weight_decay"]) for group in groups} == {
        ("encoder", 1e-4, 0.1), ("encoder", 1e-4, 0.0), ("decoder", 2e-3, 0.1), ("decoder", 2e-3, 0.0),
    }  # fmt: skip
    sizes = sum(parameter.numel() for group in groups for parameter in group["params"])
    assert sizes == sum(parameter.numel() for parameter in trainer.model.parameters())


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_parameter_that_is_trained_belongs_to_one_group(kind):
    settings, family = recipe(kind), find_family(kind)
    model, _ = settings.open_model(None, TEXTS)
    found = {family.find_group(name) for name, _ in model.named_parameters()}
    assert found - {None} == set(family.groups) - {"lora"}
    if kind == "swin_ved":
        assert None not in found
    else:  # the paper's: everything outside of vision tower and language model
        still = {name.split(".")[0] for name, _ in model.named_parameters() if family.find_group(name) is None}
        assert still == {"model", "language_model"}
        assert not [n for n, _ in model.named_parameters() if "branches" in n and family.find_group(n) is None]


def test_validation_loss_is_the_mean_over_tokens_and_answers_are_scored(tmp_path):
    trainer = make_trainer(
        tmp_path, selection={"metric": "bleu_1", "metrics": ["rouge_l", "cider"], "studies": 3, "max_new_tokens": 6}
    )
    metrics = trainer.evaluate()
    assert set(metrics) == {"eval_loss", "eval_bleu_1", "eval_rouge_l", "eval_cider"}
    total = tokens = 0
    one_by_one = StudiesInOrder(trainer.validation.questions, trainer.validation.batches.collate, 1, studies=3)
    for study in range(3):
        batch = {name: value for name, value in one_by_one[study].items() if name not in ("rows", "number")}
        count = int((batch["labels"] != -100).sum())
        with torch.no_grad():
            total += trainer.model.eval()(**batch).loss.item() * count
        tokens += count
    assert metrics["eval_loss"] == pytest.approx(total / tokens, abs=1e-5)


def test_a_loss_that_is_no_number_names_step_and_questions_and_no_text(tmp_path):
    trainer = make_trainer(tmp_path, training={"max_steps": 4})
    forward, calls = trainer.model.forward, []

    def broken(*args, **kwargs):
        outputs = forward(*args, **kwargs)
        calls.append(1)
        if len(calls) == 3:
            outputs.loss = outputs.loss * float("nan")
        return outputs

    trainer.model.forward = broken
    trainer.validation = None
    trainer.args.eval_strategy = "no"
    with pytest.raises(TrainingError) as caught:
        trainer.train()
    message = str(caught.value)
    assert "nan at step 3" in message
    rows = trainer.batches[2]["rows"]
    assert all(row["qa_id"] in message for row in rows) and f"s{FIRST_STUDY}" in message
    assert not any(row["question"] in message or row["answer"] in message for row in rows)


def test_the_log_has_a_line_per_interval_and_what_subclasses_note(tmp_path):
    log = TrainingLog(tmp_path)
    trainer = make_trainer(tmp_path, log=log, training={"max_steps": 4, "log_every": 2})
    step = trainer.training_step

    def noting(*args):
        trainer.note("reward", trainer.state.global_step)
        return step(*args)

    trainer.training_step = noting
    trainer.train()
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "training_log.jsonl").read_text().splitlines()]
    training = [line for line in lines if "loss" in line and line["step"] in (2, 4)]
    assert [line["step"] for line in lines if "eval_loss" in line] == [1, 2, 3, 4]
    timed = {"questions_per_second", "data_wait_share"}
    assert {"step", "epoch", "loss", "grad_norm", "learning_rate_decoder"} | timed <= set(training[0])
    assert training[1]["epoch"] == pytest.approx(4 * 4 / 6, abs=1e-3)
    assert training[-1]["reward"] == 3.0  # lines at every validation: the mean of one step
    assert training[0]["questions_per_second"] > 0


@pytest.mark.parametrize(("workers", "waited", "warned"), [(1, 4.0, True), (0, 4.0, False), (1, 0.0, False)])
def test_waiting_for_images_is_measured_and_said_once(tmp_path, capsys, monkeypatch, workers, waited, warned):
    """On a clock of the test's own: a step's batches are there after `waited` seconds, and learning takes one."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("medvqa_hub.training.trainer.time", clock)

    def taking(seconds, function):
        def slowed(*args, **kwargs):
            clock.now += seconds
            return function(*args, **kwargs)

        return slowed

    monkeypatch.setattr(Trainer, "get_batch_samples", taking(waited, Trainer.get_batch_samples))
    log = TrainingLog(tmp_path)
    trainer = make_trainer(tmp_path, None, log=log, data={"workers": workers}, training={"max_steps": 4})
    trainer.training_step = taking(1.0, trainer.training_step)
    trainer.train()
    log.close()
    assert capsys.readouterr().err.count("cxr shrink") == int(warned)
    assert read_log(tmp_path)[-1]["data_wait_share"] == pytest.approx(waited / (waited + 1))


def test_workers_are_chosen_by_cores_and_processes_unless_the_recipe_says(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(16)), raising=False)  # not on macOS
    assert choose_workers(None) == 15
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert choose_workers(None) == 1
    assert (choose_workers(0), choose_workers(4)) == (0, 4)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0}, raising=False)
    assert choose_workers(None) == 1  # decoding and learning take turns on it
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(256)), raising=False)
    assert choose_workers(None) == 16


def test_a_plateau_may_be_of_another_metric_than_the_best_model(tmp_path):
    log = TrainingLog(tmp_path)
    training = {
        "scheduler": "plateau", "plateau_metric": "loss", "max_steps": 3, "learning_rates": {"decoder": 1e-3},
        "scheduler_arguments": {"patience": 0, "factor": 0.5},
    }  # fmt: skip
    selection = {"every": 1, "metric": "rouge_l", "metrics": ["loss"], "max_new_tokens": 2, "studies_per_batch": 2}
    trainer = make_trainer(tmp_path, log=log, training=training, selection=selection)
    trainer.train()
    log.close()
    assert all(line["eval_loss"] > 0 for line in read_log(tmp_path) if "eval_rouge_l" in line)
    # ROUGE-L of an untrained model stays 0, which would have halved the rate; its loss falls at each step.
    assert trainer.optimizer.param_groups[0]["lr"] == 1e-3


def test_steps_down_by_epoch(tmp_path):
    training = {"scheduler": "step", "scheduler_arguments": {"gamma": 0.5}, "max_steps": 5, "studies_per_step": 2}
    training |= {"studies_per_batch": 2, "learning_rates": {"decoder": 1e-3}}
    trainer = make_trainer(tmp_path, None, training=training)  # six studies: three steps an epoch
    rates, step = [], trainer.training_step
    trainer.training_step = lambda *args: (rates.append(trainer.optimizer.param_groups[0]["lr"]), step(*args))[1]
    trainer.train()
    assert rates == pytest.approx([1e-3, 1e-3, 1e-3, 5e-4, 5e-4])


def test_frozen_groups_rest_unless_the_recipe_says(tmp_path):
    for rest in (True, False):
        training = {"learning_rates": {"decoder": 1e-3}, "max_steps": 1, "rest_frozen": rest}
        trainer = make_trainer(tmp_path / str(rest), None, training=training)
        trainer.train()
        assert trainer.model.model.encoder.training is not rest


def test_plateau_lowers_every_groups_rate(tmp_path):
    rates = {"encoder": 1e-5, "decoder": 2e-5}
    training = {
        "learning_rates": rates, "scheduler": "plateau", "max_steps": 4,
        # nothing but a loss nine tenths lower is an improvement
        "scheduler_arguments": {"patience": 0, "factor": 0.5, "threshold": 0.9},
    }  # fmt: skip
    trainer = make_trainer(tmp_path, training=training)
    trainer.train()
    found = {group["name"]: group["lr"] for group in trainer.optimizer.param_groups}
    assert found == pytest.approx({"encoder": 1e-5 / 8, "decoder": 2e-5 / 8})


def test_the_best_model_is_kept_although_later_ones_are_worse(tmp_path):
    trainer = make_trainer(tmp_path, training={"max_steps": 3})
    values = iter([3.0, 2.0, 2.5])
    trainer.validation.measure = lambda model, accelerator: {"loss": next(values)}
    saved = {}
    real = trainer.save_best
    trainer.save_best = lambda *best: (
        saved.update({trainer.state.global_step: {n: w.clone() for n, w in trainer.model.state_dict().items()}}),
        real(*best),
    )
    trainer.train()
    manifest = json.loads((tmp_path / "best" / "manifest.json").read_text())
    assert (manifest["step"], manifest["value"], manifest["metric"]) == (2, 2.0, "loss")
    assert sorted(saved) == [1, 2]
    found = weights(tmp_path / "best")
    assert all(torch.equal(found[name], saved[2][name]) for name in found)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"avx512_bf16": True}, "bfloat16"), ({"amx_bf16": True}, "bfloat16"), ({}, "float32")],
)
def test_automatic_precision_follows_the_processor(monkeypatch, capabilities, expected):
    monkeypatch.setattr(arguments, "uses_cpu", lambda: True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert arguments.resolve_precision("auto") == expected
    assert arguments.resolve_precision("float32") == "float32"


def test_bfloat16_gives_nearly_the_same_losses(tmp_path):
    losses = {
        precision: run(tmp_path / precision, model=NO_DROPOUT, training={"precision": precision, "max_steps": 3})
        for precision in ("float32", "bfloat16")
    }
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)
    assert losses["bfloat16"] != losses["float32"]


def test_steps_and_shares():
    half = recipe(training={"epochs": 1.5, "max_steps": None})
    assert count_steps(half, 10) == 4  # 15 studies, 4 a step
    assert count_steps(recipe(), 10) == 2
    assert count_batches(recipe(training={"studies_per_batch": 1}), 2) == 2
    with pytest.raises(ConfigError, match="3 processes.*4 batches"):
        count_batches(recipe(training={"studies_per_batch": 1}), 3)


def test_arguments_that_the_scheduler_does_not_take(tmp_path):
    trainer = make_trainer(tmp_path, training={"scheduler": "cosine", "scheduler_arguments": {"patience": 2}})
    with pytest.raises(ConfigError, match="cosine.*patience"):
        trainer.train()


def test_a_validation_each_epoch(tmp_path):
    settings = recipe(selection={"every": "epoch"}, training={"epochs": 2.0, "max_steps": None})
    arguments = make_arguments(settings, tmp_path, studies=10, validates=True)
    assert (arguments.eval_steps, arguments.max_steps) == (3, 5)  # 4 studies a step


def test_the_recipes_device_is_where_answers_are_scored(tmp_path, monkeypatch):
    from medvqa_hub.training import validation

    devices = []

    class Scorer:
        def __init__(self, encoder, layer, device, **others):
            devices.append(device)

        def score(self, predictions, references):
            return [(0.5, 0.5, 0.25)] * len(predictions)

    monkeypatch.setattr(validation, "BertScorer", Scorer)
    for device in (None, "meta"):
        trainer = make_trainer(tmp_path, selection={"metric": "bert_score", "bert_score_device": device})
        assert trainer.validation._score_pairs(["a"], ["b"]) == {"bert_score": 0.25}
    assert devices == [str(trainer.args.device), "meta"]


def test_no_random_state_and_nothing_pickled_is_written(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train()
    (step, folder) = checkpoints.complete_checkpoints(tmp_path)[-1]
    names = {path.name for path in folder.iterdir()}
    assert step == 2 and {"model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"} <= names
    assert not names & {"training_args.bin", "rng_state.pth"}
    for name in ("optimizer.pt", "scheduler.pt"):
        torch.load(folder / name, weights_only=True)
    assert read_governance(folder) is Governance.OPEN


@pytest.mark.parametrize("limit", [100_000, 5_000_000], ids=["while weights are written", "while the optimizer is"])
def test_a_full_disk_is_an_error_that_names_the_checkpoint_and_leaves_none(tmp_path, limit):
    trainer = make_trainer(tmp_path, validation=None, training={"max_steps": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OutputError, match=r"checkpoint-000001.*(free some space|run the same command)"):
            trainer.train()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoints.complete_checkpoints(tmp_path) == []
    assert not list(tmp_path.glob("*checkpoint*"))


def test_a_credentialed_checkpoint_is_for_its_owner_alone(tmp_path):
    settings = recipe(training={"max_steps": 1})
    model, processor = settings.open_model(None, TEXTS)
    SupervisedTrainer(model, processor, TrainingRun(settings, tmp_path), ROWS, ROWS).train()
    for name in ("best", "checkpoint-000001"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
        assert read_governance(tmp_path / name) is Governance.CREDENTIALED
