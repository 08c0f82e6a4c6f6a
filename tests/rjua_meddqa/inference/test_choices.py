"""Multiple choice: letter, text or both, in any wording; letters of medical terms are no choices."""

import pytest

from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.inference.replies import read_choice, take_answer
from rjua_meddqa.inference.reply_schemas import read_options

# the letters have gaps and one option is the beginning of another, as in the released file
QUESTION = "问题:有哪些建议？\n选项:A.骨靶向治疗;B.化疗,内分泌治疗,盆腔淋巴结清扫术;E.化疗,内分泌治疗;F.补充维生素D"
A, B, E, F = (f"{letter}.{text}" for letter, text in read_options(QUESTION).items())


def test_options_are_read_as_the_released_files_write_them():
    assert list(read_options(QUESTION)) == ["A", "B", "E", "F"]
    assert read_options(QUESTION)["B"] == "化疗,内分泌治疗,盆腔淋巴结清扫术"
    assert read_options("有什么建议？") == {}


@pytest.mark.parametrize(
    "text, answer",
    [
        ("B", B),
        ("（B）", B),
        ("Ｂ．", B),
        ("应该选B。", B),
        ("我认为是 E，因为维生素D没有写。", E),
        ("答案：E", E),
        ("正确答案是 E。\n解释：A和B都不符合。", E),
        ("化疗,内分泌治疗,盆腔淋巴结清扫术", B),
        ("化疗，内分泌治疗", E),
        ("建议补充维生素D", F),
        ("建议：化疗、内分泌治疗、盆腔淋巴结清扫术。", B),
        (B, B),
        ("答案：B. 化疗，内分泌治疗，盆腔淋巴结清扫术", B),
        ("A.骨靶向治疗不对，前列腺没有骨转移。\n答案：E", E),
        ("A,B", f"{A};{B}"),
        ("不是A，而是B", B),
        ("A不对，选B", B),
        ("A项错误，B项正确", B),
        ("**A**不正确，**B**", B),
        ("排除A、B，选E", E),
        ("应选A，不是B", A),
        ("A.骨靶向治疗;F.补充维生素D", f"{A};{F}"),
        ("$\\boxed{B}$", B),
        (r"So the final answer is $\boxed{\text{E}}$.", E),
        (r"\boxed{补充维生素D}", F),
        ("The answer is (B).", B),
        ("The correct answer is **B**, because A is wrong.", B),
        ("A is wrong, so the answer is B.", B),
        ("Answers: A, B", f"{A};{B}"),
        ("I would choose option F.", F),
    ],
)
def test_the_option_that_a_reply_names(text, answer):
    assert take_answer(text, QUESTION, "MC") == answer


@pytest.mark.parametrize(
    "text",
    [
        "不知道",
        "不选A",
        "A错误",
        "是A或是B",
        "除了A都可以",
        "维生素D",
        "A patient like this needs nothing.",
        "不能排除骨靶向治疗",
        "A、B、E、F",
        QUESTION,
        "The answer is not A.",
        "The answer is A benign mass.",
        "The answer is B-cell lymphoma.",
        "I would not choose B",
        r"$\boxed{A}$ … $\boxed{B}$",
        "The answer is A. Wait, the answer is B.",
        "The answer is (A) or (B).",
        "A或B",
        "B 或者选项 E",
        "T3b期，D-二聚体升高",
        "C",
        "B.骨靶向治疗",
    ],
)
def test_a_reply_that_chooses_nothing_is_no_answer(text):
    with pytest.raises(ReplyError):
        read_choice(text, QUESTION)


def test_two_marked_answers_that_differ_are_none_but_for_a_final_one():
    for text in ("答案：A\n答案：B", '{"answer": "A'):  # the second is truncated
        with pytest.raises(ReplyError):
            take_answer(text, QUESTION, "MC")
    assert take_answer("答案：B\n再看一遍。答案：B", QUESTION, "MC") == B
    assert take_answer("答案：A\n最终答案：B", QUESTION, "MC") == B
