"""Measures of answers to closed and open questions of public datasets.

exact       the answer equals the reference without case, punctuation and words in brackets, with variants of yes and no
            treated as equal (as lmms-eval does for SLAKE)
closed      the same, or within a sentence. For yes and no, the first of them counts. For options, the letter, its text
            or both count, and two different options are wrong. Other references must occur in the answer, but not
            together with the other side of a question "… or …?".
recall      open questions: the share of the reference's words in the answer (as LLaVA-Med reports)

Words are compared whole: "normal" does not contain "no".
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
    """The measures of all rows and by category. Failed answers (None) are counted and left out.

    Returns:
        `exact`, `closed_accuracy`, `open_recall`, `accuracy` (closed accuracy, or exact for open questions), `rows`,
        `failed`, and the same `by_category`. Measures without rows are None.
    """
    categories: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        categories.setdefault(row["category"], []).append(place)
    samples = score_rows(answers, rows)

    def summary(places: Sequence[int]) -> dict[str, Any]:
        values = {name: mean([samples[place][name] for place in places]) for name in samples[places[0]]}
        failed = sum(answers[place] is None for place in places)
        return {**values, "rows": len(places) - failed, "failed": failed}

    return {
        **summary(range(len(rows))),
        "by_category": {name: summary(places) for name, places in sorted(categories.items())},
    }


def score_rows(answers: Sequence[str | None], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, float | None]]:
    """`accuracy`, `exact`, `closed_accuracy` and `open_recall` of each row, None if not applicable."""
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
    """Whether the answer equals the reference, or the letter or text of the right option."""
    options = row.get("options")
    if options:
        return plain_words(answer) in (plain_words(row["answer"]), plain_words(options[row["answer"]]))
    return _canonical(plain_words(answer)) == _canonical(plain_words(row["answer"]))


def is_right(answer: str, row: Mapping[str, Any]) -> bool:
    """Whether the answer to a closed question agrees with the reference, by the rule of the module."""
    options = row.get("options")
    if options:
        return chosen_option(answer, options) == row["answer"]
    words, truth = plain_words(answer), plain_words(row["answer"])
    if _canonical(words) == _canonical(truth):
        return True
    if _canonical(truth) in (["yes"], ["no"]):
        decided = next((word for word in words if word in YES + NO), None)
        return decided is not None and _canonical([decided]) == _canonical(truth)
    other = _other_side(plain_words(row["question"]), truth)
    return _contains(words, truth) and not (other and _contains(words, other))


def chosen_option(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter of the option that the answer chooses, or None if it does not choose exactly one."""
    letters = "".join(options)
    text = answer.strip()
    lone = re.match(rf"\(?([{letters}{letters.lower()}])\s*(?:[.):]|$)", text)
    stated = re.findall(rf"(?i:answer|option|choice)(?:\s+is)?\s*:?\s*\**\(?([{letters}])\b", text)
    named = {lone[1].upper()} if lone else set(stated)
    if len(named) == 1:
        return named.pop()
    if named:
        return None
    answered = plain_words(text)
    found = {letter: plain_words(option) for letter, option in options.items()}
    found = {letter: words for letter, words in found.items() if _contains(answered, words)}
    longest = [  # "pleural effusion" also contains "effusion", but the longer option is meant
        letter
        for letter, words in found.items()
        if not any(words != more and _contains(more, words) for more in found.values())
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


def _contains(words: list[str], part: list[str]) -> bool:
    """Whether `part` is a contiguous part of `words`."""
    return bool(part) and any(words[i : i + len(part)] == part for i in range(len(words) - len(part) + 1))


def _other_side(question: list[str], truth: list[str]) -> list[str]:
    """The alternative to `truth` in a question "… this or that …?", or an empty list."""
    if "or" not in question or not truth:
        return []
    place = question.index("or")
    before, after = question[max(0, place - len(truth)) : place], question[place + 1 : place + 1 + len(truth)]
    if before == truth:
        return after
    return before if after == truth else []
