"""The result of scoring functions: named corpus values and, under the same names, one value per sample."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from medvqa_core.errors import InputError

Tokenizer = Callable[[str], list[str]]


@dataclass(frozen=True)
class Scores:
    """`corpus["bleu_4"]` is the value for the whole set, `samples["bleu_4"][i]` that of prediction i.

    A sample that cannot be scored (an empty reference) is None and excluded from the corpus value. `unscorable` counts
    such samples by metric.
    """

    corpus: dict[str, float | None]
    samples: Mapping[str, Sequence[float | None]]
    unscorable: dict[str, int] = field(default_factory=dict)


def check_pairs(predictions: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    """The references of each prediction as lists; a string becomes a list of one.

    Raises:
        InputError: no pairs, lists of different length, values that are not texts, or a prediction without reference.
    """
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise InputError(f"{name} is one string. Give a list of texts")
    if len(predictions) != len(references):
        raise InputError(
            f"{len(predictions)} predictions but {len(references)} references. They must be aligned, one entry each"
        )
    if not len(predictions):
        raise InputError("no predictions to score. Give at least one pair of prediction and reference")
    lists = []
    for row, item in enumerate(references):
        if not isinstance(item, str | Sequence):
            raise InputError(
                f"row {row}: the reference is {type(item).__name__}, allowed are a text or a list of texts"
            )
        lists.append([item] if isinstance(item, str) else list(item))
    for row, (prediction, texts) in enumerate(zip(predictions, lists, strict=True)):
        if not texts:
            raise InputError(f"row {row}: no reference. Every prediction needs at least one")
        for what, text in (("prediction", prediction), *(("reference", text) for text in texts)):
            if not isinstance(text, str):
                raise InputError(
                    f"row {row}: the {what} is {type(text).__name__}, allowed are texts. "
                    "Leave failed predictions out, or score them as ''"
                )
    return lists


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are not None, or None."""
    scored = [value for value in values if value is not None]
    return sum(scored) / len(scored) if scored else None
