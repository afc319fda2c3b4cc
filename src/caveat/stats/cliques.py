"""Groups of methods that cannot be told apart.

The indifference graph joins two methods whose adjusted p-value is at least alpha. A maximal clique is a largest group
of mutually indistinguishable methods (Bron and Kerbosch, CACM 16(9), 1973, with pivoting); cliques may overlap. Layers
do not: from best to worst, each takes the clique of the best method that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["layers", "maximal_cliques", "stack_bars"]


def maximal_cliques(tied: NDArray[np.bool_], ranks: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Maximal cliques of the (k, k) graph ``tied``, by average rank; members from best to worst.

    Examples
    --------
    >>> tied = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)
    >>> maximal_cliques(tied, np.array([1.0, 2.0, 3.0]))
    [(0, 1), (1, 2)]
    """
    cliques = _windows(tied, ranks)
    if cliques is None:
        neighbors = _neighbors(tied)
        cliques = [_best_first(clique, ranks) for clique in _extend([], neighbors, (1 << ranks.size) - 1, 0)]
    return _by_rank(cliques, ranks)


def _neighbors(tied: NDArray[np.bool_]) -> list[int]:
    """The other methods that each is tied with, as the bits of a number: a set in one step of arithmetic."""
    apart = (tied | tied.T) & ~np.eye(len(tied), dtype=np.bool_)
    return [sum(1 << i for i in np.flatnonzero(row).tolist()) for row in apart]


def _extend(clique: list[int], neighbors: list[int], candidates: int, done: int) -> Iterator[list[int]]:
    """Maximal cliques that hold ``clique`` and some candidates, and that no method of ``done`` could join."""
    if not candidates:
        if not done:
            yield clique
        return
    # A maximal clique holds the pivot, or a candidate that is not tied with it.
    pivot = max(_members(candidates | done), key=lambda i: (candidates & neighbors[i]).bit_count())
    for i in _members(candidates & ~neighbors[pivot]):
        yield from _extend([*clique, i], neighbors, candidates & neighbors[i], done & neighbors[i])
        candidates &= ~(1 << i)
        done |= 1 << i


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _best_first(clique: Iterable[int], ranks: NDArray[np.float64]) -> tuple[int, ...]:
    return tuple(sorted(clique, key=lambda i: (ranks[i], i)))


def _by_rank(cliques: list[tuple[int, ...]], ranks: NDArray[np.float64]) -> list[tuple[int, ...]]:
    return sorted(cliques, key=lambda clique: (ranks[list(clique)].mean(), clique))


def _windows(tied: NDArray[np.bool_], ranks: NDArray[np.float64]) -> list[tuple[int, ...]] | None:
    """The cliques where a tie depends on the distance of ranks alone, as in Conover's and Nemenyi's tests; else None.

    By rank, each method is then tied with all up to some last one, and a clique runs from a method to its last. It is
    maximal unless the method before it reaches as far.
    """
    order = np.lexsort((np.arange(ranks.size), ranks))
    above = np.triu(tied[np.ix_(order, order)] | np.eye(ranks.size, dtype=np.bool_))
    last = ranks.size - 1 - above[:, ::-1].argmax(axis=1)
    unbroken = above.sum(axis=1) == last - np.arange(ranks.size) + 1
    if not unbroken.all() or (np.diff(last) < 0).any():
        return None
    starts = np.flatnonzero(np.diff(last, prepend=-1) > 0)
    return [tuple(order[i : last[i] + 1].tolist()) for i in starts.tolist()]


def layers(tied: NDArray[np.bool_], ranks: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Every method in exactly one group: repeatedly the largest clique with the best method that is left.

    Examples
    --------
    >>> tied = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)
    >>> layers(tied, np.array([1.0, 2.0, 3.0]))
    [(0, 1), (2,)]
    """
    order = list(_best_first(range(ranks.size), ranks))  # in this order, the members of a clique ascend
    ordered, neighbors = ranks[order], _neighbors(tied[np.ix_(order, order)])
    left = (1 << ranks.size) - 1
    groups = []
    while left:
        best = next(_members(left))
        cliques = [tuple(sorted(clique)) for clique in _extend([best], neighbors, left & neighbors[best], 0)]
        chosen = max(_by_rank(cliques, ordered), key=lambda clique: (len(clique), -ordered[list(clique)].mean()))
        groups.append(tuple(order[i] for i in chosen))
        left &= ~sum(1 << i for i in chosen)
    return groups


def stack_bars(bars: Sequence[tuple[float, float]]) -> list[int]:
    """A row for each bar of a critical-difference diagram, sorted by start, so that bars in one row do not touch.

    Examples
    --------
    >>> stack_bars([(1, 3), (2, 4), (5, 6)])
    [0, 1, 0]
    """
    ends: list[float] = []
    rows = []
    for start, stop in bars:
        row = next((i for i, end in enumerate(ends) if end < start), len(ends))
        if row == len(ends):
            ends.append(stop)
        else:
            ends[row] = stop
        rows.append(row)
    return rows
