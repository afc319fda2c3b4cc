r"""Equal local levels: a boundary that every rank crosses with the same chance.

$$ b_i = F^{-1}_{Beta(i,\, n + 1 - i)}(1 - \eta), \qquad \eta = \max\{\eta : V(b) \le \delta\} $$

Because each rank alone is crossed with chance eta, no part of the band is wasted: tight near 0, in the middle and near
1. Local levels after Gontscharuk, Landwehr and Finner, "Goodness of fit tests in terms of local levels with special
emphasis on higher criticism tests", Bernoulli 22(3), 2016; here eta comes from the exact violation probability.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from caveat._internal.blocks import row_blocks
from caveat._internal.cache import remembered
from caveat.conformal.shape import safe_theta
from caveat.conformal.violation import violation_probability

__all__ = ["EXACT_UP_TO", "equal_levels", "local_level", "quick_level"]

EXACT_UP_TO = 1_000_000  # beyond, eta is extrapolated
SPLINE_FROM = 20_000
NODES = (25_000, 50_000, 100_000)  # where eta is computed for the extrapolation
SAFETY = 0.98  # eta beyond the nodes is lowered by this, at the cost of 0.2 % of the width of the band

Vector = NDArray[np.float64]


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

    found = remembered(f"bands/v1-eta-n{n}-delta{delta!r}", compute)
    return found["eta"], found["violation"]


def quick_level(n: int, delta: float) -> float:
    """eta, extrapolated from n = 100,000 on: within a few percent below, in seconds instead of minutes."""
    return local_level(n, delta)[0] if n <= NODES[-1] else _extrapolated(n, delta)


def equal_levels(n: int, eta: float) -> Vector:
    """The boundary of n ranks that each cross with chance eta.

    From 20,000 ranks on a cubic spline in log-odds through 1,400 exact quantiles stands in for the rest; it differs by
    1e-10 of a standard deviation, and takes milliseconds instead of minutes at n = 10,000,000.
    """
    if n < SPLINE_FROM:
        rank = np.arange(1, n + 1)
        return np.asarray(betaincinv(rank, n + 1 - rank, 1 - eta))
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
