"""Layers of an exported network on arrays: what they do to a point, and what to a box. Float64, matrix products only.

A box is a pair (center, radius). Affine layers send the center as they send a point and the radius through the absolute
weights; monotone layers act on both ends. Each box is widened by what rounding can do, as in ``caveat_lab.bounds``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["Affine", "AveragePool", "Conv", "Dense", "Flatten", "GlobalAverage", "Layer", "MaxPool", "ReLU",
           "rounding", "widened"]  # fmt: skip

Array = NDArray[np.float64]
Box = tuple[Array, Array]
Map = Callable[[Array], Array]
Pair = tuple[int, int]


def rounding(terms: int) -> float:
    """What a sum of ``terms`` products may be off by, for the bound and for the evaluation, relative to its parts."""
    return float(2 * (terms + 4) * np.finfo(np.float64).eps)


def widened(box: Box, terms: int) -> Box:
    """The box with room for the rounding of a sum of ``terms`` products with its entries."""
    center, radius = box
    return center, radius + rounding(terms) * (np.abs(center) + radius)


class Layer(ABC):
    """One step of a network."""

    @abstractmethod
    def point(self, x: Array) -> Array:
        """What the layer gives."""

    @abstractmethod
    def box(self, box: Box) -> Box:
        """A box around all that it can give on a box."""


def affine_box(box: Box, terms: int, point: Map, size: Map, constant: Array | float = 0.0) -> Box:
    """A box through an affine map; ``size`` is the map with absolute weights and no constant."""
    center, radius = widened(box, terms)
    # A sum that begins with the constant is rounded at its size in every step.
    return widened((point(center), size(radius) + rounding(terms) * np.abs(constant)), 1)


def monotone_box(box: Box, point: Map) -> Box:
    """A box through a map that rises with each entry."""
    center, radius = widened(box, 1)
    lower, upper = point(center - radius), point(center + radius)
    middle = (lower + upper) / 2
    return widened((middle, upper - middle), 1)


@final
@dataclass(frozen=True, eq=False)
class Dense(Layer):
    """W x + b, weight (out, in)."""

    weight: Array
    bias: Array

    @property
    def terms(self) -> int:
        return int(self.weight.shape[1])

    def point(self, x: Array) -> Array:
        return np.asarray(x @ self.weight.T + self.bias)

    def box(self, box: Box) -> Box:
        return affine_box(box, self.terms, self.point, self.size, self.bias)

    def size(self, r: Array) -> Array:
        return np.asarray(r @ np.abs(self.weight).T)


@final
@dataclass(frozen=True, eq=False)
class Conv(Layer):
    """Convolution with zero padding, weight (out, in / groups, height, width), as one matrix product.

    Of images, or of sequences (n, C, length), which are images of height 1.
    """

    weight: Array
    bias: Array
    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int

    @property
    def terms(self) -> int:
        return int(math.prod(self.weight.shape[1:]))

    def point(self, x: Array) -> Array:
        return np.asarray(self._apply(x, self.weight) + self._shift(x))

    def box(self, box: Box) -> Box:
        return affine_box(box, self.terms, self.point, self.size, self._shift(box[0]))

    def size(self, r: Array) -> Array:
        return self._apply(r, np.abs(self.weight))

    def _shift(self, x: Array) -> Array:
        return self.bias.reshape(-1, *[1] * (x.ndim - 2))

    def _apply(self, x: Array, weight: Array) -> Array:
        if x.ndim == 3:
            return self._apply(x[:, :, None], weight)[:, :, 0]
        parts = zip(np.split(x, self.groups, axis=1), np.split(weight, self.groups), strict=True)
        return np.concatenate([self._one(a, w) for a, w in parts], axis=1)

    def _one(self, x: Array, weight: Array) -> Array:
        n, out = x.shape[0], weight.shape[0]
        patches = _windows(_padded(x, self.padding), weight.shape[2:], self.stride, self.dilation)
        rows = patches.transpose(0, 2, 3, 1, 4, 5).reshape(-1, math.prod(weight.shape[1:]))  # im2col
        products = rows @ weight.reshape(out, -1).T
        return products.reshape(n, *patches.shape[2:4], out).transpose(0, 3, 1, 2)


@final
@dataclass(frozen=True, eq=False)
class Affine(Layer):
    """scale x + shift for each channel (C,): a batch normalization at rest."""

    scale: Array
    shift: Array

    def point(self, x: Array) -> Array:
        return np.asarray(x * self._like(self.scale, x) + self._like(self.shift, x))

    def box(self, box: Box) -> Box:
        return affine_box(box, 4, self.point, self.size)

    def size(self, r: Array) -> Array:
        return np.asarray(r * np.abs(self._like(self.scale, r)))

    @staticmethod
    def _like(value: Array, x: Array) -> Array:
        return value.reshape(1, -1, *[1] * (x.ndim - 2))


@final
@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """Mean over windows; zeros of the padding count."""

    window: Pair
    stride: Pair
    padding: Pair

    def point(self, x: Array) -> Array:
        if x.ndim == 3:
            return self.point(x[:, :, None])[:, :, 0]
        return np.asarray(_windows(_padded(x, self.padding), self.window, self.stride, (1, 1)).mean(axis=(4, 5)))

    def box(self, box: Box) -> Box:
        return affine_box(box, math.prod(self.window), self.point, self.point)


@final
@dataclass(frozen=True, eq=False)
class GlobalAverage(Layer):
    """Mean over the whole image or sequence, shape (n, C, 1, 1) or (n, C, 1)."""

    def point(self, x: Array) -> Array:
        return np.asarray(x.mean(axis=tuple(range(2, x.ndim)), keepdims=True))

    def box(self, box: Box) -> Box:
        return affine_box(box, math.prod(box[0].shape[2:]), self.point, self.point)


@final
@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """Maximum over windows; the padding never wins."""

    window: Pair
    stride: Pair
    padding: Pair

    def point(self, x: Array) -> Array:
        if x.ndim == 3:
            return self.point(x[:, :, None])[:, :, 0]
        padded = _padded(x, self.padding, value=-np.inf)
        return np.asarray(_windows(padded, self.window, self.stride, (1, 1)).max(axis=(4, 5)))

    def box(self, box: Box) -> Box:
        return monotone_box(box, self.point)


@final
@dataclass(frozen=True, eq=False)
class ReLU(Layer):
    """max(x, 0)."""

    def point(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def box(self, box: Box) -> Box:
        return monotone_box(box, self.point)


@final
@dataclass(frozen=True, eq=False)
class Flatten(Layer):
    """(n, ...) to (n, d)."""

    def point(self, x: Array) -> Array:
        return x.reshape(x.shape[0], -1)

    def box(self, box: Box) -> Box:
        return self.point(box[0]), self.point(box[1])


def _padded(x: Array, padding: Pair, value: float = 0.0) -> Array:
    if padding == (0, 0):
        return x
    rows, columns = padding
    return np.pad(x, ((0, 0), (0, 0), (rows, rows), (columns, columns)), constant_values=value)


def _windows(x: Array, size: tuple[int, ...], stride: Pair, dilation: Pair) -> Array:
    """Views (n, C, rows, columns, height, width) of all windows."""
    reach = tuple((s - 1) * d + 1 for s, d in zip(size, dilation, strict=True))
    seen = sliding_window_view(x, reach, axis=(2, 3))
    return seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
