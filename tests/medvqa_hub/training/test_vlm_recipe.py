"""Recipes of `train vlm`: complete, overridable, and what does not fit is refused. Rewards as TRL calls them."""

import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.training.recipe_files import count_steps
from medvqa_hub.training.rewards import make_reward
from medvqa_hub.training.vlm.recipe import load_vlm_recipe, make_vlm_recipe, shipped_vlm_recipes
from medvqa_hub.training.vlm.rewards import AnswerReward, read_completion
from medvqa_hub.training.vlm.run import train_vlm


@pytest.mark.parametrize("name", shipped_vlm_recipes())
def test_a_shipped_recipe_s_complete_form_reads_back_equal(name, tmp_path):
    recipe = load_vlm_recipe(name)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert load_vlm_recipe(str(tmp_path / "recipe.yaml")) == recipe
    assert recipe.training.stage in name


def test_steps_count_a_part_of_a_step():
    recipe = load_vlm_recipe("vlm-sft", ["training.epochs=2"])
    assert count_steps(recipe, 33) == 3 and count_steps(recipe, 32) == 2 and count_steps(recipe, 1) == 1
    grpo = load_vlm_recipe("vlm-grpo")
    assert count_steps(grpo, 33) == 1000 and grpo.sequences_per_step == 64


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vlm-sft", "training.rate=1", "did you mean"),
        ("vlm-sft", "training.max_steps=3", "max_steps is 3"),
        ("vlm-sft", "training.rows_per_batch=5", "32 sequences"),
        ("vlm-sft", "training.vision=true", "lora.vision"),
        ("vlm-sft", "data.categories=[Oedema]", "'Oedema'.*'Atelectasis'"),
        ("vlm-sft", "data.label_values=[yes]", "True.*|'yes'.*"),
        ("vlm-sft", "lora.quantize=2bit", "8bit"),
        ("vlm-sft", "reward.name=finding", "reward is set"),
        ("vlm-sft", "training.stage=grpo", "grpo is missing"),
        ("vlm-grpo", "data.turns=study", "one question at a time"),
        ("vlm-grpo", "data.validation_split=validation", "no validation"),
        ("vlm-grpo", "grpo.answers=1", "greater than or equal to 2"),
    ],
)
def test_what_does_not_fit_is_refused(name, change, message):
    with pytest.raises(ConfigError, match=message):
        load_vlm_recipe(name, [change])


def test_unknown_names():
    with pytest.raises(InputError, match="tiny-vlm-grpo"):
        load_vlm_recipe("swin-ved-stage1")
    with pytest.raises(ConfigError, match="did you mean 'lora'"):
        make_vlm_recipe({"lorra": {}})


def test_packing_is_refused_and_vllm_is_passed_to_trl(tmp_path):
    with pytest.raises(ConfigError, match="does not pack conversations with images"):
        load_vlm_recipe("vlm-sft", ["training.packing=true"])
    with pytest.raises(ConfigError, match=r"\[vllm\]"):
        train_vlm(load_vlm_recipe("vlm-grpo", ["grpo.vllm=true"]), "model", tmp_path, tmp_path / "out")


def completion(text: str) -> list[dict]:
    return [{"role": "assistant", "content": text}]


def test_finding_accuracy_asks_what_the_label_says():
    answers = ["Yes, there is an effusion.", "No effusion is seen.", "Possibly an effusion.", "Nice weather.", "x", "y"]
    labels = ["positive", "positive", "positive", "negative", "uncertain", "not_mentioned"]
    score = make_reward("finding_accuracy")
    columns = {"category": ["Pleural Effusion"] * 6, "label_value": labels}
    assert score(answers, answer=["reference"] * 6, **columns) == [1.0, 0.0, 0.0, 0.0, None, None]
    heart = {"category": ["Heart"], "label_value": ["positive"]}
    assert score(["The heart is large."], answer=["The heart is large."], **heart) == [None]
    label = make_reward("label")  # the same, and 0.5 where the label says nothing
    assert label(answers, answer=["reference"] * 6, **columns) == [1.0, 0.0, 0.0, 0.0, 0.5, 0.5]
    assert label(["The heart is large."], answer=["The heart is large."], **heart) == [0.5]
    with pytest.raises(InputError, match="category and label_value"):
        score(["x"], answer=["y"], category=["Edema"])


def test_a_reward_of_ours_as_trl_calls_it_counts_what_it_cannot_score():
    reward = AnswerReward(make_reward("finding_accuracy"), "finding_accuracy")
    columns = {
        "ground_truth": ["Edema.", "No edema."], "category": ["Edema", "Edema"],
        "label_value": ["positive", "uncertain"], "qa_id": ["a", "b"], "images": [[], []], "prompts": [[], []],
        "completion_ids": [[1], [2]], "trainer_state": object(),
    }  # fmt: skip
    assert reward([completion("Edema is seen."), completion("No edema.")], **columns) == [1.0, None]
    assert reward.counts == {"answers_scored": 1, "answers_without_a_score": 1}
    assert reward.__name__ == "finding_accuracy"
    broken = AnswerReward(lambda completions, **columns: [float("nan")] * len(completions), "broken")
    with pytest.raises(InputError, match="nan .* a"):
        broken([completion("x"), completion("y")], **columns)


def test_a_completion_s_text_whatever_its_form():
    assert read_completion(completion("words")) == "words"
    parts = [{"type": "text", "text": "two "}, {"type": "image"}, {"type": "text", "text": "parts"}]
    assert read_completion([{"role": "assistant", "content": parts}]) == "two parts"
