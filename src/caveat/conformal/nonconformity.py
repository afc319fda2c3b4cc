"""Nonconformity of every label, shape (n, C): how ill label y fits x. The larger, the stranger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from caveat.outputs import Outputs

__all__ = ["NONCONFORMITY", "lac"]


def lac(block: Outputs) -> NDArray[np.float64]:
    """One minus the probability of the label."""
    if block.has("logits"):
        return np.asarray(1 - softmax(block.logits.astype(np.float64), axis=1))
    return np.asarray(1 - block.probs.astype(np.float64))


NONCONFORMITY: Mapping[str, Callable[[Outputs], NDArray[np.float64]]] = MappingProxyType({"lac": lac})
