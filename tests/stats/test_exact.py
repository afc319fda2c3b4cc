from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from caveat.stats import friedman, mid_ranks
from caveat.stats.ranks import agreement_p_value, exact_p_value


@pytest.mark.parametrize(("blocks", "k"), [(5, 2), (4, 3), (3, 4)])
def test_equals_the_count_over_all_tables_ties_included(blocks, k):
    rng = np.random.default_rng(blocks)
    for _ in range(5):
        ranks = mid_ranks(rng.integers(0, 4, size=(blocks, k)).astype(float))
        center = blocks * (k + 1) / 2
        observed = ((ranks.sum(axis=0) - center) ** 2).sum()
        apart = [((np.sum(table, axis=0) - center) ** 2).sum() for table in product(*map(permutations, ranks))]
        assert exact_p_value(ranks) == pytest.approx(np.mean(np.array(apart) >= observed - 1e-9))


def test_by_hand():
    # k = 3, N = 4: 6^3 tables after the first block. Q = 8: all agree, 1 of 216. Q = 6.5: one block swaps neighbors
    # (4 blocks x 2 swaps) or better, 9 of 216. N = 3, Q = 6: 1 of 36. Textbooks print 0.0046, 0.042 and 0.028.
    for table, statistic, tail in (
        ([[1.0, 2, 3]] * 4, 8.0, 1 / 216),
        ([[1.0, 2, 3]] * 3 + [[1.0, 3, 2]], 6.5, 9 / 216),
        ([[1.0, 2, 3]] * 3, 6.0, 1 / 36),
    ):
        found = friedman(np.array(table))
        assert found.statistic == pytest.approx(statistic)
        assert found.exact_p_value == pytest.approx(tail)


@pytest.mark.parametrize(("blocks", "k"), [(2, 2), (4, 2), (7, 2), (13, 2), (2, 3), (3, 3), (3, 4)])
def test_false_alarms_in_small_tables(blocks, k):
    # F rejects 0.5, 0.125, 0.125, 0.09, 0.17, 0.2 and 0.08 of such tables of pure noise; the promise is 0.05
    rng, trials = np.random.default_rng(blocks), 1000
    rejected = sum(friedman(mid_ranks(rng.random((blocks, k)))).decisive_p_value < 0.05 for _ in range(trials))
    assert rejected / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)


def test_two_methods_are_the_sign_test():
    for wins, losses in ((6, 1), (10, 3), (40, 60)):
        ranks = np.array([[1.0, 2.0]] * wins + [[2.0, 1.0]] * losses)
        assert exact_p_value(ranks) == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)


def test_complete_agreement_and_complete_ties():
    ranks = np.tile([1.0, 2.5, 2.5, 4.0], (3, 1))  # 12 orders of each block
    assert agreement_p_value(ranks) == pytest.approx(12.0**-2)
    assert exact_p_value(ranks) == pytest.approx(12.0**-2)
    assert exact_p_value(np.full((5, 3), 2.0)) == 1
    assert agreement_p_value(np.array([[1.0, 2.0], [2.0, 1.0]])) is None


def test_large_tables_have_none():
    assert exact_p_value(np.tile([1.0, 2, 3, 4, 5], (2, 1))) is None
    assert exact_p_value(np.tile([1.0, 2, 3], (21, 1))) is None
