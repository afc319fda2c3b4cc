"""The last linear layer of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.arrays import read_only
from caveat._internal.checks import as_matrix, as_real_array, as_vector, check_finite, check_result, same_length
from caveat._internal.products import row_products
from caveat.errors import InputError

__all__ = ["Head"]

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Head:
    """The last linear layer of a network: ``logits = features @ weight.T + bias``.

    Parameters
    ----------
    weight
        Shape (C, D); or (1, D) of a binary problem: the row of the positive class, which becomes the second of two.
    bias
        Shape (C,). Zeros when the layer has none.

    Examples
    --------
    >>> Head(weight=[[1.0, 0.0], [0.0, 2.0]]).logits(np.array([[3.0, 4.0]]))
    array([[3., 8.]])
    >>> Head(weight=[[1.0, 2.0]], bias=[0.5]).logits(np.array([[3.0, 4.0]]))
    array([[ 0. , 11.5]])
    """

    weight: Array
    bias: Array

    def __init__(self, weight: ArrayLike, bias: ArrayLike | None = None) -> None:
        weights = as_matrix(weight, "head.weight")
        biases = as_vector(np.zeros(weights.shape[0]) if bias is None else bias, "head.bias")
        same_length(**{"head.weight": weights, "head.bias": biases})
        with np.errstate(over="ignore"):
            biases = biases.astype(weights.dtype)
        check_finite(biases, "head.bias")  # again: a narrower float type may have no room for it
        if len(weights) == 1:  # as one logit z becomes 0 and z
            weights, biases = np.vstack([np.zeros_like(weights), weights]), np.append(np.zeros_like(biases), biases)
        object.__setattr__(self, "weight", read_only(weights))
        object.__setattr__(self, "bias", read_only(biases))

    def __reduce__(self) -> tuple[Any, ...]:
        return Head, (self.weight, self.bias)  # read-only there too

    @property
    def n_classes(self) -> int:
        return int(self.weight.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.weight.shape[1])

    def logits(self, features: Array) -> Array:
        """Logits (n, C) of features (n, D), in the wider of the two float types and in float32 at least.

        The product is taken in float64: a row has the same logits alone and in any batch.

        Parameters
        ----------
        features
            Shape (n, D).

        Returns
        -------
        array of shape (n, C)
            The logits.
        """
        rows = as_real_array(features, "features")
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise InputError(f"features must have shape (n, {self.n_features}), got {rows.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):
            result = row_products(rows, self.weight, transposed=True) + self.bias
            result = result.astype(np.result_type(rows, self.weight, np.float32), copy=False)
        return check_result(result, "the logits of features and head")
