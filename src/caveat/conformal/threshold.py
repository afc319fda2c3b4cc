r"""A threshold with a promised false-alarm rate, and how much calibration data a promise needs.

Of n inlier scores, the i-th largest is exceeded by a new one with a chance that follows Beta(i, n+1-i), less with ties:

$$ t = s_{[i]}, \qquad i = \max\{ i : P(Beta(i, n+1-i) \le \alpha) \ge 1 - \delta \} $$

keeps the false-alarm rate of "score > t" at or below alpha with probability 1 - delta: Vovk, "Conditional validity of
inductive conformal predictors", ACML 2012. One threshold needs no band over all of them.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from caveat._internal.checks import as_count, as_level, as_vector
from caveat.conformal.local_levels import quick_level
from caveat.conformal.quantile import least_n, pac_rank
from caveat.errors import CaveatWarning, InputError

__all__ = ["least_n", "required_n", "safe_rank", "step_above", "threshold_for"]


def threshold_for(inlier: ArrayLike, false_alarm: float = 0.05, delta: float = 0.05) -> float:
    """The smallest threshold whose true false-alarm rate is at most ``false_alarm`` with probability 1 - delta.

    Flag scores at or above it. ``inf``, with a warning, if n is too small for the promise: nothing is flagged then.
    Ties are safe: the threshold lies just above the score it comes from, so that a tied group is flagged or kept whole.
    "Just above" is one step of the coarsest of float16, float32 and float64 that holds all scores: a smaller step would
    be rounded away where float32 scores, of a torch tensor for instance, are compared with the threshold.

    Parameters
    ----------
    inlier
        Calibration scores, shape (n,), not used in training; larger is stranger. Any array, tensor or list of numbers.
    false_alarm
        Allowed chance that a new inlier is flagged, given this calibration set.
    delta
        Allowed chance that the calibration set misleads.

    Returns
    -------
    float
        The threshold, or ``inf``.

    Examples
    --------
    >>> scores = np.arange(1000)
    >>> t = threshold_for(scores, false_alarm=0.05, delta=0.01)
    >>> int((scores >= t).sum())
    34
    """
    scores = as_vector(inlier, "inlier", allow_infinite=True)
    as_level(false_alarm, "false_alarm")
    n, rank = scores.size, safe_rank(scores.size, false_alarm, delta)
    if rank == 0:
        warnings.warn(
            f"n = {n} is too small for a false-alarm rate of {false_alarm} with delta = {delta}: the threshold is "
            f"infinite. Calibrate on {least_n(false_alarm, delta)} samples or more.",
            CaveatWarning,
            stacklevel=2,
        )
        return math.inf
    exceeded = float(np.partition(scores, n - rank)[n - rank])
    if exceeded == math.inf:
        raise InputError(
            f"inlier has {np.count_nonzero(scores == math.inf)} infinite scores among {n}, too many for a false-alarm "
            f"rate of {false_alarm}: no threshold lies above them. Cap the scores, or allow more false alarms."
        )
    return step_above(exceeded, scores)


def step_above(value: float, scores: NDArray[np.float64]) -> float:
    """The next number above ``value`` in the coarsest float type that holds all scores.

    The type in which the caller compares is not known: a list of np.float32 has none, and scores stored as
    float64 may have been float32. In every type that holds the scores, finer ones too, the answer stays above ``value``
    and at or below every larger score.
    """
    for kind in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            exact = np.array_equal(scores.astype(kind), scores)
        above = float(np.nextafter(kind(value), kind(np.inf))) if exact else math.inf
        if above < math.inf:  # the largest float16 has none above it
            return above
    return float(np.nextafter(value, np.inf))


def safe_rank(n: int, rate: float, delta: float) -> int:
    """The largest i with P(Beta(i, n+1-i) <= rate) >= 1 - delta; 0 if there is none.

    >>> safe_rank(1000, 0.05, 0.01), safe_rank(89, 0.05, 0.01), safe_rank(90, 0.05, 0.01)
    (35, 0, 1)
    """
    return n + 1 - pac_rank(as_count(n, "n"), rate, delta)


def required_n(fpr: float, margin: float, delta: float = 0.05, *, simultaneous: bool = True) -> int:
    r"""How many calibration inliers bring the upper bound of a false-positive rate within ``margin`` of it.

    The smallest n with $F^{-1}_{Beta(fpr\,n + 1,\, n - fpr\,n)}(1 - \eta_n) \le fpr + margin$: measured on n or more
    inliers, a rate of ``fpr`` or less is known to be at most ``fpr + margin`` with probability 1 - delta. Answers above
    100,000 for the band may be up to 0.3 % larger than necessary (eta is extrapolated there).

    Parameters
    ----------
    fpr
        The false-positive rate at which the detector will work.
    margin
        How far above it the guaranteed rate may lie.
    delta
        Allowed failure.
    simultaneous
        True: for the band over all thresholds (``FPRBand``). False: for one threshold that is fixed before the
        calibration data are seen, which needs about a third as many.

    Returns
    -------
    int
        The number of inliers.

    Examples
    --------
    >>> required_n(0.05, 0.01, 0.05), required_n(0.05, 0.01, 0.05, simultaneous=False)
    (5385, 1574)
    """
    rate, slack, delta = as_level(fpr, "fpr"), as_level(margin, "margin"), as_level(delta, "delta")
    if rate + slack >= 1:
        raise InputError(f"fpr + margin must be below 1, got {fpr} + {margin}.")

    def excess(n: int, eta: float) -> float:
        return float(betaincinv(rate * n + 1, n - rate * n, 1 - eta)) - rate - slack

    def smallest(eta: float) -> int:
        high = 1
        while excess(high, eta) > 0:
            high *= 2
            if high > 2**53:
                raise InputError(f"margin must be larger: {margin} at fpr {fpr} takes more than 2**53 inliers.")
        return bisect_left(range(high), True, lo=high // 2 + 1, key=lambda n: excess(n, eta) <= 0)

    if not simultaneous:
        return smallest(delta)
    # eta falls so slowly with n that a few rounds of "n for this eta, eta for this n" settle it, from below.
    n = smallest(delta)
    while (following := smallest(quick_level(n, delta))) > n:
        n = following
    return n
