"""Array cores of the ranking measures that both the scores (tuning) and the metrics need. Inputs are checked above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["augrc", "auroc", "tied_groups"]

Vector = NDArray[np.float64]


def auroc(inlier: Vector, outlier: Vector) -> float:
    """Chance that an outlier scores above an inlier; ties count one half.

    >>> auroc(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0]))
    0.75
    """
    known, asked = np.sort(inlier), np.sort(outlier)  # sorted queries keep the search in cache
    below = np.searchsorted(known, asked, side="left").sum()
    at_most = np.searchsorted(known, asked, side="right").sum()
    return float((below + at_most) / 2 / (known.size * asked.size))


def tied_groups(score: Vector, correct: NDArray[np.bool_]) -> tuple[Vector, Vector]:
    """How many samples, and how many errors, share each distinct score, from the least to the most strange."""
    _, group = np.unique(score, return_inverse=True)
    errors = np.bincount(group, weights=(~correct).astype(np.float64))
    return np.bincount(group).astype(np.float64), errors.astype(np.float64)


def augrc(score: Vector, correct: NDArray[np.bool_]) -> float:
    """Area under generalised risk against coverage, by the trapezoid rule over distinct scores.

    >>> augrc(np.array([0.1, 0.2, 0.3]), np.array([True, False, True])).__round__(4)
    0.1667
    """
    samples, errors = tied_groups(score, correct)
    accepted_errors = np.cumsum(errors) - errors / 2  # on average while the group is taken in
    return float(accepted_errors @ samples) / score.size**2
