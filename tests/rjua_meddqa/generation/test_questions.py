"""Image-content questions: all forms by hand, draws, users' templates, the released questions."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from meddqa_data import ANNOTATIONS, BLOOD, NORMAL, SCAN, write_folder

from medvqa_core.errors import ConfigError, InputError
from medvqa_hub.cli import run
from rjua_meddqa.annotation.items import item_score
from rjua_meddqa.generation.questions import Options, QuestionGenerator
from rjua_meddqa.generation.templates import load_templates
from rjua_meddqa.released import read_annotations, read_questions
from rjua_meddqa.schema import CONTENT_TASKS, TableRow
from rjua_meddqa.terms import KEYS, load_terms

TEMPLATES, TERMS = load_templates(), load_terms()


def generate(*annotations, templates=TEMPLATES, corpus=(), **options):
    generator = QuestionGenerator(templates, TERMS, Options(**options), corpus)
    return [question for annotation in annotations for question in generator.questions(annotation)]


def answers_of(questions, template):
    return {tuple(q.extra["keys"]): q.answer for q in questions if q.extra["template"] == template}


def test_the_released_forms_of_a_laboratory_report():
    questions = generate(BLOOD)
    assert Counter(q.extra["template"] for q in questions) == {
        "single_entity": 4,
        "multi_entity": 5,
        "result_cell": 3,
        "range_cell": 3,
        "row": 3,
        "comparison": 3,
        "multi_comparison": 1,
    }
    assert answers_of(questions, "single_entity") == {
        ("姓名",): "无",
        ("性别",): "女",
        ("年龄",): "41岁",
        ("临床诊断",): "无",
    }
    assert answers_of(questions, "result_cell") == {("钾(K)",): "3.1", ("钠(Na)",): "140", ("比值",): "0.3"}
    assert answers_of(questions, "range_cell")["比值",] == "无"
    assert answers_of(questions, "row")["钾(K)",] == "3.1;3.5-5.3mmol/L"
    assert answers_of(questions, "comparison") == {("钾(K)",): "异常", ("钠(Na)",): "正常", ("比值",): "无法判断"}
    assert answers_of(questions, "multi_comparison") == {(): "钾(K)"}
    assert {(q.task, q.answer_type) for q in questions} == {
        (task, kind) for task, kinds in CONTENT_TASKS.items() for kind in kinds
    }


def test_a_clinical_report_is_asked_about_its_keys_only():
    questions = generate(SCAN, forms="all")
    assert {q.extra["template"] for q in questions} == {"single_entity", "multi_entity"}
    assert {q.is_table for q in questions} == {0}
    assert {(q.image_type, q.image_quality) for q in questions} == {("screenshot", "high")}
    pairs = answers_of(questions, "multi_entity")
    assert pairs["放射学诊断", "检查部位"] == "膀胱壁增厚;请结合{病史}。;盆腔"
    assert len(pairs) == 2


def test_the_other_rows_of_table_4():
    questions = generate(BLOOD, forms="multi_row,summary", pairs=None)
    rows = answers_of(questions, "multi_row")
    assert {q.answer_type for q in questions} == {"multi_span", "summary"}  # released rules score a row as a part
    assert len(rows) == 6
    assert rows["钠(Na)", "比值"] == "钠(Na),140,137-147mmol/L;比值,0.3,无"
    (summary,) = answers_of(questions, "summary").values()
    assert summary.startswith("该报告共有3项检查结果，其中1项不在") and summary.endswith("：钾(K)。")


def test_answers_as_sentences():
    questions = generate(BLOOD, answers="sentence")
    assert answers_of(questions, "single_entity")["年龄",] == "年龄是41岁。"
    (question,) = (q for q in questions if q.extra["template"] == "comparison" and q.extra["keys"] == ["钾(K)"])
    assert question.answer.endswith("，因此异常。") and "3.1" in question.answer and "3.5-5.3mmol/L" in question.answer
    assert answers_of(questions, "multi_entity")  # a form without a sentence keeps its answer


def test_no_abnormal_result_and_a_readable_slip():
    questions = generate(NORMAL)
    assert answers_of(questions, "comparison") == {("尿素",): "正常", ("肌酐",): "正常"}
    assert answers_of(questions, "multi_comparison") == {(): "无异常结果"}
    assert {q.is_table for q in questions} == {1}


def test_questions_about_a_row_share_their_words():
    for question in (q for q in generate(BLOOD) if q.extra["template"] == "row"):
        same = {q.extra["template"]: q.question for q in generate(BLOOD) if q.extra["keys"] == question.extra["keys"]}
        item = question.extra["keys"][0]
        word = next(w for w in TEMPLATES.words["item_word"][::-1] if f"{item}{w}的" in question.question)
        assert all(f"{item}{word}的" in same[form] for form in ("result_cell", "range_cell", "comparison"))


def test_all_phrasings_are_drawn():
    texts = [generate(replace(BLOOD, img_path=f"{n}.png"), forms="single_entity") for n in range(40)]
    starts = Counter(q.question.replace(q.extra["keys"][0], "K") for image in texts for q in image)
    assert set(starts) == {text.replace("{key}", "K") for text in TEMPLATES.by_name["single_entity"].questions}
    assert min(starts.values()) > 20  # of 160; 40 are expected


def test_draws_depend_on_seed_and_image_alone():
    together = generate(BLOOD, SCAN, NORMAL, forms="all", synonyms=True)
    assert generate(SCAN, forms="all", synonyms=True) == [q for q in together if q.img_path == "scan.png"]
    assert generate(BLOOD) == generate(BLOOD)
    assert generate(BLOOD) != generate(BLOOD, seed=1)
    entity = [q for q in generate(BLOOD) if q.task == "entity_qa"]
    assert entity == generate(BLOOD, forms="single_entity,multi_entity")  # other forms change nothing


@pytest.mark.parametrize(("pairs", "expected"), [(0, 0), (5, 5), (12, 12), (99, 12), (None, 12)])
def test_pairs_are_ordered_distinct_and_as_many_as_asked(pairs, expected):
    found = [tuple(q.extra["keys"]) for q in generate(BLOOD, forms="multi_entity", pairs=pairs)]
    assert len(found) == len(set(found)) == expected
    assert all(first != second for first, second in found)


def test_what_cannot_be_told_apart_is_counted_and_not_asked():
    annotation = replace(
        BLOOD,
        key_values=(("性别", "男"), ("性别", "女"), ("年龄", "5岁"), ("年龄", "5岁"), ("", "甲")),
        table=(
            *BLOOD.table,
            TableRow("钾(K)", "4.0", "", "是"),
            TableRow("氯", "99", "", "?"),
            TableRow(" ", "1", "", ""),
        ),
    )
    generator = QuestionGenerator(TEMPLATES, TERMS, Options())
    questions = generator.questions(annotation)
    assert answers_of(questions, "single_entity") == {("年龄",): "5岁"}
    assert set(answers_of(questions, "comparison")) == {("钠(Na)",), ("比值",)}
    assert answers_of(questions, "result_cell")["氯",] == "99"
    assert not answers_of(questions, "multi_comparison")
    assert generator.skipped == {
        "ambiguous_key": 2,
        "empty_key": 1,
        "ambiguous_item": 2,
        "empty_item": 1,
        "unreadable_is_normal": 1,
        "table_with_unreadable_is_normal": 1,
    }


def test_an_unreadable_row_of_two_leaves_the_pair_out(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "templates:\n  two:\n    about: two_rows\n    task: t\n    answer_type: a\n"
        '    questions: ["{item1}和{item2}正常吗?"]\n    answer: "{status1};{status2}"\n',
        encoding="utf-8",
    )
    annotation = replace(BLOOD, table=(*BLOOD.table, TableRow("氯", "99", "", "?")))
    generator = QuestionGenerator(load_templates(mine), TERMS, Options(forms="two", pairs=None))
    assert len(generator.questions(annotation)) == 6 and generator.skipped == {"unreadable_is_normal": 6}


def test_synonyms_change_the_wording_and_neither_key_nor_answer():
    varied = generate(*ANNOTATIONS, synonyms=True)
    plain = generate(*ANNOTATIONS)
    asked = [[(q.img_path, q.extra["template"], *q.extra["keys"], q.answer) for q in qs] for qs in (varied, plain)]
    assert Counter(asked[0]) == Counter(asked[1])
    assert any(key not in q.question for q in varied for key in q.extra["keys"])
    assert all(key in q.question for q in plain for key in q.extra["keys"])


def test_unanswerable_questions_are_about_what_no_part_of_the_report_holds():
    questions = generate(BLOOD, unanswerable=6, forms="single_entity", corpus=ANNOTATIONS)
    asked = [q for q in questions if q.extra["unanswerable"]]
    assert [q.extra["template"] for q in asked] == ["single_entity", "result_cell", "range_cell"] * 2
    assert {q.answer for q in asked} == {"无"}
    names = [q.extra["keys"][0] for q in asked]
    assert len(set(names)) == 6
    held = [key for key, _ in BLOOD.key_values] + [row.item for row in BLOOD.table]
    assert not {TERMS.canonical(KEYS, name) for name in names} & {TERMS.canonical(KEYS, name) for name in held}
    assert not any(part in name for name in names for part in ("钾", "钠", "临床诊断", "年龄"))
    assert {q.extra["absent"] for q in asked} == {"nearest"}
    assert sum(not q.extra["unanswerable"] for q in questions) == 4


def test_unanswerable_questions_end_with_the_terms(tmp_path):
    generator = QuestionGenerator(TEMPLATES, TERMS, Options(unanswerable=10**15))
    names = [q.extra["keys"][0] for q in generator.questions(SCAN) if q.extra["unanswerable"]]
    assert len(names) == len(set(names)) == 10**15 - generator.skipped["no_absent_term_left"]
    assert "印象" not in names  # the report has it under another name
    assert "病史" not in names  # its text speaks of it


def test_unanswerable_items_are_the_nearest_that_the_page_lacks():
    """Each asks for a sibling, and not for another spelling of an item on the page."""
    rows = tuple(TableRow(name, "1", "0-2", "是") for name in ("总胆红素(TBIL)", "凝血酶原时间", "甘油三脂(TG)"))
    questions = generate(replace(BLOOD, table=rows), unanswerable=9, forms="single_entity", corpus=ANNOTATIONS)
    items = [q.extra["keys"][0] for q in questions if q.extra.get("absent") and q.task == "table_qa"]
    assert len(items) == 6
    near = ("胆红素", "凝血", "胆汁酸")
    assert sum(any(part in item for part in near) for item in items) >= 4
    assert not any(item_score(item, row.item) for item in items for row in rows)


def test_an_annotation_without_an_image_is_refused():
    with pytest.raises(InputError, match="img_path"):
        generate(replace(BLOOD, idx="1", img_path=" "))


@pytest.mark.parametrize("options", [{"answers": "long"}, {"pairs": -1}, {"unanswerable": -1}])
def test_options_that_are_not_allowed(options):
    with pytest.raises(ConfigError, match="|".join(map(str, options.values()))):
        Options(**options)


def test_an_unknown_form_is_named():
    with pytest.raises(ConfigError, match="'cells'.*released, all, single_entity"):
        generate(BLOOD, forms="row,cells")


MINE = """
words:
  politely: [请问]
templates:
  how_old:
    about: key
    task: entity_qa
    answer_type: single_entity
    questions: ["{politely}患者多大年纪？"]
    answer: "{value}"
    only: [患者年龄]
  braces:
    about: row
    task: mine
    answer_type: mine
    questions: ["{{{item}}}的结果?"]
    answer: "{item}={result}"
    only: [钾(K)]
"""


def test_a_user_s_templates(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(MINE, encoding="utf-8")
    templates = load_templates(mine)
    questions = generate(BLOOD, templates=templates, forms="how_old,braces")
    assert [(q.question, q.answer, q.task) for q in questions] == [
        ("请问患者多大年纪？", "41岁", "entity_qa"),
        ("{钾(K)}的结果?", "钾(K)=3.1", "mine"),
    ]
    assert "how_old" not in {q.extra["template"] for q in generate(BLOOD, templates=templates)}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"questions": ["{key.__class__}"]}, "bare name"),
        ({"questions": ["{key!r}"]}, "bare name"),
        ({"questions": ["{key:>9}"]}, "bare name"),
        ({"questions": ["{key[0]}"]}, "bare name"),
        ({"questions": ["{}"]}, "bare name"),
        ({"questions": ["{key"]}, "{{ or }}"),
        ({"questions": ["{item}？"]}, "{item}"),
        ({"answer": "{result}"}, "{result}"),
        ({"sentence": "{key1}"}, "placeholder {key1} is unknown"),
        ({"questions": ["这是什么？"]}, "{key}"),
        ({"questions": []}, "questions"),
        ({"questions": "{key}？"}, "list of texts"),
        ({"about": "page"}, "'page'. Allowed: key, two_keys"),
        ({"about": ["key"]}, "['key']"),
        ({"answer": ""}, "answer is ''"),
        ({"answer": 5}, "answer is 5"),
        ({"task": None}, "task is None"),
        ({"released": "yes"}, "true, false"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_a_wrong_template_is_a_clear_error(change, expected, tmp_path):
    entry = {"about": "key", "task": "t", "answer_type": "a", "questions": ["{key}？"], "answer": "{value}"}
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"templates": {"mine": entry | change}}), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.json, template 'mine'") as error:
        load_templates(mine)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"templates": {"row": {}}}, "'row'"),
        ({"templates": {"mine": {"about": "key"}}}, "'task'"),
        ({"templates": {"mine": []}}, "mapping"),
        ({"templates": ["mine"]}, "'templates'"),
        ({"forms": {}}, "'forms'"),
        ({"words": {"key": ["a"]}}, "identifier"),
        ({"words": {"a b": ["a"]}}, "identifier"),
        ({"words": {"mine": []}}, "word 'mine'"),
    ],
)
def test_a_wrong_template_file_is_a_clear_error(content, expected, tmp_path):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.json") as error:
        load_templates(mine)
    assert expected in str(error.value)


def test_where_the_released_questions_contradict_the_annotations(real_data):
    """All released lines have PDF and High, and one report has lost its table questions. Ours follow the annotation."""
    folder = real_data / "rjua_samples"
    annotations = read_annotations(folder / "sampled_image_content_kv_table_annotation.csv")
    released = read_questions(folder / "sampled_image_content_vqa.json")
    assert {(q.image_type, q.image_quality) for q in released} == {("PDF", "High")}
    assert {q.is_table for q in released if q.img_path == "sample5.png"} == {0}
    ours = generate(*annotations)
    types = {a.img_path: (a.image_type, a.image_quality) for a in annotations}
    assert all((q.image_type, q.image_quality) == types[q.img_path] for q in ours) and len(set(types.values())) == 3
    assert sum(q.img_path == "sample5.png" and q.task != "entity_qa" for q in ours) == 4 * 37 + 1


def test_the_command_writes_questions_with_class_and_settings(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    out = tmp_path / "out"
    assert run(f"meddqa generate --data {data} --out {out} --seed 3 --unanswerable 1".split()) == 0
    assert "images: 3, questions: " in capsys.readouterr().out
    questions = read_questions(out / "questions.jsonl")
    assert questions == generate(
        *read_annotations(data / "annotations.csv"), seed=3, unanswerable=1, corpus=ANNOTATIONS
    )
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["governance"] == "open" and manifest["questions"]["seed"] == 3
    assert manifest["questions"]["counts"]["questions"] == len(questions)
    first = (out / "questions.jsonl").read_bytes()
    assert run(f"meddqa generate --data {data} --out {out} --seed 3 --unanswerable 1".split()) == 0
    assert (out / "questions.jsonl").read_bytes() == first


def test_the_authors_release_makes_share_alike_questions_and_none_weaker(tmp_path, capsys):
    data = write_folder(tmp_path / "data", governance=None)
    assert run(f"meddqa generate --data {data} --out {tmp_path / 'out'}".split()) == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["governance"] == "share-alike"
    open_data = write_folder(tmp_path / "open")
    assert run(f"meddqa generate --data {open_data} --out {tmp_path / 'out'}".split()) == 1
    assert "share-alike" in capsys.readouterr().err


def test_one_bad_annotation_is_named_and_the_rest_is_asked(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    text = (data / "annotations.csv").read_text(encoding="utf-8")
    (data / "annotations.csv").write_text(text.replace("{'检查部位'", "print('检查部位'"), encoding="utf-8")
    assert run(f"meddqa generate --data {data} --out {tmp_path / 'out'}".split()) == 0
    printed = capsys.readouterr()
    assert "unreadable annotations: 1" in printed.out and "row 3" in printed.err
    assert {q.img_path for q in read_questions(tmp_path / "out" / "questions.jsonl")} == {"blood.png", "normal.png"}


def test_a_second_question_file_is_refused(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    (data / "sampled_image_content_vqa.json").write_text("")
    assert run(f"meddqa generate --data {data} --out {data}".split()) == 1
    assert "sampled_image_content_vqa.json" in capsys.readouterr().err
    assert not (data / "questions.jsonl").exists()


def test_a_table_with_a_nameless_row_is_not_asked_what_is_out_of_range():
    """The answer would be 无, as if nothing were abnormal."""
    broken = replace(BLOOD, table=(replace(BLOOD.table[0], item=" "), *BLOOD.table[1:]))
    generator = QuestionGenerator(TEMPLATES, TERMS, Options(forms="multi_comparison,summary"))
    assert generator.questions(broken) == [] and generator.skipped["table_with_empty_item"] == 2
