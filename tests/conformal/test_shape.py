from __future__ import annotations

import numpy as np
import pytest

from caveat.conformal import boundary, calibrate_shape, rank_weights, violation_probability
from caveat.conformal.local_levels import safe_theta
from caveat.errors import CaveatError, InputError


def test_equal_weights_are_equal_local_levels():
    assert calibrate_shape(200, 0.05, np.full(200, 3.0)) == pytest.approx(boundary(200, 0.05), abs=1e-7)


@pytest.mark.parametrize("n", [1, 2, 30, 500])
@pytest.mark.parametrize("delta", [0.01, 0.2])
@pytest.mark.parametrize("power", [0, 1, -1])
def test_any_weights_spend_exactly_delta(n, delta, power):
    b = calibrate_shape(n, delta, np.arange(1.0, n + 1) ** power)
    assert delta * (1 - 1e-5) <= violation_probability(b) <= delta * (1 + 1e-12)


def test_a_function_of_theta_spends_exactly_delta():
    # The shape of DKWM, i/n + c, wastes most of delta; scaled exactly it is the one-sided Kolmogorov-Smirnov band.
    n, i = 400, np.arange(1, 401)
    b = calibrate_shape(n, 0.1, lambda theta: np.minimum(1, i / n + np.sqrt(-np.log(theta) / (2 * n))))
    assert violation_probability(b) == pytest.approx(0.1, rel=1e-5)
    from scipy.stats import ksone

    # U_(i) <= i/n + c for all i is D- <= c + 1/n, with D- = max(U_(i) - (i-1)/n).
    assert b[0] - 1 / n == pytest.approx(ksone.isf(0.1, n) - 1 / n, abs=1e-6)


def test_budget_on_small_rates_buys_a_narrower_band_there():
    n, delta = 1000, 0.05
    low = calibrate_shape(n, delta, rank_weights(n, upto=0.1))
    k = np.arange(0, 101)
    assert (low[k] < boundary(n, delta, "exact")[k]).all()
    assert (low[k] < boundary(n, delta, "dkwm")[k]).all()
    assert (low[k[30:]] < boundary(n, delta, "simes")[k[30:]]).all()  # Simes bets on rates around 0.01
    assert (low[101:] == 1).all()  # nothing is spent on large rates
    assert (low[50] - 0.05) < 0.85 * (boundary(n, delta)[50] - 0.05)


def test_a_gap_in_the_weights_is_filled_from_above_for_free():
    n = 100
    weights = rank_weights(n, least=0.05, upto=0.2)
    b = calibrate_shape(n, 0.1, weights)
    assert (b[:5] == b[5]).all()  # U_(1) <= ... <= U_(6) <= b_6 asks nothing new
    assert (np.diff(b[5:21]) > 0).all()
    assert (b[21:] == 1).all()
    assert violation_probability(b) == pytest.approx(0.1, rel=1e-5)


def test_rank_weights_count_rates_not_floats():
    assert rank_weights(100, upto=0.29).sum() == 30  # k = 0, ..., 29: 0.29 * 100 is 28.999999999999996 in floats
    assert rank_weights(100, least=0.07, upto=0.1).sum() == 4  # k = 7, ..., 10: 0.07 * 100 is 7.000000000000001
    assert rank_weights(10, least=0.7, upto=0.9).nonzero()[0].tolist() == [7, 8, 9]


@pytest.mark.parametrize("start", [1e-9, 1e-3, 0.05, 0.999])
@pytest.mark.parametrize("power", [0.2, 1, 5])
def test_safe_theta_finds_the_root_from_anywhere(start, power):
    theta, spent = safe_theta(lambda x: x**power, 0.01, start=start)
    assert spent <= 0.01
    assert theta == pytest.approx(0.01 ** (1 / power), rel=1e-5)


def test_safe_theta_at_a_jump_stays_below_it():
    theta, spent = safe_theta(lambda x: 0.001 if x < 0.3 else 0.5, 0.01, start=0.1)
    assert spent == 0.001
    assert theta == pytest.approx(0.3)
    assert theta < 0.3


def test_safe_theta_without_a_crossing_is_one():
    assert safe_theta(lambda x: 0.0, 0.01, start=0.1) == (1.0, 0.0)


def test_shape_that_always_crosses_is_refused():
    with pytest.raises(CaveatError, match=r"no theta of this shape keeps the violation at or below 0\.1"):
        calibrate_shape(5, 0.1, lambda theta: np.full(5, 0.3))


def test_errors():
    with pytest.raises(InputError, match="n = 4 weights"):
        calibrate_shape(4, 0.1, [1, 1, 1])
    with pytest.raises(InputError, match="none negative"):
        calibrate_shape(2, 0.1, [1, -1])
    with pytest.raises(InputError, match="one positive"):
        calibrate_shape(2, 0.1, [0, 0])
    with pytest.raises(InputError, match="same length, got 2 and 3"):
        calibrate_shape(3, 0.1, lambda theta: np.ones(2))
    with pytest.raises(InputError, match="least must be .* at most 0.1"):
        rank_weights(10, upto=0.1, least=0.2)
