r"""Ranks of methods within blocks, and whether they differ at all.

A block is one condition (a data set, a model, a seed) under which every method was measured by the same metric.
Friedman ranks the methods within each block and asks whether the average ranks are further apart than chance. With rank
sums $R_j$ over N blocks and k methods, $A = \sum r_{ij}^2$ and $C = N k (k+1)^2 / 4$:

$$ Q = \frac{(k-1) \sum_j (R_j - N(k+1)/2)^2}{A - C}, \; F = \frac{(N-1) Q}{N(k-1) - Q}, \; W = \frac{Q}{N(k-1)} $$

Q is Friedman's statistic corrected for ties (chi-square with k - 1 degrees of freedom); F is that of Iman and Davenport
(Communications in Statistics A9, 1980), which is less conservative; W is Kendall's coefficient of concordance.
Conover, Practical Nonparametric Statistics, 3rd ed., 1999, section 5.8; Demsar, JMLR 7, 2006. Both tails are wrong for
small tables (3 methods in 3 blocks: F rejects 20 % of pure noise at 0.05), which have an exact p-value besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, fdtrc

from caveat._internal.checks import as_comparable, check_each, check_shape
from caveat.stats._ties import ROUNDING, tie_levels
from caveat.stats.exact import agreement_p_value, exact_p_value

__all__ = ["Friedman", "friedman", "mid_ranks"]


@final
@dataclass(frozen=True)
class Friedman:
    """Friedman's test with its companions. ``exact_p_value`` is None where the table is too large to need one."""

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

    Examples
    --------
    >>> mid_ranks(np.array([[0.3, 0.1, 0.3], [1.0, 2.0, 3.0]]))
    array([[2.5, 1. , 2.5],
           [1. , 2. , 3. ]])
    """
    good = _table(values, "values")
    size = np.where(np.isfinite(good), np.abs(good), 0.0)
    good = tie_levels(good if lower_is_better else -good, ROUNDING * size)
    # k is small: counting who is below whom needs no sort and treats ties by themselves.
    below = (good[:, None, :] < good[:, :, None]).sum(axis=2)
    at_most = (good[:, None, :] <= good[:, :, None]).sum(axis=2)
    return np.asarray((below + at_most + 1) / 2)


def friedman(ranks: ArrayLike) -> Friedman:
    """Friedman, Iman-Davenport and Kendall's W of an (N, k) array of ranks (``mid_ranks``).

    Where every block ties all methods there is nothing to tell apart: Q = 0 and p = 1. Where all blocks agree
    completely, F is infinite and says nothing of their number: its p-value is then the chance of that agreement.

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
