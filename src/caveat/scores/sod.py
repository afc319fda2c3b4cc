r"""Subspace outlier degree: how far a row is from its reference set, along the directions where that set is narrow.

The reference set of $x$ holds the rows that share the most of their k nearest neighbors with it. With its mean $\mu$
and its variance $v_j$ along each column, only the columns that vary less than expected count:

$$ V = \Bigl\{ j : v_j < \alpha\, \tfrac1D \sum_i v_i \Bigr\}, \qquad
   s(x) = \sqrt{\frac{1}{|V|} \sum_{j \in V} (x_j - \mu_j)^2} $$

and s = 0 where no column does. Kriegel, Kroeger, Schubert and Zimek, "Outlier Detection in Axis-Parallel Subspaces of
High Dimensional Data", PAKDD 2009. The root is taken over the mean, as in PyOD; the paper divides the distance by |V|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count, as_matrix, check_result
from caveat._internal.params import check_params, count, share
from caveat.errors import NotFittedError
from caveat.scores._neighbors import distances_between, nearest_rows

__all__ = ["SOD"]

Array = NDArray[np.float64]
_BLOCK = 1024  # rows whose shared neighbors are counted at once: a hub shares with nearly all rows


@final
@dataclass(eq=False)
class SOD:
    """Distance of a row to its reference set in the subspace where the set is narrow. The larger, the stranger.

    An estimator with ``fit(X)`` and ``decision_function(X)``; ``detector("sod")`` wraps it as a score. ``fit`` learns
    only the number of columns: a row is judged by the rows it is scored with. Scores equal those of PyOD where the
    reference set is unique. If several rows share equally many neighbors, PyOD takes those that its sorting puts last;
    here the nearest are taken, so that the order of the rows does not matter.

    Parameters
    ----------
    n_neighbors
        k, the neighbors that are compared.
    ref_set
        Rows in the reference set, at most k.
    alpha
        Share of the average variance below which a column counts.

    Examples
    --------
    >>> along = np.random.default_rng(0).uniform(0, 9, size=40)
    >>> rows = np.column_stack([along, np.where(np.arange(40) == 7, 1.0, 0.0)])  # on a line, but for row 7
    >>> degree = SOD().fit(rows).decision_function(rows)
    >>> int(degree.argmax()), degree.max().round(2)
    (7, np.float64(1.0))
    """

    n_neighbors: int = count(20)
    ref_set: int = count(10)
    alpha: float = share(0.8)

    def __post_init__(self) -> None:
        check_params(self)
        as_count(self.ref_set, "ref_set", most=self.n_neighbors)

    def fit(self, X: ArrayLike) -> Self:
        """Note how many columns there are; labels are not needed."""
        self.columns_ = as_matrix(X, "X").shape[1]
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Degree of each row among the rows of ``X``, shape (n,)."""
        if not hasattr(self, "columns_"):
            raise NotFittedError("SOD has not seen training data. Call fit(X) before decision_function(X).")
        rows = as_matrix(X, "X", width=self.columns_).astype(np.float64)
        reference = _reference_sets(rows, nearest_rows(rows, self.n_neighbors)[0], self.ref_set)
        score = np.empty(rows.shape[0])
        for block in row_blocks(rows.shape[0], row_bytes=16 * rows.shape[1] * self.ref_set, block_bytes=2**20):
            around = rows[reference[block]]
            mean, spread = around.mean(axis=1), around.var(axis=1)
            narrow = spread < self.alpha * spread.mean(axis=1, keepdims=True)
            far = np.einsum("bd,bd->b", (rows[block] - mean) ** 2, narrow)
            score[block] = np.sqrt(far / np.maximum(narrow.sum(axis=1), 1))
        return check_result(score, "the degree")


def _reference_sets(rows: Array, near: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Numbers (n, size) of the rows that share the most neighbors with each row, the nearest of equals."""
    n, k = near.shape
    ends = np.arange(0, n * k + 1, k)
    lists = csr_array((np.ones(n * k, dtype=np.int32), near.ravel(), ends), shape=(n, n))
    listed_by = lists.T.tocsr()
    chosen = np.empty((n, size), dtype=np.intp)
    for block in row_blocks(n, row_bytes=1, block_bytes=_BLOCK):
        # A neighbor is nearer than any other row, so half a count for being one orders equals as distance does. It
        # also puts all neighbors on the list: where too few rows share any, they fill the set.
        merit = (2 * (lists[block] @ listed_by) + lists[block]).tocoo()
        other = merit.col != merit.row + block.start
        line, column, value = merit.row[other], merit.col[other].astype(np.intp), merit.data[other]
        order = np.lexsort((-value, line))
        line, column, value = line[order], column[order], value[order]
        first = np.searchsorted(line, np.arange(block.stop - block.start))
        able = value >= value[first + size - 1][line]  # as good as the last that is taken
        line, column, value = line[able], column[able], value[able]
        distance = distances_between(rows, line + block.start, column[:, None])[:, 0]
        order = np.lexsort((column, distance, -value, line))
        first = np.searchsorted(line, np.arange(block.stop - block.start))
        chosen[block] = column[order][first[:, None] + np.arange(size)]
    return chosen
