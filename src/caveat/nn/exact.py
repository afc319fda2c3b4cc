"""Outputs of a network in float64, where confidences near 1 still differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat._internal.checks import as_count
from caveat.nn.bounds.confidence import log_confidence
from caveat.nn.bounds.passes import as_double, device_of, in_batches, in_float64

__all__ = ["exact_gate", "exact_log_confidence", "exact_logits"]


def exact_logits(model: nn.Module, x: ArrayLike | Tensor, *, batch_size: int = 512) -> NDArray[np.float64]:
    """Logits (n, K) of a copy of the model in float64 and at rest: the network that certificates are about.

    Examples
    --------
    >>> exact_logits(nn.Linear(2, 3), [[0.0, 1.0]]).shape
    (1, 3)
    """
    return _in_parts(model, in_float64(model), x, batch_size)


def exact_gate(
    model: nn.Module, x: ArrayLike | Tensor, epsilon: float | None = None, *, batch_size: int = 512
) -> NDArray[np.float64]:
    """Effective gate (n,) of a gated classifier in float64 on inputs in [0, 1]; with a radius, its certified upper end.

    The model has methods ``effective_gate(x)`` and ``gate_upper(x, epsilon)``, as CCU has.
    """
    net: Any = in_float64(model)
    gate = net.effective_gate if epsilon is None else lambda part: net.gate_upper(part, epsilon)
    return _in_parts(model, gate, x, batch_size)


def _in_parts(
    model: nn.Module, call: Callable[[Tensor], Tensor], x: ArrayLike | Tensor, size: int
) -> NDArray[np.float64]:
    inputs = as_double(x, device_of(model))
    with torch.no_grad():
        return np.asarray(in_batches(call, inputs, size=as_count(size, "batch_size")).cpu().numpy())


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
