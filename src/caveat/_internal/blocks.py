"""Row blocks: large enough for BLAS, small enough that a 100 GB memory-mapped file is a loop and not a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 8 * 2**20  # with twice as much, formulas that make a few arrays of a block take a fifth more time
_LEAST_BYTES = 2 * 2**20  # of a block that shares the room with others
_BLOCKS_WORTH_THREADS = 4


def row_blocks(n: int, *, row_bytes: int, block_bytes: int | None = None, at_once: int = 1) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in blocks of about ``block_bytes`` (default 8 MiB).

    Blocks that are worked on ``at_once`` share that room, and are evened out so that all workers finish together.

    >>> [(b.start, b.stop) for b in row_blocks(5, row_bytes=8, block_bytes=16)]
    [(0, 2), (2, 4), (4, 5)]
    >>> [(b.start, b.stop) for b in row_blocks(10, row_bytes=2**20, at_once=2)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    room = block_bytes or BLOCK_BYTES
    if at_once > 1:
        most = max(1, max(room // at_once, min(room, _LEAST_BYTES)) // max(1, row_bytes))
        rounds = -(-n // (most * at_once))
        step = max(1, -(-n // max(1, rounds * at_once)))
    else:
        step = max(1, room // max(1, row_bytes))
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


def worth_threads(total_bytes: int) -> bool:
    """Whether the rows fill enough blocks to be worth starting threads.

    >>> worth_threads(10 * 2**20), worth_threads(100 * 2**20)
    (False, True)
    """
    return total_bytes >= _BLOCKS_WORTH_THREADS * BLOCK_BYTES
