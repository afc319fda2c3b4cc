"""Scores that depend on the rank of a label: sorted as little as possible, summed always in the same order.

A ranked formula maps (p, above, top, rank, u) to a score: the probability of the label, the sum of those ranked above
it, the largest one, the rank (1 = most probable) and the randomisation. It never falls as the rank grows, so that a set
is a prefix of the ranking: only the labels above a bound can enter, and a full sort is needed only for a long set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["label_ranks", "prefix_members", "ranked_of_all", "ranked_of_labels"]

Array = NDArray[Any]
Formula = Callable[[Array, Array, Array, Array, Array], Array]

_HEAD, _GROWTH = 32, 8  # labels looked at first, and how many times more where that was not enough


def label_ranks(probs: Array, labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Rank of one label per row, 1 = most probable, by counting; ties go to the smaller label number."""
    own = np.take_along_axis(probs, labels[:, None], axis=1)
    ranks = 1 + np.count_nonzero(probs > own, axis=1)
    tied = np.flatnonzero(np.count_nonzero(probs == own, axis=1) > 1)
    if tied.size:
        earlier = np.arange(probs.shape[1]) < labels[tied, None]
        ranks[tied] += np.count_nonzero((probs[tied] == own[tied]) & earlier, axis=1)
    return np.asarray(ranks)


def ranked_of_labels(
    formula: Formula, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The formula at one label per row, shape (n,)."""
    ranks = label_ranks(probs, labels)
    found = np.empty(labels.size)
    for low, length in _lengths(probs.shape[1]):
        rows = np.flatnonzero((ranks > low) & (ranks <= length))
        if rows.size:
            part = probs if rows.size == ranks.size else probs[rows]
            place = (np.arange(rows.size), ranks[rows] - 1)
            values, above = _descending(part, length)
            found[rows] = formula(values[place], above[place], values[:, 0], ranks[rows], u[rows])
    return found


def ranked_of_all(formula: Formula, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """The formula at every label, shape (n, C)."""
    order = _stable_order(probs)
    values = np.take_along_axis(probs, order, axis=1).astype(np.float64)
    scores = formula(values, _sum_above(values), values[:, :1], np.arange(1, probs.shape[1] + 1), u[:, None])
    found = np.empty(probs.shape)
    np.put_along_axis(found, order, scores, axis=1)
    return found


def prefix_members(
    formula: Formula, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which labels have a score at or below the threshold of their row."""
    sizes, last = np.zeros(probs.shape[0], dtype=np.intp), np.full(probs.shape[0], np.inf, dtype=probs.dtype)
    for low, length in _lengths(probs.shape[1]):
        rows = np.flatnonzero(sizes == low)  # every label looked at so far is in the set
        if rows.size == 0:
            break
        part = probs if rows.size == sizes.size else probs[rows]
        sizes[rows], last[rows] = _prefix(formula, part, u[rows], threshold[rows], length)
    member = probs >= last[:, None]
    # Labels tied with the last one to enter: only the first of them by number belong to the prefix.
    for row in np.flatnonzero(np.count_nonzero(member, axis=1) != sizes):
        member[row] = False
        member[row, _stable_order(probs[row : row + 1])[0, : sizes[row]]] = True
    return np.asarray(member)


def _lengths(classes: int) -> Iterator[tuple[int, int]]:
    """How many labels to look at, step by step, each with the number of the step before."""
    low, length = 0, _HEAD
    while low < classes:
        yield low, min(length, classes)
        low, length = length, length * _GROWTH


def _prefix(
    formula: Formula, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64], length: int
) -> tuple[NDArray[np.intp], Array]:
    """How many of the ``length`` most probable labels pass, and the probability of the last of them."""
    values, above = _descending(probs, length)
    scores = formula(values, above, values[:, :1], np.arange(1, length + 1), u[:, None])
    sizes = np.count_nonzero(scores <= threshold[:, None], axis=1)
    last = np.take_along_axis(values, np.maximum(sizes - 1, 0)[:, None], axis=1)[:, 0]
    return np.asarray(sizes), np.where(sizes > 0, last, np.inf).astype(probs.dtype)


def _descending(probs: Array, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest ``length`` probabilities of each row, falling, and for each the sum of those before it."""
    classes = probs.shape[1]
    part = probs if length == classes else np.partition(probs, classes - length, axis=1)[:, classes - length :]
    values = np.sort(part, axis=1)[:, ::-1].astype(np.float64)
    return values, _sum_above(values)


def _sum_above(values: NDArray[np.float64]) -> NDArray[np.float64]:
    above = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=above[:, 1:])
    return above


def _stable_order(probs: Array) -> NDArray[np.intp]:
    """Labels by falling probability, ties by label number."""
    negative = -probs
    order = np.argsort(negative, axis=1)
    values = np.take_along_axis(negative, order, axis=1)
    tied = np.flatnonzero((values[:, 1:] == values[:, :-1]).any(axis=1))
    if tied.size:
        order[tied] = np.argsort(negative[tied], axis=1, kind="stable")
    return np.asarray(order)
