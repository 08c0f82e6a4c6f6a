"""RJUA-MedDQA scores: the released rules case by case, units of ROUGE-L, tables, hallucinations, the real samples."""

import json

import pytest

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics import chinese
from medvqa_core.metrics.meddqa_scores import abstains, score_meddqa
from medvqa_core.metrics.rouge import rouge_l
from medvqa_core.metrics.soft_accuracy import soft_accuracy, soft_accuracy_scores


@pytest.mark.parametrize(
    ("prediction", "answer", "answer_type", "expected"),
    [
        ("结果是1.10。", "1.10", "single_span", 1),
        ("结果是1.1", "1.10", "single_span", 0),
        ("盆腔平扫，增强（三期）", "盆腔平扫,增强(三期)", "single_entity", 1),  # signs count as ASCII on both sides
        ("盆腔平扫,增强", "盆腔平扫，增强", "single_entity", 1),
        ("异常", "正常", "single_nr", 0),
        ("该项正常。", "正常", "single_nr", 1),
        ("1.10；0.75-1.2", "1.10;0.75-1.2", "multi_span", 1),
        ("参考范围0.75-1.2,结果1.10", "1.10;0.75-1.2", "multi_span", 1),  # in any order
        ("1.10", "1.10;0.75-1.2", "multi_span", 0.5),
        ("2", "1.10;0.75-1.2", "multi_span", 0),
        ("盆腔", "盆腔;膀胱", "multi_entity", 0.5),
        ("甲、乙", "甲;乙;丙;丁", "multi_nr", 0.5),
        ("甲;", "甲;", "multi_nr", 1),  # an empty part is no part
        ("所有指标都无异常", "无异常结果", "multi_nr", 1),
        ("无", "无异常结果", "multi_nr", 1),
        ("无法判断", "无异常结果", "multi_nr", 0),
        ("全部正常", "无异常结果", "multi_nr", 0),
        ("答案：B.化疗", "B.化疗", "MC", 1),
        ("A.手术；B.化疗；C.观察", "B.化疗", "MC", 0),  # names too many
        ("建议:穿刺检查", "穿刺检查", "SA", 1),
        ("", "1.10", "single_span", 0),
    ],
)
def test_released_rules(prediction, answer, answer_type, expected):
    assert soft_accuracy(prediction, answer, answer_type) == expected


def test_what_cannot_be_scored():
    with pytest.raises(InputError, match="an empty answer"):
        soft_accuracy("a", " ", "SA")
    with pytest.raises(InputError, match="'essay'.*single_entity"):
        soft_accuracy("a", "a", "essay")
    scores = soft_accuracy_scores(["a", None, "", "x"], ["a", "b", "c", ""], ["SA"] * 4)
    assert scores.samples["soft_accuracy"] == [1, 0, 0, None]
    assert scores.corpus["soft_accuracy"] == pytest.approx(1 / 3)
    assert scores.unscorable == {"soft_accuracy": 1, "failed": 2}
    for columns in (([], [], []), (["a"], ["a", "b"], ["SA"])):
        with pytest.raises(InputError, match="no predictions|differ in length"):
            soft_accuracy_scores(*columns)


def test_units_of_rouge():
    text, reference = "前列腺 体积增大，", "前列腺体积增大"
    assert chinese.characters(text) == [*reference, ","]
    assert rouge_l(chinese.characters(text), [chinese.characters(reference)], 1.0) == pytest.approx(14 / 15)
    assert chinese.characters("０．５～1…") == list("0.5-1...")
    with pytest.raises(ConfigError, match="'bytes'.*characters, words"):
        chinese.find_units("bytes")


def test_jieba_words():
    jieba = pytest.importorskip("jieba")
    assert chinese.words("前列腺癌，T2aN0M0") == jieba.lcut("前列腺癌,T2aN0M0")
    assert "".join(chinese.words("膀胱 肿瘤")) == "膀胱肿瘤"


def test_words_without_jieba_say_what_to_install(monkeypatch):
    chinese._jieba.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "jieba", None)
    with pytest.raises(ConfigError, match=r"\[words\]"):
        chinese.words("无")


def rows() -> dict:
    table = [
        # prediction, answer, task, answer type, quality
        ("盆腔平扫", "盆腔平扫", "entity_qa", "single_entity", "high"),
        ("盆腔", "盆腔平扫", "entity_qa", "single_entity", "low"),
        ("1.10", "1.10;0.75-1.2", "table_qa", "multi_span", "high"),
        (None, "14.0", "table_qa", "single_span", "low"),
        ("正常", "正常", "table_nr_qa", "single_nr", "high"),
        ("甲", "甲;乙", "table_nr_qa", "multi_nr", "low"),
        ("A.手术", "A.手术", "advice_qa", "MC", None),
        ("B.化疗", "A.手术", "disease_qa", "MC", None),
        ("观察", "随访观察", "advice_qa", "SA", None),
    ]
    names = ("predictions", "answers", "tasks", "answer_types", "image_qualities")
    return dict(zip(names, map(list, zip(*table, strict=True)), strict=True))


def test_tables_by_hand():
    record = score_meddqa(**rows()).record
    half = 2 * 1 * 0.5 / 1.5  # ROUGE-L F1 of half the characters
    parts = 2 * 1 * (4 / 13) / (1 + 4 / 13)
    assert record["table_5"] == pytest.approx(
        {
            "entity_rouge_l": (1 + half) / 2,
            "entity_accuracy": 0.5,
            "table_rouge_l": parts / 2,
            "table_accuracy": 0.25,
            "table_nr_accuracy": 0.75,
            "mc_accuracy": 0.5,
            "sa_rouge_l": half,
        }
    )
    assert record["table_6"] == pytest.approx(
        {
            "entity_rouge_l_high": 1,
            "entity_rouge_l_low": half,
            "table_accuracy_high": 0.5,
            "table_accuracy_low": 0,
            "table_nr_accuracy_high": 1,
            "table_nr_accuracy_low": 0.5,
        }
    )
    assert record["by_task"]["table_qa/single_span"]["failed"] == 1
    assert record["all"]["questions"] == 9 and record["all"]["failed"] == 1
    assert json.loads(json.dumps(record)) == record


def test_a_missing_task_is_none_not_zero():
    columns = {name: values[:1] for name, values in rows().items()}
    record = score_meddqa(**columns).record
    assert record["table_5"]["entity_accuracy"] == 1 and record["table_5"]["mc_accuracy"] is None
    assert record["table_6"]["entity_rouge_l_low"] is None


def test_empty_answers_are_counted_and_left_out():
    scored = score_meddqa(["a", "b"], ["a", ""], ["entity_qa"] * 2, ["single_entity"] * 2)
    assert scored.record["all"] == {"accuracy": 1, "rouge_l": 1, "questions": 2, "failed": 0, "unscorable": 1}
    assert scored.samples["rouge_l"] == [1, None]


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("无", True),
        ("“无”。", True),
        ("答案是无", True),
        ("图片中没有提供该项目", True),
        ("报告未显示该指标", True),
        ("无法确定", True),
        ("无异常", False),
        ("12.5", False),
        ("正常", False),
        ("无痛性血尿", False),
    ],
)
def test_saying_that_nothing_is_there(prediction, expected):
    assert abstains(prediction) is expected


def test_hallucination_rate():
    predictions = ["无", "12.5", "无异常", None, "没有", "14.0", "无"]
    answers = ["无", "无", "无", "无", "无", "14.0", "13.0"]
    scored = score_meddqa(predictions, answers, ["table_qa"] * 7, ["single_span"] * 7)
    assert scored.record["hallucination"] == {
        "unanswerable": 5,
        "answered": 4,
        "hallucinated": 2,
        "rate": 0.5,
        "abstained_on_answerable": 0.5,
        "marked": {"unanswerable": 0, "answered": 0, "hallucinated": 0, "rate": None},
        "entity": {"unanswerable": 0, "answered": 0, "hallucinated": 0, "rate": None},
        "table": {"unanswerable": 5, "answered": 4, "hallucinated": 2, "rate": 0.5},
    }
    marks = [True, True, False, True, False, False, False]
    columns = (predictions, answers, ["table_qa"] * 7, ["single_span"] * 7)
    marked = score_meddqa(*columns, unanswerable=marks).record["hallucination"]
    assert marked["marked"] == {"unanswerable": 3, "answered": 2, "hallucinated": 1, "rate": 0.5}
    assert marked["unanswerable"] == 5
    assert score_meddqa(["a"], ["a"], ["entity_qa"], ["SA"]).record["hallucination"]["rate"] is None


def test_qualities_in_any_case():
    columns = (["a", "a"], ["a", "b"], ["entity_qa"] * 2, ["single_entity"] * 2, ["High", " LOW "])
    table = score_meddqa(*columns).record["table_6"]
    assert (table["entity_rouge_l_high"], table["entity_rouge_l_low"]) == (1, 0)


def test_bad_columns():
    with pytest.raises(InputError, match="differ in length"):
        score_meddqa(["a"], ["a"], ["entity_qa"], ["SA", "SA"])
    with pytest.raises(InputError, match="'medium'.*high, low"):
        score_meddqa(["a"], ["a"], ["entity_qa"], ["SA"], ["medium"])
    with pytest.raises(InputError, match="no predictions"):
        score_meddqa([], [], [], [])


@pytest.mark.parametrize("settings", [{"units": "characters"}, {"units": "words"}, {"profile": "released"}])
def test_the_released_answers_score_one_against_themselves(real_data, settings):
    questions = []
    for name in ("sampled_image_content_vqa.json", "sampled_clinical_reasoning_vqa.json"):
        lines = (real_data / "rjua_samples" / name).read_text(encoding="utf-8").splitlines()
        questions += [json.loads(line) for line in lines if line.strip()]
    columns = {
        "answers": [question["answer"] for question in questions],
        "tasks": [question["task"] for question in questions],
        "answer_types": [question["answer_type"] for question in questions],
        "image_qualities": [question["image_quality"] for question in questions],
    }
    record = score_meddqa(columns["answers"], **columns, **settings).record
    assert record["all"]["accuracy"] == pytest.approx(1) and record["all"]["rouge_l"] == pytest.approx(1)
    assert all(value == pytest.approx(1) for value in record["table_5"].values())
    nothing = score_meddqa([None] * len(questions), **columns, **settings).record
    assert nothing["all"]["accuracy"] == 0 and nothing["all"]["failed"] == len(questions)


def test_intervals_are_over_images_not_questions():
    """Two images, one all right and one all wrong: a resample has 0, 1/2 or 1, and 95% of them reach both ends."""
    predictions, answers = ["1"] * 50 + ["2"] * 50, ["1"] * 100
    images = ["a.png"] * 50 + ["b.png"] * 50
    columns = [["table_qa"] * 100, ["single_span"] * 100]
    found = score_meddqa(predictions, answers, *columns, images=images).record
    assert found["table_5"]["table_accuracy"] == 0.5
    assert found["intervals"]["table_5"]["table_accuracy"] == (0.0, 1.0)  # over questions it would be 0.40 to 0.60
    assert found["intervals"]["table_5"]["entity_accuracy"] is None
    one = score_meddqa(predictions, answers, *columns, images=["a.png"] * 100).record
    assert one["intervals"]["table_5"]["table_accuracy"] is None  # one image says nothing of the others
    assert score_meddqa(predictions, answers, *columns).record["intervals"] is None


def test_table_8_is_by_kind_of_report():
    """By hand: laboratory choices one of two, clinical none; the clinical short answer is right."""
    scored = score_meddqa(
        ["A.x", "B.y", "A.x", "补钾"],
        ["A.x", "A.x", "B.y", "补钾"],
        ["disease_qa", "advice_qa", "advice_qa", "status_qa"],
        ["MC", "MC", "MC", "SA"],
        laboratory=[True, True, False, False],
    )
    assert scored.record["table_8"] == {
        "mc_accuracy_laboratory": 0.5,
        "mc_accuracy_clinical": 0.0,
        "sa_rouge_l_laboratory": None,
        "sa_rouge_l_clinical": 1.0,
    }
