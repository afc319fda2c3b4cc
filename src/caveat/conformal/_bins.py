"""Formulas of adaptivity on plain arrays: bins of equal mass, the worst violation, the signed R squared.

They stand here, below ``conformal`` and ``metrics``, because one tunes by them and the other reports them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # relative

SIZE_EDGES = (0, 2, 4, 11, 101)  # sizes 0-1, 2-3, 4-10, 11-100, 101 and more


def equal_mass(values: NDArray[Any], bins: int) -> NDArray[np.intp]:
    """Bin 0..bins-1 of each value, as equal in number as can be; bin 0 holds the smallest (Jang and Lee, eq. 2).

    Works on the last axis. Equal values are split between bins in the order they come.

    >>> equal_mass(np.array([5.0, 1.0, 3.0, 2.0]), 2)
    array([1, 0, 1, 0])
    """
    n = values.shape[-1]
    bounds = np.arange(bins + 1) * n // bins
    number = np.repeat(np.arange(bins), np.diff(bounds))
    bin_of = np.empty(values.shape, dtype=np.intp)
    order = np.argsort(values, axis=-1, kind="stable")
    np.put_along_axis(bin_of, order, np.broadcast_to(number, values.shape), axis=-1)
    return bin_of


def bin_means(values: NDArray[Any], number: NDArray[np.intp], bins: int) -> Floats:
    """Mean of the values in each bin; NaN for an empty bin."""
    counts = np.bincount(number, minlength=bins)
    sums = np.bincount(number, weights=values, minlength=bins)
    return np.asarray(np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0))


def strata(sizes: NDArray[Any], edges: tuple[int, ...]) -> NDArray[np.intp]:
    """Which stratum each size falls into: stratum i holds edges[i] <= size < edges[i + 1], the last is open."""
    return np.asarray(np.searchsorted(np.asarray(edges), sizes, side="right") - 1)


def worst_violation(covered: NDArray[Any], number: NDArray[np.intp], bins: int, alpha: float) -> float:
    """Largest |coverage - (1 - alpha)| over the bins that hold a sample."""
    return float(np.nanmax(np.abs(bin_means(covered, number, bins) - (1 - alpha))))


def signed_r2(x: Floats, y: Floats) -> Floats:
    """Sign of the slope times R squared of the regression of y on x, along the last axis.

    NaN where x does not vary; 0 where y does not. Means of equal values differ by rounding: that is not variation.
    """
    far, high = (_ROUNDING * np.abs(values).max(axis=-1) for values in (x, y))
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    cross, in_x, in_y = (x * y).sum(axis=-1), (x * x).sum(axis=-1), (y * y).sum(axis=-1)
    x_varies, y_varies = np.abs(x).max(axis=-1) > far, np.abs(y).max(axis=-1) > high
    r2 = np.where(x_varies, 0.0, np.nan)
    return np.asarray(np.divide(np.sign(cross) * cross**2, in_x * in_y, out=r2, where=x_varies & y_varies))
