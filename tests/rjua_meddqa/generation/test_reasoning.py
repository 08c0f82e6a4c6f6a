"""Clinical-reasoning questions: wording, distractors, letters, unusable rows."""

import json
from collections import Counter

import pytest
from datasets import load_dataset
from meddqa_data import ANNOTATIONS, CONTEXT_ROWS, context_cells, write_contexts, write_folder
from scipy.stats import chisquare

import rjua_meddqa
from medvqa_core.errors import InputError
from medvqa_hub.cli import run
from rjua_meddqa.generation.contexts import ContextBase, NgramEncoder
from rjua_meddqa.generation.reasoning import Finding, ReasoningGenerator, read_findings
from rjua_meddqa.released import read_reasoning, write_questions
from rjua_meddqa.schema import ADVICE, DISEASE, MULTIPLE_CHOICE, SHORT_ANSWER, STATUS, Annotation


def finding(img_path="blood.png", task=DISEASE, title="", option="", wrong=(), question="") -> Finding:
    return Finding(img_path, task, title, option, tuple(wrong), question)


def generator(rows=CONTEXT_ROWS, annotations=ANNOTATIONS, seed=0, options=4) -> ReasoningGenerator:
    return ReasoningGenerator(ContextBase(context_cells(rows), NgramEncoder()), annotations, seed, options)


def split_options(question) -> dict[str, str]:
    """{letter: text} of a multiple-choice question."""
    options = question.question.split("\n选项:")[1].rstrip("\n").split(";")
    return dict(option.split(".", 1) for option in options)


def many(count: int) -> tuple[list[Finding], list[Annotation]]:
    """One finding each for `count` images, over four titles."""
    annotations = [Annotation(str(n), f"{n}.png", (), (), "Laboratory", "pdf", "high") for n in range(count)]
    names = [row[1] for row in CONTEXT_ROWS[:4]]
    return [finding(f"{n}.png", title=names[n % 4]) for n in range(count)], annotations


def test_a_choice_and_a_short_answer_by_hand():
    choice, short = generator().questions([finding(title="低钾血症")])
    options = split_options(choice)
    assert sorted(options.values()) == ["低钙血症", "低钠血症", "低钾血症", "高钾血症"]
    assert choice.answer == next(f"{letter}.{text}" for letter, text in options.items() if text == "低钾血症")
    assert choice.question.startswith("问题:根据检验报告中的异常指标，进行相应的疾病诊断\n选项:A.")
    described = {row[3] for row in CONTEXT_ROWS[:5] if row[1] in options.values()}
    lines = choice.context.splitlines()
    assert [line[:2] for line in lines] == ["1.", "2.", "3.", "4."] and {line[2:] for line in lines} == described
    assert (choice.answer_type, choice.context_id) == (MULTIPLE_CHOICE, "1;2;3;4")
    assert (choice.image_type, choice.image_quality) == ("photo", "low")
    assert (short.answer_type, short.answer, short.context_id) == (SHORT_ANSWER, "低钾血症", "1;2;3;4")
    assert short.question == "问题:根据检验报告中的异常指标，进行相应的疾病诊断\n"
    assert short.context == choice.context


def test_the_short_answer_joins_all_correct_options_and_what_the_report_states():
    questions = generator().questions(
        [finding(title="低钾血症"), finding(title="低钠血症"), finding(option="慢性肾衰竭")]
    )
    choices = [q for q in questions if q.answer_type == MULTIPLE_CHOICE]
    (short,) = (q for q in questions if q.answer_type == SHORT_ANSWER)
    assert short.answer == "低钾血症;低钠血症;慢性肾衰竭"
    assert [choice.answer.split(".")[1] for choice in choices] == ["低钾血症", "低钠血症"]
    for choice in choices:  # the other correct option is not a wrong one
        assert len(set(split_options(choice).values()) & {"低钾血症", "低钠血症"}) == 1


def test_what_only_the_report_states_has_a_short_answer_without_passage():
    (short,) = generator().questions([finding(option="慢性肾衰竭")])
    assert (short.answer_type, short.answer, short.context, short.context_id) == (SHORT_ANSWER, "慢性肾衰竭", "", "")


def test_experts_options_and_question_take_the_place_of_titles():
    rows = (*CONTEXT_ROWS, ("8", "分期", "疾病-状态", "T3b 侵犯精囊"))
    stage = finding("scan.png", STATUS, "分期", "T3bN1Mx", ("T2aN0M0", "M1c"), "TNM分期是什么？")
    made = generator(rows)
    choice, short = made.questions([stage])
    assert sorted(split_options(choice).values()) == ["M1c", "T2aN0M0", "T3bN1Mx"]
    assert choice.question.startswith("问题:TNM分期是什么？\n选项:") and choice.context_id == "8"
    assert (short.question, short.answer) == ("问题:TNM分期是什么？\n", "T3bN1Mx")
    assert made.counts.total() == 0 and choice.context == short.context == "T3b 侵犯精囊\n"  # one fact has no number


def test_fewer_neighbours_make_fewer_options_and_are_counted():
    made = generator(options=5)
    rows = [("1", "低钾", "检查-疾病", "a"), ("2", "低钠", "检查-疾病", "b"), ("3", "低钙", "检查-疾病", "c")]
    made = generator(rows, options=5)
    choice, _ = made.questions([finding(title="低钾")])
    assert sorted(split_options(choice).values()) == ["低钙", "低钠", "低钾"]
    assert made.counts == {"fewer_options": 1}


@pytest.mark.parametrize("wrong", [(), ("低钠血症",)])
def test_one_wrong_option_makes_no_choice_but_a_short_answer(wrong):
    made = generator()
    (short,) = made.questions([finding(task=ADVICE, title="低钾血症", wrong=wrong)])
    assert short.answer_type == SHORT_ANSWER and made.counts == {"too_few_wrong_options": 1}


def test_as_many_options_as_the_released_questions_have():
    findings, annotations = many(400)
    rows = [*CONTEXT_ROWS[:5], *((str(n), f"低{n}血症", "检查-疾病", "x") for n in range(20, 26))]
    made = generator(rows, annotations, options=None).questions(findings)
    sizes = Counter(len(split_options(q)) for q in made if q.answer_type == MULTIPLE_CHOICE)
    assert set(sizes) == {3, 4, 5} and sizes[5] > sizes[3] + sizes[4]


def test_what_is_true_of_the_page_in_another_task_is_no_wrong_option():
    """低钠血症 is a finding of this page, so neither its title nor its advice may be a wrong option."""
    rows = [(str(n), f"低{name}血症", "检查-疾病", "x") for n, name in enumerate("钾钠钙镁磷", start=1)]
    rows += [(str(n), f"低{name}血症", "疾病-建议", "y") for n, name in enumerate("钾钠钙镁磷", start=6)]
    asked = [finding(title="低钾血症"), finding(title="低钠血症"), finding(task=ADVICE, title="低钾血症")]
    for question in generator(rows, options=5).questions(asked):
        if question.answer_type == MULTIPLE_CHOICE and question.task == ADVICE:
            assert "低钠血症" not in split_options(question).values()
    wrong = ("低钠血症", "低镁血症", "低磷血症")  # experts' wrong options are true somewhere too
    asked = [finding(title="低钾血症", wrong=wrong), finding(task=ADVICE, title="低钠血症")]
    (choice,) = (q for q in generator(rows).questions(asked) if (q.task, q.answer_type) == (DISEASE, MULTIPLE_CHOICE))
    assert sorted(split_options(choice).values()) == ["低磷血症", "低钾血症", "低镁血症"]


def test_all_questions_of_a_page_and_task_come_with_one_passage():
    asked = [finding(title="低钾血症"), finding(title="低钠血症")]
    questions = generator().questions(asked)
    assert len(questions) == 3 and len({(q.context, q.context_id) for q in questions}) == 1


def test_advice_by_experts_is_mixed_with_similar_advice():
    """Among titles it would be the only sentence or the longest text."""
    rows = [(str(n), f"低{name}血症", "疾病-建议", "y") for n, name in enumerate("钾钠钙镁磷", start=1)]
    images = [Annotation(str(n), f"{n}.png", (), (), "Laboratory", "pdf", "high") for n in range(5)]
    written = [
        "多吃富含钾的食物、口服补钾",
        "减少水的摄入、静脉补钠盐",
        "口服钙剂和维生素D制剂",
        "静脉补镁、复查电解质水平",
        "复查",
    ]
    asked = [
        finding(f"{n}.png", ADVICE, f"低{name}血症", text)
        for n, (name, text) in enumerate(zip("钾钠钙镁磷", written, strict=True))
    ]
    made = generator(rows, images, options=5)
    choices = {q.img_path: split_options(q) for q in made.questions(asked) if q.answer_type == MULTIPLE_CHOICE}
    assert set(choices) == {"0.png", "1.png", "2.png", "3.png"}  # nothing is as short as 复查
    assert all(set(options.values()) == set(written[:4]) for options in choices.values())
    alone = generator(rows, images)
    (short,) = alone.questions(asked[:1])  # only titles are left: no multiple choice
    assert short.answer_type == SHORT_ANSWER and alone.counts == {"too_few_wrong_options": 1}


def test_length_does_not_tell_the_answer_of_the_bundled_sample():
    questions = read_reasoning(rjua_meddqa.SAMPLE_DIR / "reasoning.jsonl")
    chosen = [q for q in questions if q.answer_type == MULTIPLE_CHOICE]
    for pick in (max, min):
        right = sum(pick(split_options(q).values(), key=len) == q.answer.split(".", 1)[1] for q in chosen)
        assert right <= 0.5 * len(chosen)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (finding("other.png", title="低钾血症"), "unknown_image"),
        (finding(title="低磷血症"), "unknown_title"),
        (finding(task=STATUS, title="低钾血症"), "unknown_title"),
        (finding(), "no_title_and_no_option"),
        (finding(title="低钠血症"), "repeated_option"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted_and_named(row, reason):
    made = generator()
    questions = made.questions([finding(title="低钠血症"), row])
    assert len(questions) == 2 and made.counts == {reason: 1}
    assert made.problems[0].startswith(f"{row.img_path}, {row.task}: ")


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_letters_are_evenly_used(seed):
    findings, annotations = many(1003)
    choices = [q for q in generator(annotations=annotations, seed=seed).questions(findings) if q.answer_type == "MC"]
    counts = Counter(choice.answer[0] for choice in choices)
    assert set(counts) == set("ABCD") and max(counts.values()) - min(counts.values()) <= 1
    assert chisquare(list(counts.values())).pvalue > 0.99


def test_letters_cannot_be_guessed_from_the_title():
    findings, annotations = many(2000)
    choices = [q for q in generator(annotations=annotations).questions(findings) if q.answer_type == "MC"]
    for title in {choice.answer[2:] for choice in choices}:
        counts = Counter(choice.answer[0] for choice in choices if choice.answer[2:] == title)
        assert chisquare([counts[letter] for letter in "ABCD"]).pvalue > 0.001


def test_the_released_shape(real_data):
    released = read_reasoning(real_data / "rjua_samples" / "sampled_clinical_reasoning_vqa.json")
    assert Counter(q.answer_type for q in released) == {MULTIPLE_CHOICE: 8, SHORT_ANSWER: 8}
    ids = [q.context_id.split(";") for q in released]
    assert all(found == sorted(found, key=int) for found in ids)  # ascending, as ours are


def test_questions_survive_a_round_trip(tmp_path):
    questions = generator().questions([finding(title="低钾血症"), finding("scan.png", option="线\u2028行\n;")])
    write_questions(questions, tmp_path / "reasoning.jsonl")
    assert read_reasoning(tmp_path / "reasoning.jsonl") == questions


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"task": "entity_qa"}, "'entity_qa'"),
        ({"answer_type": "ABC"}, "'ABC'"),
        ({"context": None}, "'context'"),
        ({"context_id": 5}, "'context_id'"),
    ],
)
def test_a_broken_line_is_named(change, expected, tmp_path):
    (question, *_) = generator().questions([finding(title="低钾血症")])
    path = tmp_path / "reasoning.jsonl"
    write_questions([question], path)
    line = json.dumps(json.loads(path.read_text()) | change)
    path.write_text(f"{line}\n")
    with pytest.raises(InputError, match="line 1") as error:
        read_reasoning(path)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("img_path,task\n", "title"),
        ("img_path,task,title\n,disease_qa,甲\n", "row 1: img_path"),
        ("img_path,task,title\na.png,table_qa,甲\n", "'table_qa'"),
        ("img_path,task,title,option\na.png,disease_qa,甲,乙;丙\n", "'乙;丙'"),
        ("img_path,task,title,wrong\na.png,disease_qa,甲," + ";".join("abcdefghijklmnopqrstuvwxyz") + "\n", "26"),
    ],
)
def test_a_wrong_findings_file_is_a_clear_error(text, expected, tmp_path):
    path = tmp_path / "findings.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"findings\.csv") as error:
        read_findings(path)
    assert expected in str(error.value)


def test_the_command_writes_questions_that_load_dataset_reads(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    write_contexts(data / "contexts.csv", (*CONTEXT_ROWS, ("9", "", "检查-疾病", "没有标题")))
    findings = tmp_path / "findings.csv"
    findings.write_text(
        "img_path,task,title,option,wrong\nblood.png,disease_qa,低钾血症,,\nscan.png,disease_qa,,膀胱占位,\n"
        "scan.png,disease_qa,低磷血症,,\n",
        encoding="utf-8",
    )
    assert run(f"meddqa reasoning --data {data} --findings {findings} --out {data}".split()) == 0
    printed = capsys.readouterr()
    assert "MC: 1, SA: 2, unknown title: 1, contexts with no title: 1" in printed.out
    assert "scan.png" in printed.err and "低磷血症" in printed.err
    rows = load_dataset("rjua_meddqa", "reasoning_sa", data_dir=str(data), split="test")
    assert rows["answer"] == ["低钾血症", "膀胱占位"] and rows[1]["image"].size == (30, 20)
    manifest = json.loads((data / "manifest.json").read_text())
    assert manifest["reasoning"]["encoder"] == "ngrams" and manifest["source"] == "a test"


def test_no_usable_row_is_an_error_and_writes_nothing(tmp_path, capsys):
    data = write_folder(tmp_path / "data")
    findings = tmp_path / "findings.csv"
    findings.write_text("img_path,task,title\nother.png,disease_qa,低钾血症\n", encoding="utf-8")
    assert run(f"meddqa reasoning --data {data} --findings {findings} --out {tmp_path / 'out'}".split()) == 1
    assert "img_path" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
