"""Class probabilities in float64, precise at both ends, so that the rows of a saturated network do not tie.

Neither 1 - p of a sure row nor log p of a hopeless class rounds to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs

__all__ = ["log_mean_exp", "log_probabilities", "log_softmax", "logits_of"]

_TINY = np.finfo(np.float64).tiny  # log(0) would make every class of a hard 0/1 row infinitely strange


def logits_of(block: Outputs) -> NDArray[np.float64]:
    """Logits (n, C) as a fresh float64 array; the logarithm of the probabilities where only those were given."""
    if block.has("logits"):
        return np.array(block.logits, dtype=np.float64)
    probs = np.array(block.probs, dtype=np.float64)
    np.maximum(probs, _TINY, out=probs)
    return np.asarray(np.log(probs, out=probs))


def log_probabilities(block: Outputs, temperature: float = 1.0) -> NDArray[np.float64]:
    """log softmax(z / T), shape (n, C)."""
    logits = logits_of(block)
    if temperature != 1:
        logits /= temperature
    return log_softmax(logits)


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log softmax over the last axis, in place.

    The largest entry is kept out of the sum, so its log p = -log1p(rest) keeps its digits when p is almost one.

    >>> log_softmax(np.array([[50.0, 0.0]])).tolist() == [[-np.exp(-50.0), -50.0]]
    True
    """
    top = np.argmax(logits, axis=-1)[..., None]
    logits -= np.take_along_axis(logits, top, axis=-1)
    weights: NDArray[Any] = np.exp(logits)
    np.put_along_axis(weights, top, 0.0, axis=-1)
    logits -= np.log1p(weights.sum(axis=-1, keepdims=True))
    return logits


def log_mean_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the mean of exp(values) over the first axis."""
    top = values.max(axis=0)
    return np.asarray(top + np.log(np.exp(values - top).mean(axis=0)))
