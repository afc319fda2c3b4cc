"""Activation functions of an exported network on arrays, and their boxes, as in ``caveat_lab.bounds.activations``.

Each rises everywhere, or falls up to one point, ``lowest``, and rises from there, so that its bounds on a box are exact
up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

from caveat_lab.robust.layers import Box, Layer, widened

__all__ = ["LOWEST", "Elementwise", "gelu", "leaky_relu", "sigmoid", "silu", "tanh"]

Array = NDArray[np.float64]
# Zeros of the derivatives. An error in the last digit changes the smallest value by its square.
LOWEST = {"gelu": -0.7517915246935645, "gelu_tanh": -0.7524614220710163, "silu": -1.2784645427610737}
_ULPS = 16  # units in the last place: how far a library function may be off, for the bound and for the network


@final
@dataclass(frozen=True, eq=False)
class Elementwise(Layer):
    """A function of each entry that rises from ``lowest`` on, and falls before it.

    ``input_error``: its rounding error is relative to |x| instead of |f(x)|, because 1 + erf(x) and the like cancel.
    """

    function: Callable[[Array], Array]
    lowest: float = -math.inf
    input_error: bool = False

    def point(self, x: Array) -> Array:
        return self.function(x)

    def box(self, box: Box) -> Box:
        center, radius = widened(box, 1)
        lower, upper = center - radius, center + radius
        ends = self.function(lower), self.function(upper)
        least = self.function(np.minimum(upper, np.maximum(lower, self.lowest)))
        size = np.maximum(*map(np.abs, (lower, upper) if self.input_error else ends))
        room = _ULPS * np.finfo(np.float64).eps * size + np.finfo(np.float64).tiny
        least, most = least - room, np.maximum(*ends) + room
        middle = (least + most) / 2
        return widened((middle, most - middle), 1)


def leaky_relu(slope: float) -> Elementwise:
    """x for x > 0, slope x otherwise; any slope.

    >>> center, radius = leaky_relu(-0.5).box((np.array([0.0]), np.array([2.0])))
    >>> (center - radius).round(9) + 0.0, (center + radius).round(9)
    (array([0.]), array([2.]))
    """
    return Elementwise(lambda x: np.where(x > 0, x, slope * x), lowest=0.0 if slope < 0 else -math.inf)


def gelu(kind: float) -> Elementwise:
    """x Phi(x) for kind 0, its approximation by tanh for kind 1."""
    if not kind:
        return Elementwise(lambda x: 0.5 * x * (1 + erf(x * math.sqrt(0.5))), LOWEST["gelu"], input_error=True)
    inner = math.sqrt(2 / math.pi)
    return Elementwise(
        lambda x: 0.5 * x * (1 + np.tanh(inner * (x + 0.044715 * x * x * x))), LOWEST["gelu_tanh"], input_error=True
    )


def silu() -> Elementwise:
    """x sigma(x)."""
    return Elementwise(lambda x: x * expit(x), LOWEST["silu"], input_error=True)


def sigmoid() -> Elementwise:
    """1 / (1 + exp(-x))."""
    return Elementwise(expit)


def tanh() -> Elementwise:
    """The hyperbolic tangent."""
    return Elementwise(np.tanh)
