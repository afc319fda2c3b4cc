from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caveat._internal.blocks import _LEAST_BYTES, BLOCK_BYTES, row_blocks


@given(n=st.integers(0, 300), row=st.integers(0, 50), block=st.integers(1, 200))
def test_blocks_cover_every_row_once_and_stay_small(n, row, block):
    slices = list(row_blocks(n, row_bytes=row, block_bytes=block))
    covered = np.concatenate([np.arange(s.start, s.stop) for s in slices]) if slices else np.array([])
    np.testing.assert_array_equal(covered, np.arange(n))
    assert all((s.stop - s.start - 1) * max(1, row) < block for s in slices)


@given(n=st.integers(0, 3000), row=st.integers(1, 2**20), workers=st.integers(2, 9))
def test_blocks_worked_on_together_share_the_room_evenly(n, row, workers):
    slices = list(row_blocks(n, row_bytes=row, at_once=workers))
    covered = np.concatenate([np.arange(s.start, s.stop) for s in slices]) if slices else np.array([])
    np.testing.assert_array_equal(covered, np.arange(n))
    sizes = [s.stop - s.start for s in slices]
    assert all(size == sizes[0] for size in sizes[:-1])
    if len(slices) > 1:
        assert sizes[0] == 1 or sizes[0] * row <= max(BLOCK_BYTES // workers, _LEAST_BYTES)
