"""Answers from restored text alone: what is asked about, in any of the released phrasings and freer ones."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_boxes import lines, page

from medvqa_core.errors import InputError
from medvqa_core.metrics.soft_accuracy import soft_accuracy
from rjua_meddqa.annotation.drafts import Draft
from rjua_meddqa.answers import read_is_normal
from rjua_meddqa.inference.rules import answer, answer_from_draft
from rjua_meddqa.released import read_annotations, read_questions
from rjua_meddqa.schema import CONTENT_TASKS, ENTITY, TABLE, TABLE_NR, TableRow

DRAFT = Draft(
    key_values=(
        ("姓名", "无"),
        ("性别", "男"),
        ("年龄", "50岁"),
        ("科别", "血透门诊"),
        ("病区名称", "泌尿"),
        ("收到日期", "2022-10-26"),
        ("报告日期", "2022-10-28"),
        ("肉眼所见", "前列腺一个，大小\n4x3cm"),
    ),
    table=(
        TableRow("总前列腺特异性抗原(PSA)", "33.70", "0.00-4.00ng/mL", "否(偏高)"),
        TableRow("游离前列腺特异性抗原(FPSA)", "8.83", "0.00-0.93ng/mL", "否(偏高)"),
        TableRow("FPSA:TPSA", "0.26", "无", "无法判断"),
        TableRow("铁蛋白(FER)", "111.7", "30.0-400.0ng/mL", "是"),
        TableRow("血红蛋白", "98", "130-175g/L", "否(偏低)"),
        TableRow("D-二聚体", "0.97", "≤0.5", "否(偏高)"),
        TableRow("总胆红素和直接胆红素比值", "2.1", "1-3", "是"),
        TableRow("eGFR-EPICr", "95", "无", "无法判断"),
        TableRow("eGFR-EPIcr", "74", "无", "无法判断"),
    ),
)


@pytest.mark.parametrize(
    ("question", "answer_type", "expected"),
    [
        ("性别是什么？", "single_entity", "男"),
        ("性别是？", "single_entity", "男"),
        ("图片里的年龄是什么？", "single_entity", "50岁"),
        ("该报告中科别对应的文字是什么？", "single_entity", "血透门诊"),
        ("请问这份报告里的年龄是多少?", "single_entity", "50岁"),
        ("姓名是什么？", "single_entity", "无"),  # printed without a value
        ("手机号是什么？", "single_entity", "无"),  # not printed
        ("住院号是什么？", "single_entity", "无"),
        ("收到时间是什么？", "single_entity", "2022-10-26"),
        ("送检日期是什么？", "single_entity", "无"),
        ("图片里的科室是什么？", "single_entity", "血透门诊"),  # a synonym
        ("接收日期是什么？", "single_entity", "2022-10-26"),
        ("该报告中肉眼所兄对应的文字是什么？", "single_entity", "前列腺一个，大小\n4x3cm"),  # one character off
        ("报告日期是？", "single_entity", "2022-10-28"),  # 报告 begins the key, it is no frame
        ("报告中的报告日期是什么？", "single_entity", "2022-10-28"),
        ("报告日期和年龄对应的文字是什么？", "multi_entity", "2022-10-28;50岁"),
        ("报告中年龄和报告日期对应的文字是什么？", "multi_entity", "50岁;2022-10-28"),
        ("年龄和病区名称对应的文字是什么？", "multi_entity", "50岁;泌尿"),
        ("病区名称和年龄对应的文字是什么？", "multi_entity", "泌尿;50岁"),
        ("姓名和手机号对应的文字是什么？", "multi_entity", "无;无"),
        ("性别、年龄分别是什么？", "multi_entity", "男;50岁"),
    ],
)
def test_entities(question, answer_type, expected):
    assert answer_from_draft(question, ENTITY, answer_type, DRAFT) == expected


@pytest.mark.parametrize(
    ("question", "answer_type", "expected"),
    [
        ("铁蛋白(FER)该指标的检测结果是多少?", "single_span", "111.7"),
        ("铁蛋白(FER)的参考区间是什么?", "single_span", "30.0-400.0ng/mL"),
        ("铁蛋白(FER)这个检测项目的检查结果,正常值分别是多少?", "multi_span", "111.7;30.0-400.0ng/mL"),
        ("铁蛋白(FER)该检测指标的参考值和结果是什么?", "multi_span", "30.0-400.0ng/mL;111.7"),  # as asked
        ("铁蛋白的结果是多少?", "single_span", "111.7"),
        ("FER的结果是多少?", "single_span", "111.7"),
        ("总前列腺特异性抗原(PSA)该检测指标的检查结果是多少?", "single_span", "33.70"),
        ("游离前列腺特异性抗原(FPSA)该检测指标的检查结果是多少?", "single_span", "8.83"),
        ("PSA的检测结果是多少?", "single_span", "33.70"),
        ("FPSA:TPSA该检测指标的正常值是什么?", "single_span", "无"),
        ("D-二聚体该指标的参考区间是什么?", "single_span", "≤0.5"),
        ("总胆红素和直接胆红素比值的结果是什么?", "single_span", "2.1"),
        ("eGFR-EPIcr的结果是什么?", "single_span", "74"),  # capitals tell the two apart
        ("eGFR-EPICr的结果是什么?", "single_span", "95"),
        ("降钙素原(PCT)的结果和参考范围分别是多少?", "multi_span", "无;无"),
        (
            "铁蛋白(FER)和血红蛋白的结果和参考值分别是什么?",
            "multi_row",
            "铁蛋白(FER),111.7,30.0-400.0ng/mL;血红蛋白,98,130-175g/L",
        ),
    ],
)
def test_tables(question, answer_type, expected):
    assert answer_from_draft(question, TABLE, answer_type, DRAFT) == expected


@pytest.mark.parametrize(
    ("question", "answer_type", "expected"),
    [
        ("铁蛋白(FER)该指标的检测结果是否异常?", "single_nr", "正常"),
        ("血红蛋白的检查结果是否异常?", "single_nr", "异常"),
        ("FPSA:TPSA该指标的结果是否异常?", "single_nr", "无法判断"),
        ("血红蛋白是否正常?", "single_nr", "异常"),
        ("降钙素原(PCT)的结果是否异常?", "single_nr", "无法判断"),
        (
            "图片中有哪些检查项目的结果不在参考区间内？",
            "multi_nr",
            "总前列腺特异性抗原(PSA);游离前列腺特异性抗原(FPSA);血红蛋白;D-二聚体",
        ),
        ("哪些检查项目的结果偏低？", "multi_nr", "血红蛋白"),
    ],
)
def test_numerical(question, answer_type, expected):
    assert answer_from_draft(question, TABLE_NR, answer_type, DRAFT) == expected


def test_nothing_out_of_range():
    normal = Draft((), tuple(row for row in DRAFT.table if row.is_normal in ("是", "无法判断")))
    question = "图片中有哪些检查项目的结果不在参考区间内？"
    assert answer_from_draft(question, TABLE_NR, "multi_nr", normal) == "无异常结果"
    assert answer_from_draft(question, TABLE_NR, "multi_nr", Draft((), ())) == "无异常结果"


def test_tasks_that_text_alone_cannot_answer():
    with pytest.raises(InputError, match="'disease_qa'"):
        answer_from_draft("?", "disease_qa", "MC", DRAFT)


def test_from_a_restored_page():
    boxes = lines(
        [
            [(0, "性别：男")],
            [(0, "项目"), (200, "结果"), (300, "参考值")],
            [(0, "尿酸"), (200, "470"), (300, "155-428")],
        ]
    )
    restored = SimpleNamespace(restored=page(boxes))
    assert answer("性别是？", ENTITY, "single_entity", restored) == "男"
    assert answer("尿酸的检查结果是否异常?", TABLE_NR, "single_nr", restored) == "异常"
    assert answer("尿酸的检查结果是多少?", TABLE, "single_span", SimpleNamespace(restored=page([]))) == "无"


@given(st.text(max_size=40), st.sampled_from([(task, kind) for task, kinds in CONTENT_TASKS.items() for kind in kinds]))
def test_any_question_gets_an_answer(question, asked):
    assert answer_from_draft(question, *asked, DRAFT).strip()


def test_released_questions_from_their_own_annotation(real_data):
    """Reading of the questions alone: with the annotators' own table nothing may be lost."""
    folder = real_data / "rjua_samples"
    drafts = {}
    for annotation in read_annotations(folder / "sampled_image_content_kv_table_annotation.csv"):
        table = tuple(replace(row, is_normal=read_is_normal(row.is_normal)) for row in annotation.table)
        drafts[annotation.img_path] = Draft(annotation.key_values, table)
    questions = read_questions(folder / "sampled_image_content_vqa.json")
    scores = [
        soft_accuracy(
            answer_from_draft(question.question, question.task, question.answer_type, drafts[question.img_path]),
            question.answer,
            question.answer_type,
        )
        for question in questions
    ]
    assert len(scores) == 133 and min(scores) == 1


@pytest.mark.slow
def test_released_questions_from_the_images(real_data, tmp_path):
    """OCR, rectification, ESRA, drafts and rules on the reports with a table; large clinical photos take too long."""
    pytest.importorskip("rapidocr")
    from rjua_meddqa.restoration.ocr import RapidOcrEngine
    from rjua_meddqa.restoration.pages import restore_page

    folder, engine = real_data / "rjua_samples", RapidOcrEngine()
    pages, scores = {}, {task: [] for task in CONTENT_TASKS}
    for question in read_questions(folder / "sampled_image_content_vqa.json"):
        if question.img_path not in ("sample3.png", "sample4.png", "sample5.png"):
            continue
        if question.img_path not in pages:
            pages[question.img_path] = restore_page(folder / "images" / question.img_path, engine)
        given_answer = answer(question.question, question.task, question.answer_type, pages[question.img_path])
        scores[question.task].append(soft_accuracy(given_answer, question.answer, question.answer_type))
    means = {task: sum(values) / len(values) for task, values in scores.items()}
    assert means[ENTITY] >= 0.55 and means[TABLE] >= 0.75 and means[TABLE_NR] >= 0.75, means
