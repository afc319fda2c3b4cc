from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat.scores.ash import how_many, kept_shares, sum_ratio

rows = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=st.sampled_from([0.0, 1.0, 2.0]))


@given(rows=rows, share=st.floats(0.01, 0.99))
def test_k_places_of_which_equals_have_equal_shares(rows, share):
    k = how_many(rows.shape[1], 100 * share)
    shares = kept_shares(rows, k)
    np.testing.assert_allclose(shares.sum(axis=1), k)
    for row, kept in zip(rows, shares, strict=True):
        for value in np.unique(row):
            places = min(max(k - np.count_nonzero(row > value), 0), np.count_nonzero(row == value))
            np.testing.assert_allclose(kept[row == value], places / np.count_nonzero(row == value))


@given(rows=rows, share=st.floats(0.01, 0.99))
def test_the_ratio_of_activations_needs_no_clipping(rows, share):
    k = how_many(rows.shape[1], 100 * share)
    top = kept_shares(rows, k) * rows
    before, after = rows.sum(axis=1), top.sum(axis=1)
    expected = np.where(after > 0, before / np.where(after > 0, after, 1), 1.0)
    np.testing.assert_allclose(sum_ratio(rows, top, k), expected, rtol=1e-12)
