"""What a network says in float64, where confidences near 1 can still be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat._checks import as_count
from caveat.nn.bounds.certify import certifiable
from caveat.nn.bounds.confidence import log_confidence

__all__ = ["exact_log_confidence", "exact_logits"]


def exact_logits(model: nn.Module, x: ArrayLike | Tensor, *, batch_size: int = 512) -> NDArray[np.float64]:
    """Logits (n, K) of a copy of the model in float64 and at rest: the network that certificates speak of.

    Examples
    --------
    >>> exact_logits(nn.Linear(2, 3), [[0.0, 1.0]]).shape
    (1, 3)
    """
    net = certifiable(model)
    inputs: Any = torch.as_tensor(x).double()
    with torch.no_grad():
        return np.concatenate([net(part).numpy() for part in inputs.split(as_count(batch_size, "batch_size"))])


def exact_log_confidence(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-confidence (n,) of logits (n, K), by the very operations of bounds and attacks.

    It does not saturate at 0 for very sure answers. Flat networks give the same logits to inliers and outliers: these
    must tie, and another formula would let rounding decide.

    Examples
    --------
    >>> exact_log_confidence(np.array([[40.0, 0.0], [50.0, 0.0]]))
    array([-4.24835426e-18, -1.92874985e-22])
    """
    return log_confidence(torch.from_numpy(logits)).numpy()
