"""What a network says in float64, where confidences near 1 can still be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat._checks import as_count
from caveat.nn.bounds.certify import certifiable

__all__ = ["exact_logits"]


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
