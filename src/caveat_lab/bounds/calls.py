"""Calls of functions in a forward pass, as the layers that do the same.

``F.conv2d(x, weight, bias, 2)`` is a ``nn.Conv2d`` of stride 2 with these weights. Box bounds, linear bounds and the
export then know one kind of layer only. A layer with a parametrization (weight or spectral normalization) calls such a
function with the weights that it has just computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.errors import InputError

__all__ = ["LAYER_CALLS", "LAYER_METHODS", "layer_of_call"]

Make = Callable[..., nn.Module]


def layer_of_call(target: Any, args: Any, kwargs: Any) -> nn.Module | None:
    """The layer that a call with these arguments after the input stands for; None if there is none.

    ``target`` is a function, or the name of a method of a tensor.

    >>> layer_of_call(F.leaky_relu, (0.2,), {})
    LeakyReLU(negative_slope=0.2)
    """
    make = LAYER_METHODS.get(target) if isinstance(target, str) else LAYER_CALLS.get(target)
    return None if make is None else make(*args, **kwargs)


def with_tensors(layer: nn.Module, **tensors: Tensor | None) -> nn.Module:
    """A layer whose parameters are replaced by tensors, through which gradients flow."""
    for name, tensor in tensors.items():
        if tensor is not None and not isinstance(tensor, Tensor):
            raise InputError(f"no bound is known for a layer whose {name} depends on the input.")
        delattr(layer, name)
        setattr(layer, name, tensor)
    return layer


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Module:
    out, inside = _sizes(weight)
    return with_tensors(nn.Linear(inside, out, device="meta"), weight=weight, bias=bias)


def _conv(kind: type[nn.Module]) -> Make:
    def make(
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> nn.Module:
        out, inside, *window = _sizes(weight)
        layer = kind(inside * groups, out, tuple(window), stride=stride, padding=padding, dilation=dilation,
                     groups=groups, device="meta")  # fmt: skip
        return with_tensors(layer, weight=weight, bias=bias)

    return make


def _layer_norm(
    normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> nn.Module:
    return with_tensors(nn.LayerNorm(normalized_shape, eps, device="meta"), weight=weight, bias=bias)


def _max_pool(kind: type[nn.Module]) -> Make:
    def make(
        kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> nn.Module:  # fmt: skip
        return kind(kernel_size, stride, padding, dilation, return_indices=return_indices, ceil_mode=ceil_mode)

    return make


def _flatten(start_dim: int = 0, end_dim: int = -1) -> nn.Module:  # the layer starts at 1, the function at 0
    return nn.Flatten(start_dim, end_dim)


def _sizes(weight: Any) -> tuple[int, ...]:
    if not isinstance(weight, Tensor):
        raise InputError("no bound is known for a layer whose weight depends on the input.")
    return tuple(weight.shape)


LAYER_CALLS: dict[Callable[..., Any], Make] = {
    F.linear: _linear,
    **dict.fromkeys((F.conv1d, torch.conv1d), _conv(nn.Conv1d)),
    **dict.fromkeys((F.conv2d, torch.conv2d), _conv(nn.Conv2d)),
    F.layer_norm: _layer_norm,
    **dict.fromkeys((F.relu, torch.relu, torch.relu_), nn.ReLU),
    F.leaky_relu: nn.LeakyReLU,
    F.gelu: nn.GELU,
    F.silu: nn.SiLU,
    **dict.fromkeys((F.sigmoid, torch.sigmoid, torch.sigmoid_), nn.Sigmoid),
    **dict.fromkeys((F.tanh, torch.tanh, torch.tanh_), nn.Tanh),
    F.avg_pool1d: nn.AvgPool1d,
    F.avg_pool2d: nn.AvgPool2d,
    F.adaptive_avg_pool1d: nn.AdaptiveAvgPool1d,
    F.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    F.max_pool1d: _max_pool(nn.MaxPool1d),
    F.max_pool2d: _max_pool(nn.MaxPool2d),
    torch.flatten: _flatten,
}

LAYER_METHODS: dict[str, Make] = {
    **dict.fromkeys(("relu", "relu_"), nn.ReLU),
    **dict.fromkeys(("sigmoid", "sigmoid_"), nn.Sigmoid),
    **dict.fromkeys(("tanh", "tanh_"), nn.Tanh),
    "flatten": _flatten,
}
