r"""Connectivity-based outlier factor: length of the chain to the neighbors, relative to the chains of the neighbors.

The k nearest rows of $x$ are joined to it one after the other, the nearest first, each by the shortest link $e_j$ to
those joined already. Early links weigh more:

$$ c(x) = \sum_{j=1}^k \frac{2 (k + 1 - j)}{k (k + 1)}\, e_j, \qquad
   s(x) = \frac{k\, c(x)}{\sum_{y \in N_k(x)} c(y)} $$

Tang, Chen, Fu and Cheung, "Enhancing Effectiveness of Outlier Detections for Low Density Patterns", PAKDD 2002. As in
PyOD, whose scores these are, the rows are joined in the order of their distance to $x$; the paper joins the row that is
nearest to the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_matrix
from caveat._internal.params import check_params, count
from caveat.errors import InputError, NotFittedError
from caveat.scores._neighbors import nearest_rows

__all__ = ["COF"]

Array = NDArray[np.float64]


@final
@dataclass(eq=False)
class COF:
    """Average chaining distance of a row over that of its neighbors in the same batch. The larger, the stranger.

    An estimator with ``fit(X)`` and ``decision_function(X)``; ``detector("cof")`` wraps it as a score. ``fit`` learns
    only the number of neighbors and columns: a row is judged by the rows it is scored with. Scores equal those of PyOD
    where no two distances are equal. PyOD may order ties in any way; here the smaller row number comes first. A row
    among its own copies, whose chains have no length, scores 0; one that has only such neighbors, the largest float.

    Parameters
    ----------
    n_neighbors
        k. The default is PyOD's. A training set of k rows or fewer lowers it.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])
    >>> COF(n_neighbors=2).fit(rows).decision_function(rows).round(2)
    array([1.  , 1.  , 1.  , 1.  , 4.33])
    """

    n_neighbors: int = count(20)

    def __post_init__(self) -> None:
        check_params(self)

    def fit(self, X: ArrayLike) -> Self:
        """Note how many rows and columns there are; labels are not needed."""
        n, self.columns_ = as_matrix(X, "X").shape
        if n < 2:
            raise InputError("X must have at least 2 rows, or no row has a neighbor; got 1.")
        self.n_neighbors_ = min(self.n_neighbors, n - 1)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Factor of each row among the rows of ``X``, shape (n,)."""
        if not hasattr(self, "n_neighbors_"):
            raise NotFittedError("COF has not seen training data. Call fit(X) before decision_function(X).")
        rows = as_matrix(X, "X", width=self.columns_).astype(np.float64)
        k = self.n_neighbors_
        near, distances = nearest_rows(rows, k)
        chain = _links(rows, near, distances) @ (2 * np.arange(k, 0, -1) / (k * (k + 1)))
        around = chain[near].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor: Array = np.nan_to_num(k * chain / around)
        return factor


def _links(rows: Array, near: NDArray[np.intp], distances: Array) -> Array:
    """Shortest link (n, k) of each neighbor to the row itself and the neighbors before it."""
    n, k = near.shape
    links = distances.copy()
    for block in row_blocks(n, row_bytes=8 * rows.shape[1] * (2 * k + 1), block_bytes=2**20):
        points = rows[near[block]]
        for j in range(1, k):
            gap = points[:, :j] - points[:, j, None]
            shortest = np.sqrt(np.einsum("bmd,bmd->bm", gap, gap).min(axis=1))
            np.minimum(links[block, j], shortest, out=links[block, j])
    return links
