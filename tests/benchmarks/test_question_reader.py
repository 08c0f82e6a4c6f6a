"""Questions read back, and how far generated ones cover the released ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddqa_data import ANNOTATIONS, BLOOD, SCAN
from question_reader import QuestionReader, Reading, cover

from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.released import read_annotations, read_questions
from rjua_meddqa.terms import KEYS, fold, load_terms

TEMPLATES, TERMS = load_templates(), load_terms()
READER = QuestionReader(TEMPLATES, TERMS)


def generate(*annotations, **options):
    generator = QuestionGenerator(TEMPLATES, TERMS, Options(**options))
    return [question for annotation in annotations for question in generator.questions(annotation)]


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("图片里的性别是什么？", Reading("single_entity", ("性别",))),
        ("性别是？", Reading("single_entity", ("性别",))),
        ("性别和年龄对应的文字是什么？", Reading("multi_entity", ("性别", "年龄"))),
        ("钾(K)该检测指标的检测结果,正常值分别是什么?", Reading("row", ("钾(K)",))),
        ("钾(K)的标准值是多少?", Reading("range_cell", ("钾(K)",))),
        ("钾(K)这个检测项目的结果是否异常?", Reading("comparison", ("钾(K)",))),
        ("图片中有哪些检查项目的结果不在参考区间内?", Reading("multi_comparison", ())),
    ],
)
def test_questions_are_read_back(text, reading):
    assert READER.read(text)[0] == reading


def test_a_question_that_no_template_asks_has_no_reading():
    assert READER.read("今天天气怎么样") == []


def test_every_generated_question_is_read_back():
    for question in generate(*ANNOTATIONS, forms="all", pairs=None):
        names = {name for q in generate(*ANNOTATIONS, pairs=None) for name in q.extra["keys"]}
        subjects = tuple(question.extra["keys"])
        assert Reading(question.extra["template"], subjects) in READER.read(question.question, names)


def test_coverage_counts_by_hand():
    questions = generate(BLOOD, pairs=None)
    few = [q for q in questions if q.extra["template"] == "single_entity"]
    pair = next(q for q in questions if q.extra["keys"] == ["性别", "年龄"])
    wrong = replace(few[1], answer="男")
    other = replace(few[1], question="血型是？")
    row = next(q for q in questions if q.extra["template"] == "row")
    coverage = cover([*few, pair, wrong, other, row], few, READER)
    assert (coverage.total, coverage.covered, coverage.by_parts) == (8, 4, 1)
    assert [(q.question, reason) for q, reason in coverage.missing] == [
        (wrong.question, "the generated question has another answer"),
        ("血型是？", "no template asks this about the report's keys and items"),
        (row.question, "no template asks this about the report's keys and items"),
    ]


def test_every_released_question_is_covered(real_data):
    """With all pairs of keys each of the 133 has its counterpart; with 5 pairs drawn, or its two parts have theirs."""
    folder = real_data / "rjua_samples"
    annotations = read_annotations(folder / "sampled_image_content_kv_table_annotation.csv")
    released = read_questions(folder / "sampled_image_content_vqa.json")
    every = cover(released, generate(*annotations, pairs=None), READER)
    assert (every.total, every.covered, every.missing) == (133, 133, ())
    drawn = cover(released, generate(*annotations), READER)
    assert drawn.covered + drawn.by_parts == 133 and drawn.covered >= 133 - 25  # 25 are about a drawn pair
    phrasings = {q.question for q in released} - {q.question for q in generate(*annotations, pairs=None)}
    assert all(READER.read(text) for text in phrasings)


@given(st.sets(st.sampled_from([w for t, ws in TERMS.groups[KEYS].items() for w in (t, *ws)]), min_size=2, max_size=12))
def test_a_synonym_never_names_another_key_of_the_report(keys):
    annotation = replace(SCAN, key_values=tuple((key, f"v{n}") for n, key in enumerate(sorted(keys))))
    for question in generate(annotation, forms="single_entity", synonyms=True):
        (key,) = question.extra["keys"]
        others = {fold(other) for other in keys if fold(other) != fold(key)}
        named = READER.read(question.question)
        assert all(fold(reading.subjects[0]) not in others for reading in named[:1]), question.question
