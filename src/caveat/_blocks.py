"""Row blocks: large enough for BLAS, small enough that a 100 GB memory-mapped file is a loop and not a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_row_blocks", "row_blocks"]

BLOCK_BYTES = 16 * 2**20


def row_blocks(n: int, *, row_bytes: int, block_bytes: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in blocks of about ``block_bytes`` (default 16 MiB).

    >>> [(b.start, b.stop) for b in row_blocks(5, row_bytes=8, block_bytes=16)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def by_row_blocks(
    function: Callable[[NDArray[Any]], NDArray[Any]], rows: NDArray[Any], *, row_bytes: int
) -> NDArray[Any]:
    """``function(rows)`` computed block by block, for one that takes ``row_bytes`` of room for each row it is given.

    >>> by_row_blocks(lambda part: part.sum(axis=1), np.ones((3, 2)), row_bytes=2**23)
    array([2., 2., 2.])
    """
    return np.concatenate([function(rows[block]) for block in row_blocks(rows.shape[0], row_bytes=row_bytes)])
