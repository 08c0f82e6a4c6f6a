"""Recipes: the shipped ones, overrides, unknown keys, ranges, what does not fit together, differences."""

import pytest
import yaml

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.training.recipe_files import count_steps, find_differences
from medvqa_hub.training.recipes import FOLDER, SECTIONS, load_recipe, make_recipe, shipped_recipes


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_say_what_differs_and_their_resolved_form_is_complete_and_reads_back_equal(name):
    recipe = load_recipe(name)
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    sections = {**SECTIONS, "model": recipe.family.settings}
    for section, values in written.items():
        defaults = sections[section]().model_dump()
        same = [key for key, value in values.items() if defaults[key] == value]
        assert same in ([], ["kind"]), section  # a model says what it is
    resolved = yaml.safe_load(recipe.to_yaml())
    for section, values in resolved.items():
        assert values is None or list(values) == list(sections[section].model_fields)
    assert make_recipe(resolved) == recipe


@pytest.mark.parametrize(
    ("name", "questions"), [("swin-ved-stage1", 256), ("swin-ved-stage2", 256), ("blip2-multiview", 128)]
)
def test_full_recipes_have_the_papers_effective_batch_and_schedule(name, questions):
    recipe = load_recipe(name)
    assert recipe.training.studies_per_step * recipe.data.questions_per_study == questions
    assert recipe.training.scheduler == "plateau" and recipe.training.epochs == 30
    assert recipe.training.scheduler_arguments == {"patience": 2, "factor": 0.8}
    assert {rate for rate in recipe.training.learning_rates.values() if rate} == (
        {3e-6} if name.startswith("swin") else {3e-4}
    )
    # The schedule's patience counts validations: as in the paper, one an epoch.
    assert recipe.selection.metric == "bert_score" and recipe.selection.every == "epoch"


@pytest.mark.parametrize(
    ("name", "questions", "rate", "epochs", "steps"),
    [
        ("swin-ved-stage1-released", 256, 3e-6, 30, 370_055),
        ("swin-ved-stage2-released", 256, 3e-6, 30, 370_055),
        ("swin-ved-stage3-released", 12, 5e-5, 1, 263_150),
        ("blip2-multiview-released", 128, 3e-4, 30, 740_109),
    ],
)
def test_released_recipes_draw_single_questions_and_take_the_releases_steps(name, questions, rate, epochs, steps):
    recipe = load_recipe(name)
    training, selection = recipe.training, recipe.selection
    assert recipe.data.one_by_one and training.studies_per_step == questions
    assert {value for value in training.learning_rates.values() if value} == {rate}
    assert training.epochs == epochs and count_steps(recipe, 3_157_795) == steps  # the questions of Table 1
    assert training.max_grad_norm == 0 and training.weight_decay == 0
    assert (selection.metric, selection.beams, selection.every) == ("bert_score", 2, "epoch")
    assert recipe.data.validation_split == "validation"  # the release selected by its test split
    if recipe.scst is None:
        assert (training.scheduler, training.plateau_metric) == ("plateau", "loss")
    else:
        assert (training.scheduler, training.scheduler_arguments) == ("step", {"gamma": 0.8})
        assert (recipe.scst.normalize, recipe.scst.alpha, recipe.scst.gamma) == ("token", 0.6, 0.4)


def test_a_plateau_of_what_is_not_measured_is_refused():
    with pytest.raises(ConfigError, match="plateau_metric cider"):
        load_recipe("swin-ved-stage1", ["training.plateau_metric=cider"])


def test_overrides_change_one_key_and_take_numbers_as_people_write_them():
    recipe = load_recipe("tiny-swin-ved-stage1", ["training.learning_rates.decoder=3e-6", "training.weight_decay=1e-2"])
    assert recipe.training.learning_rates == {"encoder": 0.0, "decoder": 3e-6}
    assert recipe.training.weight_decay == 0.01
    assert recipe.training.studies_per_step == load_recipe("tiny-swin-ved-stage1").training.studies_per_step
    assert load_recipe("tiny-swin-ved-stage1", ["scst.alpha=1", "reward.name=rouge_l"]).scst.alpha == 1.0


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.epoch=3", r"'epoch'.*'epochs'"),
        ("trainning.epochs=3", r"'trainning'.*'training'"),
        ("training.learning_rates.decodr=1e-3", r"'decodr'.*'decoder'"),
        ("training.learning_rates.decoder=-1", "learning_rates.decoder is -1. .*equal to 0"),
        ("training.learning_rates.decoder=fast", r"learning_rates.decoder is 'fast'"),
        ("training.learning_rates={encoder: 0, decoder: 0}", "rate above 0"),
        ("training.epochs=0", "training.epochs is 0. .*greater than 0"),
        ("training.epochs=.nan", r"training.epochs is nan"),
        ("training.max_steps=10", "training.epochs is .*max_steps is 10"),
        ("training.studies_per_batch=3", "studies_per_step is 8.*studies_per_batch, 3"),
        ("training.seed=true", "training.seed is True. .*integer"),
        ("training.seed=4294967296", "training.seed is 4294967296. .*less than 4294967296"),
        ("training.seed=1.5", r"training.seed is 1.5"),
        ("training.scheduler=plato", "training.scheduler is 'plato'. .*'constant'"),
        ("training.betas=[0.9]", r"training.betas is \[0.9\]"),
        ("training.precision=fp16", "'float32' or 'bfloat16'"),
        ("data.questions_per_study=0", "data.questions_per_study is 0. .*greater than 0"),
        ("selection.metric=bleu4", r"selection.metric is 'bleu4'"),
        ("selection.metrics=[bleu_4, rouge]", "'rouge'. .*'rouge_l'"),
        ("model.kind=swin", "'swin'. .*swin_ved, blip2_multiview"),
        ("model.size=small", r"model.size is 'small'"),
        ("scst.alpha=0.5", "reward: "),
        ("training=3", r"expected section.key=value"),
        ("training.epochs", r"expected section.key=value"),
        ("training.stage.more=1", r"stage is a single value"),
        ("training.epochs.more=1", "training.epochs is .*'more': 1.*number"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_what_is_allowed(override, expected):
    with pytest.raises(ConfigError, match=expected):
        load_recipe("tiny-swin-ved-stage1", [override])


def test_without_validation_nothing_can_be_selected():
    with pytest.raises(ConfigError, match="selection.metric"):
        load_recipe("tiny-swin-ved-stage3", ["data.validation_split=null"])
    assert load_recipe("tiny-swin-ved-stage1", ["data.validation_split=null"]).data.validation_split is None


def test_blip2_needs_a_start_and_lora_a_section():
    with pytest.raises(ConfigError, match="model.size .* and model.from_blip2"):
        load_recipe("tiny-blip2-multiview", ["model.size=null"])
    with pytest.raises(ConfigError, match="without model.lora"):
        load_recipe("tiny-blip2-multiview", ["training.learning_rates.lora=1e-4"])
    recipe = load_recipe("tiny-blip2-multiview")
    assert set(recipe.training.learning_rates) <= set(recipe.family.groups)


def test_a_familys_name_has_one_spelling_and_the_earlier_one_is_understood():
    recipe = load_recipe("tiny-swin-ved-stage1")
    assert recipe.model.kind == "swin_ved"
    before = recipe.to_dict()
    before["model"]["kind"] = "swin-ved"  # as recipes and runs of earlier versions have it
    assert make_recipe(before) == recipe
    assert find_differences(before, recipe.to_dict()) == []
    before["model"]["kind"] = "blip2-multiview"
    assert find_differences(before, recipe.to_dict()) == ["model.kind was 'blip2_multiview', now 'swin_ved'"]


def test_a_recipe_that_is_not_there_or_no_yaml(tmp_path):
    with pytest.raises(InputError, match="tiny-swin-ved-stage1"):
        load_recipe("tiny-swin-ved")
    path = tmp_path / "recipe.yaml"
    path.write_text("model: [")
    with pytest.raises(InputError, match="not valid YAML"):
        load_recipe(str(path))
    path.write_text("text")
    with pytest.raises(InputError, match="expected sections"):
        load_recipe(str(path))
    path.write_text("model: !!python/object/apply:os.getcwd []")
    with pytest.raises(InputError, match="not valid YAML"):
        load_recipe(str(path))


def test_differences_name_keys_and_leave_out_what_changes_nothing():
    before = load_recipe("tiny-swin-ved-stage1").to_dict()
    now = load_recipe(
        "tiny-swin-ved-stage1", ["training.seed=3", "data.workers=2", "scst.alpha=1", "reward.name=rouge_l"]
    )
    found = find_differences(before, now.to_dict())
    assert found[0] == "training.seed was 0, now 3"
    assert [line.split(" was ")[0] for line in found] == ["training.seed", "scst", "reward"]


def test_validations_are_counted_in_steps_or_come_once_an_epoch():
    assert load_recipe("tiny-swin-ved-stage1", ["selection.every=epoch"]).selection.every == "epoch"
    with pytest.raises(ConfigError, match="selection.every is 'day'.*'epoch'"):
        load_recipe("tiny-swin-ved-stage1", ["selection.every=day"])
    with pytest.raises(ConfigError, match="selection.every is 0.*greater than 0"):
        load_recipe("tiny-swin-ved-stage1", ["selection.every=0"])
