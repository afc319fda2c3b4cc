"""Scores rounded until equal inputs tie on every machine.

Between machines, BLAS builds, numpy versions and ONNX Runtime, a score in float64 differs by about 1e-14 of its terms.
Rounded to 24 binary digits, the precision of float32, two machines give different numbers for an input only if it lies
within that distance of a rounding border: a chance of about 1e-7. Rounding never changes the order of two scores, it
only makes ties, and ties are on the safe side of every threshold and p-value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEAR_MINUS_ONE", "NEAR_ONE", "NOTHING", "SPREAD_24", "SPREAD_30", "Rounding", "to_digits"]

_DIGITS = 24
# y - (y - x) with y = (2^s + 1) x has the first 53 - s of the 53 binary digits of x (Veltkamp 1968).
NOTHING = 1e-290  # older versions of ONNX Runtime take 1e-308 for an exponential that is 0
SPREAD_24, SPREAD_30 = 2.0**29 + 1, 2.0**23 + 1


class Rounding(NamedTuple):
    """24 binary digits of the distance from ``origin``, and none smaller than those of ``unit``.

    A probability of 1 - 1e-8 must not tie with 1: it is rounded by its distance from 1. A difference of two large
    numbers has their noise, not its own: ``unit`` is their size.

    >>> Rounding()(np.array([1 / 3])), Rounding(origin=-1, unit=2**-9)(np.array([-1 + 1e-8]))
    (array([0.33333334]), array([-0.99999999]))
    """

    origin: float = 0.0
    unit: float = 0.0  # 0, or a power of two

    @property
    def step(self) -> float:
        """The smallest difference between two rounded scores."""
        return self.unit * 2.0 ** (1 - _DIGITS)

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        distance = scores - self.origin if self.origin else scores
        with np.errstate(over="ignore", invalid="ignore"):
            spread = distance * SPREAD_24
            rounded = spread - (spread - distance)
            rounded = np.where(np.isnan(rounded), distance, rounded)  # too large to be spread
            rounded = np.where(np.abs(distance) < NOTHING, 0.0, rounded)
            if self.unit:
                rounded = np.where(np.abs(distance) < self.unit, np.rint(distance / self.step) * self.step, rounded)
        return np.asarray(rounded + self.origin)


NEAR_MINUS_ONE = Rounding(origin=-1.0, unit=2.0**-9)  # of minus a probability or a cosine, which crowd at -1
NEAR_ONE = Rounding(origin=1.0, unit=2.0**-9)


def to_digits(probs: NDArray[Any]) -> NDArray[Any]:
    """Float64 probabilities with 30 binary digits; float32 has fewer and stays as it is.

    >>> to_digits(np.array([0.1 + 0.2])) == to_digits(np.array([0.3]))
    array([ True])
    """
    if probs.dtype != np.float64:
        return probs
    spread = probs * SPREAD_30
    return np.asarray(spread - (spread - probs))
