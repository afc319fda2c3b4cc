from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from caveat.stats.posthoc import _signed_levels
from caveat.stats.signed_rank import signed_rank_p_values


def test_by_hand():
    # 5 rows, all positive: 1 of 32 signs on each side. One minus at rank 2: the sums 13, 14 and 15, so 3 of 32.
    p_values = signed_rank_p_values(np.array([[1, 2, 3, 4, 5], [1, -2, 3, 4, 5]]))
    np.testing.assert_array_equal(p_values, [2 / 32, 6 / 32])


@pytest.mark.parametrize("n", [1, 5, 13, 14, 50, 51, 120])
@pytest.mark.parametrize("digits", [None, 1, 0], ids=["no ties", "few ties", "ties and zeros"])
def test_it_is_the_test_of_scipy_in_each_of_many_pairs(n, digits):
    differences = np.random.default_rng(n).normal(0.2, 1, size=(8, n))
    differences = differences if digits is None else np.round(differences, digits) + 0.0
    differences[0] = 0
    p_values = signed_rank_p_values(_signed_levels(differences, np.zeros_like(differences)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [stats.wilcoxon(row).pvalue if row.any() else 1.0 for row in differences]
    np.testing.assert_allclose(p_values, expected, rtol=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_small_samples_count_all_signs(signed):
    row = np.array(signed)
    ranks = np.where(row == 0, 0.0, stats.rankdata(np.where(row == 0, np.nan, np.abs(row)), nan_policy="omit"))
    sums = [(ranks * signs).sum() for signs in itertools.product([0, 1], repeat=row.size)]
    above = ranks[row > 0].sum()
    tail = min(np.mean(np.array(sums) >= above), np.mean(np.array(sums) <= above))
    levels = _signed_levels(row[None].astype(float), np.zeros((1, row.size)))
    assert signed_rank_p_values(levels)[0] == pytest.approx(min(1.0, 2 * tail), rel=1e-12)
