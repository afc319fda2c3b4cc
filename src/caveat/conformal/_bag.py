"""Neighbor lists of a training bag, and what one more example changes in them.

For every training example and every K the conformity within the bag is computed once. A test example enters the list of
few training examples: only for those is the conformity computed again, once per tentative label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
State = tuple[Array, ...]


class Metric(Protocol):
    """Distances from rows to rows. ``prepare`` does once per object what would else be done once per pair.

    ``distances(a, b)`` holds the distance from each row of a to each row of b; it need not be symmetric. To the last
    bit, a distance may depend on its two objects only, not on the other rows of the call or on their order: conformal
    promises about ties rest on it. A matrix product does depend on them.
    """

    def prepare(self, x: Array) -> State: ...

    def distances(self, a: State, b: State) -> Floats: ...


@final
@dataclass(frozen=True)
class Euclidean:
    """Straight-line distance.

    Examples
    --------
    >>> metric = Euclidean()
    >>> metric.distances(metric.prepare(np.array([[0.0, 0.0]])), metric.prepare(np.array([[3.0, 4.0], [0.0, 0.0]])))
    array([[5., 0.]])
    """

    def prepare(self, x: Array) -> State:
        """What ``distances`` needs to know of rows.

        Parameters
        ----------
        x
            Rows, shape (n, d).

        Returns
        -------
        tuple
            The rows as float64.
        """
        return (x.astype(np.float64),)

    def distances(self, a: State, b: State) -> Floats:
        """Distance from each row of a to each row of b.

        Parameters
        ----------
        a, b
            Prepared rows.

        Returns
        -------
        array of shape (n, m)
            The distances.
        """
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(a[0], b[0]))  # one pair after the other, each in the order of the columns


class Changes(NamedTuple):
    """What a block of m test examples does to a bag at one K."""

    base: Array  # conformity of the training examples without the test example, (n,)
    own: Array  # conformity of each test example under each label, (m, C)
    test: Ints  # pairs in which the test example enters the neighbor list of the training example, ordered by test
    train: Ints
    new: Array  # conformity of that training example then, under each label of the test example, (pairs, C)


class Neighbors(NamedTuple):
    """Distances between a block of m test objects and a bag, for every K up to the longest list."""

    gaps: Floats  # from each test object to all training objects, (m, n)
    back: Floats  # from the training objects to each test object, (m, n): differs if the metric is not symmetric
    same_sum: Floats  # sum of the K smallest distances to each label, (m, C, K)
    other_sum: Floats  # and to all other labels
    counts: NDArray[np.int64]  # neighbors of each label among the K nearest, (K, m, C)
    crowded: NDArray[np.bool_]  # whether the K-th and the next distance are equal, (m, K)


@final
class Bag:
    """Sorted neighbor lists of training examples, up to ``k`` long."""

    def __init__(self, state: State, labels: Ints, classes: int, metric: Metric, k: int) -> None:
        n = labels.size
        self.labels, self.classes, self.k = labels, classes, k
        self.same, self.other = np.full((n, k), np.inf), np.full((n, k), np.inf)
        self.distance, self.neighbor = np.empty((n, k)), np.empty((n, k), dtype=np.intp)
        for rows in row_blocks(n, row_bytes=8 * n, block_bytes=32 * 2**20):
            gaps = metric.distances(tuple(part[rows] for part in state), state)
            gaps[np.arange(gaps.shape[0]), np.arange(rows.start, rows.stop)] = np.inf
            mine = labels[rows]
            alike = mine[:, None] == labels
            self.same[rows] = _smallest(np.where(alike, gaps, np.inf), k)
            self.other[rows] = _smallest(np.where(alike, np.inf, gaps), k)
            self.distance[rows], self.neighbor[rows] = _nearest(gaps, labels, mine, classes, k)
        self.same_sum, self.other_sum = np.cumsum(self.same, axis=1), np.cumsum(self.other, axis=1)
        # Neighbors of each label among the first K, as small whole numbers: (K, n, C).
        hot = self.neighbor.T[:, :, None] == np.arange(classes)
        self.counts = np.cumsum(hot, axis=0, dtype=np.int16)

    def neighbors(self, gaps: Floats, back: Floats) -> Neighbors:
        """The neighbors of test objects, from the distances to the bag and back, each (m, n)."""
        near = np.stack([_smallest(gaps[:, self.labels == c], self.k) for c in range(self.classes)], axis=1)
        other = [_smallest(np.delete(near, c, axis=1).reshape(gaps.shape[0], -1), self.k) for c in range(self.classes)]
        flat = near.reshape(gaps.shape[0], -1)
        order = np.argsort(flat, axis=1, kind="stable")[:, : self.k + 1]  # ties by label number
        distance = np.take_along_axis(flat, order, axis=1)
        hot = (order[:, : self.k, None] // self.k == np.arange(self.classes)).transpose(1, 0, 2)
        return Neighbors(
            gaps=gaps,
            back=back,
            same_sum=np.cumsum(near, axis=2),
            other_sum=np.cumsum(np.stack(other, axis=1), axis=2),
            counts=np.cumsum(hot, axis=0, dtype=np.int64),
            crowded=distance[:, 1:] == distance[:, :-1],
        )

    def ratio_changes(self, near: Neighbors, k: int) -> Changes:
        """KNN-ratio at K = k: distances to other labels over distances to the own label."""
        same_last, other_last = self.same[:, k - 1], self.other[:, k - 1]
        same_sum, other_sum = self.same_sum[:, k - 1], self.other_sum[:, k - 1]
        own = ratio(near.other_sum[:, :, k - 1], near.same_sum[:, :, k - 1])
        test, train = np.nonzero(near.back < np.maximum(same_last, other_last))
        gap, same, other = near.back[test, train], same_sum[train], other_sum[train]
        alike = ratio(other, _sum_with(gap, self.same, train, same, k))
        unlike = ratio(_sum_with(gap, self.other, train, other, k), same)
        new = np.where(np.arange(self.classes) == self.labels[train, None], alike[:, None], unlike[:, None])
        return Changes(ratio(other_sum, same_sum), own, test, train, new)

    def count_changes(self, near: Neighbors, k: int, *, signed: bool) -> Changes:
        """KNN-CP (number of neighbors with the own label) or, signed, KNN-SP at K = k; both times K."""
        gaps, labels, every = near.back, self.labels, np.arange(self.classes)
        counts, last, last_label = self.counts[k - 1], self.distance[:, k - 1], self.neighbor[:, k - 1]
        base_own = counts[np.arange(labels.size), labels]
        base = _signed(base_own, counts.max(axis=1)) if signed else base_own.astype(np.int64)
        own = self._own_counts(near, k, signed=signed)
        test, train = np.nonzero(gaps <= last)
        mine, out = labels[train, None], last_label[train, None]
        # Ties in distance: the own label first, then by label number; which example came first does not count.
        tied = (gaps[test, train] == last[train])[:, None]
        first = (every != mine) * self.classes + every < (out != mine) * self.classes + out
        enters = ~tied | first
        left = counts[train] - (every == out)
        own_after = left[np.arange(train.size), mine[:, 0]][:, None] + (every == mine)
        after = _signed(own_after, np.maximum(left.max(axis=1, keepdims=True), left + 1)) if signed else own_after
        return Changes(base, own, test, train, np.where(enters, after, base[train, None]))

    def _own_counts(self, near: Neighbors, k: int, *, signed: bool) -> NDArray[np.int64]:
        counts = near.counts[k - 1]
        own = _signed(counts, counts.max(axis=1, keepdims=True)) if signed else counts.copy()
        for row in np.flatnonzero(near.crowded[:, k - 1]):  # the last distance is tied: the own label is in first
            for c in range(self.classes):
                order = np.lexsort((self.labels, self.labels != c, near.gaps[row]))[:k]
                votes = np.bincount(self.labels[order], minlength=self.classes)
                own[row, c] = _signed(votes[c], votes.max()) if signed else votes[c]
        return own


def ratio(above: Floats, below: Floats) -> Floats:
    """above / below with 0 / 0 = 1: an object on top of both kinds is typical of neither more than of the other."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above == 0) & (below == 0), 1.0, above / below)


def _sum_with(gap: Floats, lists: Floats, train: Ints, sums: Floats, k: int) -> Floats:
    """Sum of the k smallest of a row of ``lists`` and one more distance, for pairs of a row and a distance.

    Added up in rising order, as all such sums are: in another order the same distances have another sum in floats, and
    examples that tie would not.
    """
    new_sums = sums.copy()
    nearer = np.flatnonzero(gap < lists[train, k - 1])
    rows, larger, total = train[nearer], gap[nearer], np.zeros(nearer.size)
    for place in range(k):
        listed = lists[rows, place]
        total += np.minimum(listed, larger)
        larger = np.maximum(listed, larger)
    new_sums[nearer] = total
    return new_sums


def _signed(own: Any, best: Any) -> NDArray[np.int64]:
    """+best where the own label is among the most frequent, else -best."""
    return np.asarray(np.where(own == best, best, -best), dtype=np.int64)


def _smallest(gaps: Floats, k: int) -> Floats:
    """The k smallest values of each row, rising; infinite where there are fewer."""
    if gaps.shape[1] <= k:
        missing = np.full((gaps.shape[0], k - gaps.shape[1]), np.inf)
        return np.sort(np.hstack([gaps, missing]), axis=1)
    return np.sort(np.partition(gaps, k - 1, axis=1)[:, :k], axis=1)


def _nearest(gaps: Floats, labels: Ints, mine: Ints, classes: int, k: int) -> tuple[Floats, Ints]:
    """Distance and label of the k nearest of each row; ties in distance: the own label first, then by label number."""
    rows = np.arange(gaps.shape[0])[:, None]
    near = np.argpartition(gaps, k - 1, axis=1)[:, :k]
    last = gaps[rows, near].max(axis=1)
    key = (labels[near] != mine[:, None]) * classes + labels[near]
    order = np.lexsort((key, gaps[rows, near]), axis=1)
    distance, label = gaps[rows, near][rows, order], labels[near][rows, order]
    for row in np.flatnonzero(np.count_nonzero(gaps <= last[:, None], axis=1) > k):  # the last distance is tied
        order = np.lexsort((labels, labels != mine[row], gaps[row]))[:k]
        distance[row], label[row] = gaps[row, order], labels[order]
    return distance, label
