"""Outputs of a network in float64, where confidences near 1 still differ, and as the network is deployed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat._internal.checks import as_count
from caveat.nn._modes import at_rest
from caveat.nn._walk import place_of
from caveat.nn.float64 import copied, device_of, in_float64
from caveat_lab.bounds.arithmetic import REAL, Arithmetic, arithmetic_of
from caveat_lab.bounds.confidence import log_confidence
from caveat_lab.bounds.passes import as_double, in_batches

__all__ = ["deployed_gate", "deployed_logits", "exact_gate", "exact_log_confidence", "exact_logits"]


def exact_logits(model: nn.Module, x: ArrayLike | Tensor, *, batch_size: int = 512) -> NDArray[np.float64]:
    """Logits (n, K) of a copy of the model in float64 and at rest: the network that certificates are about.

    Examples
    --------
    >>> exact_logits(nn.Linear(2, 3), [[0.0, 1.0]]).shape
    (1, 3)
    """
    return _in_parts(in_float64(model), as_double(x, device_of(model)), batch_size)


def exact_gate(
    model: nn.Module,
    x: ArrayLike | Tensor,
    epsilon: float | None = None,
    *,
    slack: Arithmetic = REAL,
    batch_size: int = 512,
) -> NDArray[np.float64]:
    """Effective gate (n,) of a gated classifier in float64 on inputs in [0, 1]; with a radius, its certified upper end.

    The model has methods ``effective_gate(x)`` and ``gate_upper(x, epsilon)``, as CCU has. ``slack``: the arithmetic
    whose rounding the upper end holds.
    """
    net: Any = in_float64(model)

    def upper(part: Tensor) -> Tensor:
        assert epsilon is not None
        if slack is REAL:
            return net.gate_upper(part, epsilon)  # type: ignore[no-any-return]
        size = part.abs().flatten(1).amax(dim=1)  # inputs are cast
        gate: Tensor = net.gate_upper(part, epsilon + slack.lost(1) * (size + epsilon), slack=slack)
        return gate + slack.lost(64) * (gate.abs() + 16)  # a few sums and logarithms, of K among them

    return _in_parts(net.effective_gate if epsilon is None else upper, as_double(x, device_of(model)), batch_size)


def deployed_logits(model: nn.Module, x: ArrayLike | Tensor, *, batch_size: int = 512) -> NDArray[np.float64]:
    """Logits (n, K) of the model at rest in its own float type, as float64.

    >>> deployed_logits(nn.Linear(2, 3).half(), [[0.0, 1.0]]).dtype
    dtype('float64')
    """
    return _as_deployed(model, lambda net: net, x, batch_size)


def deployed_gate(model: nn.Module, x: ArrayLike | Tensor, *, batch_size: int = 512) -> NDArray[np.float64]:
    """Effective gate (n,) of a gated classifier at rest in its own float type, as float64."""
    return _as_deployed(model, lambda net: net.effective_gate, x, batch_size)


def _as_deployed(model: nn.Module, what: Callable[[Any], Any], x: ArrayLike | Tensor, size: int) -> NDArray[np.float64]:
    net = copied(model)
    inputs = as_double(x).to(place_of(net, None), arithmetic_of(net).dtype)
    with at_rest(net):
        return _in_parts(what(net), inputs, size)


def _in_parts(call: Callable[[Tensor], Tensor], inputs: Tensor, size: int) -> NDArray[np.float64]:
    with torch.no_grad():
        return np.asarray(in_batches(call, inputs, size=as_count(size, "batch_size")).cpu().double().numpy())


def exact_log_confidence(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-confidence (n,) of logits (n, K), by the same operations as bounds and attacks.

    It does not saturate at 0 for very sure answers. Flat networks give the same logits to inliers and outliers, which
    must tie; another formula would let rounding decide.

    Examples
    --------
    >>> exact_log_confidence(np.array([[40.0, 0.0], [50.0, 0.0]]))
    array([-4.24835426e-18, -1.92874985e-22])
    """
    return log_confidence(torch.from_numpy(logits)).numpy()
