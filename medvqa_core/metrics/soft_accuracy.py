"""Soft accuracy of RJUA-MedDQA (paper, Section 5.2): a prediction is right if it contains the answer.

The profile `released` equals the released script, including its errors. Multi answers about keys and cells are scored
by their first two parts (0.5 each). `;;` in a multiple-choice reply is removed before its parts are counted. Blanks
count, 、 is not a comma and ＞ is not >.

The profile `ours` corrects these rules. Every part of a multi answer counts, except empty ones. Dashes, `…` and `...`,
and full-width and half-width signs are equal. Naming more options than the answer is wrong, and 无法 ("not able to") is
not 无.

By answer type:

    single_entity, single_span, single_nr, SA  1 if the prediction contains the answer
    multi_entity, multi_span                   a share for each part of the answer
    multi_nr                                   the same; for 无异常结果: contains 无 but not 无法判断
    MC                                         0 if the prediction names more than two things, else as single

Failed (None) and empty predictions score 0 and are counted. Empty answers are scored as None. The script raises errors
for both. Its task name `fact` is `entity_qa` in the released files.
"""

import re
from collections.abc import Sequence

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.metrics.chinese import fold_signs, map_released
from medvqa_core.metrics.scores import Scores, mean

SINGLE_TYPES = ("single_entity", "single_span", "single_nr", "SA")
MULTI_TYPES = ("multi_entity", "multi_span")
MULTI_NUMERICAL = "multi_nr"
MULTIPLE_CHOICE = "MC"
ANSWER_TYPES = (*SINGLE_TYPES, *MULTI_TYPES, MULTI_NUMERICAL, MULTIPLE_CHOICE)
RELEASED, OURS = PROFILES = ("released", "ours")

NO_ABNORMAL = "无异常结果"
NOTHING, UNDECIDED, UNABLE = "无", "无法判断", "无法"
CHOICES_ALLOWED = 2  # parts of a multiple-choice prediction
_OPTION = re.compile(r"[A-Z](?:\s*[.．、:：]|\Z)")


def soft_accuracy(prediction: str, answer: str, answer_type: str, profile: str = OURS) -> float:
    """Score of one prediction, 0 to 1.

    Raises:
        InputError: the answer type is unknown, or the answer is empty.
        ConfigError: the profile is unknown.

    Examples:
        >>> soft_accuracy("结果为1.10", "1.10;0.75-1.2", "multi_span")
        0.5
    """
    check_profile(profile)
    if answer_type not in ANSWER_TYPES:
        raise InputError(f"answer type {answer_type!r} is unknown. Allowed: {', '.join(ANSWER_TYPES)}")
    if not answer.strip():
        raise InputError("an empty answer cannot be scored, because every prediction contains it. Use 无 for nothing")
    return _released(prediction, answer, answer_type) if profile == RELEASED else _ours(prediction, answer, answer_type)


def check_profile(profile: str) -> None:
    """Raise ConfigError for an unknown profile."""
    if profile not in PROFILES:
        raise ConfigError(f"profile {profile!r} is unknown. Allowed: {', '.join(PROFILES)}")


def _released(prediction: str, answer: str, answer_type: str) -> float:
    prediction, answer = map_released(prediction), map_released(answer)
    parts = answer.split(";")
    if answer_type in MULTI_TYPES:
        return 0.5 * sum(part in prediction for part in parts[:2])
    if answer_type == MULTI_NUMERICAL:
        if NO_ABNORMAL in answer:
            return float(NOTHING in prediction and UNDECIDED not in prediction)
        return sum(part in prediction for part in parts) / len(parts)
    if answer_type == MULTIPLE_CHOICE and len(prediction.replace(";;", "").split(";")) > CHOICES_ALLOWED:
        return 0.0
    return float(answer in prediction)


def _ours(prediction: str, answer: str, answer_type: str) -> float:
    prediction, answer = fold_signs(prediction), fold_signs(answer).strip()
    if answer_type == MULTIPLE_CHOICE and _names_too_many(prediction, answer):
        return 0.0
    if answer_type == MULTI_NUMERICAL and answer.strip(" .;") == NO_ABNORMAL:
        return float(NOTHING in prediction and UNABLE not in prediction)
    parts = _parts(answer)
    if answer_type in (*MULTI_TYPES, MULTI_NUMERICAL) and parts:
        return sum(part in prediction for part in parts) / len(parts)
    return float(answer in prediction)


def _names_too_many(prediction: str, answer: str) -> bool:
    """Whether a prediction names more than two things, or more options than the answer."""
    parts = _parts(prediction)
    options = sum(bool(_OPTION.match(part)) for part in parts)
    return len(parts) > CHOICES_ALLOWED or options > max(1, len(_parts(answer)))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def soft_accuracy_scores(
    predictions: Sequence[str | None], answers: Sequence[str], answer_types: Sequence[str], profile: str = OURS
) -> Scores:
    """`soft_accuracy`. `unscorable` counts empty answers under that name and failed predictions under `failed`.

    Raises:
        InputError: no pairs, lists of different length, or an unknown answer type.
        ConfigError: the profile is unknown.

    Examples:
        >>> soft_accuracy_scores(["1.10", None], ["1.10", "女"], ["single_span", "single_entity"]).samples
        {'soft_accuracy': [1.0, 0.0]}
    """
    check_aligned(predictions=predictions, answers=answers, answer_types=answer_types)
    samples: list[float | None] = []
    for prediction, answer, answer_type in zip(predictions, answers, answer_types, strict=True):
        if not (answer or "").strip():
            samples.append(None)
        else:
            score = soft_accuracy(prediction or "", answer, answer_type, profile)
            samples.append(score if prediction else 0.0)
    failed = sum(is_failed(prediction) for prediction in predictions)
    return Scores(
        {"soft_accuracy": mean(samples)},
        {"soft_accuracy": samples},
        {"soft_accuracy": samples.count(None), "failed": failed},
    )


def is_failed(prediction: str | None) -> bool:
    """Whether a prediction is missing or empty."""
    return prediction is None or not prediction.strip()


def check_aligned(**columns: Sequence) -> None:
    """Raise InputError if the columns are empty or differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"the columns differ in length ({listed}). They must be aligned, one entry each")
    if not all(lengths.values()):
        raise InputError("no predictions to score. Give at least one")
