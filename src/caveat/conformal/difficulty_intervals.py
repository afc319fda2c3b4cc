"""Prediction intervals with one threshold per difficulty bin: O-CPA (normalised score) and O-PAC (with delta).

Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input Transformations", section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

from numpy.typing import ArrayLike

from caveat._checks import as_count
from caveat.conformal.difficulty import EaseBins
from caveat.conformal.difficulty_sets import SAME_DATA
from caveat.conformal.split_intervals import SplitIntervals
from caveat.errors import InputError, NotFittedError
from caveat.results import Intervals

__all__ = ["DifficultyIntervals"]


@final
@dataclass(eq=False)
class DifficultyIntervals:
    """Prediction intervals that cover within bins of equal difficulty.

    Parameters
    ----------
    score, alpha, delta
        As for ``SplitIntervals``.
    bins
        How many bins.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> easy = rng.random(1000)
    >>> y = rng.normal(size=1000) * np.where(easy < 0.5, 5.0, 1.0)
    >>> intervals = DifficultyIntervals("absolute", bins=2)
    >>> found = intervals.calibrate(y[:800], ease=easy[:800], binning=easy[800:900], mean=np.zeros(800)).predict(
    ...     ease=[0.1, 0.9], mean=[0.0, 0.0])
    >>> bool(found.widths[0] > 3 * found.widths[1])
    True
    """

    score: Literal["absolute", "normalised", "cqr"] = "normalised"
    alpha: float = 0.1
    bins: int = 10
    delta: float | None = None

    def __post_init__(self) -> None:
        as_count(self.bins, "bins")
        self._intervals()

    def calibrate(
        self, y: ArrayLike, *, ease: ArrayLike, binning: ArrayLike | Literal["calibration"], **said: Any
    ) -> Self:
        """Cut the bins on the ease of other samples, or on that of the ``"calibration"`` samples, then calibrate each.

        ``said``: ``mean``, ``scale``, ``lower``, ``upper`` as for ``SplitIntervals.calibrate``.
        """
        self.same_data_ = isinstance(binning, str)
        if isinstance(binning, str) and binning != "calibration":
            raise InputError(f"binning must be an array of ease or 'calibration', got {binning!r}.")
        self.bins_ = EaseBins.cut(ease if isinstance(binning, str) else binning, self.bins)
        self.intervals_ = self._intervals().calibrate(y, groups=self.bins_.assign(ease), **said)
        return self

    def predict(self, *, ease: ArrayLike, **said: Any) -> Intervals:
        """The interval of each sample by the threshold of its bin."""
        if not hasattr(self, "intervals_"):
            raise NotFittedError("DifficultyIntervals has no thresholds yet. Call calibrate(y, ...) first.")
        found = self.intervals_.predict(groups=self.bins_.assign(ease), **said)
        return replace(found, caveat=" ".join(filter(None, (found.caveat, SAME_DATA if self.same_data_ else ""))))

    def _intervals(self) -> SplitIntervals:
        # A bin that calibration left empty promises nothing, so that every value stays possible there.
        return SplitIntervals(self.score, alpha=self.alpha, delta=self.delta, unseen="all")
