r"""The ratio of two densities over a box: certificates of low confidence far from the data, without a network.

$$ b(x) = \frac{p(x|in)}{\lambda\, p(x|out)}, \qquad
   p(y|x) = \frac{b\, p(y|x,in) + 1/K}{b + 1} \le \frac1K + \Bigl(1 - \frac1K\Bigr)\frac{b}{1+b} $$

Meinke and Hein, "Towards Neural Networks that Provably Know when they don't Know", ICLR 2020, arXiv:1909.12180 (CCU),
theorem 3.1 and corollary 3.1. Three bounds of log b over all inputs within epsilon in every entry:

* ``ball``: every distance changes by at most R, the radius of a ball around the box; as in the paper. R is
  epsilon times the norm of the row sums of |A| for the metric ||A(x - y)||, not what eq. (15) of the GOOD appendix
  prints, which holds only if its C is meant as an inverse.
* ``box``: each distance to each center over the box, exactly.
* ``pairs``: $\max_B b \le \sum_k \min_l \max_B P_k / Q_l$, where each inner maximum is exact, one parabola in each
  coordinate; ours. One Q_l stands for the whole sum, which costs at most the log of their number, so the smaller of
  this and ``box`` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    Rng,
    as_comparable,
    as_count,
    as_kind,
    as_matrix,
    as_number,
    as_real_array,
    check_each,
    check_inside,
    check_known,
    check_result,
    check_same,
)
from caveat._internal.params import check_params, positive
from caveat.errors import InputError
from caveat.results import ScoreBounds
from caveat_lab.robust.mixtures import Mixture, fit_mixture

__all__ = ["DensityRatio", "eigenvalue_radius", "fit_density_ratio", "gated_log_confidence", "metric_radius"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
How = Literal["ball", "box", "pairs"]
_CACHE = 2**19  # bytes of one temporary in the pair bound: small enough for the second-level cache


@final
@dataclass(frozen=True, eq=False)
class DensityRatio:
    """log b(x) = log p(x|in) - log(lambda p(x|out)), and its bounds over boxes. The larger, the less strange.

    Parameters
    ----------
    inside, outside
        The two mixtures.
    out_weight
        lambda.
    transform
        None, or A (d, d): the mixtures live in the coordinates u = A x, that is, in the metric ||A(x - y)||; for a
        Mahalanobis metric A = C^{-1/2}.

    Examples
    --------
    >>> ratio = DensityRatio(Mixture([1.0], [[0.2, 0.2]], [0.01]), Mixture([1.0], [[0.5, 0.5]], [0.2]))
    >>> bounds = ratio.bounds([[0.9, 0.9]], 0.1)
    >>> bounds.value.round(1), bounds.upper.round(1)
    (array([-45.2]), array([-32.6]))
    """

    inside: Mixture
    outside: Mixture
    out_weight: float = positive(1.0)
    transform: Matrix | None = None

    def __post_init__(self) -> None:
        check_params(self)
        inside, outside = as_kind(self.inside, Mixture, "inside"), as_kind(self.outside, Mixture, "outside")
        check_same("width", inside=inside.d, outside=outside.d)
        if self.transform is not None:
            matrix = as_matrix(self.transform, "transform").astype(np.float64)
            check_same("number of dimensions", transform=matrix.shape[0], inside=inside.d)
            object.__setattr__(self, "transform", matrix)

    @property
    def vanishes_far_away(self) -> bool:
        """Whether b goes to 0 far from all data in every direction: the widest Gaussian is outside in every one."""
        widest = self.inside.variances.reshape(self.inside.k, -1).max(axis=0)
        return bool((widest < self.outside.variances.reshape(self.outside.k, -1).max(axis=0)).all())

    def log_ratio(self, x: ArrayLike) -> Vector:
        """log b(x), shape (n,).

        Parameters
        ----------
        x
            Rows, shape (n, d).

        Returns
        -------
        array of shape (n,)
            Large where an inlier is more likely.
        """
        u = self._coordinates(as_matrix(x, "x", width=self._width))
        return np.asarray(self.inside.log_density(u) - self.outside.log_density(u) - np.log(self.out_weight))

    def bounds(
        self,
        x: ArrayLike,
        epsilon: float | ArrayLike,
        *,
        clip: tuple[float, float] | None = (0.0, 1.0),
        method: How = "pairs",
        side: Literal["both", "upper"] = "both",
    ) -> ScoreBounds:
        """Lower and upper bounds of log b over all inputs within epsilon in every entry, and inside ``clip``.

        Parameters
        ----------
        x
            Inputs (n, d).
        epsilon
            The radius; one number, or one for each row.
        clip
            Range of inputs, or None. ``ball`` takes no notice of it.
        method
            ``"pairs"`` (tightest), ``"box"`` or ``"ball"``; the last is for spherical mixtures.
        side
            ``"upper"`` saves the time of the lower bounds, which are then -inf: outliers need none.

        Returns
        -------
        ScoreBounds
            ``value``, ``lower`` and ``upper``, each of shape (n,).
        """
        check_known(method, ("ball", "box", "pairs"), "method")
        check_known(side, ("both", "upper"), "side")
        rows = as_matrix(x, "x", width=self._width).astype(np.float64)
        radius = as_real_array(epsilon, "epsilon").astype(np.float64)
        if radius.ndim:
            check_same("shape", **{"epsilon": radius.shape, "the rows of x": rows.shape[:1]})
        check_each(radius, (radius >= 0) & (radius < np.inf), "epsilon", "be 0 or larger")
        radius = np.broadcast_to(radius, rows.shape[:1])
        bound: Callable[[Mixture, Mixture], Vector]
        if method == "ball":
            reach = radius * metric_radius(1.0, d=rows.shape[1], transform=self.transform)
            if self.transform is not None:
                reach = reach + np.linalg.norm(self._lost(np.abs(rows) + radius[:, None], self.transform), axis=1)
            bound = partial(_ball, u=self._coordinates(rows), radius=reach)
        else:
            center, half = self._box(rows, radius, clip)
            bound = partial(_pairs_or_boxes if method == "pairs" else _boxes, center=center, half=half)
        log_weight = np.log(self.out_weight)
        upper = check_result(bound(self.inside, self.outside) - log_weight, "the upper bound")
        lower = np.full_like(upper, -np.inf)
        if side == "both":
            lower = check_result(-bound(self.outside, self.inside) - log_weight, "the lower bound")
        return ScoreBounds(self.log_ratio(rows), lower, upper, epsilon=float(radius.max()), method=method)

    def _coordinates(self, x: NDArray[np.floating]) -> Matrix:
        return np.asarray(x, dtype=np.float64) if self.transform is None else x @ self.transform.T

    @property
    def _width(self) -> int:
        return self.inside.d if self.transform is None else int(self.transform.shape[1])

    def _box(self, x: Matrix, radius: Vector, clip: tuple[float, float] | None) -> tuple[Matrix, Matrix]:
        """Center and half-width of the box in the coordinates of the mixtures."""
        low, high = x - radius[:, None], x + radius[:, None]
        check_inside(x, clip, "x")
        if clip is not None:
            low, high = np.maximum(low, clip[0]), np.minimum(high, clip[1])
        center = (low + high) / 2
        half = np.maximum(high - center, center - low) * (1 + 1e-15)
        if self.transform is None:
            return center, half
        lost = self._lost(np.abs(center) + half, self.transform)
        return center @ self.transform.T, half @ np.abs(self.transform).T + lost

    @staticmethod
    def _lost(size: Matrix, transform: Matrix) -> Matrix:
        """What the rounding of u = A x can be for entries up to ``size``: with huge A or x, far more than u's own."""
        return np.asarray(4 * (size.shape[1] + 4) * np.finfo(np.float64).eps * (size @ np.abs(transform).T))


def fit_density_ratio(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    rng: Rng,
    components: int = 100,
    covariance: Literal["spherical", "diag", "common"] = "spherical",
    out_weight: float = 1.0,
    iterations: int = 30,
) -> DensityRatio:
    """Both mixtures by expectation-maximization, in the coordinates of the inputs.

    Parameters
    ----------
    inlier, outlier
        Data, shapes (n, d) and (m, d).
    rng
        Seed, or a generator, of the start of both mixtures.
    components, covariance
        As in ``fit_mixture``.
    out_weight
        Weight of the outlier density in the ratio.
    iterations
        As in ``fit_mixture``.

    Returns
    -------
    DensityRatio
        ``log_ratio`` gives the values of rows, ``bounds`` their bounds within a radius.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inlier, outlier = rng.normal(0.5, 0.05, (90, 3)), rng.random((90, 3))
    >>> ratio = fit_density_ratio(inlier=inlier, outlier=outlier, rng=rng, components=3)
    >>> ratio.log_ratio([[0.5, 0.5, 0.5]]) > ratio.log_ratio([[0.1, 0.9, 0.1]])
    array([ True])
    """
    inside, outside = (
        fit_mixture(data, components, rng=rng, covariance=covariance, iterations=iterations)
        for data in (inlier, outlier)
    )
    return DensityRatio(inside, outside, out_weight)


def gated_log_confidence(log_ratio: ArrayLike, n_classes: int, log_confidence: ArrayLike | None = None) -> Vector:
    """Log-confidence of a classifier that a density ratio (or a detector's logit) gates; rises with both arguments.

    log(1/K + b/(1+b) (conf - 1/K)). Upper bounds in, upper bound out; lower in, lower out. Without the classifier's own
    log-confidence (None), the upper bound that every classifier keeps.

    Parameters
    ----------
    log_ratio
        log b, shape (n,): log density ratio of inliers to outliers, or a bound of it.
    n_classes
        K, the number of classes.
    log_confidence
        Log-confidence of the classifier, shape (n,), or a bound of it.

    Returns
    -------
    array of shape (n,)
        Log-confidence between -log K and 0.

    Examples
    --------
    >>> np.exp(gated_log_confidence([-50.0, 0.0, 50.0], 10)).round(4)
    array([0.1 , 0.55, 1.  ])
    """
    from scipy.special import expit

    gate, n_classes = as_comparable(log_ratio, "log_ratio"), as_count(n_classes, "n_classes")
    own = np.minimum(0.0 if log_confidence is None else as_comparable(log_confidence, "log_confidence"), 0.0)
    if own.ndim:
        check_same("shape", log_confidence=own.shape, log_ratio=gate.shape)
    near_uniform = np.log1p(expit(gate) * np.maximum(n_classes * np.exp(own) - 1, 0)) - np.log(n_classes)
    # A confidence near 1 is one minus what it lacks: a difference of two logarithms would round it to 0, or below.
    most = 1 - 1 / n_classes
    lacking = expit(-gate) * most + expit(gate) * np.minimum(-np.expm1(own), most)
    return np.asarray(np.where(lacking < 0.5, np.log1p(-lacking), near_uniform))


def metric_radius(epsilon: float, *, d: int, transform: ArrayLike | None = None) -> float:
    r"""Radius of a ball in the metric ||A(x - y)|| that holds every box of half-width epsilon.

    $$ R = \epsilon \, \bigl\| |A| \mathbf 1 \bigr\|_2 $$

    With A the identity, epsilon sqrt(d).

    Parameters
    ----------
    epsilon
        Half-width of the box.
    d
        Number of input entries.
    transform
        A, shape (k, d); None: the identity.

    Returns
    -------
    float
        The radius.

    Examples
    --------
    >>> metric_radius(0.5, d=4), metric_radius(1.0, d=2, transform=[[3.0, 0.0], [2.0, -2.0]])
    (1.0, 5.0)
    """
    matrix = np.eye(as_count(d, "d")) if transform is None else as_matrix(transform, "transform").astype(np.float64)
    radius = as_number(epsilon, "epsilon", least=0) * np.linalg.norm(np.abs(matrix).sum(axis=1))
    return float(check_result(radius, "the radius"))


def eigenvalue_radius(epsilon: float, covariance: ArrayLike) -> float:
    r"""Radius of a ball as ``metric_radius``, from the smallest eigenvalue of C alone, for A = C^{-1/2}; never smaller.

    $$ R = \epsilon \sqrt{d / \lambda_{min}(C)} $$

    Parameters
    ----------
    epsilon
        Half-width of the box.
    covariance
        C, shape (d, d), symmetric and positive definite.

    Returns
    -------
    float
        The radius.

    Examples
    --------
    >>> round(eigenvalue_radius(1.0, [[1.0, 0.0], [0.0, 0.25]]), 3)
    2.828
    """
    matrix = as_matrix(covariance, "covariance").astype(np.float64)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"covariance must be square, got shape {matrix.shape}.")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if not smallest > 0:
        raise InputError(f"covariance must be positive definite, got a smallest eigenvalue of {smallest:g}.")
    radius = as_number(epsilon, "epsilon", least=0) * np.sqrt(matrix.shape[0] / smallest)
    return float(check_result(radius, "the radius"))


# -- each returns an upper bound (n,) of log(sum_k P_k / sum_l Q_l), widened by its own rounding ----------------------


def _ball(top: Mixture, bottom: Mixture, u: Matrix, radius: Vector) -> Vector:
    if not (top.spherical and bottom.spherical):
        raise InputError("the ball bound needs spherical mixtures: use method 'box' or 'pairs'.")

    def exponents(mixture: Mixture, sign: float) -> Matrix:
        distance = np.sqrt(np.stack([np.square(u - mean).sum(axis=1) for mean in mixture.means], axis=1))
        moved = np.maximum(distance * (1 + sign * 1e-12 * mixture.d) + sign * radius[:, None], 0)
        return np.asarray(np.square(moved) * mixture.precisions()[:, 0])

    return _divided(top, bottom, exponents)


def _boxes(top: Mixture, bottom: Mixture, center: Matrix, half: Matrix) -> Vector:
    def exponents(mixture: Mixture, sign: float) -> Matrix:
        components = zip(mixture.means, np.broadcast_to(mixture.precisions(), mixture.means.shape), strict=True)
        moved = (np.square(np.maximum(np.abs(center - mean) + sign * half, 0)) @ p for mean, p in components)
        return np.stack(list(moved), axis=1)

    return _divided(top, bottom, exponents)


def _divided(top: Mixture, bottom: Mixture, exponents: Callable[[Mixture, float], Matrix]) -> Vector:
    """The difference of two log-densities, rounded up. Each is a scale minus a square, and these may cancel."""
    over = logsumexp(top.log_scales() - exponents(top, -1.0), axis=1)
    under = logsumexp(bottom.log_scales() - exponents(bottom, 1.0), axis=1)
    scales = np.abs(top.log_scales()).max() + np.abs(bottom.log_scales()).max()
    return _rounded_up(over - under, np.abs(over) + np.abs(under) + 2 * scales, top.d)


def _pairs_or_boxes(top: Mixture, bottom: Mixture, center: Matrix, half: Matrix) -> Vector:
    blocks = row_blocks(center.shape[0], row_bytes=8 * top.d, block_bytes=_CACHE)
    pairs = [_PairBlock(top, bottom, center[block], half[block]).bound() for block in blocks]
    return np.minimum(np.concatenate(pairs), _boxes(top, bottom, center, half))


@final
class _PairBlock:
    """The sum over k of min over l of max over the box of P_k / Q_l, for a block of rows that fits the cache.

    Any l gives a bound, so each k begins with the Q_l that is largest at the center. Where its maximum is reached, only
    an l with a larger Q_l can be better, and few are. A k whose term is lost in the sum is not looked at again.
    """

    def __init__(self, top: Mixture, bottom: Mixture, center: Matrix, half: Matrix) -> None:
        self.top, self.bottom, self.center, self.half = top, bottom, center, half
        self.scales, self.divisors = top.log_scales(), bottom.log_scales()
        self.a, self.b = top.precisions(), bottom.precisions()
        wide = np.broadcast_to(self.b, bottom.means.shape)
        self.squares, self.products = wide.T, (wide * bottom.means).T
        self.constants = self.divisors - (wide * np.square(bottom.means)).sum(axis=1)

    def bound(self) -> Vector:
        n, rows = self.center.shape[0], np.arange(self.center.shape[0])
        least, chosen = np.empty((n, self.top.k)), np.empty((n, self.top.k), dtype=np.intp)
        chosen[:] = self._log_bottom(self.center).argmax(axis=1)[:, None]
        for k in range(self.top.k):
            least[:, k] = self._highest(rows, np.full(n, k), chosen[:, k])[0]
        done = np.zeros(least.shape, dtype=np.bool_)
        tried = np.zeros((*least.shape, self.bottom.k), dtype=np.bool_)
        while True:
            open_ = np.where(done, -np.inf, least)
            worst = open_.argmax(axis=1)
            settled = np.where(done, least, -np.inf).max(axis=1)
            rows = np.flatnonzero(open_[np.arange(n), worst] > settled - 30)  # below e^-30 a term adds nothing
            if not rows.size:
                return _rounded_up(logsumexp(least, axis=1), np.abs(least).max(axis=1), self.top.k)
            self._improve(rows, worst[rows], least, chosen, done, tried)

    def _improve(
        self, rows: NDArray[np.intp], k: NDArray[np.intp], least: Matrix, chosen: NDArray[np.intp],
        done: NDArray[np.bool_], tried: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        """One more l for one k of each row, or the finding that none can be better."""
        now = chosen[rows, k]
        tried[rows, k, now] = True
        below = self._log_bottom(self._highest(rows, k, now)[1])
        reached = below[np.arange(rows.size), now]
        below[tried[rows, k]] = -np.inf
        next_ = below.argmax(axis=1)
        hopeful = below[np.arange(rows.size), next_] > reached
        done[rows[~hopeful], k[~hopeful]] = True
        rows, k, next_ = rows[hopeful], k[hopeful], next_[hopeful]
        if rows.size:
            value = self._highest(rows, k, next_)[0]
            tried[rows, k, next_] = True
            better = value < least[rows, k]
            rows, k = rows[better], k[better]
            least[rows, k], chosen[rows, k] = value[better], next_[better]

    def _highest(self, rows: NDArray[np.intp], k: NDArray[np.intp], j: NDArray[np.intp]) -> tuple[Vector, Matrix]:
        """max over the box of log P_k / Q_j, rounded up, and where: in each coordinate one parabola on an interval."""
        a, b, mu, nu, c, h = (
            self.a[k], self.b[j], self.top.means[k], self.bottom.means[j], self.center[rows], self.half[rows]
        )  # fmt: skip
        bend = a - b
        with np.errstate(divide="ignore", invalid="ignore"):
            peak = (a * mu - b * nu) / bend  # infinite, with the right sign, if the two are equally wide
        nearest, farthest = np.clip(peak, c - h, c + h), c + np.copysign(h, c - peak)
        z = np.where(bend < 0, farthest, nearest)
        np.copyto(z, c, where=np.isnan(z))  # equal Gaussians: nothing depends on z
        plus, minus = b * np.square(z - nu), a * np.square(z - mu)
        plus, minus = plus.sum(axis=1), minus.sum(axis=1)
        constant = self.scales[k] - self.divisors[j]
        sizes = np.abs(self.scales[k]) + np.abs(self.divisors[j])
        return _rounded_up(constant + plus - minus, sizes + plus + minus, self.top.d), z

    def _log_bottom(self, z: Matrix) -> Matrix:
        """log Q_l, shape (n, l), as matrix products; only used to choose an l, so its rounding does not matter."""
        return np.asarray(self.constants + 2 * (z @ self.products) - np.square(z) @ self.squares)


def _rounded_up(value: Vector, size: Vector, terms: int) -> Vector:
    return np.asarray(value + (terms + 16) * 4 * np.finfo(np.float64).eps * (size + 1))
