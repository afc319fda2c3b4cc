r"""What sampling does to T-CV and T-SS: the values that chance alone gives, a reference value, intervals.

Both metrics compare bins of few samples. The worst of B bins is off by chance even where every bin is covered exactly
as promised, so T-CV has a floor; mean ranks of bins are noisy, so sets whose size is the expected rank have a T-SS
below 1 (``t_ss_ceiling``, a reference value), which falls as bins get smaller. T-CV and T-SS: Jang and Lee,
"Quantifying and Improving Adaptivity in Conformal Prediction through Input Transformations", eqs. (3), (4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betaincinv

from caveat._internal.checks import Rng, as_count, as_level, as_mask, as_rng, as_vector, same_length
from caveat.conformal._bins import bin_means, equal_mass, signed_r2
from caveat.metrics.adaptivity import t_cv, t_ss
from caveat.results import Estimate

__all__ = ["t_cv_floor", "t_cv_interval", "t_ss_ceiling", "t_ss_floor", "t_ss_interval"]

Floats = NDArray[np.float64]
_ROUNDING = 1e-9


def t_cv_floor(n: int, alpha: float, *, bins: int = 50, share: float = 0.5) -> float:
    r"""T-CV of sets that cover every bin with probability exactly 1 - alpha: chance alone gives at most this.

    $$ P(\text{T-CV} \le t) = \prod_b P\bigl(|H_b / m_b - (1 - \alpha)| \le t\bigr), \quad
       H_b \sim \operatorname{Bin}(m_b, 1 - \alpha) $$

    Parameters
    ----------
    n
        Number of test samples.
    alpha
        Allowed error of the sets.
    bins
        Number of bins.
    share
        Which quantile of T-CV: 0.5 is its median, 0.95 a bound for a test at 5 %.

    Returns
    -------
    float
        The smallest t with probability at least ``share``.

    Examples
    --------
    >>> round(t_cv_floor(5000, 0.1), 3), round(t_cv_floor(5000, 0.1, share=0.95), 3)
    (0.07, 0.1)
    """
    n, level = as_count(n, "n"), as_level(alpha, "alpha")
    sizes, repeats = np.unique(np.diff(np.arange(as_count(bins, "bins", most=n) + 1) * n // bins), return_counts=True)
    cover = 1 - level
    values = np.unique(np.concatenate([np.abs(np.arange(m + 1) / m - cover) for m in sizes]))
    chance = np.ones(values.size)
    for m, many in zip(sizes, repeats, strict=True):
        most = np.minimum(np.floor(m * (cover + values) + _ROUNDING), m)
        least = np.ceil(m * (cover - values) - _ROUNDING)
        below = np.where(least > 0, bdtr(np.maximum(least - 1, 0), int(m), cover), 0.0)
        chance *= np.maximum(bdtr(most, int(m), cover) - below, 0.0) ** many
    return float(values[np.searchsorted(chance, as_level(share, "share"))])


def t_cv_interval(
    *, covered: ArrayLike, ease: ArrayLike, alpha: float, bins: int = 50, delta: float = 0.05
) -> Estimate:
    """T-CV with an interval for the worst violation of the coverage *probability* over the bins.

    The interval holds for any number of samples, given the sets and the bins. Its upper end is the largest that any
    bin allows by its own exact (Clopper-Pearson) bound: the worst bin is one of them. Its lower end is the largest that
    some bin shows after a correction for looking at all of them (Bonferroni). T-CV itself is biased upwards, see
    :func:`t_cv_floor`; the lower end is 0 where chance explains it.

    Parameters
    ----------
    covered, ease, alpha, bins
        As for ``t_cv``.
    delta
        Allowed failure of the interval.

    Returns
    -------
    Estimate
        ``value`` is T-CV.

    Examples
    --------
    >>> covered, ease = np.arange(2000) % 10 > 0, np.arange(2000)  # every bin is covered to 0.9
    >>> print(t_cv_interval(covered=covered, ease=ease, alpha=0.1, bins=10))
    0.000 [0.000, 0.050] (95 % simultaneous Clopper-Pearson, n = 2000)
    """
    value = t_cv(covered=covered, ease=ease, alpha=alpha, bins=bins)
    hits, target, failure = as_mask(covered, "covered"), 1 - alpha, as_level(delta, "delta") / 2
    number = equal_mass(as_vector(ease, "ease"), bins)
    counts, sums = np.bincount(number, minlength=bins), np.bincount(number, weights=hits, minlength=bins)
    low, high = _share_bounds(sums, counts, failure)
    upper = max(float((high - target).max()), float((target - low).max()))
    low, high = _share_bounds(sums, counts, failure / (2 * bins))
    lower = max(0.0, float((low - target).max()), float((target - high).max()))
    return Estimate(value, lower, upper, level=1 - delta, n=hits.size, method="simultaneous Clopper-Pearson")


def t_ss_floor(bins: int = 50, *, share: float = 0.5) -> float:
    """|T-SS| of sets whose sizes have nothing to do with difficulty: chance alone gives at most this.

    The R squared of unrelated normal means of bins has a Beta(1/2, (bins - 2)/2) distribution; the sign is a coin.

    Parameters
    ----------
    bins
        Number of bins, at least 3.
    share
        Which quantile of |T-SS|.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(t_ss_floor(50), 3), round(t_ss_floor(50, share=0.95), 3)
    (0.01, 0.078)
    """
    return float(betaincinv(0.5, (as_count(bins, "bins", least=3) - 2) / 2, as_level(share, "share")))


def t_ss_ceiling(*, ranks: ArrayLike, ease: ArrayLike, bins: int = 50) -> float:
    r"""T-SS that sets would have whose mean size in each bin is the expected rank of the true label there.

    $$ 1 - \frac{\text{mean over bins of the squared standard error of the mean rank}}
                {\text{variance of the mean ranks over bins}} $$

    Mean ranks of bins are noisy, the more so the fewer samples a bin has and the rarer errors are, so not even such
    sets reach 1. Compare T-SS of different networks, or with different numbers of bins, relative to this. Sets that
    also follow difficulty within bins can have more.

    Parameters
    ----------
    ranks, ease, bins
        As for ``t_ss``.

    Returns
    -------
    float
        Between 0 and 1; NaN where all bins have the same mean rank, or a bin has one sample.

    Examples
    --------
    >>> ease = np.arange(4000) / 4000
    >>> ranks = 1 + np.random.default_rng(0).poisson(1 - ease)
    >>> [round(t_ss_ceiling(ranks=ranks, ease=ease, bins=bins), 2) for bins in (10, 50, 200)]
    [0.99, 0.93, 0.78]
    """
    rank, easiness = as_vector(ranks, "ranks"), as_vector(ease, "ease")
    n = same_length(ranks=rank, ease=easiness)
    number = equal_mass(easiness, as_count(bins, "bins", most=n))
    counts, means = np.bincount(number, minlength=bins), bin_means(rank, number, bins)
    spread = float(means.var(ddof=1)) if bins > 1 else 0.0
    if not spread > _ROUNDING**2 or counts.min() < 2:
        return float("nan")
    within = bin_means((rank - means[number]) ** 2, number, bins) / (counts - 1)
    return float(max(0.0, 1 - within.mean() / spread))


def t_ss_interval(
    *,
    sizes: ArrayLike,
    ranks: ArrayLike,
    ease: ArrayLike,
    rng: Rng,
    bins: int = 50,
    delta: float = 0.05,
    repeats: int = 500,
) -> Estimate:
    """T-SS with an interval for its mean over test sets of this size, by resampling within bins.

    Resampling adds the noise of the bins once more and so lowers T-SS; the resampled values are therefore centered at
    the measured one before they are reflected about it.

    Parameters
    ----------
    sizes, ranks, ease
        As for ``t_ss``.
    rng
        Resamples.
    bins
        As for ``t_ss``.
    delta
        Allowed failure of the interval.
    repeats
        Number of resamples.

    Returns
    -------
    Estimate
        ``value`` is T-SS; it and the ends are NaN where T-SS is not defined.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hard = rng.random(2000)
    >>> ranks, sizes = 1 + rng.poisson(3 * hard), 1 + rng.poisson(2 * hard)
    >>> print(t_ss_interval(sizes=sizes, ranks=ranks, ease=1 - hard, rng=rng, bins=20))
    0.950 [0.906, 1.000] (95 % bootstrap within bins, n = 2000)
    """
    rng = as_rng(rng)
    value = t_ss(sizes=sizes, ranks=ranks, ease=ease, bins=bins)
    size, rank = as_vector(sizes, "sizes"), as_vector(ranks, "ranks")
    order = np.argsort(equal_mass(as_vector(ease, "ease"), bins), kind="stable")
    bounds = np.arange(bins + 1) * order.size // bins
    means = np.empty((2, as_count(repeats, "repeats", least=2), bins))
    for b in range(bins):
        rows = order[bounds[b] : bounds[b + 1]]
        drawn = rows[rng.integers(rows.size, size=(repeats, rows.size))]
        means[0, :, b], means[1, :, b] = rank[drawn].mean(axis=1), size[drawn].mean(axis=1)
    values = signed_r2(means[0], means[1])
    share = as_level(delta, "delta") / 2
    low, high = np.nanquantile(values, [share, 1 - share]) if not np.isnan(values).all() else (np.nan, np.nan)
    center = value + np.nanmean(values) if not np.isnan(values).all() else np.nan
    lower, upper = max(-1.0, float(center - high)), min(1.0, float(center - low))
    if np.isnan(value):
        lower = upper = float("nan")
    return Estimate(value, lower, upper, level=1 - delta, n=order.size, method="bootstrap within bins")


def _share_bounds(hits: NDArray[Any], counts: NDArray[Any], failure: float) -> tuple[Floats, Floats]:
    """One-sided exact bounds of shares, each of which fails with probability at most ``failure``."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), counts - hits + 1, failure), 0.0)
    high = np.where(hits < counts, betaincinv(hits + 1, np.maximum(counts - hits, 1), 1 - failure), 1.0)
    return low, high
