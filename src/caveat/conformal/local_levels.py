r"""Boundaries of any shape, scaled until they spend exactly what is allowed; equal local levels are the default shape.

$$ \theta^* = \max \{ \theta : V(b(\theta)) \le \delta \} $$

A family b(theta) that falls as theta grows gives a band of its own shape; the exact violation probability V says how
far theta may go. With weights w the family is $b_i(\theta) = F^{-1}_{Beta(i,\, n+1-i)}(1 - \theta w_i)$: rank i alone
is crossed with chance theta * w_i. Weights on the small ranks spend the budget where false-positive rates are small.

With equal weights every rank is crossed with the same chance eta, so no part of the band is wasted: tight near 0, in
the middle and near 1. Local levels after Gontscharuk, Landwehr and Finner, "Goodness of fit tests in terms of local
levels with special emphasis on higher criticism tests", Bernoulli 22(3), 2016; here eta comes from the exact V.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from caveat._internal.blocks import row_blocks
from caveat._internal.cache import remembered
from caveat._internal.checks import as_boundary, as_count, as_level, as_number, as_vector, check_same
from caveat.conformal.violation import violation_probability
from caveat.errors import CaveatError, InputError

__all__ = [
    "EXACT_UP_TO", "calibrate_shape", "equal_levels", "local_level", "quick_level", "rank_weights", "safe_theta",
]  # fmt: skip

EXACT_UP_TO = 1_000_000  # beyond, eta is extrapolated
SPLINE_FROM = 20_000
NODES = (25_000, 50_000, 100_000)  # where eta is computed for the extrapolation
SAFETY = 0.98  # eta beyond the nodes is lowered by this, at the cost of 0.2 % of the width of the band
TOLERANCE = 1e-6  # the share of delta that may stay unspent

Vector = NDArray[np.float64]
Family = Callable[[float], ArrayLike]


def calibrate_shape(n: int, delta: float, shape: ArrayLike | Family) -> Vector:
    """The boundary of the given shape whose exact violation probability is delta: the tightest that keeps its promise.

    Parameters
    ----------
    n
        How many calibration scores.
    delta
        Allowed failure of the band.
    shape
        Weights of the ranks, shape (n,): rank i is crossed with chance proportional to its weight, 0 spends nothing on
        it. Or a function of theta in (0, 1) that returns a boundary of n values, falling as theta grows.

    Returns
    -------
    array of shape (n,)
        The boundary, made non-decreasing where the shape is not: a rank can be lowered to the next without changing
        what is crossed, because the order statistics are ordered.

    Examples
    --------
    Spending everything on false-positive rates up to 0.1 makes the band there narrower than equal local levels do:

    >>> from caveat.conformal import boundary
    >>> n, k = 1000, 50
    >>> everywhere, low = boundary(n, 0.05), calibrate_shape(n, 0.05, rank_weights(n, upto=0.1))
    >>> print(f"{k / n:.3f} {low[k]:.4f} {everywhere[k]:.4f}")
    0.050 0.0703 0.0744
    """
    n, delta = as_count(n, "n"), as_level(delta, "delta")
    if callable(shape):
        family, start = shape, delta / 2
    else:
        weights = as_vector(shape, "shape")
        if weights.size != n or (weights < 0).any() or not weights.any():
            raise InputError(f"shape must hold n = {n} weights, none negative and one positive, got {weights.size}.")
        weights = weights / weights.max()
        family, start = (lambda theta: _quantiles(theta * weights)), delta / (10 + 10 * math.log(n))

    def crossing(theta: float) -> float:
        return violation_probability(_ordered(family(theta), n))

    theta, _ = safe_theta(crossing, delta, start=start)
    return _ordered(family(theta), n)


def rank_weights(n: int, *, upto: float, least: float = 0.0) -> Vector:
    """Weights that spend the whole budget of an upper FPR band on empirical false-positive rates in [least, upto].

    Reverse them (``[::-1]``) for the lower band.

    Parameters
    ----------
    n
        Number of inliers.
    upto
        Largest empirical false-positive rate at which the band must be tight.
    least
        Smallest such rate.

    Returns
    -------
    array of shape (n,)
        1 for the ranks that matter, else 0: the weights of ``calibrate_shape``.

    Examples
    --------
    >>> rank_weights(10, upto=0.2)
    array([1., 1., 1., 0., 0., 0., 0., 0., 0., 0.])
    """
    n, upto = as_count(n, "n"), as_level(upto, "upto")
    least = as_number(least, "least", least=0, most=upto)
    k = np.arange(n)  # rank k + 1 bounds the rate k / n
    slack = 1e-9  # 0.29 * 100 is 28.999999999999996 and 0.07 * 100 is 7.000000000000001 in floats
    return ((k >= least * n - slack) & (k <= upto * n + slack)).astype(np.float64)


def safe_theta(crossing: Callable[[float], float], delta: float, *, start: float) -> tuple[float, float]:
    """The largest theta in (0, 1] whose crossing probability is at most delta, and that probability.

    ``crossing`` must not fall. Steps out from ``start`` until delta is bracketed, then regula falsi on logarithms,
    where crossing probabilities are nearly straight lines; the end that stays twice loses half its pull (Illinois).
    """
    low, low_value, high, high_value = -math.inf, 0.0, 0.0, math.inf  # in log(theta)
    at, reach = math.log(start), 1e-4
    pull, last = 1.0, 0
    while True:
        value = crossing(math.exp(at))
        if value <= delta:
            low, low_value, side = at, value, 1
        else:
            high, high_value, side = at, value, -1
        if low_value >= delta * (1 - TOLERANCE) or low >= 0 or high - low < 1e-13:
            return math.exp(low), low_value
        if low == -math.inf:
            if at < -700:
                raise CaveatError(f"no theta of this shape keeps the violation at or below {delta}, it stays {value}.")
            at -= 1.25 * math.log(value / delta) + reach  # V grows a little slower than theta: aim past the target
            reach *= 8
        elif high_value == math.inf:
            at = min(0.0, at + 1.25 * min(math.log(delta / value) if value > 0 else 1.0, 1.0) + reach)
            reach *= 8
        else:
            pull = pull / 2 if side == last else 1.0
            below = math.log(delta * (1 - TOLERANCE / 2) / low_value) if low_value > 0 else math.inf
            above = math.log(high_value / delta)
            below, above = (below, above * pull) if side == 1 else (below * pull, above)
            share = below / (below + above) if 0 < below < math.inf else 0.5
            at, last = low + (high - low) * share, side


@lru_cache(maxsize=1024)
def local_level(n: int, delta: float) -> tuple[float, float]:
    """eta, and the exact violation probability of its boundary (NaN above n = 1,000,000, where eta is extrapolated).

    Above 1,000,000 log(eta) follows a parabola in log(log(n)) through the values at 25,000, 50,000 and 100,000, which
    errs by 0.1 % at 1,000,000, and is lowered by two percent to be safe: at n = 10,000,000 and delta = 0.05 the exact
    violation probability of the extrapolated boundary is 0.0493. Kept on disk per (n, delta).
    """
    if n > EXACT_UP_TO:
        return _extrapolated(n, delta), math.nan

    def compute() -> dict[str, float]:
        eta, spent = safe_theta(
            lambda theta: violation_probability(equal_levels(n, theta)), delta, start=_guess(n, delta)
        )
        return {"eta": eta, "violation": spent}

    stored = remembered(f"bands/v1-eta-n{n}-delta{delta!r}", compute)
    return stored["eta"], stored["violation"]


def quick_level(n: int, delta: float) -> float:
    """eta, extrapolated from n = 100,000 on: within a few percent below, in seconds instead of minutes."""
    return local_level(n, delta)[0] if n <= NODES[-1] else _extrapolated(n, delta)


def equal_levels(n: int, eta: float) -> Vector:
    """The boundary of n ranks that each cross with chance eta.

    From 20,000 ranks on a cubic spline in log-odds through 1,400 exact quantiles stands in for the rest; it differs by
    1e-10 of a standard deviation, and takes milliseconds instead of minutes at n = 10,000,000.
    """
    if n < SPLINE_FROM:
        return _quantiles(np.full(n, eta))
    from scipy.interpolate import CubicSpline

    ends = np.arange(1, 201, dtype=np.float64)
    odds = np.linspace(-1, 1, 1000) * math.log((n + 1 - ends[-1]) / ends[-1])
    knots = np.concatenate([ends, (n + 1) / (1 + np.exp(-odds[1:-1])), n + 1 - ends[::-1]])
    quantiles = betaincinv(knots, n + 1 - knots, 1 - eta)
    deviation = CubicSpline(
        np.log(knots / (n + 1 - knots)), (quantiles - knots / (n + 1)) / np.sqrt(knots * (n + 1 - knots))
    )
    b = np.empty(n)
    for block in row_blocks(n, row_bytes=8, block_bytes=2**18):  # stays in the cache
        rank = np.arange(block.start + 1, block.stop + 1, dtype=np.float64)
        left = n + 1 - rank
        b[block] = rank / (n + 1) + deviation(np.log(rank / left)) * np.sqrt(rank * left)
    return np.maximum.accumulate(np.clip(b, 0.0, 1.0, out=b), out=b)


def _guess(n: int, delta: float) -> float:
    """Within a tenth of eta for delta of 0.001 to 0.2 and n from 100 on: the root search starts here."""
    if n < 16:
        return delta / n
    return -math.log1p(-delta) / (4 * math.log(n) * math.log(math.log(n))) * math.exp(0.17 * math.log(100 * delta))


def _extrapolated(n: int, delta: float) -> float:
    at = np.log(np.log(NODES))
    values = [math.log(local_level(node, delta)[0]) for node in NODES]
    curve = np.polyfit(at, values, deg=2)
    return SAFETY * math.exp(float(np.polyval(curve, math.log(math.log(n)))))


def _quantiles(levels: Vector) -> Vector:
    """The boundary whose i-th rank alone is crossed with chance levels[i]."""
    rank = np.arange(1, levels.size + 1)
    return np.asarray(betaincinv(rank, levels.size + 1 - rank, 1 - np.minimum(levels, 1.0)))


def _ordered(b: ArrayLike, n: int) -> Vector:
    values = as_vector(b, "shape(theta)")
    check_same("length", **{"shape(theta)": values.size, "the ranks": n})
    return as_boundary(np.minimum.accumulate(np.clip(values, 0.0, 1.0)[::-1])[::-1], "shape(theta)")
