r"""Intervals and paired tests for AUROC, from one sort of each side.

The placement of a sample is its chance of being ranked rightly against the other side; the variance of the AUROC is
$\operatorname{var}(V_{out})/n_{out} + \operatorname{var}(V_{in})/n_{in}$. DeLong, DeLong and Clarke-Pearson, Biometrics
44(3), 1988; the O(n log n) form after Sun and Xu, IEEE Signal Processing Letters 21(11), 2014. The mean over several
outlier sets against the same inliers has placements too: averaged over the sets for inliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr, ndtri

from caveat._checks import as_level, as_vector
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = ["Placements", "auroc_interval", "mean_auroc_interval", "paired_p_value"]


@final
@dataclass(frozen=True, eq=False)
class Placements:
    """For each sample its chance of being ranked rightly against the other side, ties one half."""

    inlier: NDArray[np.float64]
    outliers: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, *, inlier: ArrayLike, outliers: Sequence[ArrayLike]) -> Placements:
        if not outliers:
            raise InputError("outliers must hold at least one set of scores, got none.")
        known = _Sorted(as_vector(inlier, "inlier", allow_infinite=True))
        inlier_sum = np.zeros(known.values.size)
        found = []
        for values in outliers:
            asked = _Sorted(as_vector(values, "outlier", allow_infinite=True))
            found.append(asked.share_below(known))
            inlier_sum += 1 - known.share_below(asked)
        return cls(inlier_sum / len(outliers), tuple(found))

    @property
    def auroc(self) -> float:
        """Mean AUROC over the outlier sets."""
        return float(np.mean([values.mean() for values in self.outliers]))

    @property
    def variance(self) -> float:
        """Variance of the mean AUROC; 0 where a side has one sample and says nothing of its spread."""
        return _variance_of_mean(self.inlier) + sum(map(_variance_of_mean, self.outliers)) / len(self.outliers) ** 2

    def __sub__(self, other: Placements) -> Placements:
        """Placements of the difference of two scores on the same samples."""
        if [v.size for v in (self.inlier, *self.outliers)] != [v.size for v in (other.inlier, *other.outliers)]:
            raise InputError("two scores can be compared in pairs only on the same samples; the sizes differ.")
        outliers = tuple(a - b for a, b in zip(self.outliers, other.outliers, strict=True))
        return Placements(self.inlier - other.inlier, outliers)


def auroc_interval(*, inlier: ArrayLike, outlier: ArrayLike, delta: float = 0.05) -> Estimate:
    """AUROC with DeLong's interval, taken on the logit scale so that it stays within 0 and 1.

    Examples
    --------
    >>> print(auroc_interval(inlier=[0, 1, 2, 3, 4], outlier=[3, 5, 6, 7]))
    0.925 [0.491, 0.994] (95 % DeLong, n = 9)
    """
    return mean_auroc_interval(Placements.of(inlier=inlier, outliers=[outlier]), delta=delta)


def mean_auroc_interval(placements: Placements, *, delta: float = 0.05) -> Estimate:
    """Mean AUROC over the outlier sets with DeLong's interval.

    Where the two sides are perfectly separated DeLong's variance is zero and says nothing; the interval is then the
    exact one of as many disjoint pairs as the smallest side allows.
    """
    as_level(delta, "delta")
    value, variance = placements.auroc, placements.variance
    sizes = [placements.inlier.size, *(v.size for v in placements.outliers)]
    if value in (0.0, 1.0) or variance == 0:
        pairs = min(sizes)
        width = 1 - (delta / 2) ** (1 / pairs)
        caveat = f"DeLong's variance is zero; the interval is that of {pairs} disjoint pairs."
        lower, upper = max(0.0, value - width), min(1.0, value + width)
        return Estimate(value, lower, upper, level=1 - delta, n=sum(sizes), method="disjoint pairs", caveat=caveat)
    spread = -ndtri(delta / 2) * np.sqrt(variance) / (value * (1 - value))
    lower, upper = expit(logit(value) - spread), expit(logit(value) + spread)
    return Estimate(value, float(lower), float(upper), level=1 - delta, n=sum(sizes), method="DeLong")


def paired_p_value(first: Placements, second: Placements) -> float:
    """Two-sided p-value of equal mean AUROC of two scores on the same samples (DeLong). 1 if they never differ."""
    difference = first - second
    if difference.variance == 0:
        return 1.0 if difference.auroc == 0 else 0.0
    return float(2 * ndtr(-abs(difference.auroc) / np.sqrt(difference.variance)))


class _Sorted:
    """Scores with the order that sorts them: sorted queries keep a binary search in cache, several times faster."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self.order = np.argsort(scores)
        self.values = scores[self.order]

    def share_below(self, other: _Sorted) -> NDArray[np.float64]:
        """For each score, in the order given, the share of ``other`` below it; ties count one half."""
        below = np.searchsorted(other.values, self.values, side="left")
        below += np.searchsorted(other.values, self.values, side="right")
        share = np.empty(self.values.size)
        share[self.order] = below / (2 * other.values.size)
        return share


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1) / values.size) if values.size > 1 else 0.0
