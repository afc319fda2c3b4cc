"""Exact nearest rows of a batch among themselves: a matrix product proposes, differences decide.

$|a|^2 + |b|^2 - 2 a^T b$ is quick but loses the small distances to rounding, and a detector that divides by them needs
them right. So the product only proposes a few rows more than k; their distances are taken from differences. A
row is done when even the rounding of the product cannot hide a nearer one among those not proposed; the others, such as
rows with many copies, are compared with every row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.parallel import map_in_threads
from caveat.errors import InputError

Array = NDArray[np.float64]
_MORE = 12  # rows proposed beyond k
_BLOCK = 4 * 2**20  # bytes of one tile of distances: it is written once and read twice


def nearest_rows(rows: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Numbers (n, k) of the k nearest other rows, nearest first, and their Euclidean distances (n, k).

    Rows at the same distance come in the order of their numbers.

    Examples
    --------
    >>> numbers, distances = nearest_rows(np.array([[0.0], [1.0], [3.0]]), 1)
    >>> numbers.ravel(), distances.ravel()
    (array([1, 0, 1]), array([1., 1., 2.]))
    """
    n, width = rows.shape
    if n <= k:
        raise InputError(f"a batch must hold more than {k} rows to have {k} neighbors each, got {n}.")
    centered = rows - rows.mean(axis=0)  # the rounding of the product grows with the lengths
    squares = np.einsum("ij,ij->i", centered, centered)
    slack = 4 * (width + 4) * np.finfo(np.float64).eps * (np.sqrt(squares) + np.sqrt(squares.max())) ** 2
    proposed = min(k + _MORE, n - 1)

    def search(block: slice) -> tuple[NDArray[np.intp], Array]:
        here = np.arange(block.start, block.stop)
        tile = squares - 2 * (centered[block] @ centered.T) + squares[block, None]
        tile[here - block.start, here] = np.inf
        near = np.argpartition(tile, proposed - 1, axis=1)[:, :proposed]
        near.sort(axis=1)
        bound = np.take_along_axis(tile, near, axis=1).max(axis=1)  # nothing that was left out is nearer, but for slack
        numbers, distances = _in_order(near, distances_between(rows, here, near), k)
        unsure = np.flatnonzero((distances[:, -1] ** 2 >= bound - 2 * slack[block]) & (proposed < n - 1))
        if unsure.size:
            numbers[unsure], distances[unsure] = _among_all(rows, here[unsure], k)
        return numbers, distances

    parts = map_in_threads(search, row_blocks(n, row_bytes=8 * n, block_bytes=_BLOCK))
    return np.concatenate([numbers for numbers, _ in parts]), np.concatenate([distances for _, distances in parts])


def distances_between(rows: Array, here: NDArray[np.intp], there: NDArray[np.intp]) -> Array:
    """Distances (b, m) from the rows numbered ``here`` (b,) to those numbered ``there`` (b, m), from differences."""
    distances = np.empty(there.shape)
    for block in row_blocks(here.size, row_bytes=8 * rows.shape[1] * there.shape[1], block_bytes=_BLOCK):
        gap = rows[there[block]]
        gap -= rows[here[block], None, :]
        distances[block] = np.sqrt(np.einsum("bmd,bmd->bm", gap, gap))
    return distances


def _among_all(rows: Array, here: NDArray[np.intp], k: int) -> tuple[NDArray[np.intp], Array]:
    from scipy.spatial.distance import cdist

    numbers, distances = np.empty((here.size, k), dtype=np.intp), np.empty((here.size, k))
    for block in row_blocks(here.size, row_bytes=8 * rows.shape[0], block_bytes=_BLOCK):
        tile: NDArray[Any] = cdist(rows[here[block]], rows)
        tile[np.arange(tile.shape[0]), here[block]] = np.inf
        worst = np.partition(tile, k - 1, axis=1)[:, k - 1]
        for line, (values, last) in enumerate(zip(tile, worst, strict=True), start=block.start):
            near = np.flatnonzero(values <= last)
            order = near[np.argsort(values[near], kind="stable")[:k]]
            numbers[line], distances[line] = order, values[order]
    return numbers, distances


def _in_order(near: NDArray[np.intp], distances: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(distances, order, axis=1)
