"""Rewards: values, policies for what cannot be scored, weighted sums, and errors that say what to do."""

import math

import numpy as np
import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.bert_score import PAPER_BASELINE, BertScorer
from medvqa_core.metrics.cider import DocumentFrequencies, cider_scores
from medvqa_core.text_encoder import TextEncoder
from medvqa_hub.training.recipes import RewardSettings
from medvqa_hub.training.rewards import REWARDS, check_rewards, digest_user_rewards, make_reward

REFERENCES = ["no pleural effusion is seen", "the heart is enlarged", "there is a small left pneumothorax"]
MINILM = RewardSettings(name="bert_score", encoder="minilm", layer=6)


OWN = """
def length(completions, answer, **columns):
    return [float(len(text) - len(truth)) if text else None for text, truth in zip(completions, answer)]

def broken(completions, **columns):
    return [1.0]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "own_rewards.py"


def test_a_function_of_the_users_file_or_module_is_a_reward(own):
    texts, truths = ["heart", "", "no"], ["a heart", "no", "--"]
    for name in (f"{own}:length", "own_rewards:length"):
        # 5 - 7 characters; None of the function; a reference without a letter is not scored
        assert make_reward(name)(texts, answer=truths) == [-2.0, None, None]
        assert make_reward(f"{name}:0.5+rouge_l:2")(["no heart"], answer=["no"]) == pytest.approx(
            [0.5 * 6 + 2 * make_reward("rouge_l")(["no heart"], answer=["no"])[0]]
        )


def test_the_digest_of_the_users_code_follows_its_content(own):
    name = f"{own}:length:0.5+rouge_l"
    before = digest_user_rewards(name)
    assert set(before) == {f"{own}:length"} and digest_user_rewards("rouge_l+bleu_4") == {}
    own.write_text(OWN + "# changed")
    assert digest_user_rewards(name) != before


def test_what_is_wrong_with_the_users_reward_is_reported(own, tmp_path):
    with pytest.raises(InputError, match="1 values for 2 answers"):
        make_reward(f"{own}:broken")(["a", "b"], answer=["a", "b"])
    for name, expected in (
        (f"{own}:missing", "no function 'missing'"),
        ("no_such_rewards:length", "PYTHONPATH"),
        (f"{own}:length:0", "not a number other than 0"),
        (f"{own}:length+{own}:length", "twice"),
    ):
        with pytest.raises(ConfigError, match=expected):
            make_reward(name)
    with pytest.raises(InputError, match="not a file"):
        make_reward(f"{tmp_path / 'absent.py'}:length")


def test_rouge_and_bleu_of_single_answers():
    reward = make_reward("rouge_l")
    predictions = ["no pleural effusion is seen", "the heart", "clear lungs"]
    # Two of two words found, two of four: P = 1, R = 0.5, beta 1.2: 2.44 * 0.5 / (0.5 + 1.44) = 0.6288660
    assert reward(predictions, answer=REFERENCES) == pytest.approx([1.0, 0.6288660, 0.0], abs=1e-6)
    values = make_reward("bleu_4")(["no pleural effusion is seen", "the heart is enlarged now", ""], answer=REFERENCES)
    # 4/5 * 3/4 * 2/3 * 1/2 = 1/5 to the power 1/4
    assert values == pytest.approx([1.0, 0.2**0.25, 0.0], abs=1e-4)


def test_cider_takes_document_frequencies_from_the_training_references_not_from_the_batch():
    training = ["the lungs are clear", "the heart is normal", "the heart is enlarged", "no effusion"]
    reward = make_reward("cider", training_references=iter(training))
    alone = reward(["the heart is enlarged"], answer=["the heart is enlarged"])
    among = reward(["the heart is enlarged", "no"], answer=["the heart is enlarged", "no effusion"])
    assert alone[0] == among[0] > 0  # frequencies of the batch would give 0 for one answer alone
    expected = cider_scores(
        ["the heart is enlarged", "no"], ["the heart is enlarged", "no effusion"],
        frequencies=DocumentFrequencies.build(training),
    )  # fmt: skip
    assert among == expected.samples["cider"]
    with pytest.raises(ConfigError, match="training_references"):
        make_reward("cider")


@pytest.mark.parametrize("name", ["bert_score", "rouge_l", "bleu_4", "cider"])
def test_an_empty_reference_cannot_be_scored_and_an_empty_answer_scores_least(name):
    settings = RewardSettings(name=name, encoder="minilm", layer=2)
    reward = make_reward(settings, training_references=REFERENCES)
    predictions = ["the heart is enlarged", "anything", "anything", "", " "]
    references = ["the heart is enlarged", "", " .. ", "the heart is enlarged", "the heart is enlarged"]
    values = reward(predictions, answer=references, qa_id=list("abcde"))
    assert values[1] is None and values[2] is None
    assert values[3] == values[4] == pytest.approx(0.0, abs=1e-4)
    assert values[0] > 0.9
    assert reward(["x"], answer=[""]) == [None]


def test_a_sum_weighs_its_parts_and_needs_all_of_them(monkeypatch):
    monkeypatch.setitem(REWARDS, "length", lambda p, **c: [float(len(text)) for text in p])
    monkeypatch.setitem(REWARDS, "picky", lambda p, **c: [None if "x" in text else 1.0 for text in p])
    reward = make_reward("length:0.5 + picky:-2")
    assert reward(["abcd", "x"], answer=["a", "b"]) == [0.0, None]
    assert reward.__name__ == "length:0.5 + picky:-2"


def test_a_reward_gets_the_rows_columns_without_those_that_cannot_be_scored(monkeypatch):
    seen = {}

    def curious(completions, **columns):
        seen.update(columns, completions=completions)
        return [0.5] * len(completions)

    monkeypatch.setitem(REWARDS, "curious", curious)
    make_reward("curious:2")(
        ["a", "b", "c"], answer=["x", "", "z"], category=["Edema", "Fracture", "Heart"], qa_id=[1, 2, 3]
    )
    assert seen == {"completions": ["a", "c"], "answer": ["x", "z"], "category": ["Edema", "Heart"], "qa_id": [1, 3]}


FINDINGS = [  # category, reference, answer, value
    ("Edema", "there is mild pulmonary edema", "yes, edema is seen", 1.0),
    ("Edema", "there is mild pulmonary edema", "no edema is seen", 0.0),
    ("Edema", "there is mild pulmonary edema", "possible edema", 0.0),
    ("Edema", "edema is possible", "possible mild edema", 1.0),
    ("Edema", "no edema", "the heart is large", 0.0),  # says nothing of edema
    ("Edema", "no edema", "", 0.0),
    ("Edema", "no edema", "yes, no edema", 0.0),  # contradicts itself
    ("No Finding", "yes, there is a left effusion", "no, the chest is normal", 0.0),
    ("No Finding", "yes, there is a left effusion", "there is a fracture", 1.0),
    ("Heart", "the heart is enlarged", "the heart is normal", 0.5),
    ("Edema", "the spine is curved", "no edema", 0.5),  # the reference is undecided
    ("Edema", "the spine is curved", "there is edema", 0.5),
]


def test_finding_rewards_what_is_said_of_the_finding_and_nothing_else():
    categories, references, answers, expected = map(list, zip(*FINDINGS, strict=True))
    assert make_reward("finding")(answers, answer=references, category=categories) == expected


def test_finding_alone_can_be_won_without_wording_which_is_why_it_stands_in_a_sum():
    reward = make_reward(RewardSettings(name="bert_score:0.3+finding:0.7", encoder="minilm", layer=6))
    texts = ["no", "no pleural effusion is seen", "a pleural effusion is seen"]
    bare, whole, wrong = reward(texts, answer=["no pleural effusion is seen"] * 3, category=["Pleural Effusion"] * 3)
    assert bare < whole == pytest.approx(1.0, abs=1e-5)
    # Of its 0.7 for the finding a right word keeps all; the wrong finding in the right words keeps none.
    assert bare > 0.7 > wrong


def test_finding_without_categories_is_a_clear_error():
    with pytest.raises(InputError, match="category"):
        make_reward("finding")(["no"], answer=["no edema"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rouge", "did you mean 'rouge_l'"),
        ("", "unknown"),
        ("rouge_l+rouge_l:2", "twice"),
        ("rouge_l:much", "other than 0"),
        ("rouge_l:nan", "other than 0"),
        ("rouge_l:0+bleu_4", "other than 0"),
    ],
)
def test_a_name_that_is_wrong_is_named(name, message):
    with pytest.raises(ConfigError, match=message):
        make_reward(name)


def test_bert_score_is_the_scorer_s_f1_and_rescaling_keeps_the_order():
    predictions = ["no effusion", "the heart is large", "there is a small left pneumothorax"]
    plain = make_reward(MINILM)(predictions, answer=REFERENCES)
    assert plain == [triple[2] for triple in BertScorer("minilm", 6).score(predictions, REFERENCES)]
    assert plain[2] == pytest.approx(1.0, abs=1e-5) and max(plain[:2]) < 0.99
    rescaled = make_reward(RewardSettings(name="bert_score", encoder="minilm", layer=6, baseline=[0.1, 0.2, 0.5]))
    assert rescaled(predictions, answer=REFERENCES) == pytest.approx([(value - 0.5) / 0.5 for value in plain])


def test_references_and_common_answers_are_encoded_once_for_greedy_and_sample(monkeypatch):
    seen = []
    original = TextEncoder.tokenize
    monkeypatch.setattr(TextEncoder, "tokenize", lambda self, texts: (seen.extend(texts), original(self, texts))[1])
    samples, greedy = ["a", "the heart", "left lung"], ["no effusion", "the heart", "right lung"]
    make_reward(MINILM)([*samples, *greedy], answer=REFERENCES * 2)
    assert sorted(seen) == sorted({*samples, *greedy, *REFERENCES})


def test_the_published_baseline_belongs_to_the_paper_s_encoder():
    with pytest.raises(ConfigError, match="distilbert-base-uncased.*null"):
        make_reward(RewardSettings(name="bert_score", encoder="minilm", layer=6, baseline="published"))
    assert PAPER_BASELINE[2] == pytest.approx(0.66620487)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", True])
def test_a_value_that_is_no_number_names_reward_and_question(value):
    with pytest.raises(InputError, match="'mine' .*q-7"):
        check_rewards([0.5, None, value], ["the answer to q-5", "the answer to q-6", "the answer to q-7"], "mine")


@pytest.mark.parametrize("values", [[1.0], None, np.ones(2)])
def test_another_number_of_values_is_an_error(values):
    with pytest.raises(InputError, match="for 2 answers"):
        check_rewards(values, ["a", "b"], "mine")
