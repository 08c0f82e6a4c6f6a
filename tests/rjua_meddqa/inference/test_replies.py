"""Answers taken out of replies: written by hand, with what a careless rule would take for one."""

import pytest

from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.inference.replies import read_recorded, read_verdict, take_answer

NAME, TWO = "图片里的姓名是什么？", "病区名称和诊断对应的文字是什么？"
RESULT = "总25羟基维生素D该检测指标的检查结果是多少?"


@pytest.mark.parametrize(
    "text, question, answer_type, answer",
    [
        ("张三", NAME, "single_entity", "张三"),
        ("图片里的姓名是张三。", NAME, "single_entity", "张三"),
        ("姓名：张三", NAME, "single_entity", "张三"),
        ("根据图片内容，姓名为“张三”。", NAME, "single_entity", "张三"),
        ("报告里没有写。\n答案：无", NAME, "single_entity", "无"),
        ("**答案：** 张三", NAME, "single_entity", "张三"),
        ('{"answer": "张三"}', NAME, "single_entity", "张三"),
        ('```json\n{"答案": ["无", "膀胱肿瘤"]}\n```', TWO, "multi_entity", "无;膀胱肿瘤"),
        ("病区名称是泌尿外科，诊断是膀胱肿瘤。", TWO, "multi_entity", "泌尿外科;膀胱肿瘤"),
        ("病区名称：无\n诊断：膀胱肿瘤", TWO, "multi_entity", "无;膀胱肿瘤"),
        ("无;膀胱肿瘤", TWO, "multi_entity", "无;膀胱肿瘤"),
        ("总25羟基维生素D该检测指标的检查结果是17.80。", RESULT, "single_span", "17.80"),
        ("<answer>张三</answer>", NAME, "single_entity", "张三"),
        ("<b>张三</b>", NAME, "single_entity", None),  # a tag of no answer may stand on the page
        ("诊断是膀胱肿瘤，病区名称是泌尿外科。", TWO, "multi_entity", "泌尿外科;膀胱肿瘤"),
        ('{"诊断": "膀胱肿瘤", "病区名称": "泌尿外科"}', TWO, "multi_entity", "泌尿外科;膀胱肿瘤"),
        ("双肾大小，不对称，右肾积水", NAME, "single_entity", None),  # 不对称 takes nothing back
        ("2021-05-13", "报告日期是什么？", "single_entity", "2021-05-13"),
        ("报告日期：2021-05-13", "报告日期是什么？", "single_entity", "2021-05-13"),
        # a value that holds what looks like a frame stays whole
        ("1.前列腺：大小是3.5cm。\n2.精囊：大小是2.5cm。", NAME, "single_entity", None),
        ("年龄是50岁", NAME, "single_entity", None),  # another key than the one asked for
        ("结果为3.2，在正常范围内。", "血钾是否异常?", "single_nr", "正常"),
        ("不正常", "血钾是否异常?", "single_nr", "异常"),
        ("没有异常", "血钾是否异常?", "single_nr", "正常"),
    ],
)
def test_an_answer_is_what_the_sentence_says(text, question, answer_type, answer):
    assert take_answer(text, question, answer_type) == (answer if answer is not None else text)


@pytest.mark.parametrize(
    "text, why",
    [
        ("抱歉，我无法查看图片。", "refused"),  # 无 in it would pass for the answer 无
        ("作为AI语言模型，我不能提供诊断。", "refused"),
        ("I'm sorry, I can't read this image.", "refused"),
        ("李四。更正：张三", "retracts"),
        ("李四，不对，是张三", "retracts"),
    ],
)
def test_a_refusal_and_a_value_taken_back_are_no_answers(text, why):
    with pytest.raises(ReplyError, match=why):
        take_answer(text, NAME, "single_entity")


@pytest.mark.parametrize(
    "text, verdict",
    [
        ("正常", "正常"),
        ("异常（偏高）", "异常"),
        ("该指标未见明显异常。", "正常"),
        ("结果不在参考范围内", "异常"),
        ("结果没有超出参考范围上限", "正常"),
        ("超出了参考区间，偏高", "异常"),
        ("参考范围为3.5-5.5，结果3.1，异常", "异常"),
        ("没有参考范围，无法判断", "无法判断"),
        ("无法判断是否异常", "无法判断"),
        ("结果为5.0，正常范围3.5-5.5，所以正常", "正常"),
        ("有可能异常，也有可能正常，因此无法判断", "无法判断"),
        ("不是异常", "正常"),
        ("并不异常", "正常"),
        ("不存在任何异常", "正常"),
        ("异常：否", "正常"),
        ("不太正常", "异常"),
        ("过高", "异常"),
        ("并非异常，而是正常", "正常"),
        ("不属于异常", "正常"),
        ("不是正常", "异常"),
        ("不能算正常", "异常"),
        ("没有偏高，而是偏低", "异常"),
    ],
)
def test_a_verdict_is_read_with_its_denials(text, verdict):
    assert read_verdict(text) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "正常或异常",
        "正常;异常;无法判断",
        "可能正常，可能异常",
        "41岁",
        "不偏高，也不偏低",
        "不一定正常",
        "不能说异常",
        "未见升高",
    ],
)
def test_several_verdicts_or_none_are_not_an_answer(text):
    """Soft accuracy would find the right one in it."""
    with pytest.raises(ReplyError):
        take_answer(text, "血钾是否异常?", "single_nr")


def test_a_mark_with_nothing_behind_it_is_no_answer():
    with pytest.raises(ReplyError, match="ends before"):
        take_answer("先看表格……\n答案：", NAME, "single_entity")


@pytest.mark.parametrize(
    ("text", "question", "answer_type"),
    [
        ("无法判断图片内容，请上传清晰的图片", "问题:诊断\n选项:A.无法判断;B.贫血", "MC"),
        ("无法判断图片内容，请上传清晰的报告", "血钾是否异常?", "single_nr"),
        ("可能是92或97", "尿素的结果是多少?", "single_span"),
        ("尿素的结果是92或者97。", "尿素的结果是多少?", "single_span"),
    ],
)
def test_refusals_and_open_values_are_not_answers(text, question, answer_type):
    with pytest.raises(ReplyError):
        take_answer(text, question, answer_type)


@pytest.mark.parametrize(
    ("text", "question", "answer_type"),
    [
        ("无法判断", "血钾是否异常?", "single_nr"),
        ("A.无法判断", "问题:诊断\n选项:A.无法判断;B.贫血", "MC"),
        ("<18岁 130-175 或 ≥18岁 143-219", "血钾的参考范围是多少?", "single_entity"),
        ("可能为炎症或肿瘤", "印象是什么？", "single_entity"),
    ],
)
def test_similar_replies_are_answers(text, question, answer_type):
    assert take_answer(text, question, answer_type) == text


def test_recorded_replies_are_read_like_those_of_a_server():
    question = "问题:诊断\n选项:A.缺铁;B.贫血"
    assert read_recorded("<think>A?</think>答案：B", question, "MC") == ("B.贫血", None)
    assert read_recorded("", question, "MC") == ("", None)
    assert read_recorded("<think>A", question, "MC")[0] is None
    assert read_recorded("都不对", question, "MC")[1]
