"""Ties up to rounding: by hand, with infinities, and without an effect of the unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat.stats import compare, mid_ranks
from caveat.stats.posthoc import _signed_levels
from caveat.stats.ranks import tie_levels

hundredths = arrays(np.int64, st.tuples(st.integers(5, 9), st.integers(2, 4)), elements=st.integers(0, 100))


def test_by_hand():
    # 0.1 + 0.2 is 0.30000000000000004
    levels = tie_levels(np.array([[0.3, 0.1 + 0.2, 0.1], [np.inf, -np.inf, np.inf]]), np.full((2, 3), 1e-12))
    np.testing.assert_array_equal(levels, [[1, 1, 0], [1, 0, 1]])


@settings(max_examples=60, deadline=None)
@given(table=hundredths)
@pytest.mark.parametrize("posthoc", ["wilcoxon", "conover", "nemenyi"])
def test_a_comparison_does_not_depend_on_the_unit(posthoc, table):
    percent = table.astype(np.float64)
    first = compare(percent, posthoc=posthoc)
    for other in (percent / 100, 100 * (percent / 100), percent / 7, 1e-9 * percent):
        again = compare(other, posthoc=posthoc)
        assert again.pairwise == first.pairwise
        assert again.p_value == first.p_value


def test_wilcoxon_of_fractions_is_that_of_per_cent():
    # Differences of one and three per cent, which tie; as fractions they differ in their last bits.
    per_cent = np.array([[87, 76, 67, 57, 55, 45, 47], [86, 75, 68, 54, 56, 42, 44]]).T
    assert np.unique(np.abs(np.diff(per_cent / 100, axis=1))).size > 2
    p_values = [compare(table, posthoc="wilcoxon").pairwise for table in (per_cent, per_cent / 100)]
    assert p_values[0] == p_values[1]


def test_blocks_of_different_size_keep_their_small_differences():
    # One block in millions: its rounding is far above the differences of the others, which must not tie.
    table = np.array([[1e6, 2e6], [1e-9, 3e-9], [1e-9, 2e-9], [1e-9, 1e-9]])
    np.testing.assert_array_equal(_signed_levels(table[:, 0], table[:, 1]), [-3, -2, -1, 0])


def test_ranks_do_not_part_what_rounding_parted():
    np.testing.assert_array_equal(mid_ranks([[0.3, 0.1 + 0.2, 0.1]]), [[2.5, 2.5, 1.0]])
    np.testing.assert_array_equal(mid_ranks([[np.inf, np.inf, 0.1]], lower_is_better=False), [[1.5, 1.5, 3.0]])
