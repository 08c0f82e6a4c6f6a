"""Multiple choice: letter, text or both, in any wording; letters of medical terms are no choices."""

import pytest

from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.inference.choices import BOTH, LETTER, TEXT, read_choice, read_options
from rjua_meddqa.inference.replies import take_answer

# the letters have gaps and one option is the beginning of another, as in the released file
QUESTION = "问题:有哪些建议？\n选项:A.骨靶向治疗;B.化疗,内分泌治疗,盆腔淋巴结清扫术;E.化疗,内分泌治疗;F.补充维生素D"
A, B, E, F = (f"{letter}.{text}" for letter, text in read_options(QUESTION).items())


def test_options_are_read_as_the_released_files_write_them():
    assert list(read_options(QUESTION)) == ["A", "B", "E", "F"]
    assert read_options(QUESTION)["B"] == "化疗,内分泌治疗,盆腔淋巴结清扫术"
    assert read_options("有什么建议？") == {}


@pytest.mark.parametrize(
    "text, answer, form",
    [
        ("B", B, LETTER),
        ("（B）", B, LETTER),
        ("Ｂ．", B, LETTER),
        ("应该选B。", B, LETTER),
        ("我认为是 E，因为维生素D没有写。", E, LETTER),
        ("答案：E", E, LETTER),
        ("正确答案是 E。\n解释：A和B都不符合。", E, LETTER),
        ("化疗,内分泌治疗,盆腔淋巴结清扫术", B, TEXT),
        ("化疗，内分泌治疗", E, TEXT),
        ("建议补充维生素D", F, TEXT),
        ("建议：化疗、内分泌治疗、盆腔淋巴结清扫术。", B, TEXT),
        (B, B, BOTH),
        ("答案：B. 化疗，内分泌治疗，盆腔淋巴结清扫术", B, BOTH),
        ("A.骨靶向治疗不对，前列腺没有骨转移。\n答案：E", E, LETTER),
        ("A,B", f"{A};{B}", LETTER),
        ("不是A，而是B", B, LETTER),
        ("A不对，选B", B, LETTER),
        ("A项错误，B项正确", B, LETTER),
        ("**A**不正确，**B**", B, LETTER),
        ("排除A、B，选E", E, LETTER),
        ("应选A，不是B", A, LETTER),
        ("A错误", A, LETTER),  # where it is asked which of them is wrong
        ("A.骨靶向治疗;F.补充维生素D", f"{A};{F}", BOTH),
        ("$\\boxed{B}$", B, LETTER),
        (r"So the final answer is $\boxed{\text{E}}$.", E, LETTER),
        (r"\boxed{补充维生素D}", F, TEXT),
        ("The answer is (B).", B, LETTER),
        ("The correct answer is **B**, because A is wrong.", B, LETTER),
        ("A is wrong, so the answer is B.", B, LETTER),
        ("Answers: A, B", f"{A};{B}", LETTER),
        ("I would choose option F.", F, LETTER),
    ],
)
def test_the_option_that_a_reply_names(text, answer, form):
    taken = take_answer(text, QUESTION, "MC")
    assert (taken.answer, taken.how) == (answer, form)


@pytest.mark.parametrize(
    "text, why",
    [
        ("不知道", "names no option"),
        ("不选A", "names no option"),
        ("除了A都可以", "names no option"),
        ("维生素D", "names no option"),
        ("A patient like this needs nothing.", "names no option"),
        ("不能排除骨靶向治疗", "names no option"),
        ("A、B、E、F", "names every option"),
        (QUESTION, "names no option"),
        ("The answer is not A.", "names no option"),
        ("The answer is A benign mass.", "names no option"),
        ("The answer is B-cell lymphoma.", "names no option"),
        ("I would not choose B", "names no option"),
        (r"$\boxed{A}$ … $\boxed{B}$", "two answers"),
        ("The answer is A. Wait, the answer is B.", "two answers"),
        ("The answer is (A) or (B).", "leaves open"),
        ("A或B", "leaves open"),
        ("B 或者选项 E", "leaves open"),
        ("T3b期，D-二聚体升高", "names no option"),
        ("C", "chooses 'C'; the options are A, B, E, F"),
        ("B.骨靶向治疗", "the letter of one option and the text of another"),
    ],
)
def test_a_reply_that_chooses_nothing_is_no_answer(text, why):
    with pytest.raises(ReplyError, match=why):
        read_choice(text, QUESTION)


def test_two_marked_answers_that_differ_are_none_but_for_a_final_one():
    with pytest.raises(ReplyError, match="two answers"):
        take_answer("答案：A\n答案：B", QUESTION, "MC")
    assert take_answer("答案：B\n再看一遍。答案：B", QUESTION, "MC").answer == B
    assert take_answer("答案：A\n最终答案：B", QUESTION, "MC").answer == B
