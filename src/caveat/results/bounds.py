"""Bounds of a score under attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["ScoreBounds"]


@final
@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """Between which values a score stays, whatever an attacker does within the radius.

    Parameters
    ----------
    value
        The score of the unchanged input, float64, shape (n,), or (n, K) for one score per label.
        ``nn.confidence_bounds`` gives log-confidence.
    lower, upper
        Certified bounds of the same shape: no input within ``epsilon`` scores below ``lower`` or above ``upper``.
    epsilon
        The radius, in the largest change of one entry.
    method
        How the bounds were made.
    refined
        How many samples a slower, tighter method was spent on.

    Examples
    --------
    >>> bounds = ScoreBounds(value=np.log([0.2]), lower=np.log([0.1]), upper=np.log([0.4]), epsilon=0.3, method="ibp")
    >>> print(bounds)
    bounds of 1 scores within 0.3 (ibp): mean width 1.386
    >>> bounds.below(np.log(0.5)), bounds.above(np.log(0.5))
    (array([ True]), array([False]))
    """

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    epsilon: float
    method: str
    refined: int = 0

    @property
    def n(self) -> int:
        return int(self.value.shape[0])

    def below(self, threshold: float) -> NDArray[np.bool_]:
        """Which scores provably stay below the threshold.

        Parameters
        ----------
        threshold
            A value of the score.

        Returns
        -------
        boolean array of shape (n,)
            True where it is certain.
        """
        return np.asarray(self.upper < threshold)

    def above(self, threshold: float) -> NDArray[np.bool_]:
        """Which scores provably stay above the threshold.

        Parameters
        ----------
        threshold
            A value of the score.

        Returns
        -------
        boolean array of shape (n,)
            True where it is certain.
        """
        return np.asarray(self.lower > threshold)

    def __str__(self) -> str:
        how = self.method + (f", {self.refined} refined" if self.refined else "")
        width = float(np.mean(self.upper - self.lower))
        return f"bounds of {self.n} scores within {self.epsilon:g} ({how}): mean width {width:.3f}"
