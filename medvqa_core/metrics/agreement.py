"""Agreement of any number of raters: weighted Fleiss' kappa and Gwet's AC1 and AC2, with missing ratings.

Notation (Gwet, Handbook of Inter-Rater Reliability, 4th ed., Sections 2 and 4): r_ik raters put item i into category k,
r_i in all, q categories, weights w_kl.

    Po = mean over items with r_i >= 2 of  sum_k r_ik (sum_l w_kl r_il - 1) / (r_i (r_i - 1))
    p_k = mean over items of  r_ik / r_i
    Fleiss:  Pe = sum_kl w_kl p_k p_l                            Po with the weights
    AC1:     Pe = sum_k p_k (1 - p_k) / (q - 1)                  Po with identity weights
    AC2:     Pe = sum_kl w_kl / (q (q - 1)) * sum_k p_k (1 - p_k)  Po with the weights
    coefficient = (Po - Pe) / (1 - Pe)

The MIMIC-CXR-VQA paper's Table 3 uses other chance terms for more than two categories. They only serve to reproduce it:

    ac1_published:  Pe = sum_k p_k (1 - p_k)
    ac2_published:  Pe = sum_kl (1 - p_l) p_k w_kl / (q - 1)
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from medvqa_core.errors import ConfigError, InputError

Rater = TypeVar("Rater", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)
WEIGHTS = ("quadratic", "linear", "identity")
COEFFICIENTS = ("fleiss_kappa", "ac1", "ac2", "ac1_published", "ac2_published")
RESAMPLES = 2000


@dataclass(frozen=True)
class Agreement:
    """Coefficients of one dimension; None if undefined (chance agreement of 1)."""

    fleiss_kappa: float | None
    ac1: float | None
    ac2: float | None
    ac1_published: float | None
    ac2_published: float | None
    raw_agreement: float  # share of equal pairs of ratings, averaged over items
    weighted_agreement: float
    intervals: dict[str, tuple[float, float] | None]  # 95%, percentile bootstrap over items, or over their clusters
    items: int  # with at least one rating
    items_rated_twice: int  # with at least two: those that agreement is measured on
    raters: int
    ratings: int
    categories: list[str]
    weights: str


def weight_matrix(categories: int, weights: str = "quadratic") -> np.ndarray:
    """(categories, categories) weights: 1 for equal ones, 0 for the two ends of the order; identity for nominal ones.

    Raises:
        ConfigError: unknown name, or fewer than two categories.
    """
    if categories < 2:
        raise ConfigError(f"{categories} categories. Agreement needs at least 2")
    distance = np.abs(np.subtract.outer(np.arange(categories), np.arange(categories))) / (categories - 1)
    if weights == "quadratic":
        return 1 - distance**2
    if weights == "linear":
        return 1 - distance
    if weights == "identity":
        return np.eye(categories)
    raise ConfigError(f"weights {weights!r} are unknown. Allowed: {', '.join(WEIGHTS)}")


def measure_agreement(
    ratings: Mapping[tuple[Rater, Item], str],
    order: Sequence[str],
    weights: str = "quadratic",
    resamples: int = RESAMPLES,
    seed: int = 0,
    dimension: str = "ratings",
    clusters: Mapping[Item, Hashable] | None = None,
) -> Agreement:
    """Agreement on one dimension.

    Args:
        ratings: (rater, item) -> category.
        order: all possible categories, worst first.
        resamples: of the bootstrap; 0 for no intervals.
        dimension: its name, for messages.
        clusters: item -> cluster (such as the study) that the bootstrap draws; None: items.

    Raises:
        InputError: a category that is not in `order`, or no item with two ratings.
        ConfigError: see `weight_matrix`.

    Examples:
        >>> ratings = {("a", 1): "good", ("b", 1): "good", ("a", 2): "bad", ("b", 2): "bad"}
        >>> measure_agreement(ratings, ["bad", "good"], resamples=0).ac1
        1.0
    """
    codes = {category: code for code, category in enumerate(order)}
    if len(codes) != len(order):
        raise ConfigError(f"{dimension}: the order {list(order)!r} names a category twice")
    matrix = weight_matrix(len(order), weights)
    rows: dict[Hashable, int] = {}
    cells = []
    for (rater, item), category in ratings.items():
        if category not in codes:
            raise InputError(
                f"{dimension}, rater {rater!r}, item {item!r}: category {category!r} is unknown. "
                f"Allowed: {', '.join(order)}"
            )
        cells.append((rows.setdefault(item, len(rows)), codes[category]))
    counts = np.zeros((len(rows), len(order)))
    for row, code in cells:
        counts[row, code] += 1
    if not (counts.sum(1) >= 2).any():
        raise InputError(f"{dimension}: no item has two ratings. Agreement needs at least one that two raters judged")
    identity = np.eye(len(order))
    shares = counts / counts.sum(1, keepdims=True)  # (items, categories)
    observed = np.stack([_pair_agreement(counts, identity), _pair_agreement(counts, matrix)], axis=1)
    values = _coefficients(np.nanmean(observed, 0), shares.mean(0), matrix)
    raw, weighted = np.nanmean(observed, 0)
    return Agreement(
        **{name: _or_none(value) for name, value in values.items()},
        raw_agreement=float(raw),
        weighted_agreement=float(weighted),
        intervals=_bootstrap(observed, shares, matrix, resamples, seed, _members(rows, clusters)),
        items=len(rows),
        items_rated_twice=int((counts.sum(1) >= 2).sum()),
        raters=len({rater for rater, _ in ratings}),
        ratings=len(ratings),
        categories=list(order),
        weights=weights,
    )


def _pair_agreement(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(items,): mean weight over the pairs of ratings of an item; NaN for an item with a single rating."""
    total = counts.sum(1)
    pairs = np.where(total >= 2, total * (total - 1), np.nan)
    return (counts * (counts @ weights - 1)).sum(1) / pairs


def _coefficients(observed: np.ndarray, shares: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Coefficients by name.

    Args:
        observed: (…, 2) agreement, with identity weights and with `weights`.
        shares: (…, categories) mean share of each category.
    """
    q = len(weights)
    raw, weighted = observed[..., 0], observed[..., 1]
    spread = (shares * (1 - shares)).sum(-1)
    chance = {
        "fleiss_kappa": (weighted, np.einsum("...k,kl,...l->...", shares, weights, shares)),
        "ac1": (raw, spread / (q - 1)),
        "ac2": (weighted, weights.sum() / (q * (q - 1)) * spread),
        "ac1_published": (raw, spread),
        "ac2_published": (weighted, np.einsum("...k,kl,...l->...", shares, weights, 1 - shares) / (q - 1)),
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        # undefined for a chance agreement of 1, up to rounding
        return {
            name: np.where(1 - expected > 1e-12, (po - expected) / (1 - expected), np.nan)
            for name, (po, expected) in chance.items()
        }


def _members(rows: Mapping[Any, int], clusters: Mapping[Any, Hashable] | None) -> list[np.ndarray]:
    """The rows of each cluster; each row without clusters."""
    members: dict[Hashable, list[int]] = {}
    for item, row in rows.items():
        members.setdefault(row if clusters is None else clusters[item], []).append(row)
    return [np.array(together) for together in members.values()]


def _bootstrap(
    observed: np.ndarray,
    shares: np.ndarray,
    weights: np.ndarray,
    resamples: int,
    seed: int,
    members: Sequence[np.ndarray],
) -> dict[str, tuple[float, float] | None]:
    """95% percentile intervals over resampled clusters, without resamples whose coefficient is undefined."""
    if not resamples:
        return {}
    generator = np.random.default_rng(seed)
    values: dict[str, list[float]] = {name: [] for name in COEFFICIENTS}
    for _ in range(resamples):
        drawn = np.concatenate([members[place] for place in generator.integers(0, len(members), len(members))])
        if np.isnan(observed[drawn, 0]).all():
            continue
        for name, value in _coefficients(np.nanmean(observed[drawn], 0), shares[drawn].mean(0), weights).items():
            values[name].append(float(value))
    intervals: dict[str, tuple[float, float] | None] = {}
    for name, drawn_values in values.items():
        defined = np.array(drawn_values)[~np.isnan(drawn_values)] if drawn_values else np.array([])
        intervals[name] = None
        if len(defined):
            low, high = np.quantile(defined, [0.025, 0.975])
            intervals[name] = float(low), float(high)
    return intervals


def _or_none(value: np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)
