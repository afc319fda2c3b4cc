from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from caveat import InputError
from caveat.stats import friedman, mid_ranks

tables = st.tuples(st.integers(2, 12), st.integers(3, 7)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(0, 5).map(float))
)


@given(tables)
def test_ranks_equal_scipy(values):
    np.testing.assert_allclose(mid_ranks(values), stats.rankdata(values, axis=1))
    np.testing.assert_allclose(mid_ranks(values, lower_is_better=False), stats.rankdata(-values, axis=1))


@given(tables)
def test_friedman_equals_scipy_ties_included(values):
    found = friedman(mid_ranks(values))
    if np.ptp(values, axis=1).max() == 0:
        assert (found.statistic, found.p_value) == (0.0, 1.0)  # scipy divides by zero here
    else:
        expected = stats.friedmanchisquare(*values.T)
        assert found.statistic == pytest.approx(expected.statistic)
        assert found.p_value == pytest.approx(expected.pvalue)


def test_paper_003_appendix_c1(paper003):
    found = friedman(paper003["ranks"])
    assert found.statistic == pytest.approx(paper003["friedman"], abs=5e-5)
    assert found.p_value == pytest.approx(paper003["p_value"], rel=1e-3)
    assert found.f_statistic == pytest.approx(paper003["iman_davenport"], abs=5e-4)
    assert found.kendall_w == pytest.approx(paper003["friedman"] / (15 * 5), abs=1e-6)


def test_by_hand():
    # rank sums 5, 8, 11 over N = 4, k = 3: Q = 12 / (4 * 3 * 4) * (25 + 64 + 121) - 3 * 4 * 4 = 52.5 - 48 = 4.5
    # F = 3 * 4.5 / (4 * 2 - 4.5) = 13.5 / 3.5; W = 4.5 / 8
    found = friedman(np.array([[1.0, 2, 3], [1, 2, 3], [2, 1, 3], [1, 3, 2]]))
    assert found.statistic == pytest.approx(4.5)
    assert found.f_statistic == pytest.approx(13.5 / 3.5)
    assert found.kendall_w == pytest.approx(4.5 / 8)
    assert found.f_p_value == pytest.approx(stats.f.sf(13.5 / 3.5, 2, 6))


def test_complete_agreement():
    found = friedman(np.tile([1.0, 2.0, 3.0], (5, 1)))
    assert found.kendall_w == pytest.approx(1)
    assert found.f_statistic == np.inf
    assert found.f_p_value == pytest.approx(6.0**-4)  # four blocks repeat the first by chance
    assert found.p_value == pytest.approx(stats.chi2.sf(10, 2))


def test_two_methods_are_a_sign_test():
    # 7 wins of 9: Q = (wins - losses)^2 / N
    ranks = np.array([[1.0, 2.0]] * 7 + [[2.0, 1.0]] * 2)
    assert friedman(ranks).statistic == pytest.approx((7 - 2) ** 2 / 9)


def test_level_under_the_null():
    # 2,000 tables of pure noise: Iman-Davenport rejects about alpha of them (its F is an approximation)
    rng, trials, alpha = np.random.default_rng(0), 2000, 0.05
    rejected = sum(friedman(mid_ranks(rng.random((20, 6)))).f_p_value < alpha for _ in range(trials))
    assert abs(rejected / trials - alpha) < 4 * np.sqrt(alpha * (1 - alpha) / trials)


def test_nan_never_becomes_a_rank_and_values_are_not_ranks():
    assert mid_ranks([[3, 1, 3], [1, np.inf, 2]]).tolist() == [[2.5, 1.0, 2.5], [1.0, 3.0, 2.0]]
    with pytest.raises(InputError, match="values has NaN, first at row 1"):
        mid_ranks([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(InputError, match=r"values must be a non-empty \(blocks x methods\) array"):
        mid_ranks([1.0, 2.0])
    with pytest.raises(InputError, match="ranks of a block must add up to 6, got 1.2 at row 1"):
        friedman([[1.0, 2.0, 3.0], [0.1, 0.2, 0.9]])
