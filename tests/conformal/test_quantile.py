from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from caveat import CaveatWarning, InputError
from caveat.conformal import quantile
from caveat.conformal.quantile import pac_rank, quantile_rank, too_few
from caveat.conformal.threshold import safe_rank


def test_the_rank_is_exact_where_floats_are_not():
    # (n+1)(1-alpha) with alpha in hundredths is (n+1)(100-a)/100: integer arithmetic gives the true ceiling
    wrong = 0
    for n in range(1, 400):
        for hundredths in range(1, 100):
            truth = -((-(n + 1) * (100 - hundredths)) // 100)
            assert quantile_rank(n, hundredths / 100) == truth
            wrong += math.ceil((n + 1) * (1 - hundredths / 100)) != truth
    assert wrong > 0  # the float formula does fail: the exact one is needed


def test_a_level_computed_from_a_confidence_is_the_level_that_was_meant():
    # 1 - 0.9 is 0.09999999999999998: read digit by digit, the rank is one too high wherever (n + 1) / 10 is whole.
    assert quantile(range(1, 10), 1 - 0.9) == 9
    for n in range(1, 1000):
        for percent in range(1, 100):
            assert quantile_rank(n, 1 - percent / 100) == quantile_rank(n, (100 - percent) / 100)
        assert quantile_rank(n, 1 / 3) == quantile_rank(n, 1 - 2 / 3) == -(-2 * (n + 1) // 3)
    assert too_few(9, 1 - 0.9) == ""


def test_by_hand():
    # n = 9, alpha = .1: k = ceil(10 * .9) = 9, the largest; alpha = .2: k = 8
    assert quantile(np.arange(1, 10), 0.1) == 9
    assert quantile(np.arange(1, 10)[::-1], 0.2) == 8


def test_too_few_points_give_infinity_and_a_sentence():
    with pytest.warns(CaveatWarning, match=r"n = 8 is too small for alpha = 0\.1.*Calibrate on 9 samples"):
        assert quantile(np.arange(8), 0.1) == math.inf
    assert too_few(9, 0.1) == ""
    assert "Calibrate on 99 samples" in too_few(98, 0.01)


@given(
    scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    alpha=st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.5, 0.9]),
)
def test_it_is_an_order_statistic(scores, alpha):
    k = quantile_rank(len(scores), alpha)
    if k <= len(scores):
        assert quantile(scores, alpha) == sorted(scores)[k - 1]


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.1), (19, 0.1), (50, 0.25), (99, 0.05)])
def test_it_keeps_its_promise(n, alpha):
    rng, trials = np.random.default_rng(n), 20_000
    samples = rng.random((trials, n + 1))
    hits = sum(row[-1] <= quantile(row[:-1], alpha) for row in samples)
    exact = quantile_rank(n, alpha) / (n + 1)
    assert abs(hits / trials - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_bad_input():
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        quantile([1.0], 1.5)
    with pytest.raises(InputError, match="scores has NaN, first at row 0"):
        quantile([np.nan], 0.5)
    with pytest.raises(InputError, match="scores must be a non-empty vector"):
        quantile([], 0.5)


# -- with confidence (PAC) --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "delta"), [(0.1, 0.05), (0.3, 1e-5), (0.5, 0.5), (0.01, 0.2)])
def test_rank_is_the_first_whose_tail_is_small_enough(alpha, delta):
    for n in (1, 2, 10, 57, 400):
        passing = [k for k in range(1, n + 1) if binom.cdf(n - k, n, alpha) <= delta]
        assert pac_rank(n, alpha, delta) == (passing[0] if passing else n + 1)


def test_the_least_n_is_named_exactly():
    # all n scores below: (1 - .1)^n <= .05 first at n = 29
    assert pac_rank(28, 0.1, 0.05) == 29
    assert pac_rank(29, 0.1, 0.05) == 29
    assert "Calibrate on 29 samples" in too_few(28, 0.1, 0.05)
    assert too_few(29, 0.1, 0.05) == ""
    assert math.ceil(math.log(0.05) / math.log(0.9)) == 29


def test_ranks_depend_on_the_levels_that_were_meant():
    # n = 1 and alpha = delta = one half lie on the edge: P(Bin(1, 1/2) <= 0) = 1/2 <= delta.
    assert pac_rank(1, 0.5, 0.5) == 1
    for n in (1, 2, 7, 29, 100, 1000):
        assert pac_rank(n, 1 - 0.9, 1 - 0.95) == pac_rank(n, 0.1, 0.05)
        assert safe_rank(n, 1 - 0.9, 1 - 0.95) == safe_rank(n, 0.1, 0.05)
    # (1 - .1)^n <= .9^29: exactly reached at n = 29
    assert "Calibrate on 29 samples" in too_few(28, 1 - 0.9, 0.9**29)


def test_a_bad_delta():
    with pytest.raises(InputError, match="delta must be strictly between 0 and 1"):
        pac_rank(10, 0.1, 0)
