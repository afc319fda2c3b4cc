"""Range of the channel correlations of every inner layer, by predicted class, and how far a new row exceeds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic

__all__ = ["ClassRanges", "correlations"]


def correlations(layer: NDArray[Any], orders: int) -> NDArray[np.float64]:
    r"""Row sums of the Gram matrices of orders 1 to p, shape (n, orders x channels), order by order.

    With channel i at position s as $F_{is}$, the value of order p is $\big(\sum_j \sum_s F_{is}^p F_{js}^p\big)^{1/p}$;
    the root keeps the sign. Summing over j first needs no channels x channels matrix.

    >>> correlations(np.array([[[1.0, 2.0], [3.0, 0.0]]]), 1)  # F F^T = [[5, 3], [3, 9]]
    array([[ 8., 12.]])
    """
    channels = layer.reshape(*layer.shape[:2], -1).astype(np.float64)
    # Scaled to a largest value of one, no power overflows; the root makes the scale come out squared at every order.
    peak = np.abs(channels).max(axis=(1, 2), keepdims=True)
    channels /= np.where(peak > 0, peak, 1)
    found = []
    power = np.ones_like(channels)
    for order in range(1, orders + 1):
        power *= channels
        sums = np.matmul(power, power.sum(axis=1)[:, :, None])[:, :, 0]
        found.append(np.sign(sums) * np.abs(sums) ** (1 / order))
    return np.asarray(np.hstack(found) * np.square(peak[:, 0]))


@final
@dataclass
class ClassRanges(Statistic):
    """The two smallest and two largest correlations of each class: its range, and its range without any one row.

    Parameters
    ----------
    orders
        Largest order of the correlations.
    """

    orders: int

    reads: ClassVar[tuple[str, ...]] = ("layers", "predictions")

    def begin(self, train: Outputs) -> None:
        assert train.n_classes is not None
        self.names = list(train.layers)
        self.channels = np.array([train.layers[name].shape[1] for name in self.names], dtype=np.intp)
        size = int(self.channels.sum()) * self.orders
        self.counts = np.zeros(train.n_classes)
        self.low = np.full((2, train.n_classes, size), np.inf)  # smallest, second smallest
        self.high = np.full((2, train.n_classes, size), -np.inf)  # largest, second largest

    def update(self, block: Outputs) -> None:
        predicted = block.predictions
        self.counts += np.bincount(predicted, minlength=self.counts.size)
        for part in row_blocks(block.n, row_bytes=8 * self.low.shape[2]):
            values = np.hstack([correlations(block.layers[name][part], self.orders) for name in self.names])
            for c in np.unique(predicted[part]):
                rows = values[predicted[part] == c]
                self._widen(int(c), _two_smallest(rows), -_two_smallest(-rows))

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both.names, both.channels, both.counts = self.names, self.channels, self.counts + other.counts
        both.low, both.high = self.low.copy(), self.high.copy()
        for c in np.flatnonzero(other.counts):
            both._widen(int(c), other.low[:, c], other.high[:, c])
        return both

    def _widen(self, c: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        self.low[:, c] = _two_smallest(np.concatenate([self.low[:, c], low]))
        self.high[:, c] = -_two_smallest(-np.concatenate([self.high[:, c], high]))


def _two_smallest(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest and the second smallest value of each column; infinity where there is none."""
    first = np.argmin(rows, axis=0)[None]
    smallest = np.take_along_axis(rows, first, axis=0)
    others = rows.copy()
    np.put_along_axis(others, first, np.inf, axis=0)
    return np.concatenate([smallest, others.min(axis=0, keepdims=True)])
