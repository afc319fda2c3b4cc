r"""The exact chance that uniform order statistics cross a boundary.

$$ V(b) = P(U_{(i)} > b_i \text{ for some } i) = \sum_i P(N(b_i) = i - 1,\ N(b_j) \ge j \text{ for all } j < i) $$

with N(t) the number of the n uniforms at or below t. Given its total, a Poisson process of rate n is such a count, and
its increments do not depend on where it stands: a vector of surviving counts is walked from one b_i to the next by
convolution with a Poisson law, and what falls to i - 1 there has crossed for the first time. Counts that the n uniforms
reach with a chance below 1e-17 are left out, so the vector is O(sqrt(n)) long.

Only counts near the boundary feel it. Within a block of steps, counts that the boundary cannot reach take one long
stride (one FFT), and only the few below walk step by step. A literal O(n^2) recursion is the oracle in the tests.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import kl_div

from caveat._internal.checks import as_boundary

__all__ = ["violation_probability"]

TAIL = -math.log(1e-17)  # states and jumps rarer than this are left out
# log(k!) less Stirling's formula, for the k where its series is not yet exact
STIRLING = np.array([0.0, *(math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2 * math.pi)
                            for k in range(1, 32))])  # fmt: skip
DIRECT = 40_000  # multiplications up to which a direct convolution beats an FFT

Vector = NDArray[np.float64]


def violation_probability(b: ArrayLike) -> float:
    r"""Chance that the order statistics of n uniforms are not all at or below the boundary: P(some U_(i) > b_i).

    An FPR band made from b fails with this chance, so its exact level is 1 - V(b). Lower is better; absolute error
    below 1e-10. O(n^1.5) at worst: n = 10,000 takes a tenth of a second, n = 1,000,000 about ten.

    Parameters
    ----------
    b
        The boundary, shape (n,), 0 <= b_1 <= ... <= b_n <= 1.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    One uniform exceeds 0.9 with chance 0.1; of two, both stay below 0.5 or one below 0.5 and the other below 0.8:

    >>> round(violation_probability([0.9]), 12), round(violation_probability([0.5, 0.8]), 12)
    (0.1, 0.45)
    """
    values = as_boundary(b, "b")
    n = values.size
    # From the first b_i = 1 on nothing can be crossed.
    times = np.concatenate([[0.0], values[: int(np.searchsorted(values, 1.0))]])
    steps = times.size - 1
    spread = TAIL / 3 + np.sqrt(TAIL**2 / 9 + 2 * TAIL * n * times * (1 - times))  # Bernstein's bound for N(b_i)
    lowest = np.maximum(np.arange(steps + 1), np.ceil(n * times - spread).astype(np.int64))
    highest = np.minimum(n, np.floor(n * times + spread).astype(np.int64))
    stride = max(16, int(1.2 * math.sqrt(max(0, int((highest - lowest).max())))))

    crossed = np.zeros(steps + 1)  # mass of the Poisson walk that first falls to i - 1 at b_i
    floor, mass = 0, np.ones(1)  # mass[c] is that of the count floor + c
    start = 0
    while start < steps and mass.size:
        stop = min(start + stride, steps)
        split = min(max(stop - floor, 0), mass.size)  # counts from `stop` on are safe up to b_stop
        near_floor, near = floor, mass[:split]
        if split:
            ahead = n * (times[start + 1 : stop + 1] - times[start])
            bottoms = lowest[start + 1 : stop + 1].tolist()
            tops = np.minimum(highest[start + 1 : stop + 1], stop + _most(ahead)).tolist()
            kernels = _poisson_rows(n * np.diff(times[start : stop + 1]))
            for step, bottom, top, kernel in zip(range(start + 1, stop + 1), bottoms, tops, kernels, strict=True):
                near = np.convolve(near, kernel)
                if near_floor == step - 1:
                    crossed[step] = near[0]
                near = near[bottom - near_floor : max(top + 1 - near_floor, 0)]
                near_floor = bottom
                if not near.size:
                    break
        far_floor, far = _stride(floor + split, mass[split:], n * (times[stop] - times[start]))
        floor, top = int(lowest[stop]), int(highest[stop])
        mass = np.zeros(max(top + 1 - floor, 0))
        _add(mass, floor, near_floor, near)
        _add(mass, floor, far_floor, far)
        start = stop

    at = np.flatnonzero(crossed > 0)
    weight = np.exp(_log_poisson(n + 1 - at, n * (1 - times[at])) - _log_poisson(np.array(n), float(n)))
    return float(min(1.0, np.sum(crossed[at] * weight)))


def _stride(floor: int, mass: Vector, mean: float) -> tuple[int, Vector]:
    """Mass after a Poisson jump of the given mean, and its lowest count."""
    if not mass.size:
        return floor, mass
    least = max(0, math.floor(mean - math.sqrt(2 * TAIL * mean)))
    most = int(_most(np.array(mean)))
    kernel = np.exp(_log_poisson(np.arange(least, most + 1), mean))
    if kernel.size * mass.size <= DIRECT:
        return floor + least, np.convolve(mass, kernel)
    size = kernel.size + mass.size - 1
    padded = 1 << (size - 1).bit_length()
    product = np.fft.rfft(mass, padded) * np.fft.rfft(kernel, padded)
    return floor + least, np.fft.irfft(product, padded)[:size]


def _most(mean: Vector) -> NDArray[np.int64]:
    """A count that a Poisson law of this mean exceeds with a negligible chance (Bernstein's bound)."""
    return np.ceil(mean + TAIL / 3 + np.sqrt(TAIL**2 / 9 + 2 * TAIL * mean)).astype(np.int64)


def _add(mass: Vector, floor: int, part_floor: int, part: Vector) -> None:
    """Add a part to the mass in place; what lies outside is left out."""
    first = max(floor - part_floor, 0)
    kept = part[first : max(floor + mass.size - part_floor, 0)]
    shift = part_floor + first - floor
    mass[shift : shift + kept.size] += kept


def _poisson_rows(means: Vector) -> list[Vector]:
    """Poisson laws 0, 1, 2, ... of several means, each cut where it becomes negligible."""
    most = _most(means) + 1
    if most.max() > 256:  # a jump of the boundary: a shared table would be mostly empty
        return [np.exp(_log_poisson(np.arange(m), mean)) for m, mean in zip(most, means, strict=True)]
    table = np.exp(_log_poisson(np.arange(most.max()), means[:, None]))
    heavy = np.arange(1, table.shape[1] + 1) * (table > 1e-19)
    return [row[:size] for row, size in zip(table, heavy.max(axis=1), strict=True)]


def _log_poisson(count: NDArray[np.int64], mean: Vector | float) -> Vector:
    """log of the Poisson pmf by its deviance: without the cancellation in count * log(mean) - mean - log(count!)."""
    k = np.maximum(count, 1).astype(np.float64)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / k**2) / k**2) / k**2) / k
    remainder = np.where(count < STIRLING.size, STIRLING[np.minimum(count, STIRLING.size - 1)], series)
    at_least_one = -kl_div(k, mean) - remainder - 0.5 * np.log(2 * math.pi * k)
    return np.where(count > 0, at_least_one, -np.asarray(mean))
