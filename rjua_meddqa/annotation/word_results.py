"""Results in words: negative and positive in their spellings, and whether a result is the word that is expected."""

import re

from rjua_meddqa.annotation.ranges import plain
from rjua_meddqa.schema import ABNORMAL, NORMAL, UNDECIDED

_NEGATIVE = {
    "阴性",
    "-",
    "neg",
    "negative",
    "未检出",
    "未见",
    "未发现",
    "阴",
    "n",
    "无反应",
    "nonreactive",
    "non-reactive",
}
_POSITIVE = {"阳性", "弱阳性", "强阳性", "+", "++", "+++", "++++", "1+", "2+", "3+", "4+", "+1", "+2", "+3", "+4"}
_POSITIVE |= {"pos", "positive", "检出", "阳", "有反应", "reactive"}
_BETWEEN = {"±", "+-", "+/-", "-/+", "可疑", "弱反应", "trace"}


def judge_words(result: str, reference: str) -> tuple[str, str]:
    """Verdict and reason for a result in words: 阴性 against 阴性, 淡黄色 against 淡黄色-黄色."""
    if result == reference == "-":
        return UNDECIDED, "two dashes may say that nothing is there"
    found, expected = polarity(result), polarity(reference)
    if "undecided" in (found, expected):
        return UNDECIDED, "neither negative nor positive"
    if found and expected:
        same = found == expected
        return (NORMAL if same else ABNORMAL), f"{found}, expected {expected}"
    if re.search(r"\d|见|详|附|报告|说明|[ABO]型?[、,/]", plain(reference)):
        return UNDECIDED, "no range of numbers and no word to expect"
    words = re.split(r"[、,;/~]|(?<=[\u4e00-\u9fff])-|或|至", plain(reference))
    if {"positive", "negative"} <= {polarity(word) for word in words if word.strip() != "弱阳性"}:
        return UNDECIDED, "a list of what may be found, and no word to expect"
    if plain(result) in (plain(reference), *(word.strip() for word in words)):
        return NORMAL, "the word that is expected"
    return UNDECIDED, "words that cannot be compared"


def polarity(text: str) -> str:
    """negative, positive, undecided (±) or "" for a text that is none of them; `阴性(-)` and `(+)` are read."""
    text = "".join(plain(text).split()).lower()
    parts = [part for part in re.split(r"[()\[\]]", text) if part]
    polarities = set()
    for part in parts:
        if part in _NEGATIVE:
            polarities.add("negative")
        elif part in _POSITIVE:
            polarities.add("positive")
        elif part in _BETWEEN:
            polarities.add("undecided")
        else:
            return ""
    return polarities.pop() if len(polarities) == 1 else "undecided" if polarities else ""
