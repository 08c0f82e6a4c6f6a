"""A perfect model has the perfect score: references that went through the tokenizer and back, in every metric.

The wrong result that each part catches: scored against references as they stand ("band-like"), the same answers, spaced
by a vocabulary of words ("band - like"), lose 3% of BLEU-1 and half a point of CIDEr.
"""

import csv

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scst_models import make
from swin_ved import train_tokenizer

from medvqa_core.metrics import meteor
from medvqa_core.metrics.answer_text import spaced
from medvqa_core.metrics.bleu import bleu_scores
from medvqa_core.metrics.caption_row import score_row
from medvqa_hub.evaluation.cxr.finding_accuracy import answer_polarity
from medvqa_hub.evaluation.cxr.text_scores import TextScorer
from medvqa_hub.training.recipes import RewardSettings, SelectionSettings
from medvqa_hub.training.rewards import make_reward
from medvqa_hub.training.validation import Validation

REFERENCES = (
    "There is a band-like opacity in the left mid-lung.", "No pleural effusion, i.e. no blunting, is seen.",
    "The tube's tip ends 4.2 cm above the carina (AP view).", "Mild-to-moderate cardiomegaly; T10/T11 are normal.",
    "A <5 mm nodule can't be excluded in the right upper lobe...", "Yes, both lungs show 1 1/2 cm² opacities & edema!",
    "Dr. Doe's “small” effusion is unchanged, vitamin K. The rest is clear.", "Überlagerung na\u0308he ½ of the heart.",
)  # fmt: skip
TEXT_METRICS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l")


def through_the_tokenizer(references) -> list[str]:
    """What a SwinVED that knows every answer by heart writes."""
    tokenizer = train_tokenizer(references)
    ids = tokenizer(list(references), add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return [tokenizer.decode(row, skip_special_tokens=True) for row in ids]


def assert_perfect(row: dict, cider: float = 10.0) -> None:
    assert {name: row[name] for name in TEXT_METRICS} == pytest.approx(dict.fromkeys(TEXT_METRICS, 1.0), abs=1e-6)
    assert row["cider"] == pytest.approx(cider, abs=1e-6)


def test_these_references_come_back_changed():
    """Otherwise the tests below would prove nothing."""
    predictions = through_the_tokenizer(REFERENCES)
    assert all(prediction != reference for prediction, reference in zip(predictions, REFERENCES, strict=True))
    raw = bleu_scores(predictions, REFERENCES).corpus["bleu_1"]  # on the tools' words of each as it stands
    assert raw < 0.97


def test_evaluation_gives_the_perfect_row():
    texts = TextScorer(encoder="minilm", layer=6).score(through_the_tokenizer(REFERENCES), REFERENCES)
    assert_perfect(texts.whole.row)
    assert texts.whole.row["bertscore"] == pytest.approx(1.0, abs=1e-5)
    part = texts.of([0, 3, 5])
    assert part["bleu_4"] == pytest.approx(1.0, abs=1e-6) and part["cider"] == pytest.approx(10.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(meteor.missing() is not None, reason=str(meteor.missing()))
def test_the_paper_s_profile_gives_the_perfect_row():
    predictions = [*through_the_tokenizer(REFERENCES), *REFERENCES]  # in one call: the program takes long to start
    row = score_row(predictions, REFERENCES * 2, "paper", encoder="none")
    assert_perfect(row.row)
    assert row.samples["meteor"] == pytest.approx([1.0] * 16, abs=1e-6)


@pytest.mark.parametrize("name", ["bert_score", "rouge_l", "bleu_4", "cider", "bert_score:0.5+rouge_l:0.5"])
def test_rewards_give_the_perfect_reward(name):
    reward = make_reward(RewardSettings(name=name, encoder="minilm", layer=6), training_references=REFERENCES)
    expected = 10.0 if name == "cider" else 1.0
    assert reward(through_the_tokenizer(REFERENCES), answer=list(REFERENCES)) == pytest.approx([expected] * 8, abs=1e-5)


def test_validation_gives_the_perfect_score():
    settings = SelectionSettings(
        metric="bert_score", metrics=["bleu_1", "bleu_4", "rouge_l", "cider"], bert_score_encoder="minilm",
        bert_score_layer=6,
    )  # fmt: skip
    validation = Validation.__new__(Validation)  # its scores alone: no studies, no model
    validation.selection, validation._scorer = settings, None
    validation.metrics = [settings.metric, *settings.metrics]
    validation.arguments = type("Arguments", (), {"device": "cpu"})
    scores = validation._score_pairs(through_the_tokenizer(REFERENCES), list(REFERENCES))
    assert scores.pop("cider") == pytest.approx(10.0, abs=1e-6)
    assert list(scores.values()) == pytest.approx([1.0] * 4, abs=1e-5)


@given(st.text())
def test_any_text_comes_back_as_itself(text):
    try:
        tokenizer = train_tokenizer([text])
    except ValueError:  # no word in it
        assume(False)
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert spaced(tokenizer.decode(ids, skip_special_tokens=True)) == spaced(text)


def test_real_report_sentences_come_back_as_themselves(real_data):
    with (real_data / "iu_cxr" / "indiana_reports.csv").open(encoding="utf-8", newline="") as file:
        texts = {row[name] for row in csv.DictReader(file) for name in ("findings", "impression")}
    sentences = sorted({sentence for text in texts for sentence in text.split(". ") if spaced(sentence)})
    assert len(sentences) > 2_500
    row = score_row(through_the_tokenizer(sentences), sentences).row
    assert {name: row[name] for name in TEXT_METRICS} == pytest.approx(dict.fromkeys(TEXT_METRICS, 1.0), abs=1e-6)
    assert row["cider"] == pytest.approx(score_row(sentences, sentences).row["cider"], abs=1e-9)


def test_the_processor_s_own_way_back_gives_it_too():
    _, processor, batch = make("swin_ved")
    answers = [row["answer"] for row in batch["rows"]]
    decoded = processor.batch_decode(batch["labels"])
    assert decoded != answers and [spaced(text) for text in decoded] == [spaced(text) for text in answers]


@pytest.mark.parametrize(
    ("category", "answer"),
    [
        ("Atelectasis", "Possibly; there is cardiomegaly, with bibasilar opacities atelectasis and/or infiltrate."),
        ("Atelectasis", "Yes, there are pleural effusions with bibasilar atelectasis/airspace disease."),
        ("Pneumothorax", "No pneumothorax is seen on this x-ray; the left-sided tube's tip is unchanged."),
    ],
)
def test_finding_accuracy_reads_both_alike(category, answer):
    (spaced_out,) = through_the_tokenizer([answer])
    assert answer_polarity(spaced_out, category) == answer_polarity(answer, category) != "undecided"
    reward = make_reward("finding")
    assert reward([spaced_out], answer=[answer], category=[category]) == [1.0]
