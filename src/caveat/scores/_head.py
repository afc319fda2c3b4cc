"""Logits of the last linear layer, and the sums of exponentials that the head scores share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["head_logits", "log_sum_exp", "softmax_of"]


def head_logits(rows: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[np.float64]:
    """``rows @ weight.T + bias``: the product in the float type of the rows, the result in float64."""
    product: NDArray[Any] = rows @ weight.astype(rows.dtype, copy=False).T
    return np.asarray(np.add(product, bias, dtype=np.float64))


def log_sum_exp(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of the sum of exponentials of each row, shape (n,). Plain numpy: scipy's costs more than the head itself.

    >>> log_sum_exp(np.array([[1000.0, 1000.0]])).round(3)
    array([1000.693])
    """
    top = logits.max(axis=1)
    shifted = logits - top[:, None]
    total: NDArray[np.float64] = np.exp(shifted, out=shifted).sum(axis=1)
    return np.asarray(top + np.log(total))


def softmax_of(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row, shape (n, C)."""
    shifted: NDArray[np.float64] = logits - logits.max(axis=1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted
