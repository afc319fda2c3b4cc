"""Scores that depend on the rank of a label: sorted as little as possible, summed always in the same order.

A ranked formula maps (p, below, rank, row) to a score: the probability of the label, the sum of those ranked below it,
the rank (1 = most probable) and what belongs to the row, such as its randomization. It never falls as the rank grows,
so that a set is a prefix of the ranking: only the labels above a bound can enter, and a full sort is needed only for a
long set.

Sums run from the small end, because what a sure model leaves to the other labels, 1e-12 or so, is what tells its
samples apart: summed from the large end it drowns in the rounding of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Formula = Callable[[Array, Array, Array, Array], Array]

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


def ranked_of_labels(formula: Formula, probs: Array, labels: NDArray[np.intp], row: Floats) -> Floats:
    """The formula at one label per row, shape (n,)."""
    ranks = label_ranks(probs, labels)
    scores = np.empty(labels.size)
    for low, length in _lengths(probs.shape[1]):
        rows = np.flatnonzero((ranks > low) & (ranks <= length))
        if rows.size:
            part = probs if rows.size == ranks.size else probs[rows]
            place = (np.arange(rows.size), ranks[rows] - 1)
            values, below = _descending(part, length)
            scores[rows] = formula(values[place], below[place], ranks[rows], row[rows])
    return scores


def ranked_of_all(formula: Formula, probs: Array, row: Floats) -> Floats:
    """The formula at every label, shape (n, C)."""
    ordered, scores = np.empty(probs.shape), np.empty(probs.shape)
    for low, length in _lengths(probs.shape[1]):  # the steps of the short ways, so that every sum has the same bits
        values, below = (array[:, low:] for array in _descending(probs, length))
        ordered[:, low:length] = formula(values, below, np.arange(low + 1, length + 1), row[:, None])
    np.put_along_axis(scores, _stable_order(probs), ordered, axis=1)
    return scores


def prefix_members(formula: Formula, probs: Array, row: Floats, threshold: Floats) -> NDArray[np.bool_]:
    """Which labels have a score at or below the threshold of their row."""
    sizes, last = np.zeros(probs.shape[0], dtype=np.intp), np.full(probs.shape[0], np.inf, dtype=probs.dtype)
    for low, length in _lengths(probs.shape[1]):
        rows = np.flatnonzero(sizes == low)  # every label looked at so far is in the set
        if rows.size == 0:
            break
        part = probs if rows.size == sizes.size else probs[rows]
        sizes[rows], last[rows] = _prefix(formula, part, row[rows], threshold[rows], low, length)
    member = probs >= last[:, None]
    # Labels tied with the last one to enter: only the first of them by number belong to the prefix.
    for i in np.flatnonzero(np.count_nonzero(member, axis=1) != sizes):
        member[i] = False
        member[i, _stable_order(probs[i : i + 1])[0, : sizes[i]]] = True
    return np.asarray(member)


def mass_below_top(probs: Array) -> Floats:
    """What the most probable label leaves to the others, shape (n,)."""
    others = probs.copy()
    others[np.arange(probs.shape[0]), np.argmax(probs, axis=1)] = 0
    return np.asarray(others.sum(axis=1, dtype=np.float64))


def _lengths(classes: int) -> Iterator[tuple[int, int]]:
    """How many labels to look at, step by step, each with the number of the step before."""
    low, length = 0, _HEAD
    while low < classes:
        yield low, min(length, classes)
        low, length = length, length * _GROWTH


def _prefix(
    formula: Formula, probs: Array, row: Floats, threshold: Floats, low: int, length: int
) -> tuple[NDArray[np.intp], Array]:
    """How many of the ``length`` most probable labels pass if the first ``low`` do, and the last one's probability."""
    values, below = _descending(probs, length)
    scores = formula(values[:, low:], below[:, low:], np.arange(low + 1, length + 1), row[:, None])
    sizes = low + np.count_nonzero(scores <= threshold[:, None], axis=1)
    last = np.take_along_axis(values, np.maximum(sizes - 1, 0)[:, None], axis=1)[:, 0]
    return np.asarray(sizes), np.where(sizes > 0, last, np.inf).astype(probs.dtype)


def _descending(probs: Array, length: int) -> tuple[Floats, Floats]:
    """The largest ``length`` probabilities of each row, falling, and for each the sum of all below it."""
    rest = probs.shape[1] - length
    part = np.partition(probs, rest, axis=1) if rest else probs
    rising = np.sort(part[:, rest:], axis=1).astype(np.float64)
    below = np.empty_like(rising)
    below[:, 0] = part[:, :rest].sum(axis=1, dtype=np.float64)
    below[:, 1:] = rising[:, :-1]
    np.cumsum(below, axis=1, out=below)
    return rising[:, ::-1], below[:, ::-1]


def _stable_order(probs: Array) -> NDArray[np.intp]:
    """Labels by falling probability, ties by label number."""
    negative = -probs
    order = np.argsort(negative, axis=1)
    values = np.take_along_axis(negative, order, axis=1)
    tied = np.flatnonzero((values[:, 1:] == values[:, :-1]).any(axis=1))
    if tied.size:
        order[tied] = np.argsort(negative[tied], axis=1, kind="stable")
    return np.asarray(order)
