"""Mean and scatter of the training features, without labels: a mergeable statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic

__all__ = ["FeatureMoments"]


@final
@dataclass
class FeatureMoments(Statistic):
    """Number of rows, their mean, and the scatter about it.

    Rows are centred on the mean of the first block before they are multiplied, so that the product may stay in
    float32 however far the features lie from the origin.
    """

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        width = train.features.shape[1]
        self.n = 0
        self._anchor = np.zeros(width)
        self._sum = np.zeros(width)  # of rows minus the anchor
        self._scatter = np.zeros((width, width))  # about the anchor

    def update(self, block: Outputs) -> None:
        rows = block.features
        if self.n == 0:
            self._anchor = rows.mean(axis=0, dtype=np.float64)
        centred = rows - self._anchor.astype(rows.dtype)
        self.n += block.n
        self._sum += centred.sum(axis=0, dtype=np.float64)
        self._scatter += centred.T @ centred

    def __add__(self, other: Self) -> Self:
        if self._sum.shape != other._sum.shape:
            raise InputError(f"moments of {self._sum.size} and {other._sum.size} features cannot be added.")
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        both = replace(self)
        both.n = self.n + other.n
        gap = other.mean - self.mean
        both._anchor = self.mean + gap * (other.n / both.n)
        both._sum = np.zeros_like(gap)
        both._scatter = self.scatter + other.scatter + np.outer(gap, gap) * (self.n * other.n / both.n)
        return both

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean feature, shape (D,)."""
        mean: NDArray[np.float64] = self._anchor + self._sum / self.n
        return mean

    @property
    def scatter(self) -> NDArray[np.float64]:
        """Sum over rows of (h - mu)(h - mu)^T, shape (D, D)."""
        scatter: NDArray[np.float64] = self._scatter - np.outer(self._sum, self._sum) / self.n
        return (scatter + scatter.T) / 2
