r"""Hoeffding's and Bentkus' bounds of the mean of values in [0, 1], from their average alone.

With h(a, b) = a log(a/b) + (1 - a) log((1 - a)/(1 - b)), an average at most a of n independent values with mean b > a
has probability at most $e^{-n h(a, b)}$ (Hoeffding, JASA 58, 1963, theorem 1) and at most
$e \, P(\mathrm{Bin}(n, b) \le \lceil n a \rceil)$ (Bentkus, Annals of Probability 32(2), 2004). The smaller one is the
Hoeffding-Bentkus p-value of Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free, risk-controlling prediction
sets", Journal of the ACM 68(6), 2021, arXiv:2101.02703, section 3.1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import bdtr, kl_div

__all__ = ["hoeffding_bentkus_p_values", "hoeffding_lower"]


def hoeffding_bentkus_p_values(averages: NDArray[np.float64], n: int, mean: float) -> NDArray[np.float64]:
    """P-values of "the mean is above ``mean``" from averages of n values in [0, 1].

    >>> hoeffding_bentkus_p_values(np.array([0.0, 0.05, 0.2]), 100, 0.1).round(5)
    array([3.0000e-05, 1.5651e-01, 1.0000e+00])
    """
    hoeffding = np.exp(-n * _entropy(np.minimum(averages, mean), mean))
    whole = np.ceil(n * averages * (1 - 1e-12))  # 0.07 * 100 is 7.000000000000001 and means 7
    return np.minimum(1.0, np.minimum(hoeffding, math.e * bdtr(whole, n, mean)))


def hoeffding_lower(average: float, n: int, delta: float) -> float:
    """Below the mean with probability at least 1 - delta: the smallest b with n h(average, b) <= log(1 / delta).

    >>> round(hoeffding_lower(0.9, 100, 0.05), 4), hoeffding_lower(1.0, 10, 0.5) == 0.5**0.1
    (0.8112, True)
    """
    target = math.log(1 / delta) / n
    if average == 1:  # h(1, b) = -log b
        return math.exp(-target)
    if average == 0:
        return 0.0
    least = average * math.exp(-(target + 1) / average)  # h(a, b) > a log(a/b) + (1 - a) log(1 - a) >= target here
    if least <= 0 or _entropy(average, least) <= target:
        return 0.0
    root = brentq(lambda mean: float(_entropy(average, mean)) - target, least, average, xtol=1e-12)
    return max(0.0, float(root) - 2e-12)


def _entropy(average: ArrayLike, mean: float) -> NDArray[np.float64]:
    """Relative entropy of a coin with ``average`` to a coin with ``mean``."""
    share = np.asarray(average, dtype=np.float64)
    return np.asarray(kl_div(share, mean) + kl_div(1 - share, 1 - mean))
