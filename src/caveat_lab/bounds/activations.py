r"""Activation functions on a box: exact bounds of each entry, up to rounding.

LeakyReLU with a slope of at least 0, Sigmoid and Tanh rise everywhere. GELU, SiLU and LeakyReLU with a negative slope
fall up to one point t and rise from there: t = -0.7518 for GELU, -0.7525 for its tanh form, -1.2785 for SiLU, 0 for
LeakyReLU. With t = -inf for those that only rise, one formula serves all:

$$ \min_{l \le z \le u} f(z) = f(\min(u, \max(l, t))), \qquad \max_{l \le z \le u} f(z) = \max(f(l), f(u)) $$

For GELU $f'' = \phi(z)(2 - z^2)$, so $f'$ falls up to $-\sqrt 2$, rises up to $\sqrt 2$ and falls again, with limits 0
and 1: it has one zero. For SiLU $f' = \sigma(z)(1 + z(1 - \sigma(z)))$, and the second factor has one zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat_lab.bounds.arithmetic import Arithmetic
from caveat_lab.bounds.box import Box
from caveat_lab.robust.activations import LOWEST

__all__ = ["ACTIVATIONS", "Activation", "activation_box"]

_ULPS = 16  # units in the last place: how far a library function may be off, for the bound and for the network


@final
@dataclass(frozen=True, eq=False)
class Activation:
    """What bounds need to know about a function of one number.

    Parameters
    ----------
    function
        On tensors.
    lowest
        Where it is smallest; -inf if it rises everywhere.
    steepest
        At least the largest |f'|.
    curvature
        At least the largest |f''|; None for a function of two straight pieces that meet at 0.
    straight
        For |z| above this, f is a straight line up to 1e-15; only with ``curvature``.
    input_error
        Whether its rounding error is relative to |z|, as in z (1 + erf z): 1 + erf z cancels for z < 0. Otherwise it is
        relative to |f(z)|.
    """

    function: Callable[[Tensor], Tensor]
    lowest: float = -math.inf
    steepest: float = 1.0
    curvature: float | None = None
    straight: float = 0.0
    input_error: bool = False

    def error(self, z: Tensor, value: Tensor, slack: Arithmetic) -> Tensor:
        """What rounding can change in ``value``, the float value of the function at z: in the bound, in the network."""
        limits = torch.finfo(value.dtype)
        unit = limits.eps + 2 * slack.unit
        return _ULPS * unit * (z if self.input_error else value).abs() + limits.tiny + _ULPS * slack.tiny


def activation_box(activation: Activation, box: Box, slack: Arithmetic | None) -> Box:
    """The box of all values of an activation on a box.

    >>> box = activation_box(ACTIVATIONS[nn.SiLU](nn.SiLU()), Box(torch.tensor([-1.0]), torch.tensor([2.0])), None)
    >>> box.lower, box.upper  # on [-3, 1]: smallest at -1.278, largest at 1
    (tensor([-0.2785]), tensor([0.7311]))
    """
    if slack is not None:
        box = box.widened(1)
    lower, upper = box.lower, box.upper
    at_lower, at_upper = activation.function(lower), activation.function(upper)
    least, most = at_lower, at_upper
    if activation.lowest > -math.inf:
        least = activation.function(torch.minimum(upper, lower.clamp_min(activation.lowest)))
        most = torch.maximum(at_lower, at_upper)
    if slack is None:
        return Box.between(least, most)
    room = torch.maximum(activation.error(lower, at_lower, slack), activation.error(upper, at_upper, slack))
    return Box.between(least - room, most + room).widened(1)


def _leaky_relu(module: nn.LeakyReLU) -> Activation:
    slope = module.negative_slope
    return Activation(
        lambda z: F.leaky_relu(z, slope), lowest=0.0 if slope < 0 else -math.inf, steepest=max(1.0, abs(slope))
    )


def _gelu(module: nn.GELU) -> Activation:
    kind = "gelu" if module.approximate == "none" else "gelu_tanh"
    return Activation(
        lambda z: F.gelu(z, approximate=module.approximate), lowest=LOWEST[kind], steepest=1.13, curvature=0.8,
        straight=9.0, input_error=True,
    )  # fmt: skip


ACTIVATIONS: dict[type[nn.Module], Callable[[Any], Activation]] = {
    nn.ReLU: lambda module: Activation(F.relu),
    nn.LeakyReLU: _leaky_relu,
    nn.GELU: _gelu,
    nn.SiLU: lambda module: Activation(
        F.silu, lowest=LOWEST["silu"], steepest=1.1, curvature=0.5, straight=45.0, input_error=True
    ),
    nn.Sigmoid: lambda module: Activation(torch.sigmoid, steepest=0.25, curvature=0.0963, straight=36.0),
    nn.Tanh: lambda module: Activation(torch.tanh, curvature=0.77, straight=20.0),
}
