"""Which activations of a row are its largest, and how much of the row's sum they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["how_many", "largest", "sum_ratio"]


def how_many(width: int, percentile: float) -> int:
    """Number of activations kept of ``width`` when ``percentile`` percent are dropped: at least one.

    >>> how_many(512, 90.0), how_many(3, 90.0)
    (51, 1)
    """
    return max(1, width - round(width * percentile / 100))


def largest(rows: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Mask of the k largest values of each row, exactly k; on a tie the first in the row win.

    >>> largest(np.array([[3.0, 1.0, 1.0, 0.0]]), 2)
    array([[ True,  True, False, False]])
    """
    width = rows.shape[1]
    if k >= width:
        return np.ones(rows.shape, dtype=np.bool_)
    kth = np.partition(rows, width - k, axis=1)[:, width - k, None]
    mask: NDArray[np.bool_] = rows >= kth
    surplus = np.flatnonzero(np.count_nonzero(mask, axis=1) > k)
    if surplus.size:
        some, border = rows[surplus], kth[surplus]
        above, tied = some > border, some == border
        room = k - np.count_nonzero(above, axis=1, keepdims=True)
        mask[surplus] = above | (tied & (np.cumsum(tied, axis=1) <= room))
    return mask


def sum_ratio(rows: NDArray[Any], kept: NDArray[Any], k: int) -> NDArray[np.float64]:
    """Sum of each row over the sum of its k largest values, shape (n,), given both.

    Activations after a ReLU give a ratio between 1 and D / k. Rows with negative values can give anything, also a
    division by zero, so the ratio is held to that range; a zero row gives 1. It is also held below 500, so that its
    exponential stays finite when almost everything is pruned.
    """
    before = rows.sum(axis=1).astype(np.float64)
    after = kept.sum(axis=1).astype(np.float64)
    ratio = np.divide(before, after, out=np.ones_like(before), where=after != 0)
    return np.asarray(np.clip(ratio, 1.0, min(rows.shape[1] / k, 500.0)))
