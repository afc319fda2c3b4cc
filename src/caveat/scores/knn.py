r"""Distance to the k-th nearest training feature on the unit sphere.

$$ s(x) = \lVert \bar h - \bar h_{(k)} \rVert_2, \qquad \bar h = h / \lVert h \rVert_2 $$

Sun, Ming, Zhu and Li, "Out-of-Distribution Detection with Deep Nearest Neighbors", ICML 2022, arXiv:2204.06507.
Class scores: "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with Illustrations of
Its Benefits", appendix C.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count
from caveat._internal.params import count
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._nearest import kth_nearest, nearest_by_group
from caveat.scores._statistics import Gathered, Merge, Statistic, total, unit_rows

__all__ = ["KNN", "RowLengths", "RowPredictions"]

_FARTHEST = 2.0  # two points of the unit sphere are never further apart
_NEAR = 0.01  # squared distance below which the product has lost too many digits in float32
_CLOSE = 0.03  # distance below which that rounding also decides which neighbour is taken: found again in float64


@final
@dataclass
class RowLengths(Statistic):
    """Euclidean length of the features of each row, in float64: rounding would show where rows are close together."""

    reads: ClassVar[tuple[str, ...]] = ("features",)
    merge: ClassVar[Merge] = {"parts": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return {"parts": [np.sqrt(np.einsum("ij,ij->i", block.features, block.features, dtype=np.float64))]}


@final
@dataclass
class RowPredictions(Statistic):
    """The predicted class of each row, where the outputs have predictions."""

    reads: ClassVar[tuple[str, ...]] = ("predictions",)
    merge: ClassVar[Merge] = {"parts": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return {"parts": [block.predictions] if block.has("predictions") else []}


@final
@dataclass(eq=False)
class KNN(Score):
    """Euclidean distance to the k-th nearest training feature, rows scaled to length one. The larger, the stranger.

    The training features are the model: they are kept as they were given (a memory-mapped file stays on disk), and
    each block of them is scaled when it is searched.

    As a member of a class, a sample is as strange as its distance to the nearest training feature that the model
    predicted as that class; 2, the largest distance there is, for a class that was never predicted.

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

    k: int = count(50)

    name: ClassVar[str] = "knn"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    learns: ClassVar[tuple[Statistic, ...]] = (RowLengths(), RowPredictions())
    cost: ClassVar[str] = "ND"
    paper: ClassVar[str] = "Sun et al. 2022"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"k": (1, 5, 10, 20, 50, 100, 200)}

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        if train is not None and train.n < self.k:
            return f"needs at least k = {self.k} training rows, got {train.n}"
        return super().missing(train=train, outputs=outputs)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        as_count(self.k, "k", most=train.n)
        self.bank_ = train.features
        self.lengths_ = np.concatenate(gathered[RowLengths()].parts)
        predictions = gathered[RowPredictions()].parts
        self.predicted_ = np.concatenate(predictions) if predictions else None

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _close_ones_again(self._kth, block.features)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        if self.predicted_ is None:
            raise InputError("class scores of KNN need the predictions of the training outputs, which had none. "
                             "Fit on outputs with logits, or with features and head.")  # fmt: skip
        return _close_ones_again(self._by_class, block.features)

    def _kth(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        neighbour = kth_nearest(unit_rows(rows), self.bank_, self.lengths_, self.k)
        # The distance from the product loses all digits near zero, so it is taken from the rows.
        return self._gap(rows, neighbour)

    def _by_class(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        queries = unit_rows(rows)
        assert self.predicted_ is not None
        assert self.n_classes_ is not None
        closeness, where = nearest_by_group(queries, self.bank_, self.lengths_, self.predicted_, self.n_classes_)
        squared = queries.any(axis=1, keepdims=True) + 1 - 2 * closeness.astype(np.float64)
        distances: NDArray[np.float64] = np.sqrt(np.clip(squared, 0, _FARTHEST**2))  # 2 from a class without rows
        lines, classes = np.nonzero(squared < _NEAR)
        for part in row_blocks(lines.size, row_bytes=8 * queries.shape[1]):
            line, one = lines[part], classes[part]
            distances[line, one] = self._gap(rows[line], where[line, one])
        return distances

    def _gap(self, rows: NDArray[Any], neighbour: NDArray[np.intp]) -> NDArray[np.float64]:
        """Distance of each row to its neighbour in the bank, both scaled to length one."""
        distances = np.empty(len(neighbour))
        for part in row_blocks(len(neighbour), row_bytes=48 * rows.shape[1]):  # six float64 copies of a row at once
            gap = unit_rows(rows[part].astype(np.float64)) - unit_rows(self.bank_[neighbour[part]].astype(np.float64))
            distances[part] = np.linalg.norm(gap, axis=1)
        return distances


def _close_ones_again(search: Callable[[NDArray[Any]], NDArray[np.float64]], rows: NDArray[Any]) -> NDArray[np.float64]:
    """``search(rows)``, and once more in float64 for those rows that are close to what they were compared with."""
    distances = search(rows)
    if rows.dtype != np.float64:
        close = np.flatnonzero((distances.reshape(len(rows), -1) < _CLOSE).any(axis=1))
        if close.size:
            distances[close] = search(rows[close].astype(np.float64))
    return distances
