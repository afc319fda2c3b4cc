r"""Wilcoxon's signed-rank test of many pairs at once.

The absolute differences of a pair, without those that are zero, get mid-ranks; $W^+$ adds the ranks of the positive
ones. If both methods are alike every sign is a coin, so $W^+$ has mean and variance

$$ \frac{n (n + 1)}{4}, \qquad \frac{n (n + 1)(2 n + 1)}{24} - \frac{1}{48} \sum_t (t^3 - t) $$

for n differences with groups of t ties. The p-value is exact, from all $2^n$ signs, up to 50 rows without ties and
zeros and up to 13 rows with them; beyond that from the normal distribution, without a correction for continuity. That
is the rule of ``scipy.stats.wilcoxon``, which needs a call for each pair. Wilcoxon, Biometrics Bulletin 1(6), 1945.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["signed_rank_p_values"]

_EXACT_ROWS, _EXACT_ROWS_WITH_TIES = 50, 13


def signed_rank_p_values(signed: NDArray[np.int64]) -> NDArray[np.float64]:
    """Two-sided p-values of m pairs, shape (m,).

    Parameters
    ----------
    signed
        Shape (m, n): the signs of the differences of each pair, times the order of their absolute values as whole
        numbers up to n; equal numbers tie; 0 means that both values are equal.

    Examples
    --------
    >>> signed_rank_p_values(np.array([[1, 2, 3, 4, 5], [1, -2, 3, 4, 5], [0, 0, 0, 0, 0]]))
    array([0.0625, 0.1875, 1.    ])
    """
    pairs, n = signed.shape
    size, first = np.abs(signed), np.arange(pairs)[:, None] * (n + 1)
    ties = np.bincount((size + first).ravel(), minlength=pairs * (n + 1)).reshape(pairs, n + 1)
    ties[:, 0] = 0  # differences of zero are dropped
    doubled = np.take_along_axis(2 * np.cumsum(ties, axis=1) - ties + 1, size, axis=1)  # mid-ranks, times two
    doubled[size == 0] = 0
    above = np.where(signed > 0, doubled, 0).sum(axis=1)
    count = ties.sum(axis=1)
    plain = (count == n) & (ties.max(axis=1) <= 1)
    exact = plain & (n <= _EXACT_ROWS) | (n <= _EXACT_ROWS_WITH_TIES)
    p_values = np.ones(pairs)
    p_values[exact] = _exact(doubled[exact], above[exact])
    near = ~exact & (count > 0)
    m, t = count[near].astype(np.float64), ties[near].astype(np.float64)
    variance = (m * (m + 1) * (2 * m + 1) - (t**3 - t).sum(axis=1) / 2) / 24
    p_values[near] = 2 * ndtr(-np.abs(above[near] / 2 - m * (m + 1) / 4) / np.sqrt(variance))
    return p_values


def _exact(doubled: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.float64]:
    """From the number of signs that give each sum of doubled ranks; pairs with the same ranks share it."""
    p_values = np.empty(len(doubled))
    kinds, which = np.unique(np.sort(doubled, axis=1), axis=0, return_inverse=True)
    for kind, ranks in enumerate(kinds):
        ways = np.zeros(int(ranks.sum()) + 1)  # whole numbers up to 2^50, which are exact
        ways[0] = 1
        for rank in ranks[ranks > 0].tolist():
            ways[rank:] += ways[:-rank].copy()
        below = np.cumsum(ways)
        mine = above[which == kind]
        tail = np.minimum(below[mine], below[-1] - below[mine] + ways[mine])
        p_values[which == kind] = np.minimum(1.0, 2 * tail / below[-1])
    return p_values
