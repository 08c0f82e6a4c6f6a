"""Intervals and paired tests against values by hand, against scipy, and against wrong ways of doing them."""

import numpy as np
import pytest

from medvqa_core.errors import InputError
from medvqa_core.metrics.paired import bootstrap, holm, interval, mean_score, p_value


def means(values) -> np.ndarray:
    """A row each: (value, 1)."""
    return np.array([[value, 1.0] for value in values])


def test_p_by_hand():
    """Three units, each better by 1: of the 8 exchanges only none and all differ by as much: p = 2/8."""
    assert p_value(means([0, 0, 0]), means([1, 1, 1]), mean_score) == 0.25
    # differences 1, 1, -1, mean 1/3: the exchanges' means are ±1 (1 each way), ±1/3 (3 each way): all are as large
    assert p_value(means([0, 0, 1]), means([1, 1, 0]), mean_score) == 1.0
    # differences 3, 1: ±4, ±2: two of four are as large as 4
    assert p_value(means([0, 0]), means([3, 1]), mean_score) == 0.5


def test_equal_systems_are_never_told_apart():
    assert p_value(means([1, 0, 1]), means([1, 0, 1]), mean_score) == 1.0
    many = means(np.arange(40) % 2)
    assert p_value(many, many, mean_score, resamples=200) == 1.0


def test_no_p_is_zero():
    n = 50
    p = p_value(means(np.zeros(n)), means(np.ones(n)), mean_score, resamples=999)
    assert p == pytest.approx(1 / 1000)


def test_p_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    for n in (8, 60):
        first = rng.normal(size=n)
        second = first + rng.normal(0.25, 1, size=n)
        theirs = stats.permutation_test(
            (first, second), lambda a, b: np.mean(b) - np.mean(a), permutation_type="samples", n_resamples=20_000,
            rng=np.random.default_rng(0),
        )  # fmt: skip
        ours = p_value(means(first), means(second), mean_score, resamples=20_000)
        assert ours == pytest.approx(theirs.pvalue, abs=1e-9 if n == 8 else 0.01)


def test_interval_agrees_with_scipy_and_theory():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(5).normal(2.0, 1.0, size=200)
    low, high = interval(bootstrap([means(values)], mean_score, 5000, seed=1)[0])
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=np.random.default_rng(2))
    error = values.std() / np.sqrt(200)
    assert low == pytest.approx(theirs.confidence_interval.low, abs=0.15 * error)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=0.15 * error)


def test_units_are_drawn_not_questions():
    """Ten questions of a study that all say the same are worth one: the interval must not shrink with copies."""
    values = np.random.default_rng(0).integers(0, 2, 30).astype(float)
    once = interval(bootstrap([means(values)], mean_score, 1000)[0])
    copied = interval(bootstrap([means(values) * 10], mean_score, 1000)[0])
    assert once == pytest.approx(copied)
    as_questions = interval(bootstrap([np.repeat(means(values), 10, axis=0)], mean_score, 1000)[0])
    assert as_questions[1] - as_questions[0] < 0.6 * (once[1] - once[0])  # the wrong way, caught


def test_all_systems_are_scored_on_the_same_draws():
    values = np.random.default_rng(1).random(25)
    first, second = bootstrap([means(values), means(values + 0.1)], mean_score, 300)
    assert second - first == pytest.approx(np.full(300, 0.1))


def test_a_resample_without_anything_to_score_is_left_out():
    sums = np.array([[1.0, 1.0], [0.0, 0.0]])
    (values,) = bootstrap([sums], mean_score, 400)
    assert 0.15 < np.isnan(values).mean() < 0.35  # a quarter draws the empty unit twice
    assert interval(values) == (1.0, 1.0)
    assert interval(np.array([np.nan] * 6 + [1.0] * 4)) is None
    assert p_value(sums * 0, sums, mean_score) is None


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]


def test_the_seed_and_nothing_else_decides():
    values = np.random.default_rng(1).random(25)
    one, two = (bootstrap([means(values)], mean_score, 130, seed=4)[0] for _ in range(2))
    assert (one == two).all()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="shapes"):
        p_value(means([1]), means([1, 2]), mean_score)
    with pytest.raises(InputError, match="no units"):
        bootstrap([np.zeros((0, 2))], mean_score)
