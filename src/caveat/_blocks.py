"""Row blocks: large enough for BLAS, small enough that a 100 GB memory-mapped file is a loop and not a crash."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["row_blocks"]

BLOCK_BYTES = 16 * 2**20


def row_blocks(n: int, *, row_bytes: int, block_bytes: int | None = None) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in blocks of about ``block_bytes`` (default 16 MiB).

    >>> [(b.start, b.stop) for b in row_blocks(5, row_bytes=8, block_bytes=16)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, (block_bytes or BLOCK_BYTES) // max(1, row_bytes))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
