"""`evaluate` module: soft accuracy by RJUA-MedDQA's rules, as released or corrected."""

import datasets
import evaluate

from medvqa_core.metrics.soft_accuracy import soft_accuracy_scores

_DESCRIPTION = """A prediction is right that contains the answer; parts of an answer count separately, by answer type,
as in the released scoring of RJUA-MedDQA."""

_KWARGS_DESCRIPTION = """
Args:
    predictions: predicted answers; None for a question without one (it counts as wrong).
    references: annotated answers, parts joined by ";".
    answer_types: single_entity, multi_entity, single_span, multi_span, single_nr, multi_nr, MC or SA, one each.
    profile: "released", equal to the authors' script, or "ours", the same rules corrected (the default).
    samples: also return the value of each pair.
Examples:
    >>> from medvqa_core import metrics
    >>> metric = metrics.load("soft_accuracy")
    >>> metric.compute(predictions=["1.10"], references=["1.10;0.75-1.2"], answer_types=["multi_span"])["soft_accuracy"]
    0.5
"""


class SoftAccuracy(evaluate.Metric):
    """Mean over questions; empty answers are counted, not scored."""

    def _info(self) -> evaluate.MetricInfo:
        columns = ("predictions", "references", "answer_types")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({name: datasets.Value("string") for name in columns}),
        )

    def _compute(self, predictions, references, answer_types, samples=False, profile="ours"):
        scores = soft_accuracy_scores(predictions, references, answer_types, profile)
        result = {
            **scores.corpus,
            "profile": profile,
            "questions": len(predictions),
            "failed": scores.unscorable["failed"],
            "unscorable": scores.unscorable["soft_accuracy"],
        }
        return {**result, "samples": scores.samples["soft_accuracy"]} if samples else result
