"""Results in words: spellings of negative and positive, and comparison of a result with an expected word."""

import re

from rjua_meddqa.annotation.number_text import plain
from rjua_meddqa.schema import ABNORMAL, NORMAL, UNDECIDED
from rjua_meddqa.vocabulary import VOCABULARY

_POLARITIES = {word: polarity for polarity, words in VOCABULARY["results"].items() for word in words.split()}


def judge_words(result: str, reference: str) -> tuple[str, str]:
    """Return verdict and reason for a result in words: 阴性 against 阴性, 淡黄色 against 淡黄色-黄色."""
    if result == reference == "-":
        return UNDECIDED, "two dashes may mean an empty cell"
    found, expected = polarity(result), polarity(reference)
    if "undecided" in (found, expected):
        return UNDECIDED, "neither negative nor positive"
    if found and expected:
        same = found == expected
        return (NORMAL if same else ABNORMAL), f"{found}, expected {expected}"
    if re.search(r"\d|见|详|附|报告|说明|[ABO]型?[、,/]", plain(reference)):
        return UNDECIDED, "neither a range of numbers nor an expected word"
    words = re.split(r"[、,;/~]|(?<=[\u4e00-\u9fff])-|或|至", plain(reference))
    if {"positive", "negative"} <= {polarity(word) for word in words if word.strip() != "弱阳性"}:
        return UNDECIDED, "a list of possible findings, not an expected word"
    if plain(result) in (plain(reference), *(word.strip() for word in words)):
        return NORMAL, "the expected word"
    return UNDECIDED, "words that cannot be compared"


def polarity(text: str) -> str:
    """Return negative, positive, undecided (±) or "" for other texts. `阴性(-)` and `(+)` are understood."""
    text = "".join(plain(text).split()).lower()
    parts = [part for part in re.split(r"[()\[\]]", text) if part]
    polarities = {_POLARITIES.get(part, "") for part in parts}
    if "" in polarities:
        return ""
    return polarities.pop() if len(polarities) == 1 else "undecided" if polarities else ""
