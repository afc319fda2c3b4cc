r"""Selecting outliers among many test points with a bound on the share of false discoveries.

$$ \hat\imath = \max\{ i : p_{(i)} \le q\, i / (\hat\pi_0 m) \}, \qquad \text{select } p_j \le p_{(\hat\imath)} $$

with $\hat\pi_0 = 1$ (Benjamini and Hochberg, JRSS B 57(1), 1995) or
$\hat\pi_0 = (1 + \#\{p_j > \lambda\}) / (m (1 - \lambda))$, at most 1 (Storey, Taylor and Siegmund, JRSS B 66, 2004).

Marginal conformal p-values share their calibration set and are positively dependent, so the false discovery rate stays
at or below q: Bates, Candes, Lei, Romano and Sesia, Annals of Statistics 51(1), 2023. With calibration-conditional
p-values it does so for this calibration set, with probability 1 - delta.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_level, as_shares, check_known
from caveat.conformal.conditional_p import conditional_p_values
from caveat.conformal.p_values import p_values as marginal_p_values

__all__ = ["inliers_among", "last_passing", "select_outliers", "select_outliers_from"]


def select_outliers(
    p_values: ArrayLike, q: float, method: Literal["bh", "storey"] = "bh", *, threshold: float = 0.5
) -> NDArray[np.bool_]:
    """Which test points to call outliers so that at most a share q of the calls is expected to be false.

    Parameters
    ----------
    p_values
        Shape (m,), in [0, 1]; m = 0 selects nothing. Equal p-values are selected together.
    q
        Allowed false discovery rate.
    method
        ``"bh"`` (Benjamini-Hochberg), or ``"storey"``, which finds more where outliers are many.
    threshold
        lambda of ``"storey"``: p-values above it are taken for inliers.

    Returns
    -------
    boolean array of shape (m,)
        Which test points are called outliers.

    Examples
    --------
    >>> select_outliers([0.01, 0.02, 0.04, 0.2, 0.9], q=0.1)
    array([ True,  True,  True, False, False])
    """
    values, level = as_shares(p_values, "p_values"), as_level(q, "q")
    check_known(method, ("bh", "storey"), "selection method")
    cut = as_level(threshold, "threshold")
    m = values.size
    if m == 0:
        return np.zeros(0, dtype=np.bool_)
    inliers = inliers_among(m, int(np.count_nonzero(values > cut)), cut) if method == "storey" else float(m)
    return np.asarray(values <= last_passing(np.sort(values), np.arange(1, m + 1), level, inliers))


def inliers_among(m: int, above: int, cut: float) -> float:
    """Storey's estimate of how many of m p-values belong to inliers, where ``above`` of them are above ``cut``."""
    return min(float(m), (1 + above) / (1 - cut))


def last_passing(p: NDArray[np.float64], at_or_below: NDArray[np.integer], q: float, inliers: float) -> float:
    """The largest p-value on or under the line of Benjamini and Hochberg; -1 if none is.

    ``p`` ascends, and ``at_or_below`` says how many of all p-values are at or below each; ties may be given once.

    >>> last_passing(np.array([0.01, 0.04, 0.5]), np.array([1, 3, 5]), 0.1, 5.0)
    0.04
    """
    # A p-value of 3/30 must pass the line 0.2 * 5/10: both are 0.1, but not in floats.
    passing = np.flatnonzero(p <= q * at_or_below / inliers * (1 + 1e-12))
    return float(p[passing[-1]]) if passing.size else -1.0


def select_outliers_from(
    *,
    calibration: ArrayLike,
    test: ArrayLike,
    q: float,
    delta: float | None = None,
    method: Literal["bh", "storey"] = "bh",
) -> NDArray[np.bool_]:
    """Select outliers among test scores by their p-values against calibration scores.

    ``delta=None``: marginal p-values, the false discovery rate is at most q on average over calibration sets. With a
    delta: calibration-conditional p-values, it is at most q for this calibration set with probability 1 - delta.

    Parameters
    ----------
    calibration, test
        Scores of n inliers and of m test points; larger is stranger.
    q
        Allowed false discovery rate.
    delta
        None, or the allowed chance over calibration sets that the promise fails.
    method
        ``"bh"`` (Benjamini-Hochberg) or ``"storey"``, as for :func:`select_outliers`.

    Returns
    -------
    boolean array of shape (m,)
        Which test points are called outliers.

    Examples
    --------
    >>> import numpy as np
    >>> calibration, test = np.arange(1000), np.array([10, 500, 2000, 3000, 4000])
    >>> select_outliers_from(calibration=calibration, test=test, q=0.1)
    array([False, False,  True,  True,  True])
    """
    if delta is None:
        p = marginal_p_values(calibration=calibration, test=test)
    else:
        p = conditional_p_values(calibration=calibration, test=test, delta=delta)
    return select_outliers(p, q, method)
