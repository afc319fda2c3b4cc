from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caveat._blocks import row_blocks


@given(n=st.integers(0, 300), row=st.integers(0, 50), block=st.integers(1, 200))
def test_blocks_cover_every_row_once_and_stay_small(n, row, block):
    slices = list(row_blocks(n, row_bytes=row, block_bytes=block))
    covered = np.concatenate([np.arange(s.start, s.stop) for s in slices]) if slices else np.array([])
    np.testing.assert_array_equal(covered, np.arange(n))
    assert all((s.stop - s.start - 1) * max(1, row) < block for s in slices)
