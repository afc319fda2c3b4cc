"""The verdict on coverage has the stated false-alarm rate on either side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom

from caveat import InputError
from caveat.conformal import quantile
from caveat.conformal.quantile import quantile_rank
from caveat.metrics import coverage, coverage_verdict


@pytest.mark.parametrize(
    ("n_calibration", "n", "alpha"), [(9, 20, 0.1), (100, 100, 0.1), (500, 500, 0.1), (50, 2000, 0.25)]
)
def test_each_side_cries_wolf_in_at_most_two_and_a_half_per_cent(n_calibration, n, alpha):
    # Two halves of exchangeable scores. The test interval alone, held against 1 - alpha, fails this.
    rng, trials = np.random.default_rng(n), 4000
    rank = quantile_rank(n_calibration, alpha)
    thresholds = np.sort(rng.random((trials, n_calibration)), axis=1)[:, rank - 1]
    hits = (rng.random((trials, n)) <= thresholds[:, None]).sum(axis=1)
    verdicts = [coverage_verdict(int(x), n, n_calibration=n_calibration, alpha=alpha).verdict for x in hits]
    most = 0.025 + 4 * np.sqrt(0.025 * 0.975 / trials)
    for side in ("below", "above"):
        assert verdicts.count(side) / trials <= most


def test_the_interval_of_the_test_set_alone_cries_wolf_more_often():
    rng, trials = np.random.default_rng(0), 1000
    below = 0
    for _ in range(trials):
        threshold = quantile(rng.random(500), alpha=0.1)
        below += coverage(rng.random(500) <= threshold).upper < quantile_rank(500, 0.1) / 501
    assert below / trials > 0.04


@pytest.mark.parametrize(("n_calibration", "n"), [(19, 30), (300, 1000)])
def test_the_region_is_that_of_the_beta_binomial_distribution(n_calibration, n):
    rank = quantile_rank(n_calibration, 0.1)
    chance = betabinom(n, rank, n_calibration + 1 - rank)
    found = coverage_verdict(n, n, n_calibration=n_calibration, alpha=0.1)
    assert chance.cdf(found.least - 1) <= 0.025 < chance.cdf(found.least)
    assert chance.sf(found.most) <= 0.025 < chance.sf(found.most - 1)
    for covered, verdict in (
        (found.least - 1, "below"), (found.least, "as chance allows"), (found.most, "as chance allows"),
        (found.most + 1, "above"),
    ):  # fmt: skip
        if 0 <= covered <= n:
            assert coverage_verdict(covered, n, n_calibration=n_calibration, alpha=0.1).verdict == verdict


def test_too_few_calibration_rows_must_cover_everything():
    assert coverage_verdict(20, 20, n_calibration=5, alpha=0.1).verdict == "as chance allows"
    assert coverage_verdict(19, 20, n_calibration=5, alpha=0.1).verdict == "below"


def test_a_million_test_rows_are_judged_at_once():
    found = coverage_verdict(900_000, 1_000_000, n_calibration=1000, alpha=0.1)
    spread = np.sqrt(0.9 * 0.1 / 1000)
    assert abs(found.least / 1e6 - (0.9 - 1.96 * spread)) < 0.1 * spread
    assert abs(found.most / 1e6 - (0.9 + 1.96 * spread)) < 0.1 * spread


def test_bad_input():
    with pytest.raises(InputError, match="covered must be .* at most 5, got 6"):
        coverage_verdict(6, 5, n_calibration=9, alpha=0.1)
    with pytest.raises(InputError, match="alpha must be"):
        coverage_verdict(5, 5, n_calibration=9, alpha=1.0)
