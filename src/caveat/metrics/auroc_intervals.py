r"""Intervals and paired tests for AUROC, from one sort of each side.

The placement of a sample is its chance of being ranked rightly against the other side; the variance of the AUROC is
$\operatorname{var}(V_{out})/n_{out} + \operatorname{var}(V_{in})/n_{in}$. DeLong, DeLong and Clarke-Pearson, Biometrics
44(3), 1988; the O(n log n) form after Sun and Xu, IEEE Signal Processing Letters 21(11), 2014. The mean over several
outlier sets against the same inliers has placements too: averaged over the sets for inliers.

Where a side has one sample, or no placement differs, that variance does not measure the uncertainty. Then q samples of
each side, q the smaller size, make q independent pairs, and the AUROC is the mean over all such pairings (Hoeffding,
JASA 58, 1963, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr, ndtri

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_kind, as_level, as_list, as_vector
from caveat._internal.ranking import Ranked, cross_shares
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = [
    "Placements", "auroc_interval", "difference_interval", "mean_auroc_interval", "paired_p_value", "paired_p_values",
]  # fmt: skip

_ROUNDING = 1e-30  # of a variance: placements that are equal but for rounding


@final
@dataclass(frozen=True, eq=False)
class Placements:
    """For each sample its chance of being ranked rightly against the other side, ties one half.

    Parameters
    ----------
    inlier
        Shape (n,): for each inlier, the share of outliers that score above it, averaged over the outlier sets.
    outliers
        One array (m,) for each outlier set: for each outlier, the share of inliers that score below it.

    Examples
    --------
    >>> placements = Placements.of(inlier=[0, 1, 2], outliers=[[1, 3]])
    >>> placements.outliers, placements.auroc
    ((array([0.5, 1. ]),), 0.75)
    """

    inlier: NDArray[np.float64]
    outliers: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, *, inlier: ArrayLike, outliers: Sequence[ArrayLike]) -> Placements:
        """Placements of the scores of inliers and of one or more outlier sets.

        Parameters
        ----------
        inlier
            Scores of the inliers, shape (n,); larger is stranger.
        outliers
            Scores of each outlier set.

        Returns
        -------
        Placements
            What the intervals and tests of AUROC are computed from.
        """
        sets = [as_vector(values, "outlier", allow_infinite=True) for values in as_list(outliers, "outliers")]
        return cls.of_ranked(Ranked.of(as_vector(inlier, "inlier", allow_infinite=True)), [*map(Ranked.of, sets)])

    @classmethod
    def of_ranked(cls, inlier: Ranked, outliers: Sequence[Ranked]) -> Placements:
        """The same from scores that were sorted already.

        Parameters
        ----------
        inlier
            Sorted scores of the inliers.
        outliers
            Sorted scores of each outlier set.

        Returns
        -------
        Placements
            The same as ``of`` gives.
        """
        shares = [cross_shares(inlier.ascending, outlier.ascending) for outlier in outliers]
        above = sum(1 - below for below, _ in shares) / len(outliers)
        placed = [outlier.by_row(below) for outlier, (_, below) in zip(outliers, shares, strict=True)]
        return cls(inlier.by_row(np.asarray(above)), tuple(placed))

    @cached_property
    def auroc(self) -> float:
        """Mean AUROC over the outlier sets."""
        return float(np.mean([values.mean() for values in self.outliers]))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many inliers, and how many outliers in each set."""
        return self.inlier.size, *(values.size for values in self.outliers)

    @property
    def pairs(self) -> int:
        """How many independent pairs (or tuples, with several sets) the samples make."""
        return min(self.sizes)

    @property
    def blind(self) -> bool:
        """Whether the variance does not measure the uncertainty: a side has one sample, or no placement differs."""
        return self.pairs == 1 or self.variance < _ROUNDING

    @property
    def variance(self) -> float:
        """Variance of the mean AUROC; a side with one sample adds nothing (see ``blind``)."""
        return _variance_of_mean(self.inlier) + sum(map(_variance_of_mean, self.outliers)) / len(self.outliers) ** 2

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """All placements about their means, scaled so that their squares sum to the variance.

        Those of a difference are the difference of these, which makes tests of all pairs of many scores cheap.
        """
        parts, sets = (self.inlier, *self.outliers), len(self.outliers)
        scales = [math.sqrt(max(1, n * (n - 1))) * (1 if i == 0 else sets) for i, n in enumerate(self.sizes)]
        return np.concatenate([(part - part.mean()) / scale for part, scale in zip(parts, scales, strict=True)])

    def demand_same_samples(self, other: Placements) -> None:
        """Raise InputError unless the sizes are those of the same samples.

        Parameters
        ----------
        other
            Placements of another score.
        """
        if self.sizes != other.sizes:
            raise InputError("two scores can be compared in pairs only on the same samples; the sizes differ.")

    def __sub__(self, other: Placements) -> Placements:
        """Placements of the difference of two scores on the same samples."""
        self.demand_same_samples(other)
        outliers = tuple(a - b for a, b in zip(self.outliers, other.outliers, strict=True))
        return Placements(self.inlier - other.inlier, outliers)


def auroc_interval(*, inlier: ArrayLike, outlier: ArrayLike, delta: float = 0.05) -> Estimate:
    """AUROC with DeLong's interval, taken on the logit scale so that it stays within 0 and 1.

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.
    delta
        Allowed failure of the interval.

    Returns
    -------
    Estimate
        The AUROC and its interval, which holds for large samples.

    Examples
    --------
    >>> print(auroc_interval(inlier=[0, 1, 2, 3, 4], outlier=[3, 5, 6, 7]))
    0.925 [0.491, 0.994] (95 % DeLong, n = 9)
    """
    return mean_auroc_interval(Placements.of(inlier=inlier, outliers=[outlier]), delta=delta)


def mean_auroc_interval(placements: Placements, *, delta: float = 0.05) -> Estimate:
    """Mean AUROC over the outlier sets with DeLong's interval.

    Where the two sides are perfectly separated, or one has a single sample, DeLong's variance says nothing; the
    interval is then the exact one of as many disjoint pairs as the smallest side allows.

    Parameters
    ----------
    placements
        Placements of the scores of inliers and of one or more outlier sets.
    delta
        Allowed failure of the interval.

    Returns
    -------
    Estimate
        The mean AUROC and its interval.

    Examples
    --------
    >>> placements = Placements.of(inlier=[0, 1, 2, 3, 4], outliers=[[3, 5, 6, 7], [2, 4, 8]])
    >>> print(mean_auroc_interval(placements))
    0.863 [0.497, 0.976] (95 % DeLong, n = 12)
    """
    delta, placements = as_level(delta, "delta"), as_kind(placements, Placements, "placements")
    value, n = placements.auroc, sum(placements.sizes)
    if placements.blind or value in (0.0, 1.0):  # a logit needs more than rounding leaves near the ends
        width = 1 - (delta / 2) ** (1 / placements.pairs)
        lower, upper = max(0.0, value - width), min(1.0, value + width)
        return Estimate(value, lower, upper, level=1 - delta, n=n, method="disjoint pairs", caveat=_why(placements))
    spread = -ndtri(delta / 2) * np.sqrt(placements.variance) / (value * (1 - value))
    lower, upper = expit(logit(value) - spread), expit(logit(value) + spread)
    return Estimate(value, float(lower), float(upper), level=1 - delta, n=n, method="DeLong")


def difference_interval(first: Placements, second: Placements, *, delta: float = 0.05) -> Estimate:
    r"""First minus second mean AUROC of two scores on the same samples, with DeLong's interval.

    Where the scores place every sample alike, the difference is exactly 0. Where DeLong's variance does
    not measure it, Hoeffding's bound for q disjoint pairs does: $\pm \sqrt{2 \log(2/\delta) / q}$.
    """
    delta = as_level(delta, "delta")
    difference, value = first - second, first.auroc - second.auroc
    half, method, caveat = -ndtri(delta / 2) * np.sqrt(difference.variance), "DeLong", ""
    if not any(placements.any() for placements in (difference.inlier, *difference.outliers)):
        caveat = "Both scores place every sample alike: DeLong's variance is zero."
    elif difference.blind:
        half, method = np.sqrt(2 * np.log(2 / delta) / difference.pairs), "disjoint pairs"
        caveat = _why(difference)
    lower, upper = max(-1.0, value - float(half)), min(1.0, value + float(half))
    return Estimate(value, lower, upper, level=1 - delta, n=sum(first.sizes), method=method, caveat=caveat)


def paired_p_value(first: Placements, second: Placements) -> float:
    """Two-sided p-value of equal mean AUROC of two scores on the same samples. 1 if they never differ.

    DeLong's; where that variance says nothing, Hoeffding's bound for q disjoint pairs, 2 exp(-q d^2 / 2).

    Parameters
    ----------
    first, second
        Placements of two scores of the same inliers and outliers.

    Returns
    -------
    float
        Small where the two mean AUROCs differ beyond chance.

    Examples
    --------
    >>> first = Placements.of(inlier=[0, 1, 2, 3, 4], outliers=[[3, 5, 6, 7]])
    >>> second = Placements.of(inlier=[2, 1, 4, 3, 5], outliers=[[4, 3, 5, 2]])
    >>> round(paired_p_value(first, second), 3)
    0.121
    """
    as_kind(first, Placements, "first").demand_same_samples(as_kind(second, Placements, "second"))
    difference, deviations = first.auroc - second.auroc, first.deviations - second.deviations
    variance = float(deviations @ deviations)
    if first.pairs == 1 or variance < _ROUNDING:
        return min(1.0, 2 * math.exp(-first.pairs * difference**2 / 2))
    return float(2 * ndtr(-abs(difference) / math.sqrt(variance)))


def paired_p_values(placements: Sequence[Placements]) -> NDArray[np.float64]:
    """``paired_p_value`` of all pairs of m scores, in the order of ``itertools.combinations``, shape (m (m - 1) / 2,).

    Parameters
    ----------
    placements
        Placements of several scores of the same inliers and outliers.

    Returns
    -------
    array
        The p-values of the pairs.

    Examples
    --------
    >>> first = Placements.of(inlier=[0, 1, 2, 3, 4], outliers=[[3, 5, 6, 7]])
    >>> second = Placements.of(inlier=[2, 1, 4, 3, 5], outliers=[[4, 3, 5, 2]])
    >>> paired_p_values([first, second, first]).round(3)
    array([0.121, 1.   , 0.121])
    """
    for one in placements[1:]:
        as_kind(one, Placements, "placements").demand_same_samples(placements[0])
    count = len(placements)
    if count < 2:
        return np.empty(0)
    pairs, areas = placements[0].pairs, np.array([one.auroc for one in placements])
    variance = np.zeros((count, count))
    for some in row_blocks(count, row_bytes=8 * sum(placements[0].sizes)):
        others = np.stack([one.deviations for one in placements[some]])
        for i in range(some.stop):
            after = max(some.start, i + 1)
            rest = placements[i].deviations - others[after - some.start :]
            variance[i, after : some.stop] = np.vecdot(rest, rest)
    upper = np.triu_indices(count, 1)
    difference, variances = areas[upper[0]] - areas[upper[1]], variance[upper]
    bounded = (variances < _ROUNDING) | (pairs == 1)
    p_values = 2 * ndtr(-np.abs(difference) / np.sqrt(np.where(bounded, 1.0, variances)))
    return np.asarray(np.where(bounded, np.minimum(1.0, 2 * np.exp(-pairs * difference**2 / 2)), p_values))


def _why(placements: Placements) -> str:
    pairs = placements.pairs
    reason = "A side has one sample, which does not show its spread" if pairs == 1 else "DeLong's variance is zero"
    return f"{reason}; the interval is that of {pairs} disjoint pair{'s' if pairs > 1 else ''}."


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1) / values.size) if values.size > 1 else 0.0
