"""Which numbers are equal but for rounding: ties must not depend on the unit of a table, per cent or fractions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUNDING", "tie_levels"]

ROUNDING = 1e-12  # relative; sums and differences of metrics are exact to about 1e-15


def tie_levels(values: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[Any]:
    """Whole numbers 0, 1, ... in the order of the values along the last axis, equal where values differ by noise only.

    Parameters
    ----------
    values
        Without NaN; infinities tie with themselves.
    noise
        How far each value may be off, finite, in the shape of ``values``.

    Examples
    --------
    >>> tie_levels(np.array([0.3, 0.1 + 0.2, 0.1, 0.5]), np.full(4, 1e-12))
    array([1, 1, 0, 2])
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered, slack = np.take_along_axis(values, order, axis=-1), np.take_along_axis(noise, order, axis=-1)
    with np.errstate(over="ignore"):
        apart = ordered[..., 1:] > ordered[..., :-1] + (slack[..., 1:] + slack[..., :-1])
    steps = np.concatenate([np.zeros_like(order[..., :1]), np.cumsum(apart, axis=-1)], axis=-1)
    levels = np.empty_like(order)
    np.put_along_axis(levels, order, steps, axis=-1)
    return levels
