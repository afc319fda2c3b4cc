"""Array cores of the ranking measures that both the scores (tuning) and the metrics need. Inputs are checked above."""

from __future__ import annotations

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


def share_above(inlier: Vector, outlier: Vector) -> Vector:
    """For each inlier, in the order given, the share of outliers above it; ties count one half.

    >>> share_above(np.array([2.0, 0.0, 1.0]), np.array([1.0, 3.0]))
    array([0.5 , 1.  , 0.75])
    """
    order, ranked = np.argsort(inlier), np.sort(outlier)
    ascending = inlier[order]
    below = np.searchsorted(ranked, ascending, side="left")
    below += np.searchsorted(ranked, ascending, side="right")
    shares = np.empty(inlier.size)
    shares[order] = 1 - below / (2 * ranked.size)
    return shares


def augrc(score: Vector, correct: NDArray[np.bool_]) -> float:
    """Area under generalized risk against coverage, by the trapezoid rule over distinct scores.

    >>> augrc(np.array([0.1, 0.2, 0.3]), np.array([True, False, True])).__round__(4)
    0.1667
    """
    right, wrong = score[correct], score[~correct]
    above, tied = wins(right, wrong)
    lost = right.size * wrong.size - above - tied / 2  # pairs of a right and a wrong answer in the wrong order
    return (2 * lost + wrong.size**2) / (2 * score.size**2)
