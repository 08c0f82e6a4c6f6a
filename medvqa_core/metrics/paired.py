"""Bootstrap intervals and paired permutation tests for systems on the same questions, over whole units.

Questions about one unit (a study, an image) are correlated, so units are drawn. Each system is an array of sums per
unit, with a function that turns sums into a score: a mean is (sum, number), BLEU its counts of n-grams and lengths.

    interval     percentile bootstrap (Efron and Tibshirani 1993, ch. 13): units drawn with replacement
    p_value      paired permutation (approximate randomisation, Noreen 1989): each unit's sums change sides or not, all
                 equally likely if the systems do not differ; two-sided; all 2^n exchanges where they are few
    holm         p values of several comparisons made together (Holm 1979)
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from medvqa_core.errors import InputError

Score = Callable[[np.ndarray], float | None]  # of sums (k,); None where there is nothing to score
CHUNK = 64  # resamples at once
EXACT_UNITS = 12  # up to so many units all exchanges are tried
TOLERANCE = 1e-12  # sums in another order differ by this much


def mean_score(sums: np.ndarray) -> float | None:
    """The mean behind (sum, number)."""
    return float(sums[0] / sums[1]) if sums[1] else None


def bootstrap(systems: Sequence[np.ndarray], score: Score, resamples: int = 2000, seed: int = 0) -> list[np.ndarray]:
    """The score of each system in each resample of the units; NaN if a resample has nothing to score.

    Args:
        systems: per system its sums (units, k), aligned.

    Raises:
        InputError: no units, or the systems have different ones.

    Examples:
        >>> sums = np.array([[1.0, 1.0], [0.0, 1.0]])  # (units, sum and number)
        >>> draws = bootstrap([sums], mean_score, resamples=1000)
        >>> bool(0.4 < draws[0].mean() < 0.6)
        True
    """
    units = _check(systems)
    rng = np.random.default_rng(seed)
    made = [np.empty(resamples) for _ in systems]
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        drawn = [np.bincount(rng.integers(0, units, units), minlength=units) for _ in range(size)]
        weights = np.stack(drawn).astype(float)
        for values, sums in zip(made, systems, strict=True):
            values[start : start + size] = _scores(weights @ sums, score)
    return made


def interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """The percentile interval of bootstrapped scores; None if most resamples lack a score.

    Examples:
        >>> low, high = interval(np.linspace(0, 1, 1001))
        >>> round(low, 3), round(high, 3)
        (0.025, 0.975)
    """
    there = values[~np.isnan(values)]
    if len(there) < len(values) / 2:
        return None
    low, high = np.quantile(there, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_value(
    first: np.ndarray, second: np.ndarray, score: Score, resamples: int = 10_000, seed: int = 0
) -> float | None:
    """Two-sided p value of a paired permutation test; None if a system lacks a score.

    With random exchanges the observed one is counted too, so that p is not 0 (Davison and Hinkley 1997).

    Examples:
        >>> ones, zeros = np.ones((8, 2)), np.array([[0.0, 1.0]] * 8)
        >>> p_value(ones, zeros, mean_score) < 0.05
        True
    """
    units = _check([first, second])
    observed = _difference(first.sum(0), second.sum(0), score)
    if observed is None:
        return None
    total_first, total_second, change = first.sum(0), second.sum(0), second - first
    exact = units <= EXACT_UNITS
    hits = made = 0
    for exchanged in _every_exchange(units) if exact else _drawn_exchanges(units, resamples, seed):
        for moved in exchanged @ change:
            difference = _difference(total_first + moved, total_second - moved, score)
            hits += difference is not None and abs(difference) >= abs(observed) - TOLERANCE
            made += 1
    return hits / made if exact else (hits + 1) / (made + 1)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p values. None stays None and is not counted.

    Examples:
        >>> holm([0.01, 0.04, None])
        [0.02, 0.04, None]
    """
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (value, place) in enumerate(order):
        largest = max(largest, min(1.0, value * (len(order) - rank)))
        adjusted[place] = largest
    return adjusted


def _check(systems: Sequence[np.ndarray]) -> int:
    shapes = {np.shape(sums) for sums in systems}
    if len(shapes) != 1:
        raise InputError(
            f"The statistics of the systems have the shapes {sorted(shapes)}. Pass the same units "
            "(studies or images) in the same order for every system."
        )
    units = shapes.pop()[0]
    if not units:
        raise InputError("no units to compare on. Give at least one study or image")
    return units


def _scores(totals: np.ndarray, score: Score) -> list[float]:
    return [float("nan") if (value := score(sums)) is None else value for sums in totals]


def _difference(first: np.ndarray, second: np.ndarray, score: Score) -> float | None:
    values = score(first), score(second)
    return None if values[0] is None or values[1] is None else values[1] - values[0]


def _every_exchange(units: int) -> Iterator[np.ndarray]:
    numbers = np.arange(2**units)
    yield ((numbers[:, None] >> np.arange(units)) & 1).astype(float)


def _drawn_exchanges(units: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, CHUNK):
        yield rng.integers(0, 2, (min(CHUNK, resamples - start), units)).astype(float)
