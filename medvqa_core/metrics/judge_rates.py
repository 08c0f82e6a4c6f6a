"""Rates that a judge model gave, corrected by what people say of a sample of the same items, with intervals.

A judge that calls 95% of the answers correct is wrong on some of both kinds. Two corrections, for two designs:

- `compute_rate`, and `post_stratified` for a yes-or-no verdict: people rated items drawn from the judged ones, at
  random or more of one verdict than of another (`cxr review export --stratify`). Among items of one verdict their
  sample is random, so rate = P(V=1) P(T=1|V=1) + P(V=0) P(T=1|V=0): no assumption that the judge is better than
  chance, and half the width of the plug-in. The default.
- `plug_in`: people rated items from elsewhere (another release), where only sensitivity and specificity carry over:
  (p + specificity - 1) / (specificity + sensitivity - 1), with the interval of Lee et al., "How to Correctly Report
  LLM-as-a-Judge Evaluations" (arXiv 2511.21140). Wrong for a sample that was drawn by verdict: it covers nothing there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from medvqa_core.errors import InputError

_Z = 1.959963984540054  # 95% of a normal distribution, two-sided
DRAWS = 20_000
CLUSTER_DRAWS = 4_000


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


@dataclass(frozen=True)
class Cell:
    """Judged items that are alike for the judge: of one verdict, and of one stratum of the people's sample.

    Attributes:
        judged: how many there are.
        rated: how many of them, drawn at random, people rated.
        hits: how many of those people put into the category that is counted.
    """

    judged: int
    rated: int
    hits: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.rated or self.judged < 0:
            raise InputError(f"{self}: hits go up to rated, and no count is negative")


def post_stratified(positive: int, judged: int, calibration: Calibration, seed: int = 0) -> Rate:
    """The share of truly positive items among `judged`, of which the judge calls `positive` so.

    Two cells of `compute_rate`, the judge's two verdicts.

    Raises:
        InputError: counts that are impossible, or no rated item at all.
    """
    judged_rate = _check(positive, judged)
    found = calibration
    cells = (
        Cell(positive, found.true_positive + found.false_positive, found.true_positive),
        Cell(judged - positive, found.false_negative + found.true_negative, found.false_negative),
    )
    return compute_rate(cells, judged_rate, seed=seed)


def compute_rate(
    cells: Sequence[Cell],
    judged_rate: float,
    categories: int = 2,
    clusters: np.ndarray | None = None,
    seed: int = 0,
) -> Rate:
    """The share of items that people would put into a category: sum over cells of P(cell) P(category | cell).

    The interval is the 95% range of a posterior: the cells' sizes as sampled, and for each cell's share of hits the
    prior Beta(1/k, 1 - 1/k) of k categories (Perks; for two it is Jeffreys'), so that a cell of which people rated
    nothing says how little is known. How often it covers the truth is simulated in the tests.

    Args:
        judged_rate: share that the judge puts into the category; kept beside the result.
        categories: of the dimension; a cell that nobody rated has 1 / `categories` of its items in each, for the point.
        clusters: (clusters, cells) judged items of each study by cell, where whole studies were sampled: their shares
            are drawn by a Bayesian bootstrap over studies. None: items were sampled one by one.

    Raises:
        InputError: no rated item at all, or no judged one.
    """
    if not any(cell.rated for cell in cells):
        raise InputError("people rated none of the judged items; import their ratings first (cxr review import)")
    sizes = np.array([cell.judged for cell in cells], float)
    if not sizes.sum():
        raise InputError("no judged items; at least one is needed")
    generator = np.random.default_rng(seed)
    if clusters is None:
        shares = generator.dirichlet(sizes + 0.5, DRAWS)  # (draws, cells)
    else:
        counts = generator.exponential(size=(CLUSTER_DRAWS, len(clusters))) @ clusters
        shares = counts / counts.sum(1, keepdims=True)
    hits = np.array([cell.hits for cell in cells], float)
    misses = np.array([cell.rated for cell in cells], float) - hits
    prior = 1 / categories
    drawn = shares * generator.beta(hits + prior, misses + 1 - prior, shares.shape)
    low, high = np.quantile(drawn.sum(1), [0.025, 0.975])
    means = [cell.hits / cell.rated if cell.rated else prior for cell in cells]
    return Rate(judged_rate, float(sizes @ np.array(means) / sizes.sum()), float(low), float(high))


def judged_interval(clusters: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95% interval of the judge's own rate over studies, by a Bayesian bootstrap.

    Args:
        clusters: (studies, 2) items of each study: those in the category, all.
    """
    counts = np.random.default_rng(seed).exponential(size=(CLUSTER_DRAWS, len(clusters))) @ clusters
    low, high = np.quantile(counts[:, 0] / counts[:, 1], [0.025, 0.975])
    return float(low), float(high)


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
