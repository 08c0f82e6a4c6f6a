"""The table of model families: a third model is one file and one line, from `train` to the scores."""

import json

import pytest
import toy_family
import typer
from builds import build_release
from typer.testing import CliRunner

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.evaluation.cxr.evaluating import evaluate_cxr
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, GenerationSettings, ScoreOptions
from medvqa_hub.families.registry import FAMILIES, check_placeholder, find_family
from medvqa_hub.training import cli
from medvqa_hub.training.recipes import make_recipe
from medvqa_hub.training.run import train
from medvqa_hub.training.training_log import read_log

RATES = {"images": 1e-2, "language": 1e-2}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("build"), studies=12)


@pytest.fixture
def toy(monkeypatch):
    """The line in the table."""
    monkeypatch.setitem(FAMILIES, "toy", "toy_family:Toy")
    return find_family("toy")


def settings(rates=None, **sections) -> dict:
    training = {
        "epochs": None, "max_steps": 2, "studies_per_step": 2, "studies_per_batch": 1, "log_every": 1,
        "learning_rates": rates or RATES,
    }  # fmt: skip
    return {
        "model": {"kind": "toy"},
        "data": {"questions_per_study": 2},
        "training": training,
        "selection": {"every": 1, "studies": 2, "questions_per_study": 2, "metrics": ["bleu_1"], "max_new_tokens": 4},
        **sections,
    }


def test_a_model_must_not_generate_its_image_placeholder(toy):
    """The tokens of a sampled answer are read again, and a placeholder among them would lack its features."""
    model, _ = toy.open(toy_family.ToySettings(), None, ["no edema"])
    model.config.image_token_id = 4
    for tokens in (None, [3]):
        model.generation_config.suppress_tokens = tokens
        with pytest.raises(ConfigError, match=r"image_token_id 4\).*suppress_tokens = \[4\]"):
            check_placeholder(model)
    model.generation_config.suppress_tokens = [3, 4]
    check_placeholder(model)
    model.config.is_encoder_decoder, model.generation_config.suppress_tokens = True, None
    check_placeholder(model)


def test_a_third_family_trains_two_steps_goes_on_to_the_next_stage_and_is_evaluated(toy, build, tmp_path):
    data, root = build.workspace.root, build.tree
    train(make_recipe(settings()), data, tmp_path / "one", root, log=lambda line: None)
    log = read_log(tmp_path / "one")
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 2 and losses[1] != losses[0]
    assert {"learning_rate_images", "learning_rate_language"} <= set(log[0])
    assert [entry["step"] for entry in log if "eval_bleu_1" in entry] == [1, 2]

    reward = {"scst": {"max_new_tokens": 4}, "reward": {"name": "rouge_l"}}
    second = make_recipe(settings({"images": 0.0, "language": 1e-2}, **reward))
    train(second, data, tmp_path / "two", root, tmp_path / "one", log=lambda line: None)
    scored = [entry for entry in read_log(tmp_path / "two") if "sample_reward" in entry]
    assert len(scored) == 2 and "learning_rate_images" not in scored[0]

    (result,) = evaluate_cxr(
        tmp_path / "scores",
        DataOptions(data, image_root=root, limit=2),
        AnswerOptions(str(tmp_path / "two" / "best"), generation=GenerationSettings(1, 4)),
        ScoreOptions(examples=0),
    )
    assert result["model"]["kind"] == "toy"
    assert result["counts"]["failed"] == 0 and result["counts"]["scored"] > 0
    assert 0 <= result["table_4"]["bleu_1"] <= 1
    written = json.loads((tmp_path / "scores" / "results.json").read_text())
    assert written["table_4"] == result["table_4"]


def test_a_third_family_gets_its_command(toy, build, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "app", typer.Typer())
    cli.add_command("toy")
    cli.app.callback()(lambda: None)
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(json.dumps(settings()))
    arguments = ["toy", "--recipe", str(recipe), "--data", str(build.workspace.root), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app, [*arguments, "--image-root", str(build.tree), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "2 steps of 2 studies x 2 questions" in done.output
    help_ = CliRunner().invoke(cli.app, ["toy", "--help"]).output
    assert "Train Toy" in help_


def test_another_familys_checkpoint_is_refused(toy, build, tmp_path, monkeypatch):
    out = tmp_path / "toy"
    train(make_recipe(settings()), build.workspace.root, out, build.tree, log=lambda line: None)
    with pytest.raises(ConfigError, match="'toy'.*'swin_ved'"):
        find_family("swin_ved").open(find_family("swin_ved").settings(size="tiny"), out, [])
    monkeypatch.delitem(FAMILIES, "toy")
    with pytest.raises(InputError, match="'toy'.*swin_ved and blip2_multiview"):
        evaluate_cxr(
            tmp_path / "scores",
            DataOptions(build.workspace.root, image_root=build.tree),
            AnswerOptions(str(out / "best")),
        )


def test_what_the_table_does_not_have_is_named():
    with pytest.raises(ConfigError, match="'llava'.*swin_ved, blip2_multiview"):
        find_family("llava")
    with pytest.raises(ConfigError, match="'llava'.*swin_ved, blip2_multiview"):
        make_recipe({"model": {"kind": "llava"}})


@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_name_is_its_model_type_and_the_kind_of_its_settings(name):
    family = find_family(name)
    family.register()
    from transformers import AutoConfig

    assert AutoConfig.for_model(name).model_type == name == family.name
    assert family.settings().kind == name
    assert toy_family.Toy.name not in FAMILIES
