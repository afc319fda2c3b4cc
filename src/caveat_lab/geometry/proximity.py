r"""How far a data set lies from the training data, in the space of some encoder.

Rows are scaled to length one first. Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution
Detection ...", section 3.3 and appendix B. The paper uses CLIP; any encoder will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    as_count,
    as_kind,
    as_labels,
    as_matrix,
    as_number,
    as_positive,
    check_result,
    check_same,
    same_length,
)
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._statistics import class_sums, unit_rows

__all__ = ["Proximity", "frechet", "mmd", "proximities", "proximity"]

_ROWS = 2048  # a block of the kernel matrix is then 32 MiB however large the sets are


@final
@dataclass(frozen=True)
class Proximity:
    """Four distances of one data set from the inliers; lower is closer. None: labels or text were missing.

    Parameters
    ----------
    frechet, mmd
        Distances of the two distributions.
    centroid, text
        Mean cosine distance from the nearest class mean, and from the nearest text prototype.
    n_inlier, n_outlier
        Number of rows of each set.

    Examples
    --------
    >>> nearby = proximity(inlier=[[1.0, 0.0], [1.0, 0.1]], outlier=[[1.0, 0.0], [1.0, 0.2]], labels=[0, 1])
    >>> round(nearby.centroid, 4), nearby.text
    (0.0024, None)
    """

    frechet: float
    mmd: float
    centroid: float | None
    text: float | None
    n_inlier: int
    n_outlier: int


def proximity(
    *,
    inlier: Outputs | ArrayLike,
    outlier: Outputs | ArrayLike,
    labels: ArrayLike | None = None,
    text: ArrayLike | None = None,
    degree: int = 3,
    gamma: float | None = None,
    offset: float = 1.0,
) -> Proximity:
    r"""Distances of a data set from the inliers: two of the whole distributions, two that know the classes.

    - ``frechet``: squared Frechet distance of the two Gaussians, as in FID,
      $\|\mu_1 - \mu_2\|^2 + \mathrm{tr}(\Sigma_1 + \Sigma_2 - 2 (\Sigma_1^{1/2} \Sigma_2 \Sigma_1^{1/2})^{1/2})$
    - ``mmd``: unbiased squared maximum mean discrepancy with the kernel $(\gamma u^T v + b)^d$; can be below zero by
      chance. The default is that of KID, $(u^T v / E + 1)^3$: it gives the magnitudes the paper prints
    - ``centroid``: mean of $1 - \max_c \cos(z, \mu_c)$ over the class means $\mu_c$ of the inliers
    - ``text``: mean of $1 - \max_c \cos(z, t_c)$ over text prototypes $t_c$

    Parameters
    ----------
    inlier, outlier
        Outputs with embeddings (or, where neither has those, features), or arrays (n, E) and (m, E).
    labels
        Classes of the inliers, if ``inlier`` is an array; without labels there is no centroid distance.
    text
        Shape (C, E): a text embedding for each class; or (C, L, E): one for each of L prompts, which are averaged.
    degree, gamma, offset
        d, gamma (default 1 / E) and b of the kernel.

    Returns
    -------
    Proximity
        ``frechet``, ``mmd``, ``centroid`` and ``text``; lower is closer.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train = rng.normal(size=(500, 8)) + 3 * np.eye(8)[0]
    >>> near = proximity(inlier=train, outlier=rng.normal(size=(400, 8)) + 3 * np.eye(8)[0])
    >>> far = proximity(inlier=train, outlier=rng.normal(size=(400, 8)) - 3 * np.eye(8)[0])
    >>> near.frechet < 0.02 < far.frechet, abs(near.mmd) < 0.02 < far.mmd
    (True, True)
    """
    return proximities(
        inlier=inlier, outliers={"outlier": outlier}, labels=labels, text=text, degree=degree, gamma=gamma,
        offset=offset,
    )["outlier"]  # fmt: skip


def proximities(
    *,
    inlier: Outputs | ArrayLike,
    outliers: Mapping[str, Outputs | ArrayLike],
    labels: ArrayLike | None = None,
    text: ArrayLike | None = None,
    degree: int = 3,
    gamma: float | None = None,
    offset: float = 1.0,
) -> dict[str, Proximity]:
    """The distances of several data sets from the same inliers; what the inliers alone take is computed once.

    Parameters
    ----------
    inlier
        Outputs with embeddings (or, where neither has those, features), or an array (n, E).
    outliers
        Name of the data set -> its outputs or array.
    labels, text, degree, gamma, offset
        As for :func:`proximity`.

    Returns
    -------
    dict
        Name of the data set -> Proximity.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train, near, far = (rng.normal(size=(200, 8)) + shift * np.eye(8)[0] for shift in (3, 2, -3))
    >>> sets = proximities(inlier=train, outliers={"near": near, "far": far})
    >>> sets["near"].frechet < sets["far"].frechet, sets["far"] == proximity(inlier=train, outlier=far)
    (True, True)
    """
    inliers = _embeddings(inlier, "inlier")
    if labels is None and isinstance(inlier, Outputs):
        labels = inlier.labels
    prototypes = None if labels is None else _centroids(inliers, labels)
    words = None if text is None else _prototypes(text)
    if words is not None:
        check_same("width", text=words.shape[1], inlier=inliers.shape[1])
    kernel = _Kernel(inliers.shape[1], degree, gamma, offset)
    own: tuple[float, _Gaussian] | None = None
    distances = {}
    for name, outlier in as_kind(outliers, Mapping, "outliers").items():
        rows = _embeddings(outlier, name)
        _one_encoder(inlier, outlier, name)
        check_same("width", **{"inlier": inliers.shape[1], name: rows.shape[1]})
        own = own or (kernel.among(inliers), _Gaussian.of(inliers))
        distances[name] = Proximity(
            frechet=own[1].distance(_Gaussian.of(rows)),
            mmd=own[0] + kernel.among(rows) - 2 * kernel.across(inliers, rows),
            centroid=None if prototypes is None else _nearest(rows, prototypes),
            text=None if words is None else _nearest(rows, words),
            n_inlier=inliers.shape[0],
            n_outlier=rows.shape[0],
        )
    return distances


def frechet(first: ArrayLike, second: ArrayLike) -> float:
    """Squared Frechet distance of the Gaussians that fit the unit rows of two sets. Symmetric, never negative.

    Dowson and Landau, Journal of Multivariate Analysis 12(3), 1982. Covariances divide by n - 1; a set of one row has
    none.

    Parameters
    ----------
    first, second
        Rows of two sets, shapes (n, E) and (m, E); they are scaled to unit length.

    Returns
    -------
    float
        At least 0.

    Examples
    --------
    >>> frechet([[1.0, 0.0]], [[0.0, 1.0]])
    2.0
    """
    x, y = as_matrix(first, "first"), as_matrix(second, "second")
    check_same("width", first=x.shape[1], second=y.shape[1])
    return _Gaussian.of(x).distance(_Gaussian.of(y))


def mmd(
    first: ArrayLike, second: ArrayLike, *, degree: int = 3, gamma: float | None = None, offset: float = 1.0
) -> float:
    """Unbiased squared MMD of the unit rows of two sets with a polynomial kernel. Around 0 for the same distribution.

    Gretton, Borgwardt, Rasch, Schoelkopf and Smola, NIPS 2006. All pairs, in row blocks.

    Parameters
    ----------
    first, second
        Rows of two sets, shapes (n, E) and (m, E), at least two each; they are scaled to unit length.
    degree, gamma, offset
        d, gamma and b of the kernel $(gamma u^T v + b)^d$; the default of gamma is 1 / E.

    Returns
    -------
    float
        Can be slightly negative by chance.

    Examples
    --------
    >>> round(mmd([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], degree=1, gamma=1.0), 6)
    2.0
    """
    x, y = as_matrix(first, "first"), as_matrix(second, "second")
    check_same("width", first=x.shape[1], second=y.shape[1])
    kernel = _Kernel(x.shape[1], degree, gamma, offset)
    return kernel.among(x) + kernel.among(y) - 2 * kernel.across(x, y)


@final
class _Kernel:
    """Means of the kernel (gamma u v + offset)^degree over pairs of unit rows, in row blocks."""

    def __init__(self, width: int, degree: int, gamma: float | None, offset: float) -> None:
        self.degree, self.offset = as_count(degree, "degree", most=100), as_number(offset, "offset")
        self.scale = 1 / width if gamma is None else as_positive(gamma, "gamma")

    def across(self, a: NDArray[Any], b: NDArray[Any]) -> float:
        """Mean over all pairs of a row of one set and a row of the other."""
        total = sum((self._sum(rows @ columns.T) for rows in _unit_blocks(a) for columns in _unit_blocks(b)), 0.0)
        return total / int(a.shape[0] * b.shape[0])

    def among(self, a: NDArray[Any]) -> float:
        """Mean over all pairs of different rows of one set."""
        n, total = int(a.shape[0]), 0.0
        if n < 2:
            raise InputError(f"mmd needs at least 2 rows on each side, got {n}.")
        for i, rows in enumerate(_unit_blocks(a)):
            total += self._sum(rows @ rows.T) - self._sum(np.einsum("ij,ij->i", rows, rows))
            total += 2 * sum(self._sum(rows @ columns.T) for columns in islice(_unit_blocks(a), i + 1, None))
        return total / (n * (n - 1))

    def _sum(self, values: NDArray[np.float64]) -> float:
        base = values * self.scale + self.offset
        powers = base.copy()
        for _ in range(self.degree - 1):  # products: numpy's power calls pow for each element, twenty times slower
            powers *= base
        return float(check_result(powers.sum(), "the kernel of mmd"))


def _embeddings(data: Outputs | ArrayLike, name: str) -> NDArray[Any]:
    if not isinstance(data, Outputs):
        return as_matrix(data, name)
    rows: NDArray[Any] | None = data.embeddings if data.has("embeddings") else data.features
    if rows is None:
        raise InputError(f"{name} needs embeddings (or features): vectors of one encoder for both data sets.")
    return rows


def _prototypes(text: ArrayLike) -> NDArray[np.float64]:
    """A unit row for each class; of several prompts the mean of their embeddings."""
    try:
        rows = np.asarray(text)
    except (ValueError, TypeError):
        rows = as_matrix(text, "text")  # says what is wrong
    if rows.ndim == 3:
        flat = as_matrix(rows.reshape(rows.shape[0] * rows.shape[1], rows.shape[2]), "text")
        rows = flat.reshape(rows.shape).mean(axis=1, dtype=np.float64)
    return unit_rows(as_matrix(rows, "text").astype(np.float64))


def _one_encoder(inlier: Outputs | ArrayLike, outlier: Outputs | ArrayLike, name: str) -> None:
    """Embeddings on one side and features on the other may have the same width by chance; they still do not compare."""
    if not isinstance(inlier, Outputs) or not isinstance(outlier, Outputs):
        return
    if inlier.has("embeddings") != outlier.has("embeddings"):
        has, lacks = ("inlier", name) if inlier.has("embeddings") else (name, "inlier")
        raise InputError(f"inlier and {name} must come from one encoder, but only {has} has embeddings. "
                         f"Store those of {lacks} too, or pass the features of both as arrays.")  # fmt: skip


def _unit_blocks(rows: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    for block in row_blocks(rows.shape[0], row_bytes=1, block_bytes=_ROWS):
        yield unit_rows(rows[block].astype(np.float64))


@final
@dataclass(frozen=True)
class _Gaussian:
    """Mean and covariance of unit rows."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[Any]) -> _Gaussian:
        """In blocks; rows are centered on the first so that nothing cancels."""
        n, width = rows.shape
        anchor = unit_rows(rows[:1].astype(np.float64))
        total, square = np.zeros(width), np.zeros((width, width))
        for unit in _unit_blocks(rows):
            centered = unit - anchor
            total += centered.sum(axis=0)
            square += centered.T @ centered
        shift = total / n
        covariance = (square - n * np.outer(shift, shift)) / max(1, n - 1)
        return cls(anchor[0] + shift, (covariance + covariance.T) / 2)

    @cached_property
    def root(self) -> NDArray[np.float64]:
        """A square root of the covariance: any of them has the same trace in the distance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))

    def distance(self, other: _Gaussian) -> float:
        cross = np.linalg.eigvalsh(self.root.T @ other.covariance @ self.root)
        trace = np.trace(self.covariance) + np.trace(other.covariance) - 2 * np.sqrt(np.maximum(cross, 0)).sum()
        return float(max(0.0, np.sum((self.mean - other.mean) ** 2) + max(0.0, trace)))


def _centroids(rows: NDArray[Any], labels: ArrayLike) -> NDArray[np.float64]:
    true = as_labels(labels, "labels")
    same_length(inlier=rows, labels=true)
    sums, start = np.zeros((int(true.max()) + 1, rows.shape[1])), 0
    for unit in _unit_blocks(rows):
        sums += class_sums(unit, true[start : start + len(unit)], len(sums))
        start += len(unit)
    return np.asarray(unit_rows(sums[np.bincount(true) > 0]))


def _nearest(rows: NDArray[Any], prototypes: NDArray[np.float64]) -> float:
    total = sum((float((1 - (unit @ prototypes.T).max(axis=1)).sum()) for unit in _unit_blocks(rows)), 0.0)
    return total / int(rows.shape[0])
