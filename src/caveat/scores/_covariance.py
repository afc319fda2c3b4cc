r"""One covariance for all classes, applied by whitening, and one for every class in bounded memory.

In whitened coordinates a Mahalanobis distance is a plain distance, and one matrix product. There the common covariance
is the identity, and the covariance of class c is modeled by a few directions, the rest equally wide:

$$ \Sigma_c = U_c \operatorname{diag}(v_c)\, U_c^\top + r_c\,(I - U_c U_c^\top), $$

shrunk towards the identity by the weight D / (D + n_c). The form is that of probabilistic principal components
(Tipping and Bishop, JRSS B 61(3), 1999). The subspace is found by orthogonal iteration, the variances inside it are
exact, and the variance outside it is estimated without bias from random directions (Hutchinson's trace estimator).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from caveat._internal.arrays import widened
from caveat._internal.blocks import by_row_blocks, row_blocks
from caveat._internal.checks import check_result
from caveat._internal.parallel import map_in_threads
from caveat._internal.products import row_products
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._statistics import ClassMoments, unit_rows

_SWEEPS = 3  # of orthogonal iteration: whitened spectra are flat, one sweep would find little more than chance
_SPARE = 8  # directions carried along beyond the rank, so that the last ones kept are good too
_PROBES = 16  # random directions for the variance outside the subspace
_SMALL = 8  # rows per direction up to which whitening the rows costs less than whitening directions in every sweep
_HELD = 64 * 2**20  # bytes of one class that are kept while it is worked on; a larger one is read again each time


def whitener(covariance: NDArray[np.float64], *, ridge: float, what: str = "features") -> NDArray[np.float64]:
    """A matrix W with W W^T = (covariance + ridge * its mean variance * I)^-1."""
    scale = float(np.trace(covariance)) / covariance.shape[0]
    check_result(covariance, f"the covariance of {what}")
    if not scale > 0:
        raise InputError(f"{what} must vary within at least one class, but every row equals its class mean.")
    values, vectors = np.linalg.eigh(covariance / scale)
    scaled: NDArray[np.float64] = vectors / np.sqrt((np.maximum(values, 0) + ridge) * scale)
    return scaled


def nearest_mean(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[Any]:
    """Squared Euclidean distance of each row to the nearest mean, shape (n,).

    The product says which mean is nearest; the distance comes from the difference. Where classes lie far apart, as near
    neural collapse, the product has few digits left for it.
    """

    def nearest(part: NDArray[Any]) -> NDArray[Any]:
        gap = means[np.argmin(_beyond(part, means), axis=1)]
        gap -= part
        return _lengths(gap)

    return by_row_blocks(nearest, rows, row_bytes=8 * means.shape[0] + rows.itemsize * means.shape[1])


def squared_distances(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared Euclidean distance of each row to each mean, shape (n, C)."""
    return np.asarray(np.maximum(_lengths(rows)[:, None] + _beyond(rows, means), 0), dtype=np.float64)


def _lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64, copy=False)  # the sums need its digits
    return np.asarray(np.vecdot(wide, wide))


def _beyond(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """|row - mean|^2 - |row|^2, shape (n, C)."""
    product = row_products(rows, means, transposed=True)
    product *= -2
    product += np.einsum("ij,ij->i", means, means)
    return product


class ClassCovariances(NamedTuple):
    """Shrunk covariances in whitened coordinates, largest variance first."""

    axes: NDArray[Any]  # (C, D, r), orthonormal columns (or zero, past the rank), in the float type of the features
    variances: NDArray[np.float64]  # (C, r), along the axes
    rest: NDArray[np.float64]  # (C,), in every direction orthogonal to them


def class_covariances(
    train: Outputs, moments: ClassMoments, whitener: NDArray[np.float64], *, rank: int, seed: int
) -> ClassCovariances:
    """The covariance of each class about its mean, with one class per thread in memory.

    ``moments`` are those of ``train``. With a ``rank`` of D or more the covariances are exact. ``seed`` draws the first
    directions and the probes.
    """
    classes, width = moments.means.shape
    kind = np.result_type(train.features.dtype, np.float32)
    r, white = min(rank, width), whitener.astype(kind)
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(width, min(width, rank + _SPARE)))
    probes = rng.normal(size=(width, _PROBES))
    axes = np.empty((classes, width, r), dtype=kind)
    variances, rest = np.empty((classes, r)), np.ones(classes)
    members = np.split(np.argsort(train.labels, kind="stable"), np.cumsum(moments.counts).astype(np.intp)[:-1])

    def fill(c: int) -> None:
        n = members[c].size
        rows: Iterable[NDArray[Any]] = _CenteredRows(train.features, members[c], moments.means[c], moments.normalize)
        directions = None
        if n <= _SMALL * start.shape[1]:
            whitened = np.concatenate([block @ white for block in rows])
            scatter = _Scatter([whitened], white, rows_are_white=True)
            directions = _widest_of_few(whitened, start, r) if r < width else None
        else:
            scatter = _Scatter(list(rows) if n * width * 8 <= _HELD else rows, white, rows_are_white=False)
        values, own = directions or _widest(scatter, start, r)
        weight = n / (n + width)
        axes[c], variances[c] = own, weight * np.maximum(values, 0) / n + 1 - weight
        if r < width:
            outside = probes - own @ (own.T @ probes)
            total = np.trace(scatter.along(outside)) / (n * _PROBES)
            rest[c] = weight * total / (width - r) + 1 - weight

    map_in_threads(fill, range(classes))
    return ClassCovariances(axes, variances, rest)


@final
@dataclass(frozen=True)
class _CenteredRows:
    """The rows of one class minus its mean; every walk reads them again, in blocks."""

    features: NDArray[Any]
    index: NDArray[np.intp]
    mean: NDArray[np.float64]
    normalize: bool

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for block in row_blocks(self.index.size, row_bytes=self.features.shape[1] * 8):
            rows = widened(self.features[self.index[block]])
            rows = unit_rows(rows) if self.normalize else rows
            yield rows - self.mean.astype(rows.dtype)


class _Directions(NamedTuple):
    """The directions in which the scatter of a class is largest, in descending order."""

    values: NDArray[np.float64]  # (r,), the scatter along each
    axes: NDArray[np.float64]  # (D, r), orthonormal columns


@final
@dataclass(frozen=True)
class _Scatter:
    """Sum of z z^T over the whitened rows z of one class, without the D x D matrix."""

    rows: Iterable[NDArray[Any]]
    white: NDArray[Any]
    rows_are_white: bool  # else each product whitens the directions, which are fewer than the rows

    def times(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scatter times the directions."""
        total, inside = np.zeros(directions.shape), self._whitened(directions)
        for block in self.rows:
            total += block.T @ (block @ inside)
        return total if self.rows_are_white else (self.white.T @ total.astype(inside.dtype)).astype(np.float64)

    def along(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Second moments, summed over rows, of the coordinates along the directions."""
        total, inside = np.zeros((directions.shape[1],) * 2), self._whitened(directions)
        for block in self.rows:
            coordinates = block @ inside
            total += coordinates.T @ coordinates
        return total

    def _whitened(self, directions: NDArray[np.float64]) -> NDArray[Any]:
        narrow = directions.astype(self.white.dtype)
        return narrow if self.rows_are_white else self.white @ narrow


def _widest(scatter: _Scatter, start: NDArray[np.float64], r: int) -> _Directions:
    """By orthogonal iteration from the directions ``start``; with an r of D, all of them, exactly."""
    width = start.shape[0]
    basis = np.eye(width) if r == width else start
    for _ in range(_SWEEPS if r < width else 0):
        basis = np.linalg.qr(scatter.times(basis))[0]
    values, turn = np.linalg.eigh(scatter.along(basis))
    return _Directions(values[::-1][:r], basis @ turn[:, ::-1][:, :r])


def _widest_of_few(rows: NDArray[Any], start: NDArray[np.float64], r: int) -> _Directions | None:
    """What ``_widest`` finds, from the inner products of the rows: n numbers for a direction in place of D.

    The scatter is Z^T Z. With K = Z Z^T, three sweeps from B end in the span of Z^T Q with Q = K K Z B, where the inner
    products of Z^T Q are Q^T K Q and its second moments Q^T K K Q. Directions beyond the rank of the scatter are left
    zero: their variance is that of the rest. None where rounding shows, because some directions have little variance.
    """
    n = rows.shape[0]
    inner = (rows @ rows.T).astype(np.float64)
    basis = np.eye(n, n - 1)  # all directions: centered rows sum to zero, and the last one follows from the others
    try:
        if start.shape[1] < n - 1:
            basis = (rows @ start.astype(rows.dtype)).astype(np.float64)
            for _ in range(_SWEEPS - 1):
                image = inner @ basis
                basis = _solve(np.linalg.cholesky(image.T @ image), image.T).T  # orthonormal columns, nearly
        image = inner @ basis
        factor = np.linalg.cholesky(basis.T @ image)
    except np.linalg.LinAlgError:
        return None
    moments = _solve(factor, image.T)
    values, turn = np.linalg.eigh(moments @ moments.T)
    mix = basis @ _solve(factor, turn[:, ::-1][:, :r], transposed=True)
    axes = rows.T @ mix.astype(rows.dtype)
    if np.abs(axes.T @ axes - np.eye(axes.shape[1])).max(initial=0) > np.finfo(rows.dtype).eps ** 0.7:
        return None
    missing = r - axes.shape[1]
    return _Directions(np.pad(values[::-1][:r], (0, missing)), np.pad(axes.astype(np.float64), ((0, 0), (0, missing))))


def _solve(factor: NDArray[np.float64], right: NDArray[np.float64], *, transposed: bool = False) -> NDArray[np.float64]:
    """L^-1 B, or L^-T B, of a lower triangular L."""
    return np.asarray(solve_triangular(factor, right, lower=True, trans=1 if transposed else 0, check_finite=False))
