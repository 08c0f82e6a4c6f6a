"""AURC and ECE against values computed by hand and against independent implementations."""

import itertools

import numpy as np
import pytest

from medvqa_core.metrics.calibration import aurc, excess_aurc, expected_calibration_error, risk_coverage


def test_the_curve_and_its_area_by_hand():
    confidence, right = np.array([0.6, 0.9, 0.8, 0.7]), np.array([1, 1, 0, 1])
    coverage, risk = risk_coverage(confidence, right)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 4])
    assert aurc(confidence, right) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    # the best order has the wrong answer last: risks 0, 0, 0, 1/4
    assert excess_aurc(confidence, right) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 4) / 4 - 1 / 16)


def test_calibration_error_by_hand():
    confidence, right = np.array([0.05, 0.1, 0.95, 0.91, 1.0]), np.array([0, 1, 1, 0, 1])
    # first bin (0, 0.1]: mean confidence 0.075, accuracy 0.5; last bin: 0.95333, accuracy 2/3
    expected = 2 / 5 * abs(0.075 - 0.5) + 3 / 5 * abs((0.95 + 0.91 + 1.0) / 3 - 2 / 3)
    assert expected_calibration_error(confidence, right) == pytest.approx(expected)


def test_equal_confidences_are_the_mean_over_all_orders():
    right = [1, 0, 0]
    areas = [np.mean([1 - np.mean(order[:k]) for k in (1, 2, 3)]) for order in itertools.permutations(right)]
    assert aurc(np.full(3, 0.7), np.array(right)) == pytest.approx(np.mean(areas)) == pytest.approx(2 / 3)


def plain_aurc(confidence, right):
    order = sorted(range(len(right)), key=lambda n: -confidence[n])
    risks = [sum(1 - right[n] for n in order[:k]) / k for k in range(1, len(order) + 1)]
    return sum(risks) / len(risks)


def plain_ece(confidence, right, bins=10):
    total = 0.0
    for low in range(bins):
        inside = [n for n, c in enumerate(confidence) if low / bins < c <= (low + 1) / bins or (c == low == 0)]
        if inside:
            gap = np.mean([confidence[n] for n in inside]) - np.mean([right[n] for n in inside])
            total += len(inside) / len(right) * abs(gap)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_they_equal_independent_implementations_also_with_repeated_answers(seed):
    rng = np.random.default_rng(seed)
    confidence, right, weight = rng.random(60), rng.integers(0, 2, 60), rng.integers(0, 4, 60)
    assert aurc(confidence, right) == pytest.approx(plain_aurc(confidence, right))
    assert expected_calibration_error(confidence, right) == pytest.approx(plain_ece(confidence, right))
    again = np.repeat(np.arange(60), weight)
    assert aurc(confidence, right, weight) == pytest.approx(aurc(confidence[again], right[again]))
    assert expected_calibration_error(confidence, right, weight) == pytest.approx(
        plain_ece(confidence[again], right[again])
    )


def test_a_useless_order_has_the_mean_risk_and_nothing_has_no_figure():
    right = np.array([1, 0] * 500)
    assert aurc(np.linspace(0, 1, 1000), right) == pytest.approx(0.5, abs=0.01)
    assert aurc(right, right) < 0.2 and excess_aurc(right, right) == 0
    empty = np.array([])
    assert np.isnan([aurc(empty, empty), expected_calibration_error(empty, empty)]).all()
