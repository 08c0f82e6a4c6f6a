"""Soft accuracy of RJUA-MedDQA (paper, Section 5.2): right is what contains the answer; the released rules.

Chinese punctuation counts as ASCII on both sides. By answer type:

    single_entity, single_span, single_nr, SA  1 if the answer stands in the prediction
    multi_entity, multi_span                   an equal share (0.5 of two) for each part of the answer that does
    multi_nr                                   the same; 无异常结果 is right where it has 无 but not 无法判断
    MC                                         0 if the prediction names more than two things, else as single

A prediction that failed (None) or is empty scores 0 and is counted. An answer that is empty cannot be scored: None.
"""

from collections.abc import Sequence

from medvqa_core.errors import InputError
from medvqa_core.metrics.chinese import map_punctuation
from medvqa_core.metrics.scores import Scores, mean

SINGLE_TYPES = ("single_entity", "single_span", "single_nr", "SA")
MULTI_TYPES = ("multi_entity", "multi_span")
MULTI_NUMERICAL = "multi_nr"
MULTIPLE_CHOICE = "MC"
ANSWER_TYPES = (*SINGLE_TYPES, *MULTI_TYPES, MULTI_NUMERICAL, MULTIPLE_CHOICE)

NO_ABNORMAL = "无异常结果"
NOTHING, UNDECIDED = "无", "无法判断"
CHOICES_ALLOWED = 2  # parts of a multiple-choice prediction


def soft_accuracy(prediction: str, answer: str, answer_type: str) -> float:
    """Score of one prediction, 0 to 1.

    Raises:
        InputError: the answer type is unknown, or the answer is empty.
    """
    if answer_type not in ANSWER_TYPES:
        raise InputError(f"answer type {answer_type!r} is unknown; allowed: {', '.join(ANSWER_TYPES)}")
    prediction, answer = map_punctuation(prediction), map_punctuation(answer).strip()
    if not answer:
        raise InputError(
            "an empty answer cannot be scored: it stands in every prediction; the files write 无 for nothing"
        )
    if answer_type == MULTIPLE_CHOICE and len(prediction.split(";")) > CHOICES_ALLOWED:
        return 0.0
    if answer_type == MULTI_NUMERICAL and answer == NO_ABNORMAL:
        return float(NOTHING in prediction and UNDECIDED not in prediction)
    if answer_type in (*MULTI_TYPES, MULTI_NUMERICAL):
        parts = [part.strip() for part in answer.split(";") if part.strip()]
        return sum(part in prediction for part in parts) / len(parts) if parts else float(answer in prediction)
    return float(answer in prediction)


def soft_accuracy_scores(
    predictions: Sequence[str | None], answers: Sequence[str], answer_types: Sequence[str]
) -> Scores:
    """`soft_accuracy`; `unscorable` counts empty answers under that name and failed predictions under `failed`.

    Raises:
        InputError: no pairs, lists of different length, or an unknown answer type.
    """
    check_aligned(predictions=predictions, answers=answers, answer_types=answer_types)
    samples: list[float | None] = []
    for prediction, answer, answer_type in zip(predictions, answers, answer_types, strict=True):
        if not (answer or "").strip():
            samples.append(None)
        else:
            samples.append(soft_accuracy(prediction or "", answer, answer_type))
    failed = sum(is_failed(prediction) for prediction in predictions)
    return Scores(
        {"soft_accuracy": mean(samples)},
        {"soft_accuracy": samples},
        {"soft_accuracy": samples.count(None), "failed": failed},
    )


def is_failed(prediction: str | None) -> bool:
    """No prediction: an error in its place, or nothing in it."""
    return prediction is None or not prediction.strip()


def check_aligned(**columns: Sequence) -> None:
    """Raises InputError where the columns are empty or differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"the columns differ in length ({listed}); they must be aligned, one entry each")
    if not all(lengths.values()):
        raise InputError("no predictions to score; give at least one")
