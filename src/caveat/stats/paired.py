"""Two scores on the same samples: is one really better?

Scores of one model on one data set rise and fall together, so their intervals overlap long after a paired test can tell
them apart.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_count, as_level, as_pair, as_rng, check_known
from caveat.errors import InputError
from caveat.metrics import Placements, paired_p_value
from caveat.metrics._resampling import AREAS, Area, Cells, area_of, resample
from caveat.metrics.auroc_intervals import difference_interval
from caveat.metrics.selective import scored_answers
from caveat.results import Estimate, PairedTest

__all__ = ["delong", "paired_bootstrap", "permutation"]

Metric = Literal["augrc", "aurc", "auroc"]


def delong(
    *, inlier: tuple[ArrayLike, ArrayLike], outlier: tuple[ArrayLike, ArrayLike], delta: float = 0.05
) -> PairedTest:
    """Difference of the AUROC of two scores on the same samples, by DeLong's variance.

    DeLong, DeLong and Clarke-Pearson, Biometrics 44(3), 1988, in O(n log n). Where the two scores rank every pair
    alike, the difference is 0 and the p-value 1. Where the variance is zero though they differ (one perfect, one
    constant), or a side has one sample, interval and p-value are Hoeffding's for as many disjoint pairs as there are.

    Parameters
    ----------
    inlier
        The first and the second score of the same n inliers.
    outlier
        The first and the second score of the same m outliers.
    delta
        Allowed failure of the interval of the difference.

    Returns
    -------
    PairedTest
        ``difference`` is the AUROC of the first score minus that of the second, with its interval.

    Examples
    --------
    >>> print(delong(inlier=([0, 1, 2, 3, 4], [2, 1, 4, 3, 5]), outlier=([3, 5, 6, 7], [4, 3, 5, 2])))
    auroc 0.925 against 0.600: 0.325 [-0.085, 0.735] (95 % DeLong, n = 9), p = 0.121
    """
    pairs = zip(as_pair(inlier, "inlier"), as_pair(outlier, "outlier"), strict=True)
    first, second = (Placements.of(inlier=a, outliers=[b]) for a, b in pairs)
    estimate = difference_interval(first, second, delta=delta)
    return PairedTest("auroc", first.auroc, second.auroc, estimate, paired_p_value(first, second))


def paired_bootstrap(
    *,
    first: ArrayLike,
    second: ArrayLike,
    correct: ArrayLike,
    metric: Metric = "augrc",
    rng: Rng,
    delta: float = 0.05,
    resamples: int = 2000,
    stratified: bool = False,
) -> PairedTest:
    """Difference of a metric of two scores, by resampling the samples they share.

    The percentile interval of the difference and the two-sided p-value that goes with it,
    2 min(P(d* <= 0), P(d* >= 0)), at least 2 / (resamples + 1).

    Parameters
    ----------
    first, second
        Shape (n,): two scores of the same samples.
    correct
        Shape (n,): whether the answer was right; for detection, whether the sample is an inlier.
    metric
        ``"augrc"``, ``"aurc"``, or ``"auroc"`` of the failures against the rest.
    rng
        Seed, or a generator, of the resamples.
    delta
        Allowed failure of the interval of the difference.
    resamples
        Number of resamples.
    stratified
        Resample right answers and failures apart, so that their numbers stay: for detection, where the sizes of the two
        sets are a choice and not a finding.

    Returns
    -------
    PairedTest
        ``difference`` is the metric of the first score minus that of the second, with its interval.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> correct = np.arange(200) % 4 > 0
    >>> good, poor = rng.normal(size=200) - 2 * correct, rng.normal(size=200) - 0.5 * correct
    >>> test = paired_bootstrap(first=good, second=poor, correct=correct, rng=rng)
    >>> test.difference.upper < 0, test.p_value < 0.01
    (True, True)
    """
    as_level(delta, "delta")
    as_count(resamples, "resamples")
    a, b, right, area = _paired(first, second, correct, metric)
    cells = (Cells(a, right), Cells(b, right))
    areas = resample(cells, [area], resamples=resamples, rng=as_rng(rng), strata=right if stratified else None)
    gap = areas[:, 0, 0] - areas[:, 1, 0]
    usable = gap[~np.isnan(gap)]
    if usable.size == 0:
        raise InputError("correct must hold right answers and failures, enough that a resample has both.")
    caveats = []
    if usable.size < resamples:
        caveats += [
            f"{resamples - usable.size} of {resamples} resamples had only one kind of answer and were left out."
        ]
    if usable.min() == usable.max() != 0:
        caveats += ["Every resample gives the same difference: the bootstrap sees no doubt where there is some."]
    lower, upper = np.quantile(usable, [delta / 2, 1 - delta / 2])
    tail = min(int((usable <= 0).sum()), int((usable >= 0).sum()))
    at_first, at_second = (area_of(cell, area) for cell in cells)
    estimate = Estimate(at_first - at_second, float(lower), float(upper), level=1 - delta, n=right.size,
                        method="paired bootstrap", caveat=" ".join(caveats))  # fmt: skip
    return PairedTest(metric, at_first, at_second, estimate, min(1.0, 2 * (tail + 1) / (usable.size + 1)))


def permutation(
    *,
    first: ArrayLike,
    second: ArrayLike,
    correct: ArrayLike,
    metric: Metric = "augrc",
    rng: Rng,
    permutations: int = 2000,
) -> PairedTest:
    """Is the metric of two scores the same? Swap the two scores of each sample at random and look again.

    Scores have their own scales, so each is replaced by its ranks first. The p-value (1 + swaps at least as far
    apart) / (1 + permutations) is valid at any n when the two ranks of a sample are exchangeable. Bandos, Rockette and
    Gur, "A permutation test sensitive to differences in areas for comparing ROC curves from a paired design",
    Statistics in Medicine 24(18), 2005. The interval of the result is that of the difference under the null, and says
    so.

    Parameters
    ----------
    first, second
        Shape (n,): two scores of the same samples.
    correct
        Shape (n,): whether the answer was right; for detection, whether the sample is an inlier.
    metric
        ``"augrc"``, ``"aurc"``, or ``"auroc"`` of the failures against the rest.
    rng
        Seed, or a generator, of the swaps.
    permutations
        Number of random swaps.

    Returns
    -------
    PairedTest
        ``p_value`` of equality; ``difference`` is the metric of the first score minus that of the second.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> correct = np.arange(200) % 4 > 0
    >>> good, poor = rng.normal(size=200) - 2 * correct, rng.normal(size=200) - 0.5 * correct
    >>> permutation(first=good, second=poor, correct=correct, rng=rng).p_value < 0.01
    True
    """
    rng = as_rng(rng)
    as_count(permutations, "permutations")
    a, b, right, area = _paired(first, second, correct, metric)
    n = right.size
    ranks = np.column_stack([_doubled_ranks(a), _doubled_ranks(b)])
    wrong = np.where(right, 0, 2 * n + 1)
    gaps = np.empty(permutations)
    step = max(1, 2**21 // (4 * n + 2))
    for start in range(0, permutations, step):
        stop = min(start + step, permutations)
        counts = np.empty((2, stop - start, 4 * n + 2), dtype=np.intp)
        for row in range(stop - start):
            swap = rng.integers(2, size=n)
            for side in (0, 1):
                chosen = ranks[np.arange(n), swap ^ side] + wrong
                counts[side, row] = np.bincount(chosen, minlength=4 * n + 2)
        areas = [area(side[:, : 2 * n + 1], side[:, 2 * n + 1 :]) for side in counts]
        gaps[start:stop] = areas[0] - areas[1]
    at_first, at_second = (area_of(Cells(values, right), area) for values in (a, b))
    value = at_first - at_second
    # A permutation that gives the observed difference again, up to rounding, is as far apart.
    as_far = int((np.abs(gaps) >= abs(value) * (1 - 1e-12)).sum())
    lower, upper = np.quantile(gaps, [0.025, 0.975])
    estimate = Estimate(value, float(lower), float(upper), level=0.95, n=n, method="permutation",
                        caveat="The interval is that of the difference if the scores were alike.")  # fmt: skip
    return PairedTest(metric, at_first, at_second, estimate, (1 + as_far) / (1 + permutations))


def _paired(
    first: ArrayLike, second: ArrayLike, correct: ArrayLike, metric: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], Area]:
    check_known(metric, AREAS, "metric")
    a, right = scored_answers(first, correct)
    b, _ = scored_answers(second, correct)
    if right.all() or not right.any():
        raise InputError("correct must hold both right answers and failures: with one kind, no score can be better.")
    return a, b, right, AREAS[metric]


def _doubled_ranks(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Twice the mid-rank of each value: whole numbers from 2 to 2n."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray(below + np.searchsorted(ordered, values, side="right") + 1)
