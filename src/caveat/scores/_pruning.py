"""Which activations of a row are its largest, and how much of the row's sum they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def how_many(width: int, percentile: float) -> int:
    """Number of activations kept of ``width`` when ``percentile`` percent are dropped: at least one.

    >>> how_many(512, 90.0), how_many(3, 90.0)
    (51, 1)
    """
    return max(1, width - round(width * percentile / 100))


def kept_shares(rows: NDArray[Any], k: int) -> NDArray[Any]:
    """Ones at the k largest values of each row, zeros elsewhere; values that tie for the last places share them.

    The shares of a row add up to k, and do not depend on the order of the columns.

    >>> kept_shares(np.array([[3.0, 1.0, 1.0, 0.0]]), 2)
    array([[1. , 0.5, 0.5, 0. ]])
    """
    width = rows.shape[1]
    if k >= width:
        return np.ones_like(rows)
    kth = np.partition(rows, width - k, axis=1)[:, width - k, None]
    shares = (rows >= kth).astype(rows.dtype)
    surplus = np.flatnonzero(np.count_nonzero(shares, axis=1) > k)
    if surplus.size:
        some, border = rows[surplus], kth[surplus]
        above, tied = some > border, some == border
        room = k - np.count_nonzero(above, axis=1, keepdims=True)
        shares[surplus] = np.where(tied, room / np.count_nonzero(tied, axis=1, keepdims=True), above)
    return shares


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
