from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.conformal import FPRBand, boundary, calibrate_shape, rank_weights, violation_probability
from caveat.errors import InputError

METHODS = ["exact", "simes", "dkwm", "asymptotic"]


def misses(n: int, trials: int, method, delta: float, seed: int, **options) -> tuple[float, float]:
    """Shares of calibration sets whose upper, and whose lower, band is wrong at some threshold.

    Scores are uniform, so the true rate at t is 1 - t. It comes nearest to the upper band just above a calibration
    score, and to the lower band at one.
    """
    rng = np.random.default_rng(seed)
    above = below = 0
    for _ in range(trials):
        scores = rng.random(n)
        band = FPRBand(scores, delta=delta, method=method, **options)
        above += bool((1 - scores > band.upper(np.nextafter(scores, 2))).any())
        below += bool((1 - scores < band.lower(scores)).any())
    return above / trials, below / trials


def test_by_hand():
    # n = 3 and b = (0.5, 0.7, 0.9): k inliers at or above t give upper b_{k+1} and lower 1 - b_{4-k}.
    band = FPRBand([1.0, 2.0, 3.0], method=[0.5, 0.7, 0.9])
    t = [3.5, 3.0, 1.5, 1.0]  # k = 0, 1, 2, 3
    assert band.count(t).tolist() == [0, 1, 2, 3]
    assert band.upper(t) == pytest.approx([0.5, 0.7, 0.9, 1.0])
    assert band.lower(t) == pytest.approx([0.0, 1 - 0.9, 1 - 0.7, 1 - 0.5])
    assert band.empirical(t) == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_threshold_range_by_hand():
    # Upper 0.5, 0.7, 0.9, 1 and lower 0, 0.1, 0.3, 0.5 for k = 0, 1, 2, 3 inliers above the threshold. Rate 0.7: k = 1
    # is surely few enough, so the threshold is at most 2; no k is surely too many. Rate 0.2: not even k = 0 is surely
    # few enough, and k = 2 is surely too many, so the threshold is at least 2.
    band = FPRBand([1.0, 2.0, 3.0], method=[0.5, 0.7, 0.9])
    assert band.threshold_range(0.7) == (-np.inf, 2.0)
    assert band.threshold_range(0.2) == (2.0, np.inf)


def test_upper_is_the_boundary_at_k_plus_one():
    inlier, delta = np.arange(50.0), 0.1
    for method in METHODS:
        b = np.append(boundary(50, delta, method), 1.0)
        assert FPRBand(inlier, delta=delta, method=method).upper(50 - np.arange(51)) == pytest.approx(b)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "delta"), [(16, 0.3), (60, 0.1), (200, 0.05)])
def test_both_sides_miss_as_often_as_computed(method, n, delta):
    trials = 1500
    exact = violation_probability(boundary(n, delta, method))
    above, below = misses(n, trials, method, delta, seed=n)
    tolerance = 4 * np.sqrt(exact * (1 - exact) / trials)
    assert abs(above - exact) < tolerance
    assert abs(below - exact) < tolerance


@pytest.mark.parametrize("n", [1, 2, 5])
def test_both_sides_miss_as_often_as_computed_for_tiny_n(n):
    above, below = misses(n, 3000, "exact", 0.2, seed=n)
    assert abs(above - 0.2) < 4 * np.sqrt(0.16 / 3000)
    assert abs(below - 0.2) < 4 * np.sqrt(0.16 / 3000)


@pytest.mark.parametrize(
    "shape", [lambda n: rank_weights(n, upto=0.1), lambda n: np.arange(n, 0, -1.0)], ids=["low", "falling"]
)
def test_own_shape_keeps_its_promise(shape):
    n, delta, trials = 60, 0.1, 1500
    above, below = misses(n, trials, calibrate_shape(n, delta, shape(n)), delta, seed=4)
    assert abs(above - delta) < 4 * np.sqrt(delta * (1 - delta) / trials)
    assert abs(below - delta) < 4 * np.sqrt(delta * (1 - delta) / trials)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_both_sides_miss_as_often_as_computed_long(method):
    n, delta, trials = 60, 0.1, 20_000
    exact = violation_probability(boundary(n, delta, method))
    for share in misses(n, trials, method, delta, seed=0):
        assert abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_printed_lower_band_of_the_paper_would_fail():
    # h-(marginal p-value) is one rank too high: at the largest score k = 1 and 1 - b_{n-1} exceeds the true rate often.
    n, delta, rng = 60, 0.1, np.random.default_rng(0)
    b = boundary(n, delta)
    scores = np.sort(rng.random((500, n)), axis=1)
    k = n - np.arange(n)
    printed = 1 - np.concatenate([[0.0], b])[np.floor((n + 1) * (1 - (1 + k) / (1 + n)) + 1e-9).astype(int)]
    assert (1 - scores < printed).any(axis=1).mean() > 0.9


def test_two_sided_holds_on_both_sides_together():
    n, delta, trials, rng = 60, 0.1, 1500, np.random.default_rng(5)
    wrong = 0
    for _ in range(trials):
        scores = rng.random(n)
        band = FPRBand(scores, delta=delta, two_sided=True)
        upper, lower = band.upper(np.nextafter(scores, 2)), band.lower(scores)
        wrong += bool(((1 - scores > upper) | (1 - scores < lower)).any())
    assert wrong / trials < delta + 4 * np.sqrt(delta * (1 - delta) / trials)
    assert wrong / trials > delta / 2  # and does not waste half of it
    assert band.level == pytest.approx(1 - delta, abs=1e-6)


def test_ties_keep_the_promise():
    # Scores 0, 1, ..., 4: the true rate at t = j is 1 - j/5. Nothing is continuous.
    n, delta, trials, rng = 40, 0.1, 2000, np.random.default_rng(6)
    t, true = np.arange(5), 1 - np.arange(5) / 5
    above = below = 0
    for _ in range(trials):
        band = FPRBand(rng.integers(5, size=n), delta=delta)
        above += bool((true > band.upper(t) + 1e-12).any())
        below += bool((true < band.lower(t) - 1e-12).any())
    tolerance = 4 * np.sqrt(delta * (1 - delta) / trials)
    assert above / trials < delta + tolerance
    assert below / trials < delta + tolerance


def test_constant_scores():
    band = FPRBand(np.zeros(30), delta=0.05)
    b = boundary(30, 0.05)
    assert band.upper([-1, 0, 1]) == pytest.approx([1, 1, b[0]])  # everything, everything, nothing flagged
    assert band.lower([-1, 0, 1]) == pytest.approx([1 - b[0], 1 - b[0], 0])


def test_level_is_the_exact_one():
    inlier = np.arange(1000.0)
    for method, violation in (("exact", 0.1), ("simes", 0.1), ("dkwm", 0.04161), ("asymptotic", 0.07636)):
        assert FPRBand(inlier, delta=0.1, method=method).level == pytest.approx(1 - violation, abs=6e-6)
    low = FPRBand(inlier, delta=0.01, method="asymptotic")
    assert low.level == pytest.approx(1 - 0.01225, abs=6e-6)
    assert "0.98775, below the 0.99 asked for" in low.caveat
    assert FPRBand(inlier, delta=0.01).caveat == ""
    own = FPRBand(inlier, delta=0.1, method=np.minimum(1, np.arange(1, 1001) / 1000 + 0.01))
    assert own.level == pytest.approx(1 - violation_probability(own.method))
    assert "below the 0.9 asked for" in own.caveat


def test_sides_of_different_shape():
    inlier = np.arange(200.0)
    band = FPRBand(inlier, delta=0.1, method="exact", lower_method="dkwm")
    assert band.upper(150) == FPRBand(inlier, delta=0.1).upper(150)
    assert band.lower(150) == FPRBand(inlier, delta=0.1, method="dkwm").lower(150)
    assert band.level == pytest.approx(0.9, abs=1e-6)  # the worse of the two
    assert band.name == "exact and dkwm band, each side"


def test_monte_carlo_level_is_exact_too():
    band = FPRBand(np.arange(50.0), delta=0.1, method="monte_carlo", rng=np.random.default_rng(0))
    assert band.level == pytest.approx(0.9, abs=0.02)


def test_large_n_says_that_its_level_is_extrapolated():
    inlier = np.zeros(1_000_001)
    assert FPRBand(inlier).caveat == "n = 1000001 is above 1000000: the local level is extrapolated from smaller n."
    assert "nominal, not checked" in FPRBand(inlier, method="asymptotic").caveat
    assert FPRBand(inlier, method="dkwm").caveat == ""  # holds for every n
    assert FPRBand(inlier, method="dkwm").level == 0.95


def test_threshold_range_holds_the_true_threshold():
    # Uniform scores: P(score > t) = rate at t = 1 - rate, for all rates at once.
    n, delta, trials, rng = 100, 0.1, 1500, np.random.default_rng(7)
    rates = np.linspace(0.01, 0.99, 25)
    low = high = 0
    for _ in range(trials):
        band = FPRBand(rng.random(n), delta=delta)
        ends = np.array([band.threshold_range(rate) for rate in rates])
        low += bool((ends[:, 0] > 1 - rates).any())
        high += bool((ends[:, 1] < 1 - rates).any())
    tolerance = 4 * np.sqrt(delta * (1 - delta) / trials)
    assert 0.03 < low / trials < delta + tolerance
    assert 0.03 < high / trials < delta + tolerance
    assert FPRBand([1.0]).threshold_range(0.5) == (-np.inf, np.inf)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.lists(st.floats(-6, 6), min_size=1, max_size=10))
@settings(max_examples=50, deadline=None)
def test_contains_the_empirical_rate_and_falls_with_t(inlier, t):
    band = FPRBand(inlier, delta=0.1)
    order = np.sort(t)
    assert (band.lower(order) <= band.empirical(order)).all()
    assert (band.empirical(order) <= band.upper(order)).all()
    assert (np.diff(band.upper(order)) <= 0).all()
    assert (np.diff(band.lower(order)) <= 0).all()


def test_infinite_scores_are_ordered_like_others():
    band = FPRBand([-np.inf, 0.0, np.inf], delta=0.1)
    assert band.count([np.inf, 5.0, -np.inf]).tolist() == [1, 1, 3]
    assert float(band.upper(np.inf)) == float(band.upper(5.0))


def test_errors():
    with pytest.raises(InputError, match="inlier has NaN, first at row 1"):
        FPRBand([0.0, np.nan])
    with pytest.raises(InputError, match="inlier must be a non-empty vector"):
        FPRBand([])
    with pytest.raises(InputError, match="delta must be strictly between 0 and 1"):
        FPRBand([0.0], delta=0)
    with pytest.raises(InputError, match="unknown boundary 'exct'. Did you mean 'exact'"):
        FPRBand([0.0], method="exct")
    with pytest.raises(InputError, match=r"method and inlier must have the same length, got 1 and 2"):
        FPRBand([0.0, 1.0], method=[0.5])
    with pytest.raises(InputError, match="t has NaN, first at row 0"):
        FPRBand([0.0]).upper(np.nan)


def test_the_level_is_that_of_the_worse_side_whatever_the_names():
    """Two Monte-Carlo boundaries of one name are two draws."""
    band = FPRBand(np.arange(50), delta=0.2, method="monte_carlo", lower_method="monte_carlo",
                   rng=np.random.default_rng(9))  # fmt: skip
    failures = [
        violation_probability(b) for b in (band.upper_at(np.arange(50)), 1 - band.lower_at(np.arange(50, 0, -1)))
    ]
    assert failures[0] < failures[1]
    assert band.level == pytest.approx(1 - max(failures))
