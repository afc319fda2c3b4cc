"""An exported network that certifies without torch: weights in, bounds out.

``bounds.export_network(model)`` gives the arrays, and any ``.npz`` or ``.safetensors`` file of them will do. Names
say what and where: ``<number>.<kind>.<field>``, with kinds dense (weight, bias), conv (weight, bias, args = strides,
paddings, dilations, groups), affine (scale, shift), layer_norm (weight, bias, args = epsilon), relu, leaky_relu (args =
slope), gelu (args = 0, or 1 for the tanh form), silu, sigmoid, tanh, flatten, max_pool and avg_pool (args = window,
strides, paddings), global_avg_pool; a layer without arrays has an empty ``args``. Sequences (n, C, length) pass conv
and pools as images of height 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_kind, as_number, as_real_array, check_finite, check_inside, check_result
from caveat._internal.files import read_bytes, read_npz
from caveat.errors import InputError, MissingExtraError
from caveat.results import ScoreBounds
from caveat_lab.robust.activations import gelu, leaky_relu, sigmoid, silu, tanh
from caveat_lab.robust.layer_norm import LayerNorm
from caveat_lab.robust.layers import (
    Affine,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    GlobalAverage,
    Layer,
    MaxPool,
    ReLU,
    rounding,
    widened,
)

__all__ = ["Network"]

Array = NDArray[np.float64]
Clip = tuple[float, float] | None
_LAST = 8 * np.finfo(np.float64).eps  # rounding of the last step, from differences to a log-probability
_KINDS: Mapping[str, tuple[Callable[..., Layer], tuple[str, ...], int]] = {  # the layer, its arrays, how many args
    "dense": (Dense, ("weight", "bias"), 0),
    "conv": (Conv, ("weight", "bias"), 7),
    "affine": (Affine, ("scale", "shift"), 0),
    "layer_norm": (LayerNorm, ("weight", "bias"), 1),
    "relu": (ReLU, (), 0),
    "leaky_relu": (leaky_relu, (), 1),
    "gelu": (gelu, (), 1),
    "silu": (silu, (), 0),
    "sigmoid": (sigmoid, (), 0),
    "tanh": (tanh, (), 0),
    "flatten": (Flatten, (), 0),
    "max_pool": (MaxPool, (), 6),
    "avg_pool": (AveragePool, (), 6),
    "global_avg_pool": (GlobalAverage, (), 0),
}
_AXES = {"dense": 2, "conv": 4, "affine": 1, "layer_norm": 1}  # of the first array


@final
@dataclass(frozen=True, eq=False)
class Network:
    """A chain of layers that ends in a dense one.

    Parameters
    ----------
    layers
        The layers in order, as ``of`` and ``load`` make them.

    Examples
    --------
    >>> net = Network.of({"0.dense.weight": [[2.0], [0.0]], "0.dense.bias": [0.0, 0.0]})
    >>> net.logits([[0.5]])
    array([[1., 0.]])
    >>> bounds = net.confidence_bounds([[0.5]], 0.25)
    >>> np.exp(bounds.upper).round(4)  # at x = 0.75: 1 / (1 + exp(-1.5))
    array([0.8176])
    """

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, ArrayLike]) -> Self:
        """A network from named arrays, as ``bounds.export_network`` gives them.

        Parameters
        ----------
        arrays
            Name such as ``"0.dense.weight"`` -> array.
        """
        parts: dict[int, tuple[str, dict[str, Array]]] = {}
        for key, value in as_kind(arrays, Mapping, "arrays").items():
            number, kind, field = [*key.split("."), "", ""][:3]
            if not number.isdigit() or kind not in _KINDS or field not in _fields(kind):
                raise InputError(f"array '{key}' is not the part of a layer. Names are <number>.<kind>.<field>, "
                                 f"with kinds {', '.join(_KINDS)}.")  # fmt: skip
            array = as_real_array(value, key).astype(np.float64)
            check_finite(array, key)
            parts.setdefault(int(number), (kind, {}))[1][field] = array
        if sorted(parts) != list(range(len(parts))) or not parts:
            raise InputError(f"layers must be numbered 0, 1, 2, ... without a gap, got {sorted(parts)}.")
        layers = tuple(_layer(place, *part) for place, part in sorted(parts.items()))
        if not isinstance(layers[-1], Dense):
            raise InputError(f"the last layer must be dense, got {type(layers[-1]).__name__}.")
        return cls(layers)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A network from an ``.npz`` or ``.safetensors`` file.

        Parameters
        ----------
        path
            The file.
        """
        if Path(path).suffix != ".safetensors":
            return cls.of(read_npz(Path(path)))
        try:
            from safetensors import SafetensorError
            from safetensors.numpy import load
        except ImportError as error:
            raise MissingExtraError("reading safetensors", extra="safetensors") from error
        try:
            return cls.of(load(read_bytes(Path(path))))
        except SafetensorError as error:
            raise InputError(f"{path} is damaged or not a safetensors file ({error}). Write it again.") from None

    @property
    def n_classes(self) -> int:
        return int(self._head.weight.shape[0])

    def logits(self, x: ArrayLike) -> Array:
        """Logits (n, K) of inputs (n, ...).

        Parameters
        ----------
        x
            Inputs, shape (n, ...).

        Returns
        -------
        array of shape (n, K)
            The logits.
        """
        rows = _inputs(x, None)
        logits = []
        with _named_shapes(rows):
            for block in self._blocks(rows):
                part = rows[block]
                for layer in self.layers:
                    part = layer.point(part)
                logits.append(part)
        return np.concatenate(logits)

    def difference_bounds(self, x: ArrayLike, epsilon: float, *, clip: Clip = (0.0, 1.0)) -> Array:
        """Upper bounds (n, K, K) of f_k - f_l over all inputs within epsilon, with the last layer elided.

        Parameters
        ----------
        x
            Inputs, shape (n, ...), inside ``clip``.
        epsilon
            Radius in every entry.
        clip
            Range of valid inputs; None: all numbers.

        Returns
        -------
        array of shape (n, K, K)
            The upper bounds.
        """
        radius, rows = as_number(epsilon, "epsilon", least=0), _inputs(x, clip)
        with _named_shapes(rows):
            parts = [list(self._differences(rows[block], radius, clip)) for block in self._blocks(rows)]
        return np.concatenate([np.stack([gap + spread for gap, spread in part], axis=1) for part in parts])

    def confidence_bounds(self, x: ArrayLike, epsilon: float, *, clip: Clip = (0.0, 1.0)) -> ScoreBounds:
        """Bounds of the log-confidence over all inputs within epsilon in every entry, as ``bounds.confidence_bounds``.

        Parameters
        ----------
        x
            Inputs (n, ...), inside ``clip``.
        epsilon
            The radius.
        clip
            Range of inputs, or None.

        Returns
        -------
        ScoreBounds
            ``value``, ``lower`` and ``upper``, each of shape (n,).
        """
        reach, rows = as_number(epsilon, "epsilon", least=0), _inputs(x, clip)
        bounds = np.full((2, rows.shape[0]), -np.inf)
        with _named_shapes(rows):
            for block in self._blocks(rows):
                for k, (gap, spread) in enumerate(self._differences(rows[block], reach, clip)):
                    log_p = -_log_one_plus([spread - gap, -spread - gap], k)  # at least and at most
                    bounds[:, block] = np.maximum(bounds[:, block], log_p)  # of NaN and a number, NaN
        bounds = check_result(bounds.T, "the bound of the confidence").T
        lower, upper = bounds[0] * (1 + _LAST), bounds[1] * (1 - _LAST)
        return ScoreBounds(_log_confidence(self.logits(rows)), lower, upper, epsilon=reach, method="ibp")

    @property
    def _head(self) -> Dense:
        head = self.layers[-1]
        assert isinstance(head, Dense)
        return head

    def _blocks(self, rows: Array) -> Any:
        # im2col multiplies an image by the area of a kernel; this keeps a block within a few hundred megabytes
        return row_blocks(rows.shape[0], row_bytes=8 * rows[0].size * 16)

    def _differences(self, x: Array, epsilon: float, clip: Clip) -> Iterator[tuple[Array, Array]]:
        """For each class k the differences f_k - f_l (n, K) at the center, and the most that they can change by."""
        low, high = x - epsilon, x + epsilon
        if clip is not None:
            low, high = np.maximum(low, clip[0]), np.minimum(high, clip[1])
        middle = (low + high) / 2
        box = widened((middle, high - middle), 1)
        for layer in self.layers[:-1]:
            box = layer.box(box)
        head = self._head
        center, radius = widened(box, head.terms)
        logits = head.point(center)
        sizes = ((np.abs(center) + radius) @ np.abs(head.weight).T + np.abs(head.bias)) * rounding(head.terms)
        for k, row in enumerate(head.weight):
            spread = radius @ np.abs(row - head.weight).T + sizes + sizes[:, k, None]
            spread[:, k] = 0
            yield logits[:, k, None] - logits, spread


@contextmanager
def _named_shapes(rows: Array) -> Iterator[None]:
    """Report layers that do not fit the inputs, or each other, by the shape of the inputs."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise InputError(f"the network cannot take inputs of shape {rows.shape[1:]}: {error}.") from None


def _fields(kind: str) -> tuple[str, ...]:
    _, arrays, args = _KINDS[kind]
    return (*arrays, "args") if args or not arrays else arrays


def _layer(place: int, kind: str, fields: Mapping[str, Array]) -> Layer:
    make, names, count = _KINDS[kind]
    if missing := set(_fields(kind)) - set(fields):
        raise InputError(f"layer {place} ({kind}) lacks {', '.join(sorted(missing))}.")
    arrays = [fields[name] for name in names]
    if names and (arrays[0].ndim != _AXES[kind] or arrays[1].shape != arrays[0].shape[:1] or not arrays[0].size):
        raise InputError(f"layer {place} ({kind}) needs {names[0]} of {_AXES[kind]} axes and {names[1]} as long as its "
                         f"first, got shapes {arrays[0].shape} and {arrays[1].shape}.")  # fmt: skip
    args = np.ravel(fields["args"]).tolist() if count else []
    if len(args) != count:
        raise InputError(f"a layer '{kind}' needs args of {count} numbers, got {len(args)}.")
    if count == 1:
        return make(*arrays, *args)
    whole = [int(value) for value in args]
    return make(*arrays, *zip(whole[0:6:2], whole[1:6:2], strict=True), *whole[6:])


def _inputs(x: ArrayLike, clip: Clip) -> Array:
    rows = as_real_array(x, "x").astype(np.float64)
    if rows.ndim < 2 or 0 in rows.shape:
        raise InputError(f"x must be a non-empty batch of inputs (n, ...), got shape {rows.shape}.")
    check_finite(rows, "x")
    check_inside(rows, clip, "x")
    return rows


def _log_one_plus(exponents: ArrayLike, k: int) -> Array:
    """log(1 + sum over the classes other than k of exp), over the last axis."""
    others = np.array(exponents, dtype=np.float64)
    others[..., k] = -np.inf
    return np.asarray(np.logaddexp(logsumexp(others, axis=-1), 0))


def _log_confidence(logits: Array) -> Array:
    """Log-confidence, as -log(1 + sum over the other classes), which does not saturate."""
    order = np.sort(logits, axis=1)
    return np.asarray(-np.logaddexp(logsumexp(order[:, :-1] - order[:, -1:], axis=1), 0))
