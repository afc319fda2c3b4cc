"""What each training row says by itself, in the order of the rows: lengths and predictions for a bank of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic

__all__ = ["RowLengths", "RowPredictions"]


@final
@dataclass
class RowLengths(Statistic):
    """Euclidean length of the features of each row."""

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        self._parts: list[NDArray[np.float64]] = []

    def update(self, block: Outputs) -> None:
        rows = block.features
        self._parts.append(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both._parts = [*self._parts, *other._parts]
        return both

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Shape (n,), in float64: where rows are close together, the rounding of their lengths would be seen."""
        return np.concatenate(self._parts)


@final
@dataclass
class RowPredictions(Statistic):
    """The predicted class of each row, where the outputs have predictions."""

    reads: ClassVar[tuple[str, ...]] = ("predictions",)

    def begin(self, train: Outputs) -> None:
        self._parts: list[NDArray[np.intp]] = []

    def update(self, block: Outputs) -> None:
        if block.has("predictions"):
            self._parts.append(block.predictions)

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both._parts = [*self._parts, *other._parts]
        return both

    @property
    def predictions(self) -> NDArray[np.intp] | None:
        """Shape (n,); None where there are none."""
        return np.concatenate(self._parts) if self._parts else None
