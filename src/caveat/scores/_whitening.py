"""One covariance, applied once: in whitened coordinates a Mahalanobis distance is a plain distance, and one matmul."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import by_row_blocks
from caveat._internal.checks import check_result
from caveat.errors import InputError


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
    neural collapse, the product has no digits left for it in float32.
    """
    kept = means.astype(rows.dtype)

    def nearest(part: NDArray[Any]) -> NDArray[Any]:
        gap = kept[np.argmin(_beyond(part, means), axis=1)]
        gap -= part
        return _lengths(gap)

    return by_row_blocks(nearest, rows, row_bytes=8 * means.shape[0] + rows.itemsize * means.shape[1])


def squared_distances(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared Euclidean distance of each row to each mean, shape (n, C)."""
    return np.asarray(np.maximum(_lengths(rows)[:, None] + _beyond(rows, means), 0), dtype=np.float64)


def _lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _beyond(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[Any]:
    """|row - mean|^2 - |row|^2, shape (n, C)."""
    product = rows @ (-2 * means.astype(rows.dtype)).T
    product += np.einsum("ij,ij->i", means, means).astype(rows.dtype)
    return np.asarray(product)
