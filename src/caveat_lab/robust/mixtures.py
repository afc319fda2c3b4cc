r"""Mixtures of Gaussians without correlations: the densities behind certificates that need no network.

$$ p(x) = \sum_k \alpha_k N(x; \mu_k, \mathrm{diag}(v_k)) $$

Used by the arrays (``caveat_lab.robust``) and by the torch edge (``caveat.nn``).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    Rng,
    as_count,
    as_matrix,
    as_positive,
    as_real_array,
    as_rng,
    as_vector,
    check_each,
    check_known,
    check_result,
)
from caveat.errors import InputError

__all__ = ["Mixture", "fit_mixture"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights, centers and variances of a mixture of Gaussians.

    Parameters
    ----------
    weights
        Shares of the components (k,), positive, sum 1.
    means
        Centers (k, d).
    variances
        (k,): one for all coordinates of a component (spherical); (k, d): one for each (diagonal).

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[0.0], [2.0]], [1.0, 1.0])
    >>> np.exp(mixture.log_density([[1.0]])).round(4)
    array([0.242])
    """

    weights: Vector
    means: Matrix
    variances: NDArray[np.float64]

    def __post_init__(self) -> None:
        weights, means = as_vector(self.weights, "weights"), as_matrix(self.means, "means").astype(np.float64)
        variances = as_real_array(self.variances, "variances").astype(np.float64)
        k = weights.size
        if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-6:
            raise InputError(f"weights must be positive and sum to 1, got a sum of {weights.sum():g}.")
        if means.shape[0] != k or variances.shape not in ((k,), means.shape):
            raise InputError(f"means must be ({k}, d) and variances ({k},) or ({k}, d) for {k} weights, "
                             f"got {means.shape} and {variances.shape}.")  # fmt: skip
        check_each(variances, (variances > 0) & (variances < np.inf), "variances", "be positive numbers")
        for name, value in (("weights", weights), ("means", means), ("variances", variances)):
            object.__setattr__(self, name, value)

    @property
    def k(self) -> int:
        return int(self.weights.size)

    @property
    def d(self) -> int:
        return int(self.means.shape[1])

    @property
    def spherical(self) -> bool:
        return self.variances.ndim == 1

    def log_scales(self) -> Vector:
        """log alpha_k minus the log of the normalizing constant of component k, shape (k,)."""
        log_det = self.d * np.log(self.variances) if self.spherical else np.log(self.variances).sum(axis=1)
        return np.asarray(np.log(self.weights) - (self.d * np.log(2 * np.pi) + log_det) / 2)

    def precisions(self) -> Matrix:
        """1 / (2 v), shape (k, 1) or (k, d): what a squared distance is multiplied with."""
        return 1 / (2 * (self.variances[:, None] if self.spherical else self.variances))

    def log_components(self, x: ArrayLike) -> Matrix:
        """log alpha_k N(x; mu_k, v_k), shape (n, k).

        Parameters
        ----------
        x
            Rows, shape (n, d).

        Returns
        -------
        array of shape (n, k)
            One column per component.
        """
        rows = as_matrix(x, "x", width=self.d).astype(np.float64)
        far = np.empty((rows.shape[0], self.k))
        for k, (mean, precision) in enumerate(zip(self.means, self.precisions(), strict=True)):
            for block in row_blocks(rows.shape[0], row_bytes=8 * self.d):
                # An expanded square loses digits where x is close to a center, and closeness is what matters here.
                far[block, k] = np.square(rows[block] - mean) @ np.broadcast_to(precision, self.d)
        return np.asarray(self.log_scales() - far)

    def log_density(self, x: ArrayLike) -> Vector:
        """log p(x), shape (n,). The larger, the less strange.

        Parameters
        ----------
        x
            Rows, shape (n, d).

        Returns
        -------
        array of shape (n,)
            The log density.
        """
        return check_result(logsumexp(self.log_components(x), axis=1), "the log-density")


def fit_mixture(
    x: ArrayLike,
    components: int = 100,
    *,
    rng: Rng,
    covariance: Literal["spherical", "diag", "common"] = "spherical",
    iterations: int = 30,
    floor: float = 1e-4,
) -> Mixture:
    """A mixture by expectation-maximization from a k-means start (scikit-learn's).

    Parameters
    ----------
    x
        Data (n, d).
    components
        How many Gaussians; the CCU paper takes 100 for each density.
    rng
        Draws the start.
    covariance
        One variance for each component, one for each of its coordinates, or one in common for all of them. The last
        cannot put a narrow Gaussian around a few samples, and bounds of ratios are tightest with it.
    iterations
        Steps at most; more hardly move the means.
    floor
        Added to each variance: a pixel that never changes must not have none.

    Returns
    -------
    Mixture
        ``weights``, ``means`` and ``variances``; ``log_density`` gives the values of rows.

    Examples
    --------
    >>> data = np.random.default_rng(0).normal([[0.0, 0.0]] * 50 + [[9.0, 9.0]] * 150)
    >>> mixture = fit_mixture(data, 2, rng=np.random.default_rng(1))
    >>> np.sort(mixture.weights).round(2)
    array([0.25, 0.75])
    """
    rng = as_rng(rng)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    check_known(covariance, ("spherical", "diag", "common"), "covariance")
    rows = as_matrix(x, "x")
    as_count(components, "components", most=rows.shape[0])
    steps, floor = as_count(iterations, "iterations"), as_positive(floor, "floor")
    if covariance == "common":
        return _common(rows, components, rng, steps, floor)
    seed = int(rng.integers(2**31))
    model = GaussianMixture(components, covariance_type=covariance, reg_covar=floor, max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is asked for
        model.fit(rows)
    weights = np.maximum(model.weights_, np.finfo(float).tiny)
    return Mixture(weights / weights.sum(), model.means_, model.covariances_)


def _common(rows: NDArray[np.floating], k: int, rng: np.random.Generator, iterations: int, floor: float) -> Mixture:
    """Expectation-maximization with one variance for all components."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than components: some weigh nothing
        start = KMeans(k, n_init=1, max_iter=20, random_state=int(rng.integers(2**31))).fit(rows)
    means = start.cluster_centers_.astype(np.float64)
    weights = np.bincount(start.labels_, minlength=k) / rows.shape[0]
    variance = start.inertia_ / rows.size + floor
    lengths = np.square(rows).sum(axis=1, dtype=np.float64)
    middle = np.zeros(rows.shape[1])
    if np.finfo(rows.dtype).eps * lengths.max() > 0.01 * variance:  # expanded squares far from 0 would drown it
        middle = rows.mean(axis=0, dtype=np.float64)
        rows, means = rows - middle, means - middle
        lengths = np.square(rows).sum(axis=1)
    for _ in range(iterations):
        squares = lengths[:, None] - 2 * (rows @ means.T.astype(rows.dtype)) + np.square(means).sum(axis=1)
        exponents = np.log(np.maximum(weights, np.finfo(float).tiny)) - squares / (2 * variance)
        share = np.exp(exponents - logsumexp(exponents, axis=1, keepdims=True))
        counts = share.sum(axis=0) + np.finfo(float).tiny
        before, weights = variance, counts / rows.shape[0]
        means = (share.T.astype(rows.dtype) @ rows).astype(np.float64) / counts[:, None]
        # The mean squared distance to the new centers: squares of rows minus squares of centers, by their weights.
        variance = max(0.0, float(lengths.sum() - counts @ np.square(means).sum(axis=1)) / rows.size) + floor
        if abs(variance - before) <= 1e-4 * before:
            break
    weights = np.maximum(weights, np.finfo(float).tiny)
    return Mixture(weights / weights.sum(), means + middle, np.full(k, variance))
