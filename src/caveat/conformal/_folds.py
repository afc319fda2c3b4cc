r"""What cross-conformal sets and intervals promise.

A row of fold k is compared with the test row by the model that did not see fold k. Of n rows in K folds,
$M = \lfloor \alpha (n + 1) \rfloor$ with the test row may be at most as typical, and

$$ P(\text{covered}) \ge 1 - 2 \frac{M + K - 1}{n + K} $$

for any model and any sizes of folds, because the p-values of the folds, weighted by their sizes, have a mean whose
double is a p-value (Vovk and Wang, "Combining p-values via averaging", Biometrika 107, 2020). With folds of one size
and a model that treats rows alike, also

$$ P(\text{covered}) \ge 1 - 2 \alpha - \frac{1 - K / n}{K + 1} $$

which is $1 - 2 \alpha$ for the jackknife+, K = n (Barber, Candes, Ramdas and Tibshirani, "Predictive Inference with the
Jackknife+", Annals of Statistics 49, 2021, theorems 1 and 4). Models that change little with a few rows cover about
$1 - \alpha$.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat.conformal.grouped import as_groups
from caveat.conformal.quantile import quantile_rank
from caveat.errors import InputError

__all__ = ["allowed_misses", "as_folds", "cross_caveat", "cross_level"]


def as_folds(value: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The names of the folds, ascending, and the number of the fold of each row; at least two folds."""
    names, number = np.unique(as_groups(value, "folds", n), return_inverse=True)
    if names.size < 2:
        raise InputError(f"folds must name at least 2 folds, got {names.size}.")
    return names, np.asarray(number, dtype=np.intp)


def allowed_misses(n: int, alpha: float) -> int:
    """floor(alpha (n + 1)), computed exactly: a label is out if at most this many rows, with its own, are as strange.

    >>> allowed_misses(9, 0.1), allowed_misses(8, 0.1)
    (1, 0)
    """
    return n + 1 - quantile_rank(n, alpha)


def cross_level(fold: NDArray[np.intp], group: NDArray[np.intp], alpha: float) -> float:
    """The coverage that is proven within every group, from the numbers of the fold and the group of each row.

    >>> halves, alone = np.repeat([0, 1], 50), np.arange(100)
    >>> cross_level(halves, np.zeros(100, int), 0.1), cross_level(alone, np.zeros(100, int), 0.1)
    (0.7843137254901961, 0.8)
    """
    sizes = np.bincount(fold)
    equal = bool((sizes == sizes[0]).all())
    levels = []
    for g in np.unique(group):
        rows = fold[group == g]
        n, folds, allowed = rows.size, np.unique(rows).size, allowed_misses(rows.size, alpha)
        if allowed == 0:
            levels.append(1.0)  # nothing is ever excluded
            continue
        proven = [0.0, 1 - 2 * (allowed + folds - 1) / (n + folds)]
        if equal and (n == fold.size or sizes[0] == 1):  # within a group, folds of several rows have several sizes
            proven.append(1 - 2 * alpha - (1 - folds / n) / (folds + 1))
        levels.append(max(proven))
    return min(levels)


def cross_caveat(level: float, alpha: float) -> str:
    """The sentence on what is proven and what is typical; empty where 1 - alpha is proven."""
    if level >= 1 - alpha:
        return ""
    return (
        f"Every row calibrated the model that did not see it: {level:.3f} is proven for any model, and about "
        f"{1 - alpha:g} is typical of models that change little with a few rows."
    )
