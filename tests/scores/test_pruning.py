from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat.scores._pruning import how_many, largest, sum_ratio

rows = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 8)), elements=st.sampled_from([0.0, 1.0, 2.0]))


@given(rows=rows, share=st.floats(0.01, 0.99))
def test_exactly_k_and_the_first_of_equals(rows, share):
    k = how_many(rows.shape[1], 100 * share)
    mask = largest(rows, k)
    for row, kept in zip(rows, mask, strict=True):
        expected = sorted(range(row.size), key=lambda j: (-row[j], j))[:k]
        assert sorted(np.flatnonzero(kept)) == sorted(expected)


@given(rows=rows, share=st.floats(0.01, 0.99))
def test_the_ratio_of_activations_needs_no_clipping(rows, share):
    k = how_many(rows.shape[1], 100 * share)
    top = np.where(largest(rows, k), rows, 0)
    before, after = rows.sum(axis=1), top.sum(axis=1)
    expected = np.where(after > 0, before / np.where(after > 0, after, 1), 1.0)
    np.testing.assert_allclose(sum_ratio(rows, top, k), expected, rtol=1e-12)
