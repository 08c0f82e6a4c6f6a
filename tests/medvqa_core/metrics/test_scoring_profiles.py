"""The two profiles: `released` to the digit, by a second implementation and the package rouge; what `ours` corrects."""

import json

import pytest
from paths import GOLDEN
from released_scoring import clean
from released_scoring import rouge_l as expected_rouge_l
from released_scoring import soft_accuracy as expected_accuracy
from scoring_cases import cases

from medvqa_core import metrics
from medvqa_core.errors import ConfigError
from medvqa_core.metrics.chinese import map_released
from medvqa_core.metrics.meddqa_scores import score_meddqa
from medvqa_core.metrics.released_rouge import released_rouge_l
from medvqa_core.metrics.soft_accuracy import soft_accuracy

TASKS = {"multi_nr": "table_nr_qa", "single_nr": "table_nr_qa", "MC": "disease_qa", "SA": "advice_qa"}
TASKS |= {
    "single_entity": "entity_qa",
    "multi_entity": "entity_qa",
    "single_span": "table_qa",
    "multi_span": "table_qa",
}


def test_every_score_of_the_released_profile_is_the_scripts():
    made = cases(1800)
    predictions, answers, types = (list(column) for column in zip(*made, strict=True))
    tasks = [TASKS[answer_type] for answer_type in types]
    scores = score_meddqa(predictions, answers, tasks, types, profile="released")
    assert scores.samples["accuracy"] == [expected_accuracy(*case) for case in made]
    assert scores.samples["rouge_l"] == [expected_rouge_l(prediction, answer) for prediction, answer, _ in made]
    assert scores.record["profile"] == "released" and "script" in scores.record["rules"]
    corrected = score_meddqa(predictions, answers, tasks, types)
    assert corrected.record["profile"] == "ours"
    differ = sum(a != b for a, b in zip(scores.samples["accuracy"], corrected.samples["accuracy"], strict=True))
    assert differ > 50  # the cases do tell the two apart


def test_rouge_l_is_that_of_the_package():
    """Values that rouge 1.0.1 gave; the file says how they were made."""
    golden = json.loads((GOLDEN / "released_rouge_l.json").read_text(encoding="utf-8"))
    assert len(golden["cases"]) > 150
    for prediction, answer, value in golden["cases"]:
        assert released_rouge_l(prediction, answer) == value


def test_rouge_l_by_hand():
    assert released_rouge_l("甲 乙", "甲 乙") == 2.0 * (1.0 / (2.0 + 1e-8)) < 1
    assert released_rouge_l("盆腔平扫", "盆腔增强") == 0  # a Chinese sentence is one word
    assert released_rouge_l("甲 甲 甲", "甲") == released_rouge_l("甲", "甲")  # words count once
    assert released_rouge_l("甲 乙", "乙 甲") == pytest.approx(0.5)
    assert released_rouge_l("甲. 乙", "乙 甲") == pytest.approx(1)  # one word of each sentence: the union has both
    assert released_rouge_l("...", "甲") == 0.0


@pytest.mark.parametrize(
    ("prediction", "answer", "answer_type", "released", "ours"),
    [
        ("1;2", "1;2;3", "multi_span", 1, 2 / 3),  # only the first two parts count
        ("3", "1;2;3", "multi_span", 0, 1 / 3),
        ("9.4", "9.4;", "multi_span", 1, 1),  # the empty part stands in everything
        ("9.4", "9.4", "multi_span", 0.5, 1),
        ("A.x;;", "A.x", "MC", 1, 1),
        ("A.x;B.y;;", "A.x", "MC", 1, 0),  # two of four named: right too often
        ("A.x;y;", "A.x", "MC", 0, 1),  # a reason is no option
        ("A.x;B.y", "A.x;B.y", "MC", 1, 1),
        ("A.x;B.y;C.z", "A.x", "MC", 0, 0),
        ("无法从图片中判断哪些指标异常", "无异常结果", "multi_nr", 1, 0),  # 无法 holds a 无
        ("无异常，其余无法看清", "无异常结果", "multi_nr", 1, 0),
        ("1.5~7.4", "1.5-7.4", "single_span", 1, 1),
        ("1.5～7.4", "1.5-7.4", "single_span", 1, 1),
        ("1.5--7.4", "1.5-7.4", "single_span", 0, 1),
        ("1.5–7.4", "1.5-7.4", "single_span", 0, 1),
        ("D.HIFU...", "D.HIFU…", "MC", 1, 1),
        ("待查...", "待查……", "SA", 0, 1),
        ("甲、乙", "甲,乙", "single_entity", 0, 1),
        ("＞5", ">5", "single_span", 0, 1),
        ("１．１０", "1.10", "single_span", 0, 1),
        ("1; 2", "1 ; 2", "multi_span", 0.5, 1),
        ("无", "无异常结果。", "multi_nr", 1, 1),
    ],
)
def test_where_the_profiles_differ(prediction, answer, answer_type, released, ours):
    assert soft_accuracy(prediction, answer, answer_type, "released") == pytest.approx(released)
    assert soft_accuracy(prediction, answer, answer_type) == pytest.approx(ours)


def test_failures_score_nothing_in_either_profile():
    for profile in ("released", "ours"):
        record = score_meddqa([None, ""], ["甲;"] * 2, ["table_qa"] * 2, ["multi_span"] * 2, profile=profile)
        assert record.samples == {"accuracy": [0, 0], "rouge_l": [0, 0]} and record.record["all"]["failed"] == 2


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="'paper'.*released, ours"):
        score_meddqa(["a"], ["a"], ["entity_qa"], ["SA"], profile="paper")


def test_signs_are_mapped_in_one_pass():
    for text in ("，。！？：；“”‘’（）【】～~—…", "、＞＜＝％", "…~…"):
        assert map_released(text) == clean(text)


def test_table_7():
    columns = {
        "predictions": ["A", "B", "A", "甲乙"],
        "answers": ["A", "A", "A", "甲"],
        "tasks": ["disease_qa", "disease_qa", "advice_qa", "status_qa"],
        "answer_types": ["MC", "MC", "MC", "SA"],
    }
    table = score_meddqa(**columns, laboratory=[True, True, False, False]).record["table_7"]
    assert table["mc_accuracy_laboratory_disease"] == 0.5 and table["mc_accuracy_clinical_advice"] == 1
    assert table["sa_rouge_l_clinical_status"] == pytest.approx(2 / 3)
    assert table["mc_accuracy_laboratory_advice"] is None and len(table) == 12
    unknown = score_meddqa(**columns).record["table_7"]
    assert set(unknown.values()) == {None}


def test_the_module_works_without_qualities_and_says_its_profile():
    module = metrics.load("meddqa")
    columns = {"predictions": ["1"], "references": ["1;2;3"], "tasks": ["table_qa"], "answer_types": ["multi_span"]}
    assert module.compute(**columns)["table_5"]["table_accuracy"] == pytest.approx(1 / 3)
    assert module.compute(**columns, profile="released")["table_5"]["table_accuracy"] == 0.5
    assert module.compute(**columns, image_qualities=["high"])["table_6"]["table_accuracy_high"] == pytest.approx(1 / 3)
    soft = metrics.load("soft_accuracy").compute(
        predictions=["1"], references=["1;2;3"], answer_types=["multi_span"], profile="released"
    )
    assert (soft["soft_accuracy"], soft["profile"]) == (0.5, "released")
