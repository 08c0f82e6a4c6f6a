"""Corrected rates: hand-computed points, and by simulation intervals that cover the truth as often as they say."""

import numpy as np
import pytest

from medvqa_core.errors import InputError
from medvqa_core.metrics.judge_rates import Calibration, plug_in, post_stratified

DRAWS = 1000


def simulate(truth, sensitivity, specificity, judged, rated, by_verdict, estimate, seed=0):
    """How often the interval covers the truth, and its mean width."""
    random = np.random.default_rng(seed)
    covered, width = 0, 0.0
    for _ in range(DRAWS):
        real = random.random(judged) < truth
        verdict = np.where(real, random.random(judged) < sensitivity, random.random(judged) >= specificity)
        if by_verdict:
            parts = [np.flatnonzero(verdict), np.flatnonzero(~verdict)]
            chosen = np.concatenate([random.choice(part, min(rated // 2, len(part)), replace=False) for part in parts])
        else:
            chosen = random.choice(judged, rated, replace=False)
        t, v = real[chosen], verdict[chosen]
        counts = ((t & v).sum(), (t & ~v).sum(), (~t & v).sum(), (~t & ~v).sum())
        rate = estimate(int(verdict.sum()), judged, Calibration(*map(int, counts)))
        covered += rate.low <= truth <= rate.high
        width += rate.high - rate.low
    return covered / DRAWS, width / DRAWS


@pytest.mark.slow
@pytest.mark.parametrize(
    "truth, sensitivity, specificity, judged, rated, by_verdict",
    [
        (0.95, 0.97, 0.6, 33130, 100, False),  # the paper's large-scale figure and its 100 items
        (0.8, 0.9, 0.8, 1000, 200, False),
        (0.9, 0.95, 0.7, 5000, 300, True),
        (0.7, 0.9, 0.7, 500, 100, True),
    ],
)
def test_the_95_percent_interval_covers_93_to_97_percent_of_1000_draws(
    truth, sensitivity, specificity, judged, rated, by_verdict, monkeypatch
):
    monkeypatch.setattr("medvqa_core.metrics.judge_rates.DRAWS", 2000)
    covered, _ = simulate(truth, sensitivity, specificity, judged, rated, by_verdict, post_stratified)
    assert 0.93 <= covered <= 0.97


@pytest.mark.slow
def test_the_plug_in_is_wide_for_a_random_sample_and_wrong_for_one_drawn_by_verdict():
    random_sample = (0.8, 0.9, 0.8, 1000, 200, False)
    covered, width = simulate(*random_sample, plug_in)
    assert covered >= 0.95 and width > 1.5 * simulate(*random_sample, post_stratified)[1]
    assert simulate(0.9, 0.95, 0.7, 5000, 300, True, plug_in)[0] < 0.5


def test_points_by_hand():
    calibration = Calibration(90, 5, 2, 3)
    rate = post_stratified(950, 1000, calibration)
    assert rate.judged == 0.95 and rate.corrected == pytest.approx(0.95 * 90 / 92 + 0.05 * 5 / 8)
    assert rate.low < rate.corrected < rate.high
    assert calibration.sensitivity == 90 / 95 and calibration.specificity == 3 / 5
    assert plug_in(900, 1000, calibration).corrected == pytest.approx((0.9 + 0.6 - 1) / (0.6 + 90 / 95 - 1))


def test_a_perfect_judge_is_corrected_to_what_it_says():
    rate = post_stratified(800, 1000, Calibration(400, 0, 0, 400))
    assert rate.corrected == 0.8 and 0.76 < rate.low < 0.8 < rate.high < 0.84


def test_a_judge_that_says_yes_to_everything_is_corrected_to_what_people_find():
    assert post_stratified(1000, 1000, Calibration(70, 0, 30, 0)).corrected == 0.7


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: post_stratified(5, 10, Calibration(0, 0, 0, 0)), "none of the judged items"),
        (lambda: post_stratified(11, 10, Calibration(5, 1, 1, 5)), "11 positive of 10"),
        (lambda: post_stratified(0, 0, Calibration(5, 1, 1, 5)), "0 positive of 0"),
        (lambda: plug_in(5, 10, Calibration(5, 0, 0, 0)), "items that people find positive and"),
        (lambda: plug_in(5, 10, Calibration(1, 4, 4, 1)), "no better than chance"),
        (lambda: Calibration(-1, 0, 0, 0), "negative"),
    ],
)
def test_what_cannot_be_corrected_is_an_error(call, words):
    with pytest.raises(InputError, match=words):
        call()
