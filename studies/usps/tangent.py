r"""Tangent distance between images, for nearest-neighbor conformity.

Tangent distance ignores small translations, scalings, rotations, shears and changes of stroke width:

$$ d(x, y)^2 = \min_{a, b} \lVert (x + T_x a) - (y + T_y b) \rVert^2 + \rho\,(|a|^2 + |b|^2) $$

with orthonormal tangent vectors, a tiny price rho on their use, and seven of them per image: two translations, scaling,
rotation, two hyperbolic transformations, thickening. Simard, LeCun and Denker, "Efficient Pattern Recognition
Using a New Transformation Distance", NIPS 1992; one-sided (b = 0) in Keysers, Macherey, Ney and Dahmen, "Adaptation in
Statistical Pattern Recognition Using Tangent Vectors", IEEE TPAMI 26, 2004.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count, as_pair, check_result
from caveat._internal.params import check_params, choice, number
from caveat.errors import InputError

Array = NDArray[Any]
State = tuple[Array, ...]

_TANGENTS = 7
_RIDGE = 1e-4  # rho: keeps two parallel tangent planes from dividing rounding errors by zero
_TILE = 96  # rows and columns, so that its 49 inner products stay in cache


@final
@dataclass(frozen=True)
class TangentDistance:
    """Distance between images up to small transformations.

    Parameters
    ----------
    sides
        ``"two"``: both images move, symmetric. ``"one"``: only the first moves.
    sigma
        Standard deviation, in pixels, of the blur before images are differentiated.
    shape
        Height and width; None: square images.
    """

    sides: Literal["two", "one"] = choice("two", ("two", "one"), "number of sides")
    sigma: float = number(0.9, least=1e-3, most=1e3)
    shape: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_params(self)
        if self.shape is not None:
            for side in as_pair(self.shape, "shape"):
                as_count(side, "shape")

    def prepare(self, x: Array) -> State:
        shape = self.shape or _square(x.shape[1])
        if shape[0] * shape[1] != x.shape[1]:
            raise InputError(f"rows must be images of {shape[0]} x {shape[1]} pixels, got {x.shape[1]} columns.")
        with np.errstate(over="ignore"):
            check_result(x.astype(np.float32), "an image in float32")
        rows = _on_a_grid(x)
        basis = _on_a_grid(tangent_vectors(rows.reshape(-1, *shape), sigma=self.sigma))
        own = np.vecdot(basis, rows[:, None]).astype(np.float32)  # what of the image lies in its own tangent plane
        return rows, np.vecdot(rows, rows), basis, own

    def distances(self, a: State, b: State) -> NDArray[np.float64]:
        distances = np.empty((a[0].shape[0], b[0].shape[0]))
        for rows in row_blocks(distances.shape[0], row_bytes=1, block_bytes=_TILE):
            for columns in row_blocks(distances.shape[1], row_bytes=1, block_bytes=_TILE):
                left, right = tuple(part[rows] for part in a), tuple(part[columns] for part in b)
                squared = left[1][:, None] + right[1] - 2 * (left[0] @ right[0].T)
                squared -= _one_sided(left, right) if self.sides == "one" else _two_sided(left, right)
                distances[rows, columns] = np.sqrt(np.maximum(squared, 0))
        return distances


def _on_a_grid(rows: Array) -> NDArray[np.float64]:
    """Rows of d numbers in float64, rounded to so few binary digits that no product of two rows has a rounding error.

    Every partial sum is then a whole number of steps below 2^53, so the order of the sum does not count: a pair has one
    distance wherever it stands, with every BLAS kernel. With 256 pixels 22 digits are left, of the 24 of float32.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    digits = (53 - math.ceil(math.log2(rows.shape[-1]))) // 2
    _, exponent = np.frexp(np.abs(rows).max(axis=-1, keepdims=True))
    return np.asarray(np.ldexp(np.rint(np.ldexp(rows, digits - exponent)), exponent - digits))


def _product(a: Array, b: Array) -> NDArray[np.float32]:
    """``a @ b.T`` of rows on a grid, where float32 is enough for what follows."""
    return np.asarray((a @ b.T).astype(np.float32))


def tangent_vectors(images: Array, *, sigma: float = 0.9) -> NDArray[np.float64]:
    """Orthonormal basis of the tangent plane of each image, shape (n, 7, height * width).

    A direction in which an image cannot move (a blank one has none) is a row of zeros.
    """
    from scipy.ndimage import gaussian_filter

    n, height, width = images.shape
    smooth = gaussian_filter(images.astype(np.float64), sigma=(0, sigma, sigma), mode="nearest")
    down, right = np.gradient(smooth, axis=(1, 2))
    y, x = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
    planes = np.stack(
        [
            right,  # translation along x
            down,  # translation along y
            x * right + y * down,  # scaling
            y * right - x * down,  # rotation
            x * right - y * down,  # hyperbolic, along the axes
            y * right + x * down,  # hyperbolic, along the diagonals
            right**2 + down**2,  # thickening
        ],
        axis=1,
    ).reshape(n, _TANGENTS, height * width)
    _, sizes, basis = np.linalg.svd(planes, full_matrices=False)
    basis[sizes <= 1e-9 * np.maximum(sizes[:, :1], 1e-300)] = 0
    return np.asarray(basis)


def _one_sided(a: State, b: State) -> Array:
    """How much of |x - y|^2 moving x within its tangent plane saves."""
    gaps = (a[3][:, i, None] - _product(a[2][:, i], b[0]) for i in range(_TANGENTS))
    return np.asarray(sum(gap**2 for gap in gaps) / np.float32(1 + _RIDGE))


def _two_sided(a: State, b: State) -> Array:
    """How much of |x - y|^2 moving both within their tangent planes saves, for all pairs of a tile.

    With orthonormal Q_x, Q_y, r = x - y, u = Q_x' r, v = Q_y' r, G = Q_x' Q_y and s = 1 + rho it is
    |u|^2 / s + w' (s I - G'G / s)^-1 w, w = v - G'u / s. The 7 x 7 systems of all pairs are solved together, one array
    operation per coefficient.
    """
    m, n, size = a[0].shape[0], b[0].shape[0], a[0].shape[1]
    q_a = np.ascontiguousarray(a[2].transpose(1, 0, 2)).reshape(-1, size)
    q_b = np.ascontiguousarray(b[2].transpose(1, 0, 2)).reshape(-1, size)
    g = _product(q_a, q_b).reshape(_TANGENTS, m, _TANGENTS, n)
    u = a[3].T[:, :, None] - _product(q_a, b[0]).reshape(_TANGENTS, m, n)
    v = _product(a[0], q_b).reshape(m, _TANGENTS, n).transpose(1, 0, 2) - b[3].T[:, None, :]
    scale = np.float32(1 + _RIDGE)
    w = [v[j] - sum(g[i, :, j] * u[i] for i in range(_TANGENTS)) / scale for j in range(_TANGENTS)]
    found = sum(u[i] * u[i] for i in range(_TANGENTS)) / scale
    lower: list[list[Array]] = []  # Cholesky factor of s I - G'G / s, and the forward substitution at the same time
    solved: list[Array] = []
    for j in range(_TANGENTS):
        row: list[Array] = []
        for k in range(j + 1):
            entry = -sum(g[i, :, j] * g[i, :, k] for i in range(_TANGENTS)) / scale
            if k < j:
                row.append((entry - sum(row[s] * lower[k][s] for s in range(k))) / lower[k][k])
            else:
                row.append(np.sqrt(np.maximum(entry + scale - sum(r * r for r in row), _RIDGE)))
        lower.append(row)
        step = (w[j] - sum(row[s] * solved[s] for s in range(j))) / row[j]
        solved.append(step)
        found = found + step * step
    return np.asarray(found)


def _square(pixels: int) -> tuple[int, int]:
    side = math.isqrt(pixels)
    if side * side != pixels:
        raise InputError(f"{pixels} columns do not make a square image. Give the shape: TangentDistance(shape=(h, w)).")
    return side, side
