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
        The score of the unchanged input as float64, shape (n,), or (n, K) for one score per label.
        ``bounds.confidence_bounds`` gives log-confidence.
    lower, upper
        Certified bounds of the same shape: no input within ``epsilon`` scores below ``lower`` or above ``upper``. A
        row with an infinite bound is not certified.
    epsilon
        The radius, in the largest change of one entry.
    method
        How the bounds were made.
    refined
        How many samples a slower, tighter method was spent on.
    arithmetic
        The arithmetic of the model that the bounds hold in, whatever it rounds: ``"float32"``, ``"float64"``, ...;
        ``"real"``: of the model in real numbers.
    exact
        The bounds of the model in real numbers, without its rounding; None: these bounds.

    Examples
    --------
    >>> bounds = ScoreBounds(value=np.log([0.2]), lower=np.log([0.1]), upper=np.log([0.4]), epsilon=0.3, method="ibp")
    >>> print(bounds)
    bounds of 1 scores within 0.3 (ibp, float64): mean width 1.386
    >>> bounds.below(np.log(0.5)), bounds.above(np.log(0.5))
    (array([ True]), array([False]))
    """

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    epsilon: float
    method: str
    refined: int = 0
    arithmetic: str = "float64"
    exact: ScoreBounds | None = None

    @property
    def slack(self) -> NDArray[np.float64]:
        """How much of the upper bound is room for rounding; infinite without a certificate, 0 without ``exact``."""
        return np.zeros_like(self.upper) if self.exact is None else self.upper - self.exact.upper

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Which scores have both bounds; rounding exceeds the margin of the others."""
        return np.isfinite(self.lower) & np.isfinite(self.upper)

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
        how = self.method + (f", {self.refined} refined" if self.refined else "") + f", {self.arithmetic}"
        width = (self.upper - self.lower)[self.certified]
        mean = f"mean width {np.mean(width):.3f}" if width.size else "none is certified"
        text = f"bounds of {self.n} scores within {self.epsilon:g} ({how}): {mean}"
        left = int(self.certified.size - width.size)
        return text + (f"; {left} without a certificate, since rounding exceeds the margin" if left else "")
