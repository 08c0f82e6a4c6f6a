"""`evaluate` module: agreement of raters, weighted Fleiss' kappa, Gwet's AC1 and AC2, and the published variants."""

from collections import Counter
from dataclasses import asdict

import datasets
import evaluate

from medvqa_core.errors import InputError
from medvqa_core.metrics.agreement import measure_agreement

_DESCRIPTION = """Weighted Fleiss' kappa and Gwet's AC1 and AC2 for any number of raters and with missing ratings, and
the variants behind Table 3 of the MIMIC-CXR-VQA paper under the names ac1_published and ac2_published."""

_KWARGS_DESCRIPTION = """
Args:
    ratings: category that was given.
    raters: who gave it.
    items: to what.
    order: all categories, worst first.
    weights: "quadratic", "linear" or "identity" (nominal categories).
    resamples: of the bootstrap intervals; 0 for none.
Examples:
    >>> from medvqa_core import metrics
    >>> result = metrics.load("agreement").compute(
    ...     ratings=["no", "no", "yes", "yes"], raters=["a", "b", "a", "b"], items=["1", "1", "2", "2"],
    ...     order=["no", "yes"], resamples=0,
    ... )
    >>> result["ac1"]
    1.0
"""


class Agreement(evaluate.Metric):
    """One dimension in one call; `medvqa-hub cxr agreement` reads whole sheets."""

    def _info(self) -> evaluate.MetricInfo:
        columns = ("ratings", "raters", "items")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({name: datasets.Value("string") for name in columns}),
        )

    def _compute(self, ratings, raters, items, order, weights="quadratic", resamples=2000, seed=0):
        pairs = list(zip(raters, items, strict=True))
        if len(set(pairs)) < len(pairs):
            (rater, item), _ = Counter(pairs).most_common(1)[0]
            raise InputError(f"rater {rater!r} judged item {item!r} twice. Keep one rating")
        given = {pair: rating for pair, rating in zip(pairs, ratings, strict=True) if rating}
        return asdict(measure_agreement(given, order, weights, resamples, seed))
