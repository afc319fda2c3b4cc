"""What the scores on features and head share: logits, sums of exponentials, row lengths.

All of it stays in the float type of the features, where the logits have no more digits anyway; sums over the classes
are taken in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def head_logits(rows: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """``rows @ weight.T + bias``, shape (n, C), in the float type of the rows."""
    product: NDArray[Any] = rows @ weight.astype(rows.dtype, copy=False).T
    product += bias.astype(rows.dtype, copy=False)
    return product


def log_sum_exp(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Log of the sum of exponentials of each row, shape (n,). Plain numpy: scipy's costs more than the head itself.

    >>> log_sum_exp(np.array([[1000.0, 1000.0]])).round(3)
    array([1000.693])
    """
    top = logits.max(axis=1)
    shifted = logits - top[:, None]
    total = np.exp(shifted, out=shifted).sum(axis=1, dtype=np.float64)
    return np.asarray(top + np.log(total))


def lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean length of each row, shape (n,)."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)), dtype=np.float64)
