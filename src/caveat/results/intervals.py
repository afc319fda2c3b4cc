"""Prediction intervals of a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_vector, same_length
from caveat.results.sets import promise_ending

__all__ = ["Intervals"]


@final
@dataclass(frozen=True, eq=False)
class Intervals:
    """Between which two values the target of each sample lies.

    Parameters
    ----------
    lower, upper
        Ends, shape (n,), included; infinite where nothing can be promised.
    alpha, level, caveat, delta
        As for ``PredictionSets``.

    Examples
    --------
    >>> intervals = Intervals(np.array([0.0, 1.0]), np.array([2.0, 5.0]), alpha=0.1, level=0.9)
    >>> print(intervals)
    2 prediction intervals: mean width 3, median 3, 0 infinite, 0 empty; coverage promised 0.900
    >>> intervals.coverage([1.0, 7.0])
    0.5
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    alpha: float
    level: float
    caveat: str = ""
    delta: float | None = None

    @property
    def n(self) -> int:
        return int(self.lower.size)

    def __len__(self) -> int:
        return self.n

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Both ends, shape (n, 2)."""
        both = self.lower.base
        if both is not None and both is self.upper.base and both.shape == (2, self.n):
            low, high = (array.__array_interface__["data"][0] for array in (self.lower, self.upper))
            if low == both.__array_interface__["data"][0] and high == low + both.strides[0]:
                return np.asarray(both.T)  # the two rows of one array, as a prediction makes them: no copy
        return np.column_stack([self.lower, self.upper])

    @property
    def widths(self) -> NDArray[np.float64]:
        """Upper end minus lower end; 0 for an empty interval (ends crossed)."""
        return np.maximum(self.upper - self.lower, 0)

    def covers(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each target is in its interval.

        Parameters
        ----------
        y
            True targets, shape (n,).

        Returns
        -------
        boolean array of shape (n,)
            True where covered.
        """
        true = as_vector(y, "y")
        same_length(intervals=self, y=true)
        return np.asarray((self.lower <= true) & (true <= self.upper))

    def coverage(self, y: ArrayLike) -> float:
        """Share of samples whose target is in the interval.

        Parameters
        ----------
        y
            True targets, shape (n,).

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(self.covers(y).mean())

    def __str__(self) -> str:
        widths, empty = self.widths, int((self.upper < self.lower).sum())
        text = (
            f"{self.n} prediction intervals: mean width {widths.mean():.4g}, median {np.median(widths):.4g}, "
            f"{np.isinf(widths).sum()} infinite, {empty} empty; coverage promised {self.level:.3f}"
        )
        return text + promise_ending(self.delta, self.caveat)
