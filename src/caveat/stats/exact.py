r"""Friedman's test without an approximation, for tables too small for one.

If the methods are alike, every order of the ranks within a block is equally likely, and blocks are independent. The
p-value is the share of all such tables whose rank sums lie at least as far apart as those observed. The sums are
followed block by block; only their multiset counts, so a state holds them sorted. Ties keep their mid-ranks.

Two methods that agree in four blocks have p = 1/8; the F distribution says 0 there. For k = 2 this is the sign test.
Friedman, JASA 32, 1937.
"""

from __future__ import annotations

from itertools import permutations
from math import exp

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

__all__ = ["agreement_p_value", "exact_p_value"]

# Beyond these numbers of blocks the F distribution errs by little and the states become many; so they do from k = 5.
_MOST_BLOCKS = {2: 100, 3: 20, 4: 10}


def exact_p_value(ranks: NDArray[np.float64]) -> float | None:
    """Exact p-value of Friedman's statistic of (N, k) ranks; None where the table is large enough for F.

    Examples
    --------
    >>> exact_p_value(np.array([[1.0, 2.0]] * 4))
    0.125
    """
    blocks, k = ranks.shape
    if blocks > _MOST_BLOCKS.get(k, 0):
        return None
    doubled = np.rint(2 * ranks).astype(np.int64)
    sums, chance = np.sort(doubled[:1], axis=1), np.ones(1)  # by symmetry the first block may stay as it is
    for row in doubled[1:]:
        orders = np.array(sorted(set(permutations(row.tolist()))))
        reached = np.sort(sums[:, None, :] + orders, axis=2).reshape(-1, k)
        code = reached @ (2 * blocks * k + 1) ** np.arange(k)
        _, first, where = np.unique(code, return_index=True, return_inverse=True)
        chance = np.asarray(np.bincount(where, weights=np.repeat(chance / len(orders), len(orders))), dtype=np.float64)
        sums = reached[first]
    apart = ((sums - blocks * (k + 1)) ** 2).sum(axis=1)
    observed = ((doubled.sum(axis=0) - blocks * (k + 1)) ** 2).sum()
    return min(1.0, float(chance[apart >= observed].sum()))


def agreement_p_value(ranks: NDArray[np.float64]) -> float | None:
    """Chance that all blocks rank the methods alike when each is shuffled; None unless all of them do.

    Examples
    --------
    >>> round(agreement_p_value(np.array([[1.0, 2.0, 3.0]] * 3)), 6)  # 1 / 6 ** 2
    0.027778
    """
    blocks, k = ranks.shape
    if not (ranks == ranks[0]).all():
        return None
    _, ties = np.unique(ranks[0], return_counts=True)
    return exp(-(blocks - 1) * float(gammaln(k + 1) - gammaln(ties + 1).sum()))
