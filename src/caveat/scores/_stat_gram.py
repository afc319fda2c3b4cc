"""Gram matrix of unit training features with a constant in front: a mergeable statistic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_same
from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic, unit_rows

__all__ = ["AugmentedGram", "augmented_rows"]


@final
@dataclass
class AugmentedGram(Statistic):
    """X^T X of the rows x = (1, h / ||h||), in float64: its small eigenvalues matter, and float32 would drown them."""

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        width = train.features.shape[1] + 1
        self.n = 0
        self.gram = np.zeros((width, width))
        self.resolution = 0.0  # machine epsilon of the coarsest features seen

    def update(self, block: Outputs) -> None:
        rows = augmented_rows(block.features)
        self.n += block.n
        self.gram += rows.T @ rows
        self.resolution = max(self.resolution, float(np.finfo(block.features.dtype).eps))

    def __add__(self, other: Self) -> Self:
        check_same("shape to be added", one=self.gram.shape, other=other.gram.shape)
        both = replace(self)
        both.n, both.gram = self.n + other.n, self.gram + other.gram
        both.resolution = max(self.resolution, other.resolution)
        return both


def augmented_rows(features: NDArray[Any]) -> NDArray[np.float64]:
    """Rows (1, h / ||h||) in float64, shape (n, D + 1); a zero row gives (1, 0)."""
    rows = np.ones((features.shape[0], features.shape[1] + 1))
    rows[:, 1:] = unit_rows(features.astype(np.float64, copy=False))
    return rows
