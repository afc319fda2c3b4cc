"""The training rows the model was least sure of: landmarks near the edge of what it knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic

__all__ = ["LeastConfident", "size_for"]

_LEAST, _MOST = 128, 2048


@final
@dataclass
class LeastConfident(Statistic):
    """The features with the smallest log-sum-exp of their logits, least confident first; the first seen on a tie.

    Parameters
    ----------
    size
        How many rows to keep; all of them where there are fewer. None: as many as ``size_for`` says.
    """

    size: int | None

    reads: ClassVar[tuple[str, ...]] = ("features", "logits")

    def begin(self, train: Outputs) -> None:
        self._most = self.size or size_for(train.features.shape[1])
        kind = np.result_type(train.features.dtype, np.float32)
        self.rows: NDArray[Any] = np.empty((0, train.features.shape[1]), dtype=kind)
        self.confidence: NDArray[np.float64] = np.empty(0)

    def update(self, block: Outputs) -> None:
        self._keep(block.features, np.asarray(logsumexp(block.logits.astype(np.float64), axis=1)))

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both._most = self._most
        both.rows, both.confidence = self.rows, self.confidence
        both._keep(other.rows, other.confidence)
        return both

    def _keep(self, rows: NDArray[Any], confidence: NDArray[np.float64]) -> None:
        everyone = np.concatenate([self.confidence, confidence])
        least = np.argsort(everyone, kind="stable")[: self._most]
        known = least < self.confidence.size
        merged = np.empty((least.size, rows.shape[1]), dtype=self.rows.dtype)
        merged[known] = self.rows[least[known]]
        merged[~known] = rows[least[~known] - self.confidence.size]
        self.rows, self.confidence = merged, everyone[least]


def size_for(width: int) -> int:
    """Landmarks or frequencies for features of this width: two for each feature, from 128 to 2048.

    >>> [size_for(width) for width in (12, 64, 512, 2048)]
    [128, 128, 1024, 2048]
    """
    return min(max(_LEAST, 2 * width), _MOST)
