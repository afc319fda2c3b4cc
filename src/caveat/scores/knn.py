r"""Distance to the k-th nearest training feature on the unit sphere.

$$ s(x) = \lVert \bar h - \bar h_{(k)} \rVert_2, \qquad \bar h = h / \lVert h \rVert_2 $$

Sun, Ming, Zhu and Li, "Out-of-Distribution Detection with Deep Nearest Neighbors", ICML 2022, arXiv:2204.06507.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._blocks import row_blocks
from caveat._checks import as_count
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Gathered, unit_rows

__all__ = ["KNN"]

_TILE_BYTES = 32 * 2**20  # of the similarity tile, queries x bank rows


@final
@dataclass(eq=False)
class KNN(Score):
    """Euclidean distance to the k-th nearest training feature, rows scaled to length one. The larger, the stranger.

    The training features are the model: they are kept as they were given (a memory-mapped file stays on disk), and
    each block of them is scaled when it is searched.

    Parameters
    ----------
    k
        Which neighbour; more than the number of training rows is an error.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    >>> KNN(k=2).fit(train).score(Outputs(features=[[5.0, 0.0], [0.0, 1.0]])).round(3)
    array([0.   , 1.414])
    """

    k: int = 50

    name: ClassVar[str] = "knn"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    cost: ClassVar[str] = "ND"
    paper: ClassVar[str] = "Sun et al. 2022"

    def __post_init__(self) -> None:
        as_count(self.k, "k")

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        if train is not None and train.n < self.k:
            return f"needs at least k = {self.k} training rows, got {train.n}"
        return super().missing(train=train, outputs=outputs)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        if self.k > train.n:
            raise InputError(f"k must be at most the number of training rows ({train.n}), got {self.k}.")
        self.bank_ = train.features

    def _score(self, block: Outputs) -> NDArray[Any]:
        queries = unit_rows(block.features)
        neighbour = kth_nearest(queries, self.bank_, self.k)
        # 2 - 2 cos loses all digits near zero, so the distance itself is taken from the rows.
        gap = unit_rows(block.features.astype(np.float64)) - unit_rows(self.bank_[neighbour].astype(np.float64))
        return np.asarray(np.linalg.norm(gap, axis=1))


def kth_nearest(queries: NDArray[Any], bank: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Row of ``bank`` that is the k-th most similar in cosine to each unit query."""
    best = np.full((queries.shape[0], k), -np.inf, dtype=queries.dtype)
    where = np.zeros((queries.shape[0], k), dtype=np.intp)
    for block in row_blocks(bank.shape[0], row_bytes=queries.shape[0] * 4, block_bytes=_TILE_BYTES):
        tile = queries @ unit_rows(bank[block].astype(queries.dtype)).T
        if tile.shape[1] > k:
            near = np.argpartition(tile, -k, axis=1)[:, -k:]
            values, rows = np.take_along_axis(tile, near, axis=1), near + block.start
        else:
            values, rows = tile, np.broadcast_to(np.arange(block.start, block.stop), tile.shape)
        values, rows = np.hstack([best, values]), np.hstack([where, rows])
        keep = np.argpartition(values, -k, axis=1)[:, -k:]
        best, where = np.take_along_axis(values, keep, axis=1), np.take_along_axis(rows, keep, axis=1)
    last = np.argmin(best, axis=1)
    return np.asarray(where[np.arange(where.shape[0]), last])
