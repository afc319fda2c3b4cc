r"""Certificates for any score, from its values under Gaussian noise. They hold in the Euclidean norm, with confidence.

For a score h and noise N(0, sigma^2 I), let q_p(x) be the p-quantile of h(x + noise). For ||x' - x||_2 <= R:

$$ q_{p^-}(x) \le q_p(x') \le q_{p^+}(x), \qquad p^\pm = \Phi(\Phi^{-1}(p) \pm R / \sigma) $$

Chiang, Curry, Abdelkader, Kumar, Dickerson and Goldstein, "Detection as Regression: Certified Object Detection with
Median Smoothing", NeurIPS 2020, arXiv:2007.03730, lemma 1. For a score in [0, 1] the mean H(x) obeys

$$ H(x') \le \Phi(\Phi^{-1}(\bar p) + R / \sigma) $$

with an upper confidence bound of H(x): Cohen, Rosenfeld and Kolter, ICML 2019; Salman et al., NeurIPS 2019, lemma 2.
The certificate is of the *smoothed* score, median or mean, which is also what must be used as score. A change of r in
every one of d entries has R = r sqrt(d) (``metric_radius``): at r = 0.3 and d = 784 that is 8.4, and says nothing.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, betaincinv, ndtr, ndtri

from caveat._internal.checks import as_level, as_matrix, as_number, as_positive, check_each, check_known, exact_level
from caveat.results import ScoreBounds

__all__ = ["smoothed_mean_bounds", "smoothed_quantile_bounds"]


def smoothed_quantile_bounds(
    samples: ArrayLike, *, sigma: float, radius: float, p: float = 0.5, delta: float = 1e-3, together: bool = False
) -> ScoreBounds:
    """Bounds of the smoothed score (its p-quantile under noise) over all inputs within an l2 radius.

    Parameters
    ----------
    samples
        The score at m noisy copies of each input (n, m); any score, in any unit.
    sigma
        Standard deviation of the noise in each entry.
    radius
        R, in the Euclidean norm.
    p
        Which quantile is the smoothed score; 0.5 is the median.
    delta
        Allowed failure of the bounds of one input, both sides together. The noise is random, so they are too.
    together
        Whether the bounds of all n inputs shall hold at once; delta is then shared among them.

    Returns
    -------
    ScoreBounds
        ``value`` is the empirical p-quantile, the ceil(m p)-th smallest sample, which lies between the bounds. A bound
        for which m is too small is infinite.

    Examples
    --------
    >>> noisy = np.random.default_rng(0).normal(2.0, 1.0, size=(1, 10_000))  # h(x) = x, sigma = 1, x = 2
    >>> bounds = smoothed_quantile_bounds(noisy, sigma=1.0, radius=0.5)
    >>> bounds.lower.round(2), bounds.upper.round(2)  # the truth: 1.5 and 2.5
    (array([1.46]), array([2.56]))
    """
    rows = np.sort(as_matrix(samples, "samples").astype(np.float64), axis=1)
    shift = _shift(radius, sigma)
    n, m = rows.shape
    each = as_level(delta, "delta") / 2 / (n if together else 1)
    center = float(ndtri(as_level(p, "p")))
    # Not interpolated: a median of Bin(m, p) lies within one of m p, so that this rank is never outside the other two.
    rank = math.ceil(m * exact_level(p, "p"))
    upper_rank = _rank_above(m, float(ndtr(center + shift)), each)
    lower_rank = m + 1 - _rank_above(m, float(ndtr(shift - center)), each)  # the same, counted from the other end
    return ScoreBounds(
        value=rows[:, rank - 1].copy(),
        lower=rows[:, lower_rank - 1].copy() if lower_rank >= 1 else np.full(n, -np.inf),
        upper=rows[:, upper_rank - 1].copy() if upper_rank <= m else np.full(n, np.inf),
        epsilon=float(radius),
        method=f"quantile smoothing, sigma {sigma:g}, {m} samples, delta {delta:g}",
    )


def smoothed_mean_bounds(
    samples: ArrayLike,
    *,
    sigma: float,
    radius: float,
    delta: float = 1e-3,
    kind: Literal["votes", "soft"] = "soft",
    together: bool = False,
) -> ScoreBounds:
    """Bounds of the smoothed score (its mean under noise) over all inputs within an l2 radius, for scores in [0, 1].

    Parameters
    ----------
    samples, sigma, radius, delta
        As in ``smoothed_quantile_bounds``; samples lie between 0 and 1. If the score is itself a largest of K
        probabilities, bound each class with delta / K and take the largest bound.
    kind
        ``"votes"``: samples are 0 or 1, and Clopper-Pearson bounds their mean. ``"soft"``: Hoeffding's inequality.
    together
        As in ``smoothed_quantile_bounds``.

    Returns
    -------
    ScoreBounds
        ``value`` is the mean of the samples, ``lower`` and ``upper`` are its bounds, each of shape (n,).

    Examples
    --------
    >>> votes = np.repeat([[1.0, 0.0]], [9900, 100], axis=1)
    >>> bounds = smoothed_mean_bounds(votes, sigma=0.5, radius=0.25, kind="votes")
    >>> bounds.lower.round(3), bounds.value
    (array([0.956]), array([0.99]))
    """
    check_known(kind, ("votes", "soft"), "kind")
    rows = as_matrix(samples, "samples").astype(np.float64)
    votes = kind == "votes"
    holds = np.isin(rows, (0, 1)) if votes else (rows >= 0) & (rows <= 1)
    check_each(rows, holds, "samples", f"{'be 0 or 1' if votes else 'lie between 0 and 1'} for kind '{kind}'")
    n, m = rows.shape
    each = as_level(delta, "delta") / 2 / (n if together else 1)
    shift, mean = _shift(radius, sigma), rows.mean(axis=1)
    off = math.sqrt(math.log(1 / each) / (2 * m))
    low, high = _exact(rows.sum(axis=1), m, each) if votes else (np.maximum(mean - off, 0), np.minimum(mean + off, 1))
    return ScoreBounds(
        value=mean, lower=np.asarray(ndtr(ndtri(low) - shift)), upper=np.asarray(ndtr(ndtri(high) + shift)),
        epsilon=float(radius), method=f"mean smoothing ({kind}), sigma {sigma:g}, {m} samples, delta {delta:g}",
    )  # fmt: skip


def _shift(radius: float, sigma: float) -> float:
    return as_number(radius, "radius", least=0) / as_positive(sigma, "sigma")


def _rank_above(m: int, p: float, delta: float) -> int:
    """Smallest k with P(Bin(m, p) >= k) <= delta: the k-th smallest of m is below the p-quantile that seldom."""
    ranks = np.arange(1, m + 1)
    fails = bdtrc(ranks - 1, m, p)
    return int(np.argmax(fails <= delta)) + 1 if (fails <= delta).any() else m + 1


def _exact(hits: NDArray[np.float64], m: int, delta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), m - hits + 1, delta), 0.0)
    high = np.where(hits < m, betaincinv(hits + 1, np.maximum(m - hits, 1), 1 - delta), 1.0)
    return low, high
