from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from caveat import InputError
from caveat.metrics import proportion_interval
from caveat_lab.robust import smoothed_mean_bounds, smoothed_quantile_bounds


def test_ranks_by_the_binomial_distribution():
    # radius 0, p 0.5, m 20, delta 0.1: the k-th smallest fails with P(Bin(20, 0.5) >= k) <= 0.05, first at k = 15
    assert binom.sf(14, 20, 0.5) <= 0.05 < binom.sf(13, 20, 0.5)
    bounds = smoothed_quantile_bounds([np.arange(1.0, 21.0)], sigma=1.0, radius=0.0, delta=0.1)
    assert bounds.upper.tolist() == [15.0]
    assert bounds.lower.tolist() == [6.0]  # the same from below: 21 - 15


def test_a_radius_moves_the_quantile():
    # p 0.5 and R = sigma: p+ = Phi(1) = 0.841
    m = 20_000
    scores = norm.ppf((np.arange(m) + 0.5) / m)[None]
    bounds = smoothed_quantile_bounds(scores, sigma=0.25, radius=0.25)
    assert bounds.upper[0] == pytest.approx(1, abs=0.06)
    assert bounds.lower[0] == pytest.approx(-1, abs=0.06)
    assert bounds.value[0] == pytest.approx(0, abs=1e-3)


def test_the_promise_holds_for_a_score_that_can_be_solved():
    # h(x) = w . x, noise sigma: the median at x + d is w . (x + d), at most w . x + |w| R
    rng, trials, fails = np.random.default_rng(0), 1000, 0
    w, x, sigma, radius, delta = np.array([3.0, -4.0]), np.array([0.2, 0.1]), 0.5, 0.3, 0.2
    noisy = (x + rng.normal(0, sigma, (trials, 200, 2))) @ w
    bounds = smoothed_quantile_bounds(noisy, sigma=sigma, radius=radius, delta=delta)
    low, high = w @ x - 5 * radius, w @ x + 5 * radius
    fails = np.mean((bounds.upper < high) | (bounds.lower > low))
    assert fails <= delta + 4 * np.sqrt(delta * (1 - delta) / trials)
    assert fails > delta / 10  # and it is not empty talk: the order statistics are close to their level


@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_the_value_lies_between_its_bounds(radius):
    # m = 2, p = .05, delta = .2: the bound is the smaller sample, P(Bin(2, .05) >= 1) = .0975, and so must the value be
    rng = np.random.default_rng(0)
    for m in (1, 2, 3, 4, 5, 10, 11, 30):
        samples = rng.normal(size=(20, m))
        for p in (0.01, 0.05, 0.1, 0.3, 1 / 3, 0.5, 1 - 0.3, 0.9, 0.99):
            for delta in (1e-3, 0.2, 0.9):
                bounds = smoothed_quantile_bounds(samples, sigma=1.0, radius=radius, p=p, delta=delta)
                assert (bounds.lower <= bounds.value).all()
                assert (bounds.value <= bounds.upper).all()


def test_votes_use_clopper_pearson():
    votes = np.repeat([[1.0, 0.0]], [70, 30], axis=1)
    bounds = smoothed_mean_bounds(votes, sigma=1.0, radius=0.0, delta=0.05, kind="votes")
    exact = proportion_interval(70, 100, delta=0.05)
    assert bounds.lower[0] == pytest.approx(exact.lower)
    assert bounds.upper[0] == pytest.approx(exact.upper)


@pytest.mark.parametrize("hits", [0, 10])
def test_unanimous_votes(hits):
    votes = np.repeat([[1.0, 0.0]], [hits, 10 - hits], axis=1)
    bounds = smoothed_mean_bounds(votes, sigma=1.0, radius=0.5, delta=0.05, kind="votes")
    exact = proportion_interval(hits, 10, delta=0.05)
    assert bounds.upper[0] == pytest.approx(norm.cdf(norm.ppf(exact.upper) + 0.5))
    assert bounds.lower[0] == pytest.approx(norm.cdf(norm.ppf(exact.lower) - 0.5))


def test_soft_scores_use_hoeffding():
    # off by sqrt(log(2 / 0.05) / (2 * 100))
    bounds = smoothed_mean_bounds(np.full((1, 100), 0.5), sigma=1.0, radius=0.0, delta=0.05)
    assert bounds.upper[0] - 0.5 == pytest.approx(np.sqrt(np.log(40) / 200))


def test_the_bound_is_of_the_smoothed_score_and_depends_on_sigma():
    # Pitfall 2: adding sqrt(2/pi) * R to the score itself, without sigma, is no certificate. For votes of a half-space
    # h(x) = 1[x > 0] at x = 0 the smoothed score at x + R is Phi(R / sigma), for small sigma far above that.
    sigma, radius = 0.1, 0.1
    wrong = 0.5 + np.sqrt(2 / np.pi) * radius
    truth = norm.cdf(radius / sigma)
    votes = (np.random.default_rng(0).normal(0, sigma, (1, 4000)) > 0).astype(float)
    bound = smoothed_mean_bounds(votes, sigma=sigma, radius=radius, kind="votes").upper[0]
    assert wrong < truth < bound


def test_all_together_costs_more():
    samples = np.random.default_rng(0).random((50, 400))
    alone, together = (smoothed_quantile_bounds(samples, sigma=1.0, radius=0.1, together=t) for t in (False, True))
    assert (together.upper >= alone.upper).all()
    assert (together.upper > alone.upper).any()


def test_too_few_samples_certify_nothing():
    bounds = smoothed_quantile_bounds([[0.1, 0.2, 0.3]], sigma=1.0, radius=0.5)
    assert bounds.upper.tolist() == [np.inf]
    assert bounds.lower.tolist() == [-np.inf]


@pytest.mark.parametrize(("call", "what"), [
    (lambda: smoothed_quantile_bounds([[0.1]], sigma=0.0, radius=0.1), "sigma must be a positive"),
    (lambda: smoothed_quantile_bounds([[0.1]], sigma=1.0, radius=-0.1), "radius must be"),
    (lambda: smoothed_mean_bounds([[1.5]], sigma=1.0, radius=0.1), "between 0 and 1"),
    (lambda: smoothed_mean_bounds([[0.5]], sigma=1.0, radius=0.1, kind="votes"), "be 0 or 1"),
])  # fmt: skip
def test_wrong_arguments_are_named(call, what):
    with pytest.raises(InputError, match=what):
        call()
