"""Principal subspaces of the training features, of all rows or of each class, and what they leave of a feature.

A subspace is a mean and a few orthonormal axes, one per row; those of several classes are stacked, with ``starts``
saying where each begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.arrays import widened
from caveat._internal.blocks import row_blocks
from caveat._internal.checks import check_result
from caveat._internal.parallel import map_in_threads
from caveat._internal.products import row_products
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._statistics import ClassMoments, demand_every_class

_TILE_BYTES = 32 * 2**20  # of the coordinates, rows x axes
_AT_ONCE = 16  # classes handed to the threads together, so that few results wait to be used


def principal_directions(scatter: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, largest first and none below zero, and the eigenvectors as columns, of a symmetric matrix."""
    values, vectors = np.linalg.eigh(check_result(scatter, "the scatter of the training rows"))
    return np.maximum(values[::-1], 0), vectors[:, ::-1]


def components_for(values: NDArray[np.float64], variance: float) -> int:
    """The fewest components that hold this share of the variance, but at least one direction fewer than there are.

    >>> components_for(np.array([6.0, 3.0, 1.0]), 0.9), components_for(np.array([1.0, 1.0]), 0.9)
    (2, 1)
    """
    enough = kept_share(values, variance)
    if not enough:
        raise InputError("features must vary, but every training row is the same.")
    return min(enough, values.size - 1)


def principal_axes(scatter: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Fewest eigenvectors of a scatter matrix that hold this share of its trace, as rows (k, D), largest first.

    No variance at all: no axis.
    """
    values, vectors = principal_directions(scatter)
    return np.ascontiguousarray(vectors[:, : kept_share(values, variance)].T)


def kept_share(values: NDArray[np.float64], variance: float) -> int:
    """How many of these eigenvalues, largest first, hold the share ``variance`` of their sum.

    >>> kept_share(np.array([6.0, 3.0, 1.0]), 0.9), kept_share(np.array([0.0, 0.0]), 0.9)
    (2, 0)
    """
    real = values[values > values[0] * values.size * np.finfo(np.float64).eps] if values[0] > 0 else values[:0]
    if not real.size:
        return 0
    held = np.cumsum(real)
    # A share reached to the last digit counts as reached.
    return min(real.size, int(np.searchsorted(held, variance * held[-1] * (1 - 1e-12))) + 1)


def class_subspaces(
    train: Outputs, variance: float, *, mapped: Callable[[NDArray[Any]], NDArray[Any]] | None = None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Mean (D,) and axes (k, D) of each class in turn, by label; ``mapped`` is applied to the features first.

    One class is worked on per thread, with one BLAS thread each (many threads on many small eigenproblems mostly wait
    for each other), so there are a few D x D matrices and never C of them. A class with fewer rows than features is
    solved through its small Gram matrix.
    """
    labels, classes = train.labels, train.n_classes
    assert classes is not None
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=classes)
    demand_every_class(counts, "a class projection")
    features = train.features

    def solve(members: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        blocks = row_blocks(members.size, row_bytes=features.shape[1] * max(4, features.itemsize))
        parts = (widened(features[members[block]]) for block in blocks)
        rows = parts if mapped is None else (mapped(part) for part in parts)
        return _subspace(rows, members.size, variance)

    members = np.split(order, np.cumsum(counts)[:-1])
    for first in range(0, classes, _AT_ONCE):
        yield from map_in_threads(solve, members[first : first + _AT_ONCE])


def stacked(
    subspaces: Iterable[tuple[NDArray[np.float64], NDArray[Any]]], kind: np.dtype[Any]
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.intp]]:
    """Means (C, D), the axes of all subspaces on top of each other in the float type ``kind``, and ``starts`` (C + 1,).

    How many axes there will be is known at the end only. They go into one array that grows in place, so there are never
    two copies of all of them: those of 1000 classes with 2048 features take gigabytes.
    """
    means: list[NDArray[np.float64]] = []
    starts = [0]
    axes: NDArray[Any] = np.empty((0, 0), dtype=kind)
    for mean, some in subspaces:
        if not means:
            axes = np.empty((0, mean.size), dtype=kind)
        means.append(mean)
        starts.append(starts[-1] + len(some))
        if starts[-1] > len(axes):
            axes.resize((starts[-1] + starts[-1] // 8, mean.size), refcheck=False)  # ours alone, no view of it lives
        axes[starts[-2] : starts[-1]] = some
    axes.resize((starts[-1], means[0].size), refcheck=False)
    return np.stack(means), axes, np.array(starts, dtype=np.intp)


def _subspace(
    parts: Iterator[NDArray[Any]], n: int, variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = next(parts)
    if n <= first.shape[1]:
        rows = np.concatenate([first, *parts]).astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        values, vectors = np.linalg.eigh(check_result(rows @ rows.T, "the scatter of the features"))
        k = kept_share(values[::-1], variance)
        top = slice(n - k, n)
        axes = (vectors[:, top] / np.sqrt(values[top])).T @ rows
        return mean, np.ascontiguousarray(axes[::-1])
    moments = ClassMoments.of_rows(itertools.chain([first], parts))
    return moments.global_mean, principal_axes(moments.total_scatter, variance)


def within(
    rows: NDArray[Any],
    which: NDArray[np.intp],
    means: NDArray[np.float64],
    axes: NDArray[Any],
    starts: NDArray[np.intp],
) -> NDArray[Any]:
    """Each row projected onto the subspace that ``which`` names: P P^T (h - mu) + mu. One product per subspace."""
    if len(means) == 1:
        return _onto(rows, means[0], axes)
    projected = np.empty(rows.shape)
    order = np.argsort(which, kind="stable")
    present, first = np.unique(which[order], return_index=True)
    for c, members in zip(present, np.split(order, first[1:]), strict=True):
        projected[members] = _onto(rows[members], means[c], axes[starts[c] : starts[c + 1]])
    return projected


def _onto(rows: NDArray[Any], mean: NDArray[np.float64], axes: NDArray[Any]) -> NDArray[Any]:
    projected = row_products(row_products(rows - mean, axes, transposed=True), axes)
    projected += mean
    return projected


def squared_coordinates(rows: NDArray[Any], axes: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """||P_c^T h||^2 of every row in every subspace, shape (n, C)."""
    lengths = np.zeros((rows.shape[0], starts.size - 1))
    room = max(1, _TILE_BYTES // max(1, rows.shape[0] * rows.itemsize))
    c = 0
    while c < starts.size - 1:
        end = max(c + 1, int(np.searchsorted(starts, starts[c] + room, side="right")) - 1)
        tile = row_products(rows, axes[starts[c] : starts[end]], transposed=True)
        tile *= tile
        for each in range(c, end):
            part = tile[:, starts[each] - starts[c] : starts[each + 1] - starts[c]]
            lengths[:, each] = part.sum(axis=1, dtype=np.float64)
        c = end
    return lengths


def nearest_subspace(
    rows: NDArray[Any], means: NDArray[np.float64], axes: NDArray[Any], starts: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The subspace that each row is nearest to: argmin over c of ||(I - P_c P_c^T)(h - mu_c)||, shape (n,)."""
    center = means.mean(axis=0)
    centered, offsets = rows - center, means - center
    coordinates = [axes[starts[c] : starts[c + 1]] @ offsets[c] for c in range(starts.size - 1)]
    # ||h - mu||^2 - ||P^T (h - mu)||^2 without ||h||^2, which is the same for every c.
    pulls = np.stack([offsets[c] - axes[starts[c] : starts[c + 1]].T @ coordinates[c] for c in range(starts.size - 1)])
    fixed = np.array([offset @ pull for offset, pull in zip(offsets, pulls, strict=True)])
    distance = fixed - 2 * row_products(centered, pulls, transposed=True) - squared_coordinates(centered, axes, starts)
    return np.asarray(distance.argmin(axis=1))
