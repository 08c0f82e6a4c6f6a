"""`evaluate` module: RJUA-MedDQA's Tables 5 to 7, scores by task, hallucination rate."""

import datasets
import evaluate

from medvqa_core.metrics.meddqa_scores import score_meddqa

_DESCRIPTION = """Soft accuracy and ROUGE-L of answers about Chinese medical reports, by task and answer type, in the
shape of Tables 5 to 7 of the RJUA-MedDQA paper, and the hallucination rate on unanswerable questions."""

_KWARGS_DESCRIPTION = """
Args:
    predictions: predicted answers; None for a question without one (it counts as wrong).
    references: annotated answers.
    tasks: entity_qa, table_qa, table_nr_qa, disease_qa, advice_qa or status_qa, one each.
    answer_types: single_entity, multi_entity, single_span, multi_span, single_nr, multi_nr, MC or SA, one each.
    image_qualities: "high" or "low", one each, or None where unknown; may be left out.
    profile: "ours", or "released": equal to the authors' script.
    units: of our ROUGE-L: "characters" or "words" (jieba).
    laboratory: True for laboratory reports, False for clinical ones, for Table 7; may be left out.
    unanswerable: which questions were made to lack an answer; the hallucination rate is also given for these alone.
    samples: also return the values of each question.
Examples:
    >>> from medvqa_core import metrics
    >>> result = metrics.load("meddqa").compute(
    ...     predictions=["正常"], references=["正常"], tasks=["table_nr_qa"], answer_types=["single_nr"],
    ... )
    >>> result["table_5"]["table_nr_accuracy"]
    1.0
"""


class Meddqa(evaluate.Metric):
    """All of it in one call."""

    def _info(self) -> evaluate.MetricInfo:
        columns = ("predictions", "references", "tasks", "answer_types")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({name: datasets.Value("string") for name in columns}),
        )

    def _compute(
        self,
        predictions,
        references,
        tasks,
        answer_types,
        image_qualities=None,
        units="characters",
        unanswerable=None,
        samples=False,
        profile="ours",
        laboratory=None,
    ):
        columns = (predictions, references, tasks, answer_types, image_qualities)
        scored = score_meddqa(*columns, units, unanswerable, profile, laboratory)
        return {**scored.record, "samples": scored.samples} if samples else scored.record
