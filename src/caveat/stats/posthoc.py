"""Which pairs of methods differ: p-values of all pairs after Friedman, adjusted for their number."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count, as_level, as_shares, check_known
from caveat.errors import InputError
from caveat.stats.ranks import ROUNDING, agreement_p_value, tie_levels
from caveat.stats.signed_rank import signed_rank_p_values

__all__ = ["POSTHOC", "Posthoc", "critical_difference", "doubtful_pairs", "holm", "pairwise_p_values"]

Posthoc = Literal["conover", "nemenyi", "wilcoxon"]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]
POSTHOC: tuple[Posthoc, ...] = ("conover", "nemenyi", "wilcoxon")


def pairwise_p_values(values: NDArray[np.float64], ranks: NDArray[np.float64], posthoc: Posthoc) -> NDArray[np.float64]:
    r"""Adjusted p-values (k, k) of all pairs; symmetric, ones on the diagonal.

    ``conover``: $|R_i - R_j|$ against a t distribution with $(N-1)(k-1)$ degrees of freedom and the residual variance,
    $SE^2 = 2 (N A - \sum_j R_j^2) / ((N-1)(k-1))$, Holm over all pairs (Conover 1999, section 5.8, eq. 6).
    ``nemenyi``: the studentized range, which adjusts by itself (Demsar 2006). ``wilcoxon``: signed-rank tests on the
    values of each pair, Holm over all pairs (Benavoli, Corani and Mangili, JMLR 17, 2016); differences that are equal
    but for the rounding of the values tie.

    Where all blocks agree completely Conover's residual variance is zero and t infinite, however few the blocks: every
    pair with a gap then has the chance of that agreement, one event for all pairs.
    """
    check_known(posthoc, POSTHOC, "post-hoc test")
    k = ranks.shape[1]
    upper = np.triu_indices(k, 1)
    if posthoc == "wilcoxon":
        adjusted = holm(_wilcoxon(values, upper))
    else:
        adjusted = (_conover if posthoc == "conover" else _nemenyi)(ranks, upper)
    matrix = np.ones((k, k))
    matrix[upper] = adjusted
    matrix.T[upper] = adjusted
    return matrix


def doubtful_pairs(ranks: NDArray[np.float64], p_values: NDArray[np.float64], alpha: float) -> int:
    """How many pairs Conover's test tells apart only because it pools the variance of all methods.

    Two alike methods that never tie differ by a rank or more in every block, up or down: the difference of their sums
    has variance N or more. Where the others are far apart and agree, the pooled variance falls below that. Counted are
    the pairs that ``p_values`` (k, k) tells apart at alpha and a variance of N would not.
    """
    upper = np.triu_indices(ranks.shape[1], 1)
    fair = _adjusted(ranks, upper, max(float(ranks.shape[0]), _pooled_variance(ranks)))
    return int(((p_values[upper] < alpha) & (fair >= alpha)).sum())


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjustment, in the order given. Holm, Scandinavian Journal of Statistics 6, 1979.

    Parameters
    ----------
    p_values
        P-values of m tests, shape (m,).

    Returns
    -------
    array of shape (m,)
        Adjusted p-values; those of at most alpha are significant at family-wise level alpha.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = as_shares(p_values, "p_values")
    order = np.argsort(p)
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def critical_difference(k: int, blocks: int, alpha: float) -> float:
    """Nemenyi's critical difference of average ranks.

    Parameters
    ----------
    k
        Number of methods.
    blocks
        Number of blocks.
    alpha
        Level of the test.

    Returns
    -------
    float
        Average ranks that differ by at least this much are significantly different.

    Examples
    --------
    >>> round(critical_difference(4, 14, 0.05), 2)  # Demsar 2006, section 3.2.4 prints 1.25
    1.25
    """
    from scipy.stats import studentized_range

    as_count(k, "k", least=2)
    as_count(blocks, "blocks")
    as_level(alpha, "alpha")
    return float(studentized_range.ppf(1 - alpha, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * blocks)))


def _conover(ranks: NDArray[np.float64], upper: Pairs) -> NDArray[np.float64]:
    agreement = agreement_p_value(ranks)
    if agreement is None:
        return _adjusted(ranks, upper, _pooled_variance(ranks))
    return np.where(ranks[0][upper[0]] == ranks[0][upper[1]], 1.0, agreement)


def _adjusted(ranks: NDArray[np.float64], upper: Pairs, variance: float) -> NDArray[np.float64]:
    """Two-sided t tests of the differences of rank sums, given their variance, after Holm."""
    blocks, k = ranks.shape
    sums = ranks.sum(axis=0)
    gap = np.abs(sums[upper[0]] - sums[upper[1]])
    return holm(2 * stdtr((blocks - 1) * (k - 1), -gap / np.sqrt(variance)))


def _pooled_variance(ranks: NDArray[np.float64]) -> float:
    """Conover's variance of the difference of two rank sums."""
    blocks, k = ranks.shape
    residual = blocks * (ranks**2).sum() - (ranks.sum(axis=0) ** 2).sum()
    return float(2 * residual / ((blocks - 1) * (k - 1)))


def _nemenyi(ranks: NDArray[np.float64], upper: Pairs) -> NDArray[np.float64]:
    blocks, k = ranks.shape
    means = ranks.mean(axis=0)
    q = np.abs(means[upper[0]] - means[upper[1]]) * np.sqrt(2) / np.sqrt(k * (k + 1) / (6 * blocks))
    levels, where = np.unique(q, return_inverse=True)  # ranks repeat
    return studentized_range_tail(levels, k)[where]


def studentized_range_tail(q: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    r"""Chance that k standard normal numbers span more than q, for each of many q.

    $$ k \int \varphi(z) [\Phi(z)^{k-1} - (\Phi(z) - \Phi(z - q))^{k-1}] dz $$

    By the trapezoidal rule, whose error on such a function is below 1e-13; that of scipy calls Python's quadrature for
    each q.

    >>> studentized_range_tail(np.array([0.0, 3.633]), 4).round(4)  # the table of Harter (1960) has 3.633 at 0.05
    array([1.  , 0.05])
    """
    step = 1 / 16
    z = np.arange(-9, 9 + step, step)
    density = k * step * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    below = ndtr(z)
    tail = np.empty(q.size)
    for some in row_blocks(q.size, row_bytes=24 * z.size):
        between = below - ndtr(z - q[some, None])
        tail[some] = (below ** (k - 1) - between ** (k - 1)) @ density
    return np.clip(tail, 0.0, 1.0)


def _wilcoxon(values: NDArray[np.float64], upper: Pairs) -> NDArray[np.float64]:
    if not np.isfinite(values).all():
        raise InputError("wilcoxon needs finite values: it ranks their differences. Use conover, which ranks values.")
    p_values = np.ones(upper[0].size)
    for some in row_blocks(p_values.size, row_bytes=64 * len(values)):
        signed = _signed_levels(values.T[upper[0][some]], values.T[upper[1][some]])
        p_values[some] = signed_rank_p_values(signed)
    return p_values


def _signed_levels(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers with the signs of a - b, in the order and with the ties of its absolute values; 0 where a = b.

    Along the last axis.
    """
    scale = np.maximum(np.abs(a).max(axis=-1, keepdims=True), np.abs(b).max(axis=-1, keepdims=True))
    scale = np.maximum(scale, np.finfo(np.float64).tiny)
    a, b = a / scale, b / scale  # the difference of two huge numbers may not be finite
    none = np.zeros_like(scale)
    gap = np.concatenate([none, np.abs(a - b)], axis=-1)
    noise = ROUNDING * np.concatenate([none, np.maximum(np.abs(a), np.abs(b))], axis=-1)
    levels = tie_levels(gap, noise)[..., 1:]  # that of no difference, the smallest, is 0
    return np.asarray(np.sign(a - b).astype(np.int64) * levels)
