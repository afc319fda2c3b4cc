"""Logits of the head, sums of exponentials, and class probabilities that are precise at both ends.

What comes from features and head is rounded to the float type of the features, which has no more digits anyway; sums
over the classes are taken in float64. Probabilities are float64: neither 1 - p of a sure row nor log p of a
hopeless class rounds to nothing, so the rows of a saturated network do not tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import top_and_rest
from caveat._internal.products import row_products
from caveat.outputs import Outputs


def head_logits(rows: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """``rows @ weight.T + bias``, shape (n, C), in the float type of the rows; no row depends on the others."""
    product = row_products(rows, weight, transposed=True)
    product += bias
    return product.astype(rows.dtype, copy=False)


def largest_probability(block: Outputs, temperature: float = 1.0) -> NDArray[np.float64]:
    """The largest probability of softmax(z / T), shape (n,)."""
    if not block.gives_probs:
        return np.asarray(1 / (1 + top_and_rest(block.logits, temperature)[1]))
    if temperature == 1:
        return np.asarray(block.probs.max(axis=1) / block.probs.sum(axis=1, dtype=np.float64))
    return np.asarray(np.exp(log_probabilities(block, temperature).max(axis=1)))


_TINY = np.finfo(np.float64).tiny  # log(0) would make every class of a hard 0/1 row infinitely strange


def logits_of(block: Outputs, *, least: float = _TINY) -> NDArray[np.float64]:
    """Logits (n, C) as a fresh float64 array; the logarithm of the probabilities where those were given.

    Given probabilities come before logits that features and head would give: the mean over dropout passes has both.
    ``least`` stands in for a given probability of 0. A sum of powers of p needs 0 itself, with logarithm -inf: a small
    power of the smallest float is not small.
    """
    if not block.gives_probs:
        return np.array(block.logits, dtype=np.float64)
    probs = np.array(block.probs, dtype=np.float64)
    np.maximum(probs, least, out=probs)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probs, out=probs))


def log_probabilities(block: Outputs, temperature: float = 1.0, *, least: float = _TINY) -> NDArray[np.float64]:
    """log softmax(z / T), shape (n, C); ``least`` as in ``logits_of``."""
    logits = logits_of(block, least=least)
    if temperature != 1:
        logits /= temperature
    return log_softmax(logits)


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log softmax over the last axis, in place.

    >>> log_softmax(np.array([[50.0, 0.0]])).tolist() == [[-np.exp(-50.0), -50.0]]
    True
    """
    _, _, rest = below_largest(logits)
    logits -= np.log1p(rest)[..., None]
    return logits


def below_largest(
    logits: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Take the largest logit off each row (last axis), in place; return it, the exp of the row, and the rest.

    The rest is the sum of the exps without that of the largest, which is 1: the largest probability is 1 / (1 + rest),
    and log1p(rest) keeps its digits when that is almost one.
    """
    top = np.argmax(logits, axis=-1)[..., None]
    largest = np.take_along_axis(logits, top, axis=-1)
    logits -= largest
    weights: NDArray[Any] = np.exp(logits)
    np.put_along_axis(weights, top, 0.0, axis=-1)
    rest = weights.sum(axis=-1)
    np.put_along_axis(weights, top, 1.0, axis=-1)
    return largest[..., 0], weights, rest


def log_complement(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of 1 - max p of logits (n, C), however sure the row is; overwrites them. One class: 0 for every row.

    >>> log_complement(np.array([[5000.0, 0.0], [4000.0, 0.0]]))
    array([-5000., -4000.])
    """
    if logits.shape[1] == 1:
        return np.zeros(logits.shape[0])
    top = np.argmax(logits, axis=1)[:, None]
    logits -= np.take_along_axis(logits, top, axis=1)
    np.put_along_axis(logits, top, -np.inf, axis=1)
    second = logits.max(axis=1)
    log_rest = second + np.log(np.exp(logits - second[:, None]).sum(axis=1))
    return np.asarray(log_rest - np.log1p(np.exp(log_rest)))


def with_complement(log_p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p and 1 - p of log probabilities (n, C), the latter without cancellation where p is almost one."""
    p = np.exp(log_p)
    rest = 1 - p
    top = np.argmax(log_p, axis=1)[:, None]  # no other class can be above one half
    np.put_along_axis(rest, top, -np.expm1(np.take_along_axis(log_p, top, axis=1)), axis=1)
    return p, rest


def log_mean_exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the mean of exp(values) over the first axis, also of values that hardly differ.

    >>> log_mean_exp(np.array([-1e-20, -3e-20]))
    array(-2.e-20)
    """
    top = values.max(axis=0)
    return np.asarray(top + np.log1p(np.expm1(values - top).mean(axis=0)))
