r"""Calibration-conditional p-values: valid for this calibration set, not only on average over such sets.

$$ p(x) = b_{k(x)+1}, \qquad P\big( P(p(x) \le t \mid \text{calibration}) \le t \ \forall t \big) \ge 1 - \delta $$

with k(x) calibration scores at or above that of x. A marginal p-value keeps P(p <= t) <= t only over calibration set
and test point together; given the calibration set, the rule p <= t has a false-positive rate that follows
Beta(l, n+1-l) with l = floor((n+1)t). Bates, Candes, Lei, Romano and Sesia, "Testing for outliers with conformal
p-values", Annals of Statistics 51(1), 2023, theorem 4.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_count, exact_level
from caveat.conformal.fpr_band import FPRBand
from caveat.errors import InputError

__all__ = ["conditional_p_values", "fpr_law"]


def conditional_p_values(
    *, calibration: ArrayLike, test: ArrayLike, delta: float = 0.05, method: str | ArrayLike = "exact"
) -> NDArray[np.float64]:
    """P-values that are valid given the calibration set, with probability 1 - delta over it. Small means strange.

    Parameters
    ----------
    calibration
        Nonconformity, shape (n,); larger is stranger.
    test
        Nonconformity, any shape.
    delta
        Allowed chance that the calibration set is one of those for which the p-values are too small.
    method
        The boundary, by name or as values; see ``FPRBand``.

    Returns
    -------
    array of shape (m,)
        One p-value per test score.

    Examples
    --------
    The smallest marginal p-value of 99 calibration scores is 0.01; a promise about these 99 costs a factor of six.

    >>> conditional_p_values(calibration=np.arange(99), test=[0, 50, 200]).round(3)
    array([1.   , 0.638, 0.059])
    """
    return FPRBand(calibration, delta=delta, method=method).upper(test)


def fpr_law(n: int, t: float) -> tuple[int, int]:
    """Parameters of the Beta law of the false-positive rate of the rule "marginal p-value <= t" over calibration sets.

    Beta(l, n + 1 - l) with l = floor((n + 1) t), eq. (8) of "Exploring the Link Between Out-of-Distribution Detection
    and Conformal Prediction". Scores must be continuous; with ties the rate is smaller.

    Parameters
    ----------
    n
        Number of calibration scores.
    t
        Level of the rule.

    Returns
    -------
    tuple of two int
        The parameters l and n + 1 - l of the Beta law; its mean is l / (n + 1).

    Examples
    --------
    >>> fpr_law(9999, 0.1)
    (1000, 9000)
    """
    n = as_count(n, "n")
    rank = math.floor((n + 1) * exact_level(t, "t"))
    if rank == 0:
        raise InputError(f"t must be at least 1 / (n + 1) = {1 / (n + 1):g}, got {t}: no p-value is smaller.")
    return rank, n + 1 - rank
