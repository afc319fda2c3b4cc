"""Mean of the training features, or of their directions, without labels: a mergeable statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_same
from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic, unit_rows

__all__ = ["FeatureMean"]


@final
@dataclass
class FeatureMean(Statistic):
    """Number of rows and their mean, summed in float64.

    Parameters
    ----------
    normalize
        Scale each row to length one first.
    """

    normalize: bool = False

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        self.n = 0
        self._sum = np.zeros(train.features.shape[1])

    def update(self, block: Outputs) -> None:
        self.n += block.n
        rows = unit_rows(block.features) if self.normalize else block.features
        self._sum += rows.sum(axis=0, dtype=np.float64)

    def __add__(self, other: Self) -> Self:
        check_same("shape to be added", one=self._sum.shape, other=other._sum.shape)
        both = replace(self)
        both.n, both._sum = self.n + other.n, self._sum + other._sum
        return both

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean feature, shape (D,)."""
        mean: NDArray[np.float64] = self._sum / self.n
        return mean
