r"""The ratio of two densities over a box: certificates of low confidence far from the data, without a network.

$$ b(x) = \frac{p(x|in)}{\lambda\, p(x|out)}, \qquad
   p(y|x) = \frac{b\, p(y|x,in) + 1/K}{b + 1} \le \frac1K + \Bigl(1 - \frac1K\Bigr)\frac{b}{1+b} $$

Meinke and Hein, "Towards Neural Networks that Provably Know when they don't Know", ICLR 2020, arXiv:1909.12180 (CCU),
theorem 3.1 and corollary 3.1. Three bounds of log b over all inputs within epsilon in every entry:

* ``ball``: every distance changes by at most R, the radius of a ball around the box; as in the paper. R is
  epsilon times the norm of the row sums of |A| for the metric ||A(x - y)||, not what eq. (15) of the GOOD appendix
  prints, which holds only if its C is meant as an inverse.
* ``box``: each distance to each centre over the box, exactly.
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

from caveat._blocks import row_blocks
from caveat._checks import as_count, as_matrix, as_positive, check_known
from caveat._mixtures import Mixture, fit_mixture
from caveat.errors import InputError
from caveat.results import ScoreBounds

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
    out_weight: float = 1.0
    transform: Matrix | None = None

    def __post_init__(self) -> None:
        as_positive(self.out_weight, "out_weight")
        if self.inside.d != self.outside.d:
            raise InputError(f"both mixtures must have the same width, got {self.inside.d} and {self.outside.d}.")
        if self.transform is not None:
            matrix = as_matrix(self.transform, "transform").astype(np.float64)
            if matrix.shape[0] != self.inside.d:
                raise InputError(f"transform must lead into {self.inside.d} dimensions, got shape {matrix.shape}.")
            object.__setattr__(self, "transform", matrix)

    @property
    def vanishes_far_away(self) -> bool:
        """Whether b goes to 0 far from all data in every direction: the widest Gaussian is outside in every one."""
        widest = self.inside.variances.reshape(self.inside.k, -1).max(axis=0)
        return bool((widest < self.outside.variances.reshape(self.outside.k, -1).max(axis=0)).all())

    def log_ratio(self, x: ArrayLike) -> Vector:
        """log b(x), shape (n,)."""
        u = self._coordinates(as_matrix(x, "x"))
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
        """
        check_known(method, ("ball", "box", "pairs"), "method")
        check_known(side, ("both", "upper"), "side")
        rows = as_matrix(x, "x").astype(np.float64)
        radius = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), rows.shape[:1])
        if not ((radius >= 0) & (radius < np.inf)).all():
            raise InputError(f"epsilon must be 0 or larger, got {radius.min():g}.")
        bound: Callable[[Mixture, Mixture], Vector]
        if method == "ball":
            u, reach = self._coordinates(rows), radius * metric_radius(1.0, d=rows.shape[1], transform=self.transform)
            bound = partial(_ball, u=u, radius=reach)
        else:
            centre, half = self._box(rows, radius, clip)
            bound = partial(_pairs_or_boxes if method == "pairs" else _boxes, centre=centre, half=half)
        log_weight = np.log(self.out_weight)
        upper = bound(self.inside, self.outside) - log_weight
        lower = -bound(self.outside, self.inside) - log_weight if side == "both" else np.full_like(upper, -np.inf)
        return ScoreBounds(
            value=self.log_ratio(rows), lower=lower, upper=upper, epsilon=float(radius.max()), method=method
        )

    def _coordinates(self, x: NDArray[np.floating]) -> Matrix:
        return np.asarray(x, dtype=np.float64) if self.transform is None else x @ self.transform.T

    def _box(self, x: Matrix, radius: Vector, clip: tuple[float, float] | None) -> tuple[Matrix, Matrix]:
        """Centre and half-width of the box in the coordinates of the mixtures."""
        low, high = x - radius[:, None], x + radius[:, None]
        if clip is not None:
            if x.min() < clip[0] or x.max() > clip[1]:
                raise InputError(f"x must lie between {clip[0]:g} and {clip[1]:g}, got values from {x.min():g} "
                                 f"to {x.max():g}. Scale the inputs, or pass clip=None.")  # fmt: skip
            low, high = np.maximum(low, clip[0]), np.minimum(high, clip[1])
        centre = (low + high) / 2
        half = np.maximum(high - centre, centre - low) * (1 + 1e-15)
        if self.transform is None:
            return centre, half
        return centre @ self.transform.T, half @ np.abs(self.transform).T


def fit_density_ratio(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    rng: np.random.Generator,
    components: int = 100,
    covariance: Literal["spherical", "diag", "common"] = "spherical",
    out_weight: float = 1.0,
    iterations: int = 30,
) -> DensityRatio:
    """Both mixtures by expectation-maximisation, in the coordinates of the inputs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inlier, outlier = rng.normal(0.5, 0.05, (90, 3)), rng.random((90, 3))
    >>> ratio = fit_density_ratio(inlier=inlier, outlier=outlier, rng=rng, components=3)
    >>> ratio.log_ratio([[0.5, 0.5, 0.5]]) > ratio.log_ratio([[0.1, 0.9, 0.1]])
    array([ True])
    """
    as_count(components, "components")
    inside, outside = (
        fit_mixture(data, components, rng=rng, covariance=covariance, iterations=iterations)
        for data in (inlier, outlier)
    )
    return DensityRatio(inside, outside, out_weight)


def gated_log_confidence(log_ratio: ArrayLike, n_classes: int, log_confidence: ArrayLike | None = None) -> Vector:
    """Log-confidence of a classifier that a density ratio (or a detector's logit) gates; rises with both arguments.

    log(1/K + b/(1+b) (conf - 1/K)). Upper bounds in, upper bound out; lower in, lower out. Without the classifier's own
    log-confidence (None), the upper bound that every classifier keeps.

    >>> np.exp(gated_log_confidence([-50.0, 0.0, 50.0], 10)).round(4)
    array([0.1 , 0.55, 1.  ])
    """
    from scipy.special import expit

    gate = expit(np.asarray(log_ratio, dtype=np.float64))
    confidence = 1.0 if log_confidence is None else np.exp(np.asarray(log_confidence, dtype=np.float64))
    return np.asarray(np.log1p(gate * np.maximum(n_classes * confidence - 1, 0)) - np.log(n_classes))


def metric_radius(epsilon: float, *, d: int, transform: ArrayLike | None = None) -> float:
    r"""Radius of a ball in the metric ||A(x - y)|| that holds every box of half-width epsilon.

    $$ R = \epsilon \, \bigl\| |A| \mathbf 1 \bigr\|_2 $$

    With A the identity, epsilon sqrt(d).

    >>> metric_radius(0.5, d=4), metric_radius(1.0, d=2, transform=[[3.0, 0.0], [2.0, -2.0]])
    (1.0, 5.0)
    """
    matrix = np.eye(d) if transform is None else as_matrix(transform, "transform")
    return float(epsilon * np.linalg.norm(np.abs(matrix).sum(axis=1)))


def eigenvalue_radius(epsilon: float, covariance: ArrayLike) -> float:
    r"""The same from the smallest eigenvalue of C alone, for A = C^{-1/2}; never smaller than ``metric_radius``.

    $$ R = \epsilon \sqrt{d / \lambda_{min}(C)} $$

    >>> eigenvalue_radius(1.0, [[1.0, 0.0], [0.0, 0.25]]).__round__(3)
    2.828
    """
    matrix = as_matrix(covariance, "covariance")
    return float(epsilon * np.sqrt(matrix.shape[0] / np.linalg.eigvalsh(matrix)[0]))


# -- each returns an upper bound (n,) of log(sum_k P_k / sum_l Q_l), widened by its own rounding ----------------------


def _ball(top: Mixture, bottom: Mixture, u: Matrix, radius: Vector) -> Vector:
    if not (top.spherical and bottom.spherical):
        raise InputError("the ball bound needs spherical mixtures: use method 'box' or 'pairs'.")
    parts = []
    for mixture, sign in ((top, -1.0), (bottom, 1.0)):
        distance = np.sqrt(np.stack([np.square(u - mean).sum(axis=1) for mean in mixture.means], axis=1))
        moved = np.maximum(distance * (1 + sign * 1e-12 * mixture.d) + sign * radius[:, None], 0)
        parts.append(logsumexp(mixture.log_scales() - np.square(moved) * mixture.precisions()[:, 0], axis=1))
    return _rounded_up(parts[0] - parts[1], np.abs(parts[0]) + np.abs(parts[1]), top.d)


def _boxes(top: Mixture, bottom: Mixture, centre: Matrix, half: Matrix) -> Vector:
    parts = []
    for mixture, sign in ((top, -1.0), (bottom, 1.0)):
        precisions = np.broadcast_to(mixture.precisions(), mixture.means.shape)
        exponents = np.stack(
            [np.square(np.maximum(np.abs(centre - m) + sign * half, 0)) @ p
             for m, p in zip(mixture.means, precisions, strict=True)], axis=1,
        )  # fmt: skip
        parts.append(logsumexp(mixture.log_scales() - exponents, axis=1))
    return _rounded_up(parts[0] - parts[1], np.abs(parts[0]) + np.abs(parts[1]), top.d)


def _pairs_or_boxes(top: Mixture, bottom: Mixture, centre: Matrix, half: Matrix) -> Vector:
    return np.minimum(_pairs(top, bottom, centre, half), _boxes(top, bottom, centre, half))


def _pairs(top: Mixture, bottom: Mixture, centre: Matrix, half: Matrix) -> Vector:
    # Any Q_l gives a bound, so each P_k first takes the densest one, and only the P_k that matter look for a better.
    above, below = top.log_components(centre), bottom.log_components(centre)
    first = below.argmax(axis=1)
    order = np.argsort(first, kind="stable")  # rows that start with the same l stand together
    found = np.empty(centre.shape[0])
    for block in row_blocks(centre.shape[0], row_bytes=8 * top.d, block_bytes=_CACHE):
        rows = order[block]
        found[rows] = _PairBlock(top, bottom, centre[rows], half[rows], above[rows], below[rows]).bound(first[rows])
    return found


@final
class _PairBlock:
    """The sum over k of min over l of max over the box of P_k / Q_l, for a block of rows that fits the cache."""

    def __init__(
        self, top: Mixture, bottom: Mixture, centre: Matrix, half: Matrix, above: Matrix, below: Matrix
    ) -> None:
        self.top, self.bottom, self.centre, self.half = top, bottom, centre, half
        self.above, self.below = above, below  # log P_k and log Q_l at the centre
        self.scales, self.divisors = top.log_scales(), bottom.log_scales()
        self.a, self.b = top.precisions(), bottom.precisions()

    def bound(self, first: NDArray[np.intp]) -> Vector:
        n, k = self.above.shape
        least = np.empty((n, k))
        for j in np.unique(first):
            rows = np.flatnonzero(first == j)
            for i in range(k):
                least[rows, i] = self._pair(i, int(j), rows)
        done = np.zeros((n, k), dtype=np.bool_)
        while True:
            # The largest term that is not refined yet; what is below e^-30 of a refined one adds nothing.
            open_ = np.where(done, -np.inf, least)
            worst = open_.argmax(axis=1)
            settled = np.where(done, least, -np.inf).max(axis=1)
            rows = np.flatnonzero(open_[np.arange(n), worst] > settled - 30)
            if not rows.size:
                break
            for i in np.unique(worst[rows]):
                self._refine(int(i), rows[worst[rows] == i], least)
            done[rows, worst[rows]] = True
        return _rounded_up(logsumexp(least, axis=1), np.abs(least).max(axis=1), k)

    def _refine(self, i: int, rows: NDArray[np.intp], least: Matrix) -> None:
        for j in np.argsort(-self.below[rows].mean(axis=0)):
            # The value at the centre is reached, so an l that is worse already there cannot help.
            better = rows[self.above[rows, i] - self.below[rows, j] < least[rows, i]]
            if better.size:
                least[better, i] = np.minimum(least[better, i], self._pair(i, int(j), better))

    def _pair(self, i: int, j: int, rows: NDArray[np.intp]) -> Vector:
        constant = self.scales[i] - self.divisors[j]
        value, size = _highest(
            self.top.means[i], self.a[i], self.bottom.means[j], self.b[j], self.centre[rows], self.half[rows]
        )
        return _rounded_up(constant + value, abs(constant) + size, self.top.d)


def _highest(mu: Vector, a: Vector, nu: Vector, b: Vector, c: Matrix, h: Matrix) -> tuple[Vector, Vector]:
    """max over the box of sum_j -a (z - mu)^2 + b (z - nu)^2, and the size of what was added up for it."""
    if a.size == 1 and b.size == 1 and abs(a[0] - b[0]) > 1e-3 * max(a[0], b[0]):
        # A parabola around its vertex: height minus (a - b) times a squared distance, of the nearest point of the
        # interval if it opens downwards and of the farthest if it opens upwards.
        bend = a[0] - b[0]
        away = np.subtract(c, (a[0] * mu - b[0] * nu) / bend)
        np.abs(away, out=away)
        if bend > 0:
            away -= h
            np.maximum(away, 0, out=away)
        else:
            away += h
        fall = bend * np.einsum("ij,ij->i", away, away)
        vertex = a[0] * b[0] / bend * np.square(mu - nu).sum()
        return vertex - fall, np.abs(vertex) + np.abs(fall)
    bend = np.broadcast_to(a - b, mu.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.where(bend > 0, (a * mu - b * nu) / bend, mu)

    def height(z: Matrix) -> Matrix:
        return b * np.square(z - nu) - a * np.square(z - mu)

    low, high = c - h, c + h
    best = np.maximum(height(low), height(high))
    best = np.where(bend > 0, np.maximum(best, height(np.clip(peak, low, high))), best)
    size = np.maximum(np.abs(c - nu), np.abs(c - mu)) + h
    return best.sum(axis=1), np.square(size) @ np.broadcast_to(a + b, mu.shape)


def _rounded_up(value: Vector, size: Vector, terms: int) -> Vector:
    return np.asarray(value + (terms + 16) * 4 * np.finfo(np.float64).eps * (size + 1))
