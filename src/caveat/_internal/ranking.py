"""Array cores of the ranking measures that both the scores (tuning) and the metrics need. Inputs are checked above."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def wins(inlier: Vector, outlier: Vector) -> tuple[int, int]:
    """Pairs in which the outlier scores above the inlier, and pairs that are tied: exact whole numbers.

    >>> wins(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0]))
    (4, 1)
    """
    # Sorted queries keep the search in cache, and sorting is far cheaper than missing it.
    inlier, outlier = np.sort(inlier), np.sort(outlier)
    above = int(np.searchsorted(inlier, outlier, side="left").sum())
    return above, int(np.searchsorted(inlier, outlier, side="right").sum()) - above


def auroc(inlier: Vector, outlier: Vector) -> float:
    """Chance that an outlier scores above an inlier; ties count one half.

    >>> auroc(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0]))
    0.75
    """
    above, tied = wins(inlier, outlier)
    return (above + tied / 2) / (inlier.size * outlier.size)


class Ranked(NamedTuple):
    """Scores in ascending order with the rows they came from, for all that is computed from one sort."""

    order: NDArray[np.intp]
    ascending: Vector

    @classmethod
    def of(cls, values: Vector) -> Ranked:
        order = np.argsort(values)
        return cls(order, values[order])

    def part(self, rows: NDArray[np.bool_]) -> Ranked:
        """The scores of some rows, without another sort.

        >>> Ranked.of(np.array([2.0, 0.0, 1.0])).part(np.array([True, False, True])).order
        array([1, 0])
        """
        kept = rows[self.order]
        return Ranked((np.cumsum(rows) - 1)[self.order[kept]], self.ascending[kept])

    def by_row(self, values: Vector) -> Vector:
        """Values of the ascending scores in the order of the rows."""
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows


def cross_shares(first: Vector, second: Vector) -> tuple[Vector, Vector]:
    """For each score of two ascending sets the share of the other set below it; ties count one half.

    >>> cross_shares(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0]))
    (array([0.  , 0.25, 0.5 ]), array([0.5, 1. ]))
    """
    if second.size > first.size:
        return cross_shares(second, first)[::-1]
    # Sorted queries keep the search in cache, and a second search is only needed where scores are tied.
    below = np.searchsorted(first, second, side="left")
    at_most = below
    tied = first[np.minimum(below, first.size - 1)] == second
    if tied.any():
        at_most = below.copy()
        at_most[tied] = np.searchsorted(first, second[tied], side="right")
    # A score of the second set lies below those of the first from place ``at_most`` on, and is tied from ``below`` on.
    starts = np.bincount(below, minlength=first.size + 1) + np.bincount(at_most, minlength=first.size + 1)
    return np.cumsum(starts[:-1]) / (2 * second.size), (below + at_most) / (2 * first.size)


def share_above(inlier: Vector, outlier: Vector) -> Vector:
    """For each inlier, in the order given, the share of outliers above it; ties count one half.

    >>> share_above(np.array([2.0, 0.0, 1.0]), np.array([1.0, 3.0]))
    array([0.5 , 1.  , 0.75])
    """
    ranked = Ranked.of(inlier)
    return ranked.by_row(1 - cross_shares(ranked.ascending, np.sort(outlier))[0])


def augrc(score: Vector, correct: NDArray[np.bool_]) -> float:
    """Area under generalized risk against coverage, by the trapezoid rule over distinct scores.

    >>> augrc(np.array([0.1, 0.2, 0.3]), np.array([True, False, True])).__round__(4)
    0.1667
    """
    right, wrong = score[correct], score[~correct]
    above, tied = wins(right, wrong)
    lost = right.size * wrong.size - above - tied / 2  # pairs of a right and a wrong answer in the wrong order
    return (2 * lost + wrong.size**2) / (2 * score.size**2)
