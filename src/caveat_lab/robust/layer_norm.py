"""Layer normalization of an exported network on arrays, with the bounds of ``caveat_lab.bounds.layer_norm``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat_lab.robust.layers import Box, Layer, rounding, widened

__all__ = ["LayerNorm"]

Array = NDArray[np.float64]
_TINY = np.finfo(np.float64).tiny


@final
@dataclass(frozen=True, eq=False)
class LayerNorm(Layer):
    """weight (x - mean) / sqrt(variance + e) + bias over the last axis, weight (D,).

    >>> center, radius = LayerNorm(np.ones(2), np.zeros(2), 0.0).box((np.array([[1.0, 3.0]]), np.full((1, 2), 0.5)))
    >>> (center - radius).round(4), (center + radius).round(4)  # the layer gives -1 and 1 on the whole box
    (array([[-1.    ,  0.4472]]), array([[-0.4472,  1.    ]]))
    """

    weight: Array
    bias: Array
    e: float

    def point(self, x: Array) -> Array:
        centered = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centered).mean(axis=-1, keepdims=True)
        return np.asarray(centered / np.sqrt(np.maximum(variance + self.e, _TINY)) * self.weight + self.bias)

    def box(self, box: Box) -> Box:
        center, radius = box
        size = center.shape[-1]
        # Rounding of mean and variance is of the size of the largest entry.
        off = rounding(size + 4) * (np.abs(center) + radius).max(axis=-1, keepdims=True)
        radius = radius + off
        moves = np.sqrt(np.square(radius).mean(axis=-1, keepdims=True))
        spread = radius * (1 - 2 / size) + radius.mean(axis=-1, keepdims=True)
        centered = center - center.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(np.square(centered).mean(axis=-1, keepdims=True))
        ends = np.maximum(deviation - moves, 0), deviation + moves
        upper, lower = (self._upper(side, spread, ends) for side in (centered, -centered))
        middle = (upper - lower) / 2
        least = np.sqrt(np.square(ends[0]) + self.e)
        with np.errstate(divide="ignore"):  # infinite: no bound, which is an error later
            off = np.divide(off * (1 + math.sqrt(size - 1)), least, out=np.zeros_like(off), where=off > 0)
        center, radius = widened((middle, upper - middle + off), size)
        radius = radius * np.abs(self.weight) + rounding(0) * np.abs(self.bias)
        return widened((center * self.weight + self.bias, radius), 4)

    def _upper(self, center: Array, radius: Array, ends: Box) -> Array:
        """The most that a centered entry divided by the deviation can be."""
        top, size = center + radius, center.shape[-1]
        square, lost = np.square(top), rounding(size)
        near, far = np.square(np.maximum(np.abs(center) - radius, 0)), np.square(np.abs(center) + radius)
        nearest, farthest = near.sum(axis=-1, keepdims=True), far.sum(axis=-1, keepdims=True)
        least_rest = np.maximum(nearest - near - lost * nearest, 0)
        most_rest = farthest - far + lost * farthest
        least = np.maximum((square + least_rest) / size, np.square(ends[0]))
        least = np.maximum(least, square / max(size - 1, 1))
        most = np.minimum((square + most_rest) / size, np.square(ends[1]))
        return np.asarray(top / np.sqrt(np.maximum(np.where(top > 0, least, most) + self.e, _TINY)))
