"""Prediction intervals with one threshold per difficulty bin: O-CPA (normalised score) and O-PAC (with delta).

Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input Transformations", section 6.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

from numpy.typing import ArrayLike

from caveat._internal.checks import as_count, as_vector, same_length
from caveat.conformal.difficulty import cut_bins
from caveat.conformal.split_intervals import SplitIntervals
from caveat.errors import CaveatWarning, NotFittedError
from caveat.results import Intervals

__all__ = ["DifficultyIntervals"]


@final
@dataclass(eq=False)
class DifficultyIntervals:
    """Prediction intervals that cover within bins of equal difficulty.

    The promise, and what ``binning="calibration"`` means for it, are those of ``DifficultySets``.

    Parameters
    ----------
    score, alpha, delta, joint
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
    joint: bool = False

    def __post_init__(self) -> None:
        as_count(self.bins, "bins")
        self._intervals()

    def calibrate(
        self, y: ArrayLike, *, ease: ArrayLike, binning: ArrayLike | Literal["calibration"], **said: Any
    ) -> Self:
        """Cut the bins on the ease of other samples, or on that of the ``"calibration"`` samples, then calibrate each.

        ``said``: ``mean``, ``scale``, ``lower``, ``upper`` as for ``SplitIntervals.calibrate``.
        """
        self.bins_, number, kept, self.empty_bins_ = cut_bins(ease, binning, self.bins)
        columns = {"y": as_vector(y, "y")}
        columns |= {name: as_vector(value, name) for name, value in said.items() if value is not None}
        same_length(ease=number, **columns)
        if self.empty_bins_:
            warnings.warn(self.empty_bins_, CaveatWarning, stacklevel=2)
        chosen = {name: column[kept] for name, column in columns.items()}
        self.intervals_ = self._intervals().calibrate(chosen.pop("y"), groups=number[kept], **chosen)
        return self

    def predict(self, *, ease: ArrayLike, **said: Any) -> Intervals:
        """The interval of each sample by the threshold of its bin."""
        if not hasattr(self, "intervals_"):
            raise NotFittedError("DifficultyIntervals has no thresholds yet. Call calibrate(y, ...) first.")
        found = self.intervals_.predict(groups=self.bins_.assign(ease), **said)
        return replace(found, caveat=" ".join(filter(None, (found.caveat, self.empty_bins_))))

    def _intervals(self) -> SplitIntervals:
        # A bin that calibration left empty promises nothing, so that every value stays possible there.
        return SplitIntervals(self.score, alpha=self.alpha, delta=self.delta, unseen="all", joint=self.joint)
