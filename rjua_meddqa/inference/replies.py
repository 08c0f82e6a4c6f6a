"""Extracts the answer from a model's reply by rules that add nothing to it.

    答案：…                  the text behind the last such mark
    {"answer": …}           its value, a list joined by ;
    the question restated    图片里的姓名是张三。 -> 张三; 姓名是张三，年龄是50岁 -> 张三;50岁
    a verdict in a sentence  该结果在正常范围内，没有异常 -> 正常
    an option                see `choices.py`

Any other reply is kept as it is, since the scores accept longer answers (paper, Section 5.2). A reply with several
verdicts and no conclusion is not an answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from medvqa_core.llm.json_reply import ReplyError, is_refusal, parse_object, split_reasoning
from rjua_meddqa.inference.choices import read_choice
from rjua_meddqa.schema import ANSWER_SEPARATOR, MISSING, MULTIPLE_CHOICE

READER = "meddqa-reader-3"  # version of these rules, recorded in results
WHOLE, MARKED, OBJECT, SENTENCE, VERDICT = "whole", "marked", "object", "sentence", "verdict"
_MARK = re.compile(
    r"(?:最终|正确|参考)?(?:答案|回答)\s*(?:是|为)?\s*[\*\s]*[:：][\*\s]*|(?:最终|正确)?答案(?:应?是|应?为)\s*"
)
_FENCE = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_QUOTES = ("“”", '""', "「」", "『』", "''", "‘’", "``")
_NAMES = ("answer", "答案")
_LINK = r"\s*(?:(?:对应)?的?(?:具体)?(?:内容|文字|值|数值|结果)?\s*(?:分别)?(?:是|为)[:：]?|[:：])\s*"
_TAGGED = re.compile(rf"\A<({'|'.join(_NAMES)})>(.*)</\1>\Z", re.DOTALL)
# a clause that retracts the text before it, so that the value is ambiguous
_CORRECTS = re.compile(r"[，,。；;！!\n]\s*(?:更正\s*[:：为]|纠正\s*[:：]|不对\s*[，,。；;！!]|错了|看错|说错|写错)")
# the picture could not be read: never an option or the verdict 无法判断
_UNREADABLE_PICTURE = re.compile(
    r"(?:无法|不能|没法|难以)(?:判断|识别|辨认|看清|看到|读取|查看|确定|获取)[^，。；;\n]{0,8}(?:图片|图像|照片|截图)"
    r"|(?:请|麻烦)(?:您|你)?(?:重新|再次)?(?:上传|提供)[^，。；;\n]{0,8}(?:图片|图像|照片|截图|报告)"
)
_HEDGED = re.compile(
    r"(?:可能|也许|大概|或许|应该|大约|疑似)?(?:是|为)?[^，。；;\n]*\d[^，。；;\n]*(?:或者?|还是|抑或)(?:是|为)?[^，。；;\n]*\d[^，。；;\n]*。?"
)
_OPENING = re.compile(
    r"\A(?:(?:根据|依据|从)[^，,：:\n]{0,20}(?:图片|图像|报告|报告单|表格|文字|信息|内容)[^，,：:\n]{0,12}[，,：:]\s*)?"
    r"(?:可以?看出|可知|可得|显示)?[，,：:]?\s*"
)
_STEM_END = re.compile(
    r"(?:对应的?(?:文字|内容|值))?(?:各自|分别)?(?:是什么|是多少|是谁|为多少|是否异常|是|为)?[\s?？。]*\Z"
)
_PAGE = r"(?:图片|图像|图|报告单|报告)"
_STEM_START = re.compile(  # 报告日期 is a key, so 报告 alone is kept
    rf"\A(?:请问)?(?:在?(?:(?:这张|该|此|这份){_PAGE}(?:里|中|上)?的?|{_PAGE}(?:里|中|上|的)的?))?"
)
_AND = re.compile(r"以及|和|与|及|、|,|，")

# patterns of verdicts: each match is removed before the next pattern is searched
_VERDICTS = (
    (None, r"是否(?:异常|正常)"),
    (None, r"(?:正常|参考)(?:参考)?(?:范围|区间|值|上限|下限)"),
    (None, r"(?:不一定|未必|不见得|不能(?:说|认为)|谈不上)(?:是|属于|为)?(?:正常|异常|偏高|偏低|升高|降低|过高|过低)"),
    (None, r"(?:不是|不属于|不算|不|并?非|没有|未见|无)(?:明显|太)?(?:偏高|偏低|升高|降低|过高|过低)"),
    ("无法判断", r"(?:无法|不能|难以|不可)(?:直接)?(?:判断|确定|判定)|未给出参考"),
    (
        "正常",
        r"(?:没有|未见|并?无|不存在|并?不|并?非)(?:是|属于|算|为)?(?:任何|明显)?(?:的)?异常|属?于?正常(?:水平)?",
    ),
    ("异常", r"异常|偏高|偏低|升高|降低|过高|过低"),
)
_NOT_NORMAL = r"(?:不|非)(?:太|是|算|能算|属于|处于|为)?正常"
_RANGE = r"(?:正常|参考)(?:参考)?(?:范围|区间|值)?(?:上限|下限|范围|区间|值)"
_RANGE_SAID = re.compile(
    rf"(未|没有|没|不)?(超出|超过|高于|低于|在|处于|位于|符合)了?[^，,。；;]{{0,12}}?{_RANGE}(?:之?内|以内|内|外)?"
)
_WITHIN = ("在", "处于", "位于", "符合")
_THEREFORE = re.compile(r"因此|所以|故|综上|总之|结论")


@dataclass(frozen=True)
class ParsedReply:
    """An answer and its form in the reply: WHOLE, MARKED, …, or a form of `choices.py`."""

    answer: str
    how: str


def take_answer(text: str, question: str, answer_type: str) -> ParsedReply:
    """Return the answer in `text`, a reply without its reasoning.

    Raises:
        ReplyError: it contains no answer: only a mark, no option, several verdicts, a refusal, or a retracted value.
    """
    body, how = _unwrap(text)
    if not body:
        raise ReplyError("the reply ends before its answer")
    if _UNREADABLE_PICTURE.search(body):
        raise ReplyError("the model refused: it could not read the picture")
    if answer_type == MULTIPLE_CHOICE:
        choice = read_choice(body, question)
        _check_single_answer(text, question, choice.answer)
        return ParsedReply(choice.answer, choice.form)
    if answer_type == "single_nr":
        verdict = read_verdict(body)
        return ParsedReply(verdict, VERDICT if verdict != body else how) if verdict else ParsedReply(body, how)
    if is_refusal(body):
        raise ReplyError("the model refused")
    if _CORRECTS.search(body):
        raise ReplyError("the reply retracts its answer")
    said = _after_restatement(body, question, is_multi=answer_type.startswith("multi"))
    if answer_type == "single_span" and _HEDGED.fullmatch(said or body):
        raise ReplyError("the reply names several values")
    return ParsedReply(said, SENTENCE) if said and said != body else ParsedReply(body, how)


def read_recorded(text: str, question: str, answer_type: str) -> tuple[str | None, str | None]:
    """Read a reply from a file or a harness like one from a server. Returns (answer, None) or (None, reason)."""
    if not text.strip():
        return text, None
    body = split_reasoning(text)[1]
    if not body:
        return None, "nothing but thoughts"
    try:
        return take_answer(body, question, answer_type).answer, None
    except ReplyError as error:
        return None, str(error)


def _check_single_answer(text: str, question: str, chosen: str) -> None:
    """Raise a ReplyError if an earlier 答案： chose another option. 最终答案 overrides earlier marks."""
    marks = list(_MARK.finditer(text))
    if len(marks) < 2 or marks[-1][0].startswith("最终"):
        return
    for mark, after in pairwise(marks):
        try:
            other = read_choice(text[mark.end() : after.start()], question).answer
        except ReplyError:
            continue
        if other != chosen:
            raise ReplyError("the reply gives two answers")


def read_verdict(text: str) -> str | None:
    """Return the verdict that `text` concludes with, 正常, 异常 or 无法判断, or None.

    Raises:
        ReplyError: it has several verdicts and no conclusion.
    """
    said = _verdicts(text)
    if len(said) > 1:
        conclusion = _THEREFORE.split(text)[-1] if _THEREFORE.search(text) else ""
        said = _verdicts(conclusion)
        if len(said) != 1:
            raise ReplyError("the reply names several verdicts and concludes with none")
    return next(iter(said), None)


def _verdicts(text: str) -> set[str]:
    said = set()
    for denied, word in _RANGE_SAID.findall(text):
        said.add("正常" if (word in _WITHIN) != bool(denied) else "异常")
    rest = _RANGE_SAID.sub(" ", text)
    rest, hits = re.subn(_NOT_NORMAL, " ", rest)
    if hits:
        said.add("异常")
    for verdict, pattern in _VERDICTS:
        rest, hits = re.subn(pattern, " ", rest)
        if hits and verdict:
            said.add(verdict)
    return said


def _unwrap(text: str) -> tuple[str, str]:
    """Return the reply without fences, marks, objects, quotes and emphasis, and the form that was removed."""
    body, how = text.strip(), WHOLE
    fenced = _FENCE.match(body)
    body = fenced[1].strip() if fenced else body
    tagged = _TAGGED.match(body)
    body = tagged[2].strip() if tagged else body
    if "{" in body:
        value = _object_value(body)
        if value is not None:
            return value, OBJECT
    marks = list(_MARK.finditer(body))
    if marks:
        body, how = body[marks[-1].end() :].strip(), MARKED
    body = re.sub(r"\A\*\*(.*)\*\*\Z", r"\1", body, flags=re.DOTALL).strip()
    for opening, closing in map(tuple, _QUOTES):
        inner = body[1:-1]
        if len(body) > 1 and body[0] == opening and body[-1] == closing and not {opening, closing} & set(inner):
            body = inner.strip()
    return body, how


def _object_value(text: str) -> str | None:
    """Return the answer in a JSON object, or None."""
    try:
        found: Mapping[str, object] = parse_object(text)
    except ReplyError:
        return None
    value = next((found[name] for name in _NAMES if name in found), None)
    if isinstance(value, list) and value and all(isinstance(part, str | int | float) for part in value):
        return ANSWER_SEPARATOR.join(map(str, value))
    return str(value).strip() if _is_value(value) else None


def _is_value(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _after_restatement(text: str, question: str, is_multi: bool) -> str | None:
    """Return the text behind a restated question, or None."""
    stem = _STEM_START.sub("", _STEM_END.sub("", question.strip())).strip()
    if not stem:
        return None
    body = _OPENING.sub("", text, count=1)
    parts = [part.strip() for part in _AND.split(stem) if part.strip()]
    if is_multi and len(parts) == 2:
        values = _named_pair(body, parts) or (_named_pair(body, parts[::-1]) or [])[::-1] or _named_values(body, parts)
        if values is not None:
            return ANSWER_SEPARATOR.join(values)
    framed = re.match(
        rf"(?:{_STEM_START.pattern[2:]})?[“\"「]?{re.escape(stem)}[”\"」]?{_LINK}(?P<said>.+)\Z", body, re.DOTALL
    )
    return _bare(framed["said"]) if framed else None


def _named_pair(text: str, names: list[str]) -> list[str] | None:
    """Return the values of two names if the text has each behind its name."""
    first, second = map(re.escape, names)
    found = re.match(
        rf"(?:{_STEM_START.pattern[2:]})?{first}{_LINK}(?P<one>.+?)[，,；;。\n]\s*(?:而|并且)?{second}{_LINK}(?P<two>.+)\Z",
        text,
        re.DOTALL,
    )
    return [_bare(found["one"]), _bare(found["two"])] if found else None


def _named_values(text: str, names: list[str]) -> list[str] | None:
    """Return the texts under `names` in a JSON object, or None if it has other names or values."""
    if "{" not in text:
        return None
    try:
        found = parse_object(text)
    except ReplyError:
        return None
    values = [str(found[name]).strip() for name in names if _is_value(found.get(name))]
    return values if len(values) == len(names) == len(found) else None


def _bare(value: str) -> str:
    """Remove the stop and quotes of a sentence around a value."""
    value = value.strip()
    if value.count("。") == 1 and value.endswith("。"):
        value = value[:-1]
    for opening, closing in map(tuple, _QUOTES):
        if len(value) > 1 and value[0] == opening and value[-1] == closing:
            value = value[1:-1]
    return value.strip() or MISSING
