"""Principal directions from a scatter matrix: the few lines that every subspace score shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_result
from caveat.errors import InputError


def principal_directions(scatter: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, largest first and none below zero, and the eigenvectors as columns, of a symmetric matrix."""
    values, vectors = np.linalg.eigh(check_result(scatter, "the scatter of the training rows"))
    return np.maximum(values[::-1], 0), vectors[:, ::-1]


def components_for(values: NDArray[np.float64], variance: float) -> int:
    """The fewest components that hold this share of the variance, but at least one direction fewer than there are.

    >>> components_for(np.array([6.0, 3.0, 1.0]), 0.9), components_for(np.array([1.0, 1.0]), 0.9)
    (2, 1)
    """
    total = values.sum()
    if not total > 0:
        raise InputError("features must vary, but every training row is the same.")
    # A share reached to the last digit counts as reached.
    enough = int(np.searchsorted(np.cumsum(values), variance * total * (1 - 1e-12))) + 1
    return min(enough, values.size - 1)
