"""Rates that a judge model gave, corrected by what people say of a sample of the same items, with intervals.

A judge that calls 95% of the answers correct is wrong on some of both kinds. Two corrections, for two designs:

- `post_stratified`: people rated items drawn from the judged ones, at random or more of one verdict than of another
  (`cxr review export --stratify`). Among items of one verdict their sample is random, so
  rate = P(V=1) P(T=1|V=1) + P(V=0) P(T=1|V=0): no assumption that the judge is better than chance, and half the width
  of the plug-in. The default.
- `plug_in`: people rated items from elsewhere (another release), where only sensitivity and specificity carry over:
  (p + specificity - 1) / (specificity + sensitivity - 1), with the interval of Lee et al., "How to Correctly Report
  LLM-as-a-Judge Evaluations" (arXiv 2511.21140). Wrong for a sample that was drawn by verdict: it covers nothing there.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from medvqa_core.errors import InputError

_Z = 1.959963984540054  # 95% of a normal distribution, two-sided
DRAWS = 20_000


@dataclass(frozen=True)
class Calibration:
    """Items that both judged: counts by people's verdict (true, false) and the judge's (positive, negative)."""

    true_positive: int
    false_negative: int
    false_positive: int
    true_negative: int

    def __post_init__(self) -> None:
        if min(vars(self).values()) < 0:
            raise InputError(f"calibration counts {tuple(vars(self).values())}: none may be negative")

    @property
    def sensitivity(self) -> float | None:
        """P(judge positive | people positive); None without such items."""
        total = self.true_positive + self.false_negative
        return self.true_positive / total if total else None

    @property
    def specificity(self) -> float | None:
        """P(judge negative | people negative); None without such items."""
        total = self.false_positive + self.true_negative
        return self.true_negative / total if total else None


@dataclass(frozen=True)
class Rate:
    """A share of items: what the judge says, what it comes to by the people, and a 95% interval of that."""

    judged: float
    corrected: float
    low: float
    high: float


def post_stratified(positive: int, judged: int, calibration: Calibration, seed: int = 0) -> Rate:
    """The share of truly positive items among `judged`, of which the judge calls `positive` so.

    The interval is the 95% range of the posterior under Jeffreys' priors for the three shares; a verdict of which
    people rated nothing keeps its prior, so that the interval says how little is known.

    Raises:
        InputError: counts that are impossible, or no rated item at all.
    """
    judged_rate = _check(positive, judged)
    of_positive = calibration.true_positive + calibration.false_positive
    of_negative = calibration.false_negative + calibration.true_negative
    if not of_positive + of_negative:
        raise InputError("people rated none of the judged items; import their ratings first (cxr review import)")
    generator = np.random.default_rng(seed)

    def draw(hits: int, misses: int) -> np.ndarray:
        return generator.beta(hits + 0.5, misses + 0.5, DRAWS)

    share = draw(positive, judged - positive)
    kept = draw(calibration.true_positive, calibration.false_positive)
    missed = draw(calibration.false_negative, calibration.true_negative)
    low, high = np.quantile(share * kept + (1 - share) * missed, [0.025, 0.975])
    kept_share = calibration.true_positive / of_positive if of_positive else 0.5
    missed_share = calibration.false_negative / of_negative if of_negative else 0.5
    corrected = judged_rate * kept_share + (1 - judged_rate) * missed_share
    return Rate(judged_rate, corrected, float(low), float(high))


def plug_in(positive: int, judged: int, calibration: Calibration) -> Rate:
    """The same share, from sensitivity and specificity measured on other items (Lee et al., equations 3 and 5).

    Raises:
        InputError: impossible counts, no rated item that people find positive or none that they find negative, or a
            judge that is no better than chance: its verdicts say nothing then.
    """
    judged_rate = _check(positive, judged)
    sensitivity, specificity = calibration.sensitivity, calibration.specificity
    if sensitivity is None or specificity is None:
        raise InputError("the calibration needs items that people find positive and items that they find negative")
    if sensitivity + specificity <= 1:
        raise InputError(f"sensitivity {sensitivity:.3f} and specificity {specificity:.3f}: no better than chance")
    corrected = (judged_rate + specificity - 1) / (specificity + sensitivity - 1)
    n = judged + _Z**2
    m1 = calibration.true_positive + calibration.false_negative + 2
    m0 = calibration.false_positive + calibration.true_negative + 2
    p = (positive + _Z**2 / 2) / n
    q1, q0 = (calibration.true_positive + 1) / m1, (calibration.true_negative + 1) / m0
    theta = (p + q0 - 1) / (q0 + q1 - 1)
    negative, true = (1 - theta) * q0 * (1 - q0) / m0, theta * q1 * (1 - q1) / m1
    middle = theta + 2 * _Z**2 * (true - negative)
    width = _Z * sqrt(p * (1 - p) / n + (1 - theta) * negative + theta * true) / (q0 + q1 - 1)
    return Rate(judged_rate, _clip(corrected), _clip(middle - width), _clip(middle + width))


def _check(positive: int, judged: int) -> float:
    if not 0 <= positive <= judged or not judged:
        raise InputError(f"{positive} positive of {judged} judged items; at least one item, and no more positive ones")
    return positive / judged


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
