"""Approximate nearest neighbors on the unit sphere by an inverted file (faiss IVF-Flat, extra ``knn``).

The bank is split into cells around centroids, and a query is compared with the rows of its ``nprobe`` nearest cells
alone. What decides the answer is kept as plain arrays (centroids, cell of each row); the faiss index is built from them
when it is needed, so a saved score gives the same neighbors anywhere and no file of another program is read. Cells are
chosen in float64: the neighbors of a row do not depend on the rows that are asked about together with it.

Johnson, Douze and Jegou, "Billion-scale similarity search with GPUs", IEEE Transactions on Big Data, 2019.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.products import row_products
from caveat.errors import InputError, MissingExtraError
from caveat.scores._statistics import unit_rows

__all__ = ["InvertedFile", "centroids_and_cells", "default_cells"]

_SAMPLE = 64  # training rows per centroid
_ROUNDS = 10  # of k-means
_FEWEST = 40  # rows per cell below which centroids are not worth their place


def default_cells(n: int) -> int:
    """Cells for n rows: 4 sqrt(n), and at least 40 rows in each on average.

    >>> default_cells(100), default_cells(10_000), default_cells(1_000_000)
    (2, 250, 4000)
    """
    return max(1, min(round(4 * math.sqrt(n)), n // _FEWEST))


def centroids_and_cells(
    bank: NDArray[Any], n_cells: int, *, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Centroids (cells, D) by k-means on a sample of the scaled rows, and the cell of each row (N,)."""
    faiss, n = _faiss(), bank.shape[0]
    if n_cells > n:
        raise InputError(f"clusters must be at most the number of training rows, {n}, got {n_cells}.")
    size = min(n, max(_SAMPLE * n_cells, 1024))
    drawn = np.sort(np.random.default_rng(seed).choice(n, size=size, replace=False))
    kmeans = faiss.Kmeans(bank.shape[1], n_cells, niter=_ROUNDS, seed=(seed + 1) % 2**31, min_points_per_centroid=1)
    kmeans.train(_rows(bank[drawn]))
    centroids = np.array(kmeans.centroids, dtype=np.float32)
    cells = np.empty(n, dtype=np.int32)
    for part in row_blocks(n, row_bytes=8 * bank.shape[1]):
        cells[part] = _nearest_cells(_rows(bank[part]), centroids, 1)[:, 0]
    return centroids, cells


@final
class InvertedFile:
    """A faiss index over the scaled rows of a bank, from kept centroids and cells."""

    def __init__(self, bank: NDArray[Any], centroids: NDArray[np.float32], cells: NDArray[np.int32]) -> None:
        faiss = _faiss()
        self._centroids = centroids
        self._quantizer = faiss.IndexFlatL2(bank.shape[1])
        self._quantizer.add(np.ascontiguousarray(centroids))
        self._index = faiss.IndexIVFFlat(self._quantizer, bank.shape[1], len(centroids), faiss.METRIC_L2)
        self._index.is_trained = True
        for part in row_blocks(bank.shape[0], row_bytes=8 * bank.shape[1]):
            rows, numbers = _rows(bank[part]), np.arange(part.start, part.stop, dtype=np.int64)
            places = np.ascontiguousarray(cells[part], dtype=np.int64)
            self._index.add_core(len(rows), *(faiss.swig_ptr(array) for array in (rows, numbers, places)))

    def nearest(self, queries: NDArray[Any], k: int, nprobe: int) -> NDArray[np.int64]:
        """Rows (n, k) of the bank that are nearest to each unit query, nearest first, as far as their cells hold them.

        Where the probed cells hold fewer than k rows, more cells are searched, in the end all of them.
        """
        search: Any = import_module("faiss.contrib.ivf_tools").search_preassigned

        rows, n_cells = _rows(queries, scaled=True), len(self._centroids)
        neighbors = np.full((len(rows), k), -1, dtype=np.int64)
        short, probes = np.arange(len(rows)), min(nprobe, n_cells)
        while short.size:
            cells = _nearest_cells(rows[short], self._centroids, probes)
            self._index.nprobe = probes
            neighbors[short] = search(self._index, rows[short], k, cells)[1]
            short = short[(neighbors[short] < 0).any(axis=1)]
            if probes == n_cells:
                break
            probes = min(2 * probes, n_cells)
        return neighbors


def _nearest_cells(rows: NDArray[np.float32], centroids: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The nearest centroids (n, count) of each row, nearest first."""
    wide = centroids.astype(np.float64)
    fixed = np.vecdot(wide, wide)
    nearest = np.empty((len(rows), count), dtype=np.int64)
    for part in row_blocks(len(rows), row_bytes=16 * len(centroids) + 8 * rows.shape[1]):
        distance = fixed - 2 * row_products(rows[part], wide, transposed=True)
        some = np.argpartition(distance, count - 1, axis=1)[:, :count] if count < len(wide) else None
        order = np.argsort(
            distance if some is None else np.take_along_axis(distance, some, axis=1), axis=1, kind="stable"
        )
        nearest[part] = order if some is None else np.take_along_axis(some, order, axis=1)
    return nearest


def _rows(rows: NDArray[Any], *, scaled: bool = False) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows if scaled else unit_rows(rows), dtype=np.float32)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError('KNN(index="ivf")', extra="knn") from None
    return faiss
