r"""Ranks of methods within blocks, and whether they differ at all.

A block is one condition (a data set, a model, a seed) under which every method was measured by the same metric.
Friedman ranks the methods within each block and asks whether the average ranks are further apart than chance. With rank
sums $R_j$ over N blocks and k methods, $A = \sum r_{ij}^2$ and $C = N k (k+1)^2 / 4$:

$$ Q = \frac{(k-1) \sum_j (R_j - N(k+1)/2)^2}{A - C}, \; F = \frac{(N-1) Q}{N(k-1) - Q}, \; W = \frac{Q}{N(k-1)} $$

Q is Friedman's statistic corrected for ties (chi-square with k - 1 degrees of freedom); F is that of Iman and Davenport
(Communications in Statistics A9, 1980), which is less conservative; W is Kendall's coefficient of concordance.
Conover, Practical Nonparametric Statistics, 3rd ed., 1999, section 5.8; Demsar, JMLR 7, 2006.

Both tails are wrong for small tables (3 methods in 3 blocks: F rejects 20 % of pure noise at 0.05), so those get an
exact p-value: if the methods are alike, every order of the ranks within a block is equally likely and blocks are
independent, and the p-value is the share of all such tables whose rank sums lie at least as far apart as those observed
(Friedman, JASA 32, 1937). Two methods that agree in four blocks have p = 1/8; the F distribution says 0 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import exp
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc, gammaln

from caveat._internal.checks import as_comparable, check_each, check_shape

__all__ = [
    "ROUNDING", "Friedman", "agreement_p_value", "exact_p_value", "friedman", "mid_ranks", "tie_levels",
]  # fmt: skip

ROUNDING = 1e-12  # relative; sums and differences of metrics are exact to about 1e-15
# Beyond these numbers of blocks the F distribution errs by little and the states become many; so they do from k = 5.
_MOST_BLOCKS = {2: 100, 3: 20, 4: 10}


@final
@dataclass(frozen=True)
class Friedman:
    """Friedman's test with its companions.

    Parameters
    ----------
    statistic, p_value
        Friedman's Q and its chi-squared p-value.
    f_statistic, f_p_value
        Iman and Davenport's F and its p-value.
    kendall_w
        Kendall's coefficient of concordance: 0 is no agreement of the blocks, 1 is full agreement.
    exact_p_value
        Exact p-value of Q; None where the table is too large to need one.

    Examples
    --------
    >>> test = friedman([[1, 2, 3], [1, 2, 3], [2, 1, 3], [1, 3, 2]])
    >>> round(test.p_value, 3), test.kendall_w, round(test.decisive_p_value, 3)
    (0.105, 0.5625, 0.125)
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    kendall_w: float
    exact_p_value: float | None = None

    @property
    def decisive_p_value(self) -> float:
        """The p-value to go by: the exact one where there is one, else that of F."""
        return self.f_p_value if self.exact_p_value is None else self.exact_p_value


def mid_ranks(values: ArrayLike, *, lower_is_better: bool = True) -> NDArray[np.float64]:
    """Ranks 1..k within each row; 1 is best, and ties share the mean of their ranks.

    Values that differ by rounding only (1e-12 of their size) tie, so that percent and fractions rank alike.

    Parameters
    ----------
    values
        Shape (N, k): one metric of k methods in N blocks.
    lower_is_better
        Whether a small value is good, as for AURC; False for AUROC.

    Returns
    -------
    array of shape (N, k)
        The ranks.

    Examples
    --------
    >>> mid_ranks(np.array([[0.3, 0.1, 0.3], [1.0, 2.0, 3.0]]))
    array([[2.5, 1. , 2.5],
           [1. , 2. , 3. ]])
    """
    good = _table(values, "values")
    size = np.where(np.isfinite(good), np.abs(good), 0.0)
    good = tie_levels(good if lower_is_better else -good, ROUNDING * size)
    # k is small: counting needs no sort and treats ties by themselves.
    below = (good[:, None, :] < good[:, :, None]).sum(axis=2)
    at_most = (good[:, None, :] <= good[:, :, None]).sum(axis=2)
    return np.asarray((below + at_most + 1) / 2)


def friedman(ranks: ArrayLike) -> Friedman:
    """Friedman, Iman-Davenport and Kendall's W of an (N, k) array of ranks (``mid_ranks``).

    Where every block ties all methods there is nothing to tell apart: Q = 0 and p = 1. Where all blocks agree
    completely, F is infinite whatever their number: its p-value is then the chance of that agreement.

    Parameters
    ----------
    ranks
        Shape (N, k): ranks of k methods in each of N blocks.

    Returns
    -------
    Friedman
        ``decisive_p_value`` is the p-value to use.

    Examples
    --------
    >>> test = friedman(np.array([[1.0, 2, 3], [1, 2, 3], [2, 1, 3], [1, 3, 2]]))
    >>> test.statistic, round(test.f_statistic, 3), test.kendall_w
    (4.5, 3.857, 0.5625)
    """
    ranks = _table(ranks, "ranks")
    blocks, k = ranks.shape
    total = k * (k + 1) / 2
    sums = ranks.sum(axis=1)
    check_each(sums, sums == total, "the ranks of a block", f"add up to {total:g}", hint="Rank values with mid_ranks.")
    spread = float((ranks**2).sum() - blocks * k * (k + 1) ** 2 / 4)
    if spread <= 0:
        return Friedman(0.0, 1.0, 0.0, 1.0, 0.0, 1.0)
    between = float(((ranks.sum(axis=0) - blocks * (k + 1) / 2) ** 2).sum())
    q = (k - 1) * between / spread
    agreement = agreement_p_value(ranks)
    if agreement is not None:
        f, f_p = np.inf, agreement
    else:
        f = (blocks - 1) * q / (blocks * (k - 1) - q)
        f_p = float(fdtrc(k - 1, (k - 1) * (blocks - 1), f))
    return Friedman(q, float(chdtrc(k - 1, q)), float(f), f_p, q / (blocks * (k - 1)), exact_p_value(ranks))


def _table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = as_comparable(values, name)
    check_shape(array, name, 2, "(blocks x methods) array")
    return array


def exact_p_value(ranks: NDArray[np.float64]) -> float | None:
    """Exact p-value of Friedman's statistic of (N, k) ranks; None where the table is large enough for F.

    Rank sums are followed block by block; only their multiset counts, so a state holds them sorted.

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


def tie_levels(values: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[Any]:
    """Whole numbers 0, 1, ... in the order of the values along the last axis, equal where values differ by noise only.

    Ties must not depend on the unit of a table, percent or fractions. ``noise``: how far each value may be off.
    Infinities tie with themselves.

    Examples
    --------
    >>> tie_levels(np.array([0.3, 0.1 + 0.2, 0.1, 0.5]), np.full(4, 1e-12))
    array([1, 1, 0, 2])
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered, slack = np.take_along_axis(values, order, axis=-1), np.take_along_axis(noise, order, axis=-1)
    with np.errstate(over="ignore"):
        apart = ordered[..., 1:] > ordered[..., :-1] + (slack[..., 1:] + slack[..., :-1])
    steps = np.concatenate([np.zeros_like(order[..., :1]), np.cumsum(apart, axis=-1)], axis=-1)
    levels = np.empty_like(order)
    np.put_along_axis(levels, order, steps, axis=-1)
    return levels
