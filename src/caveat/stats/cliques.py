"""Groups of methods that cannot be told apart.

The indifference graph joins two methods whose adjusted p-value is at least alpha. A maximal clique is a largest group
of mutually indistinguishable methods (Bron and Kerbosch, CACM 16(9), 1973, with pivoting); cliques may overlap. Layers
do not: from best to worst, each takes the clique of the best method that is left.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        import networkx as nx

        graph = nx.from_numpy_array(np.triu(tied, 1))
        cliques = [tuple(sorted(clique, key=lambda i: (ranks[i], i))) for clique in nx.find_cliques(graph)]
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
    left = sorted(range(ranks.size), key=lambda i: (ranks[i], i))
    groups = []
    while left:
        part = maximal_cliques(tied[np.ix_(left, left)], ranks[left])
        with_best = [clique for clique in part if 0 in clique]
        chosen = max(with_best, key=lambda clique: (len(clique), -ranks[[left[i] for i in clique]].mean()))
        groups.append(tuple(left[i] for i in chosen))
        left = [method for method in left if method not in groups[-1]]
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
