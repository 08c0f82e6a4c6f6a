"""`evaluate` module: F1 over the structured findings of chest X-ray texts."""

import datasets
import evaluate

from mimic_cxr_vqa.cxr_findings.scoring import cxr_findings_scores

_DESCRIPTION = """F1 over the findings of a generated and a reference chest X-ray report or answer, with errors of
polarity, side, severity, certainty and comparison. Rules only: no model and no network."""

_KWARGS_DESCRIPTION = """
Args:
    predictions: generated texts.
    references: reference texts.
    samples: also return the value and the errors of each pair.
Examples:
    >>> from mimic_cxr_vqa import cxr_findings
    >>> metric = cxr_findings.load()
    >>> metric.compute(predictions=["Small left effusion."], references=["Small left effusion."])["cxr_findings"]
    1.0
"""


class CxrFindings(evaluate.Metric):
    """Mean over pairs. Pairs with an empty reference are not scored."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({name: datasets.Value("string") for name in ("predictions", "references")}),
        )

    def _compute(self, predictions, references, samples=False):
        scores, errors = cxr_findings_scores(predictions, references)
        result = {**scores.corpus, "unscorable": scores.unscorable["cxr_findings"]}
        extra = {"samples": scores.samples["cxr_findings"], "errors": [vars(one) if one else None for one in errors]}
        return {**result, **extra} if samples else result
