"""Whether a model's confidences tell right answers from wrong ones.

    risk-coverage curve   the share of wrong answers (risk) among the most confident ones, for each share of answers
                          that are kept (coverage; El-Yaniv and Wiener 2010)
    AURC                  the mean risk over all coverages 1/n, 2/n, …, 1 (Geifman, Uziel and El-Yaniv 2019)
    excess                AURC minus that of the same answers in the best order
    ECE                   expected calibration error: the mean distance of confidence and accuracy over bins of equal
                          width, weighted by their answers (Guo et al. 2017)

Answers of equal confidence are in random order: each gets the mean of its group. All functions take weights, so that
a bootstrap can repeat answers. Confidences are from 0 to 1.
"""

import numpy as np

BINS = 10


def risk_coverage(
    confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage and risk after each answer, the most confident first.

    Args:
        confidence, right, weight: one value for each answer. `right` is 0 or 1. Weights are whole numbers.

    Returns:
        Two arrays of the answers with a positive weight.
    """
    weights = np.ones(len(confidence)) if weight is None else np.asarray(weight, float)
    _, group = np.unique(-np.asarray(confidence), return_inverse=True)
    wrong = np.bincount(group, weights * (1 - np.asarray(right, float)))
    size = np.bincount(group, weights)
    rate = np.divide(wrong, size, out=np.zeros_like(wrong), where=size > 0)
    order = np.argsort(group, kind="stable")
    kept = weights[order] > 0
    covered = np.cumsum(weights[order])[kept]
    errors = np.cumsum(rate[group[order]] * weights[order])[kept]
    return covered / weights.sum(), errors / covered


def aurc(confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The area under the risk-coverage curve. NaN without answers."""
    weights = np.ones(len(confidence)) if weight is None else np.asarray(weight)
    repeated = np.repeat(np.arange(len(weights)), weights.astype(int))
    if not len(repeated):
        return float("nan")
    return float(risk_coverage(np.asarray(confidence)[repeated], np.asarray(right)[repeated])[1].mean())


def excess_aurc(confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None) -> float:
    """AURC minus that of an order with all right answers first. NaN without answers."""
    return aurc(confidence, right, weight) - aurc(np.asarray(right, float), right, weight)


def expected_calibration_error(
    confidence: np.ndarray, right: np.ndarray, weight: np.ndarray | None = None, bins: int = BINS
) -> float:
    """ECE with `bins` bins of equal width. A bin contains its upper edge, the first one also 0. NaN without answers."""
    confidence, right = np.asarray(confidence, float), np.asarray(right, float)
    weights = np.ones(len(confidence)) if weight is None else np.asarray(weight, float)
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights * (confidence - right), bins)
    return float(np.abs(gaps).sum() / weights.sum()) if weights.sum() else float("nan")
