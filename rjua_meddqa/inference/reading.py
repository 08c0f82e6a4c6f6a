"""Reads what a question asks for: keys of a report, or items and columns of its table.

Questions frame names with fixed words (图片里的…是什么？, …该指标的检查结果是多少?). The frame is removed and the
rest is compared with the names on the page: equal, a synonym (`terms.yaml`), or similar in spelling.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from rjua_meddqa.annotation.items import item_score
from rjua_meddqa.annotation.report_words import fold, is_known_key, similarity
from rjua_meddqa.schema import MISSING, TableRow
from rjua_meddqa.terms import KEYS, RANGES, RESULTS, Terms, load_terms

RESULT, RANGE, STATUS = "result", "range", "status"
ALIKE_KEY = 0.7  # keys are short: one of four characters may be misread
_BEFORE = re.compile(
    r"^(?:请问)?(?:在?(?:这张|该|此)?(?:图片|图像|图|报告单|报告|化验单|检查单)(?:里|中|上|内)?的?|[这该]份报告[里中]?的?)"
)
_AFTER = re.compile(
    r"(?:对应的?(?:文字|内容|值|结果)?|的(?:内容|值|文字))?(?:各自|分别)?(?:都)?(?:是什么|是多少|是谁|是哪[天日]|为多少|为何|是几|有哪些|是|为)?"
    r"[\s?？。]*$"
)
_AND = re.compile(r"以及|和|与|及|、|,|，|;")
_ITEM_WORD = r"(?:(?:该|这个|这项|此|这一)(?:检测|检验|检查|化验|测定)?(?:指标|项目|项))?"
_STATUS_WORD = re.compile(r"是否(?:异常|正常|在.{0,8}内|偏[高低])|正常吗|异常吗|正不正常|有没有异常|有无异常")


@dataclass(frozen=True, slots=True)
class CellQuestion:
    """Items as the question names them, and the columns asked for, in order. No items: the whole table."""

    items: tuple[str, ...]
    columns: tuple[str, ...]


def read_keys(question: str, keys: Sequence[str], is_multi: bool) -> list[str]:
    """Return the keys that a question names, in its own spelling."""

    def score(part: str) -> float:
        return _best_key(part, keys)[0]

    whole = question.strip()
    phrases = [_AFTER.sub("", text).strip(" ：:“”\"'") for text in (_BEFORE.sub("", whole), whole)]
    readings = [_split(phrase, score) if is_multi else [phrase] for phrase in phrases]
    return max(readings, key=lambda parts: min(map(score, parts)))  # 报告 is a frame, but 报告日期 is a key


def find_key(asked: str, key_values: Sequence[tuple[str, str]]) -> str:
    """Return the value of the key `asked`, or 无 if the page has no such key or no value."""
    score, key = _best_key(asked, [key for key, _ in key_values])
    if score < ALIKE_KEY:
        return MISSING
    values = [value for name, value in key_values if name == key]
    return next((value for value in values if value != MISSING), MISSING)


def read_cells(question: str, table: Sequence[TableRow]) -> CellQuestion:
    """Return the items and columns that a question about a table names."""
    text = question.strip()
    word = _column_word()
    framed = re.match(
        rf"(?P<items>.+?){_ITEM_WORD}的?(?P<asked>(?:{word})(?:(?:和|与|及|以及|、|,|，|/)(?:{word}))*)(?P<rest>.*)$",
        text,
    )
    if re.search(r"哪些|哪几|哪项|有什么异常|有没有异常(?:指标|项目)", text):
        return CellQuestion((), ())
    if not framed:
        status = _STATUS_WORD.search(text)
        phrase = re.sub(rf"{_ITEM_WORD}的?$", "", _BEFORE.sub("", text[: status.start()] if status else text)).strip()
        return CellQuestion((phrase,) if status and phrase else (), (STATUS,) if status else ())
    phrase = _BEFORE.sub("", framed["items"]).strip()
    items = _items(phrase, table)
    if _STATUS_WORD.search(framed["rest"]):
        return CellQuestion(tuple(items), (STATUS,))
    ranges = {fold(word) for word in _words(RANGES)}
    asked = [part for part in re.findall(word, framed["asked"])]
    columns = [RANGE if fold(part) in ranges else RESULT for part in asked]
    return CellQuestion(tuple(items), tuple(dict.fromkeys(columns)))


def _items(phrase: str, table: Sequence[TableRow]) -> list[str]:
    """Return the items of a phrase. It is split at a connecting word only if both parts are on the page."""

    def score(part: str) -> float:
        return max((item_score(part, row.item) for row in table), default=0.0)

    parts = _split(phrase, score)
    return parts if len(parts) > 1 and not score(phrase) and all(map(score, parts)) else [phrase]


def _split(phrase: str, score: Callable[[str], float]) -> list[str]:
    """Split `phrase` at the connecting word that leaves the best-known parts. Names may contain 和."""
    cuts = list(_AND.finditer(phrase))
    if not cuts:
        return [phrase]
    best = max(
        ([phrase[: cut.start()].strip(), phrase[cut.end() :].strip()] for cut in cuts),
        key=lambda parts: min(map(score, parts)),
    )
    return best if all(best) else [phrase]


def _best_key(asked: str, keys: Sequence[str]) -> tuple[float, str]:
    """Return (score, key): 1 for the same word, a little less for a synonym, else by similarity."""
    terms = _terms()
    word = fold(asked)

    def score(key: str) -> float:
        if fold(key) == word:
            return 1.0
        if terms.knows(KEYS, asked) and terms.canonical(KEYS, asked) == terms.canonical(KEYS, key):
            return 0.99
        if fold(key).replace("时间", "日期") == word.replace("时间", "日期"):
            return 0.98
        is_other = is_known_key(asked) and is_known_key(key)  # 送检医生 and 送检医院 differ
        return 0.0 if is_other else 0.97 * similarity(fold(key), word)

    return max(((score(key), key) for key in keys), default=(0.0, ""), key=lambda entry: entry[0])


@cache
def _terms() -> Terms:
    return load_terms()


@cache
def _words(kind: str) -> tuple[str, ...]:
    """Return the words of a kind, longest first."""
    groups = _terms().groups[kind]
    return tuple(sorted({word for term, others in groups.items() for word in (term, *others)}, key=len, reverse=True))


@cache
def _column_word() -> str:
    words = sorted((*_words(RESULTS), *_words(RANGES), "数值", "参考"), key=len, reverse=True)
    return "|".join(map(re.escape, words))
