"""Reads the answer in a model's reply: the one reader for --engine, --predictions, lmms-eval and VLMEvalKit.

    wrapping      ```…```, <answer>…</answer>, {"answer": …}, **…**, and text before the last 答案： are removed
    option        letters behind 选, 答案 or at the beginning of a clause, or the one option whose text is quoted
    verdict       该结果在正常范围内，没有异常 -> 正常
    restatement   图片里的姓名是张三。 -> 张三; 姓名是张三，年龄是50岁 -> 张三;50岁

Other text is returned unchanged, since the scores accept longer answers (paper, Section 5.2). Servers that enforce
`reply_schemas.py` do not need these rules.
"""

import re
import unicodedata

from medvqa_core.llm.json_reply import ReplyError, is_refusal, parse_object, split_reasoning
from rjua_meddqa.inference.reply_schemas import read_options
from rjua_meddqa.schema import ANSWER_SEPARATOR, MULTIPLE_CHOICE

READER = "meddqa-reader-4"  # recorded in results
_WRAPPED = re.compile(r"\A(?:```\w*\n(.*)\n```|<(?:answer|答案)>(.*)</(?:answer|答案)>|\*\*(.*)\*\*)\Z", re.DOTALL)
_QUOTED = re.compile(r"\A(?:“([^“”]*)”|\"([^\"]*)\"|「([^「」]*)」)\Z")
_MARK = re.compile(r"(?:最终|正确)?答案(?:[*\s]*[:：]|应?[是为])[*\s:：]*")
_RETRACTS = re.compile(r"[，,。；;！!\n]\s*(?:更正|纠正|不对\s*[，,。；;！!]|错了|看错|说错|写错)")
_BLIND = re.compile(r"(?:无法|不能|没法|难以)(?:从|判断|识别|看清|看到|读取|查看)[^，。；;\n]{0,8}(?:图片|图像|照片)")
_EITHER = re.compile(r"\d[^\s，。；;]{0,8}\s*[，,]?但?(?:或者?|还是|抑或|也可能)(?:可能)?(?:是|为)?\s*\d")
_HEDGES = re.compile(r"可能|也许|大概|或许|大约|疑似")
_RANGE = r"(?:正常|参考)(?:参考)?(?:范围|区间|值)(?:上限|下限|之?内|以内)?"
_VERDICTS = (  # each match is removed before the next search
    ("", r"是否(?:异常|正常)|(?:不一定|未必|不能说)是?(?:正常|异常)|(?:没有|未见|无|不|非)[偏升降过][高低]"),
    ("正常", rf"(?:未|没有?|不)(?:超出|超过|高于|低于)[^，,。；;]*?{_RANGE}"),
    ("异常", rf"(?:不在|超出|超过|高于|低于)[^，,。；;]*?{_RANGE}|[不非](?:太|是|能?算|属于)?正常"),
    ("正常", rf"[在于][^，,。；;]*?{_RANGE}内?"),
    ("", _RANGE),
    ("无法判断", r"(?:无法|不能|难以)(?:判断|确定)"),
    ("正常", r"(?:没有|未见|无|不存在|不|非)(?:是|属于|算)?(?:任何|明显)?异常|异常\s*[:：]\s*否|正常"),
    ("异常", r"异常|[偏升降过][高低]"),
)
_STEM_END = re.compile(r"(?:对应的?(?:文字|内容))?(?:分别)?(?:是什么|是多少|是谁|是|为)?[\s?？。]*\Z")
_PAGE = r"(?:(?:这张|该|此|这份)?(?:图片|图|报告单|报告)(?:[里中上]的?|的))?"
_BEFORE = rf"(?:\A(?:(?:根据|从)[^，,：:\n]{{0,20}}[，,：:]\s*)?|[，,；;。\n]\s*(?:而|并且)?){_PAGE}[“\"「]?"
_LINK = r"[”\"」]?\s*(?:(?:对应)?的?(?:文字|内容|值|结果)?(?:分别)?[是为][:：]?|[:：])\s*"
_DENIES = re.compile(r"[不非错误除未没无吗或✗×]|还是|\b(?:not|wrong|or)\b|n't")  # or leaves open
_TEXT = 0xE000  # the text of option A is replaced by this character, that of B by the next
_STATED = re.compile(  # letters with nothing behind them but an option's text or 正确
    r"(选项|选择?|[为是]|答案\W*|\b(?i:answers?\W+(?:(?:is|are)\b)?|(?:choose|option)\b))?[\s:(\[【“\"*]*"
    r"(?<![A-Za-z0-9])([A-Z](?:\s*[、和与]\s*[A-Z])*)[\s)\]】”\"*$]*(?:选?项)?[\s.:、]*[\ue000-\ue019]?(?:[\s.✓√*”]|才?正确|对)*\Z"
)


def take_answer(text: str, question: str, answer_type: str) -> str:
    """Return the answer in `text`, a reply without its reasoning. Several values or options are separated by ";".

    Raises a ReplyError if it has no answer or several ones, is a refusal, or retracts its answer.
    """
    if _BLIND.search(text):
        raise ReplyError("the model refused: it could not read the picture")
    stem = re.sub(rf"\A{_PAGE}", "", _STEM_END.sub("", question.strip()))
    parts = re.split(r"以及|和|与|及|、|,|，", stem)
    names = parts if answer_type.startswith("multi") and len(parts) == 2 else [stem]
    body = _object_value(_inner(_WRAPPED, text.strip()), names)
    if answer_type == MULTIPLE_CHOICE:
        return read_choice(body, question)
    body = _inner(_QUOTED, _inner(_WRAPPED, _MARK.split(body)[-1].strip()))
    if answer_type == "single_nr":
        return read_verdict(body)
    if is_refusal(body) or _RETRACTS.search(body):
        raise ReplyError("the model refused" if is_refusal(body) else "the reply retracts its answer")
    values = _restated_values(body, names)
    if not all(values):
        raise ReplyError("the reply ends before its answer")
    if any(_EITHER.search(value) for value in values) and (answer_type == "single_span" or _HEDGES.search(body)):
        raise ReplyError("the reply names several values")
    return ANSWER_SEPARATOR.join(values)


def read_recorded(text: str, question: str, answer_type: str) -> tuple[str | None, str | None]:
    """Read a reply from a file or a harness like one from a server. Returns (answer, None) or (None, reason)."""
    if not text.strip():
        return text, None
    try:
        return take_answer(split_reasoning(text)[1], question, answer_type), None
    except ReplyError as error:
        return None, str(error)


def read_verdict(text: str) -> str:
    """Return the verdict that `text` concludes with. Raises ReplyError if it has none or several."""
    for part in (text, re.split(r"因此|所以|故|综上|总之|结论", text)[-1]):
        said = set()
        for verdict, pattern in _VERDICTS:
            part, hits = re.subn(pattern, " ", part)
            said |= {verdict} if hits and verdict else set()
        if len(said) == 1:
            return said.pop()
    raise ReplyError("the reply names several verdicts" if said else "the reply names no verdict")


def read_choice(text: str, question: str) -> str:
    """Return the options that `text` states. Raises ReplyError if it states none, all, or contradictory ones."""
    asked, said = (unicodedata.normalize("NFKC", part.strip()) for part in (question, text))
    said = re.split(r"最终答案|[Ff]inal answer", said)[-1]
    said = said.replace(asked, "").replace(asked[asked.find("选项") :], "")  # a repeated question
    longest_first = sorted(read_options(asked).items(), key=lambda entry: -len(entry[1]))  # some begin like others
    for letter, option in longest_first:
        pattern = r"[\W_]*".join(re.escape(character) for character in option if character.isalnum())
        said = re.sub(pattern, chr(_TEXT + ord(letter) - ord("A")), said, flags=re.I) if pattern else said
    said = said.upper() if re.fullmatch(r"[\W_]*[a-z][\W_]*", said) else said
    said = re.sub(r"\\boxed\s*\{(?:\\\w+\s*\{)?([^{}]*)\}+", r"\n答案:\1\n", said)
    said = re.sub(r"(?<![A-Za-z])([A-Z])\s*,\s*(?=[A-Z](?![A-Za-z]))", r"\1、", said)
    clauses = [part.strip() for part in re.split(r"[,;。!\n]|\.\s+(?=[A-Za-z])", said) if not _DENIES.search(part)]
    texts = {chr(ord(mark) - _TEXT + ord("A")) for mark in re.findall("[\ue000-\ue019]", "".join(clauses))}
    stated = [found for found in map(_STATED.search, clauses) if found and (found[1] or not found.start())]
    cued = [set(re.findall("[A-Z]", found[2])) for found in stated if found[1]]
    leading = set(re.findall("[A-Z]", "".join(found[2] for found in stated if not found[1])))
    letters = cued[0] if cued else leading
    if leading - letters or any(other != letters for other in cued) or (texts and letters - texts):
        raise ReplyError("the reply gives two answers")
    chosen = letters or texts  # an explanation may quote other options
    is_prose = not letters and len(texts) > 1 and re.search(r"\w", "".join(clauses))
    options = read_options(question)
    if is_prose or not chosen <= set(options) or len(chosen) in (0, max(len(options), 3)):
        raise ReplyError(f"the reply chooses none of the options {', '.join(options)}")
    return ANSWER_SEPARATOR.join(f"{letter}.{option}" for letter, option in options.items() if letter in chosen)


def _inner(wrapping: re.Pattern[str], text: str) -> str:
    found = wrapping.match(text)
    return next(part for part in found.groups() if part is not None).strip() if found else text


def _object_value(text: str, names: list[str]) -> str:
    """Return the answer of a JSON object, or `text`. Truncated objects raise a ReplyError."""
    if re.search(r'\{\s*"', text) is None:
        return text
    found = parse_object(text)
    given = {"answer": [found[name] for name in names]} if set(found) == set(names) else found
    value = given.get("answer", given.get("答案"))
    values = value if isinstance(value, list) and value else [value]
    is_plain = all(type(part) in (str, int, float) for part in values)
    return ANSWER_SEPARATOR.join(str(part).strip() for part in values) if is_plain else text


def _restated_values(text: str, names: list[str]) -> list[str]:
    """Return the texts behind `names` if `text` consists of them, in any order, and [text] otherwise."""
    head, *rest = re.split(rf"{_BEFORE}({'|'.join(map(re.escape, names))}){_LINK}", text)
    said = dict(zip(rest[::2], rest[1::2], strict=True))
    if head or set(said) != set(names) or len(rest) != 2 * len(names):
        return [text]
    values = [said[name].strip() for name in names]
    return [_inner(_QUOTED, value[:-1] if value.find("。") == len(value) - 1 else value) for value in values]
