"""Answers to closed and open questions of public datasets, as right or wrong.

exact       the answer is the reference, once case, punctuation and words in brackets are gone and yes and no stand for
            their variants (what lmms-eval does with SLAKE)
closed      the same, or said in a sentence. Yes and no: the first of them that is said. Options: the letter, its text,
            or both; two different ones are none. Other words: they stand in the answer, and it does not also say the
            other side of a question "… or …?"
recall      open questions: the share of the reference's words that the answer says, each as often as it stands there
            (what LLaVA-Med reports)

Words are compared whole: "normal" holds no "no". A failed answer is wrong where failures are scored, and left out where
they are not.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from medvqa_core.metrics.scores import mean
from mimic_cxr_vqa.answer_types import CLOSED

YES = ("yes", "yeah", "yep", "true")
NO = ("no", "nope", "false")
_BRACKETS = re.compile(r"\([^)]*\)")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def score_short(answers: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The measures of all rows, and by category; None among the answers is left out and counted.

    Returns:
        `exact`, `closed_accuracy`, `open_recall` (None where there is no such row), `rows`, `failed`, and
        `by_category` with the same, where `accuracy` is that of closed and exact of open rows.
    """
    of_category: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        of_category.setdefault(row["category"], []).append(place)
    samples = score_rows(answers, rows)

    def summary(places: Sequence[int]) -> dict[str, Any]:
        values = {name: mean([samples[place][name] for place in places]) for name in samples[places[0]]}
        failed = sum(answers[place] is None for place in places)
        return {**values, "rows": len(places) - failed, "failed": failed}

    return {
        **summary(range(len(rows))),
        "by_category": {name: summary(places) for name, places in sorted(of_category.items())},
    }


def score_rows(answers: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float | None]]:
    """Per row `accuracy`, `exact`, `closed_accuracy` and `open_recall`; None where the row has none."""
    return [_score(answer, row) for answer, row in zip(answers, rows, strict=True)]


def _score(answer: str | None, row: Mapping[str, Any]) -> dict[str, float | None]:
    names = ("accuracy", "exact", "closed_accuracy", "open_recall")
    if answer is None or not row["answer"].strip():
        return dict.fromkeys(names)
    closed = row["answer_type"] == CLOSED
    exact = float(is_exact(answer, row))
    right = float(is_right(answer, row)) if closed else None
    recall = None if closed else word_recall(answer, row["answer"])
    return dict(zip(names, (right if closed else exact, exact, right, recall), strict=True))


def plain_words(text: str) -> list[str]:
    """Lower-case words without punctuation and brackets."""
    return _BRACKETS.sub(" ", text.strip().lower()).translate(_PUNCTUATION).split()


def is_exact(answer: str, row: Mapping[str, Any]) -> bool:
    """Whether the answer is the reference; of options their letter or their text."""
    options = row.get("options")
    if options:
        return plain_words(answer) in (plain_words(row["answer"]), plain_words(options[row["answer"]]))
    return _canonical(plain_words(answer)) == _canonical(plain_words(row["answer"]))


def is_right(answer: str, row: Mapping[str, Any]) -> bool:
    """Whether the answer to a closed question says what the reference says; see the module."""
    options = row.get("options")
    if options:
        return chosen_option(answer, options) == row["answer"]
    said, truth = plain_words(answer), plain_words(row["answer"])
    if _canonical(said) == _canonical(truth):
        return True
    if _canonical(truth) in (["yes"], ["no"]):
        decided = next((word for word in said if word in YES + NO), None)
        return decided is not None and _canonical([decided]) == _canonical(truth)
    other = _other_side(plain_words(row["question"]), truth)
    return _holds(said, truth) and not (other and _holds(said, other))


def chosen_option(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter of the option that the answer chooses; None where it chooses none, or two different ones."""
    letters = "".join(options)
    text = answer.strip()
    lone = re.match(rf"\(?([{letters}{letters.lower()}])\s*(?:[.):]|$)", text)
    stated = re.findall(rf"(?i:answer|option|choice)(?:\s+is)?\s*:?\s*\**\(?([{letters}])\b", text)
    named = {lone[1].upper()} if lone else set(stated)
    if len(named) == 1:
        return named.pop()
    if named:
        return None
    said = plain_words(text)
    held = {letter: plain_words(option) for letter, option in options.items() if _holds(said, plain_words(option))}
    longest = [  # "effusion" is held wherever "pleural effusion" is: the longer one is meant
        letter
        for letter, words in held.items()
        if not any(words != more and _holds(more, words) for more in held.values())
    ]
    return longest[0] if len(longest) == 1 else None


def word_recall(answer: str, reference: str) -> float:
    """Share of the reference's words in the answer."""
    wanted = Counter(plain_words(reference))
    found = wanted & Counter(plain_words(answer))
    return found.total() / wanted.total() if wanted else 0.0


def _canonical(words: list[str]) -> list[str]:
    if len(words) == 1:
        return ["yes"] if words[0] in YES else ["no"] if words[0] in NO else words
    return ["xray"] if words == ["x", "ray"] else words


def _holds(words: list[str], part: list[str]) -> bool:
    """Whether `part` stands in `words` in one piece."""
    return bool(part) and any(words[i : i + len(part)] == part for i in range(len(words) - len(part) + 1))


def _other_side(question: list[str], truth: list[str]) -> list[str]:
    """What a question "… this or that …?" offers besides `truth`, as many words; empty where it does not."""
    if "or" not in question or not truth:
        return []
    place = question.index("or")
    before, after = question[max(0, place - len(truth)) : place], question[place + 1 : place + 1 + len(truth)]
    if before == truth:
        return after
    return before if after == truth else []
