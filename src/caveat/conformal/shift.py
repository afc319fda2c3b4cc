r"""Weights for test data that are drawn otherwise than the calibration data: the likelihood ratio, estimated.

$$ w(x) = \frac{dP_{target}(x)}{dP_{source}(x)} $$

- ``classifier``: a probabilistic classifier tells target rows from source rows, and
  $w(x) = \frac{p(x)}{1 - p(x)} \cdot \frac{n_{source}}{n_{target}}$ (Bickel, Brueckner and Scheffer, "Discriminative
  Learning Under Covariate Shift", JMLR 10, 2009; for conformal sets Tibshirani et al. 2019)
- ``density_ratio``: $w(x) = \sum_l a_l K(x, c_l)$ with Gaussian kernels at target rows, a by regularized least squares
  (uLSIF: Kanamori, Hido and Sugiyama, "A Least-Squares Approach to Direct Importance Estimation", JMLR 10, 2009)

Sets with estimated weights keep their promise for the distribution that these weights describe, if other rows estimated
them. Its total-variation distance from the target, $\frac12 E_{source}|\hat w(X) - w(X)|$ with both scaled to mean 1,
bounds what coverage can lose (Lei and Candes, "Conformal Inference of Counterfactuals and Individual Treatment
Effects", JRSS B 83, 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_able, as_count, as_matrix, as_rng, check_known, check_result, check_same
from caveat._internal.products import row_products
from caveat.conformal.weighted import effective_n, shift_promise
from caveat.errors import InputError
from caveat.results import Promise

__all__ = ["ShiftWeights", "shift_weights"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Ratio = Callable[[Matrix], Vector]

_SUREST = 1e-9  # a probability nearer to 0 or 1 is not known from any sample
_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # inverse penalties; 1 for few rows of many features gives huge odds
_CENTERS = 100  # kernels, as in the paper
_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@final
@dataclass(frozen=True, eq=False)
class ShiftWeights:
    """Likelihood ratios of target to source: of the rows they were estimated from, and of any other.

    Parameters
    ----------
    source, target
        Weights of the source rows (n,) and of the target rows (m,), each from a model that did not see the row.
    method
        How they were estimated.
    ratios
        One estimated function of the features per fold.
    width
        How many features there are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights = shift_weights(source=rng.normal(size=(300, 1)), target=rng.normal(1, size=(300, 1)))
    >>> weights.at([[-1.0], [2.0]]).round(1)
    array([0.2, 4.7])
    """

    source: Vector
    target: Vector
    method: str
    ratios: tuple[Ratio, ...]
    width: int

    @property
    def effective_n(self) -> float:
        """How many equally weighted source rows say as much as these."""
        return effective_n(self.source)

    def at(self, features: ArrayLike) -> Vector:
        """Weights of other rows (k, D), shape (k,): the mean over the folds.

        At most the largest weight of the rows that estimated them: beyond it a ratio is extrapolated, and one row with
        a huge weight would decide alone.

        Parameters
        ----------
        features
            Rows, shape (k, D).

        Returns
        -------
        array of shape (k,)
            The weights.
        """
        rows = as_matrix(features, "features", width=self.width).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            weights = check_result(np.mean([ratio(rows) for ratio in self.ratios], axis=0), "the weight")
        return np.asarray(np.minimum(weights, max(self.source.max(), self.target.max())))

    def promise(self, alpha: float) -> Promise:
        """What sets calibrated on the source rows with these weights promise at ``alpha``.

        Parameters
        ----------
        alpha
            Allowed error of the sets.

        Returns
        -------
        Promise
            Its ``holds`` says whether coverage is promised.
        """
        return shift_promise(self.source, alpha)

    def __str__(self) -> str:
        return (
            f"weights of {self.source.size} source and {self.target.size} target rows by {self.method}: effective n = "
            f"{self.effective_n:.1f}"
        )


def shift_weights(
    *,
    source: ArrayLike,
    target: ArrayLike,
    method: Literal["classifier", "density_ratio"] = "classifier",
    classifier: Any = None,
    folds: int = 5,
    rng: Rng = 0,
) -> ShiftWeights:
    """Estimate how much more likely each row is under the target distribution than under the source distribution.

    Cross-fitting: the weight of a row comes from a model that was fitted without its fold. For rows that had no part at
    all, call ``at(features)`` of the result: estimate on one split, calibrate and predict on others.

    Parameters
    ----------
    source
        Features of rows drawn as the calibration data, shape (n, D). No labels are needed.
    target
        Features of rows drawn as the test data, shape (m, D).
    method
        ``"classifier"`` or ``"density_ratio"``.
    classifier
        For ``"classifier"``: an unfitted scikit-learn classifier with ``predict_proba``, which sees standardized
        features. Default: logistic regression with a penalty chosen by cross-validation.
    folds
        How many folds.
    rng
        Draws the folds, and the kernels of ``"density_ratio"``.

    Returns
    -------
    ShiftWeights
        ``source`` and ``target`` are the weights of these rows; ``at(features)`` gives those of others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights = shift_weights(source=rng.normal(size=(2000, 1)), target=rng.normal(1.0, size=(2000, 1)))
    >>> weights.at([[0.0], [1.0]]).round(1)  # the true ones are exp(x - 1/2), 0.6 and 1.6
    array([0.6, 1.7])
    >>> print(weights)
    weights of 2000 source and 2000 target rows by classifier: effective n = 7...
    """
    rng = as_rng(rng)
    check_known(method, ("classifier", "density_ratio"), "method")
    first, second = (as_matrix(v, name).astype(np.float64) for v, name in ((source, "source"), (target, "target")))
    check_same("width", source=first.shape[1], target=second.shape[1])
    as_count(folds, "folds", least=2)
    if min(first.shape[0], second.shape[0]) < 2 * folds:
        raise InputError(f"source and target must have at least two rows per fold ({2 * folds}), got {first.shape[0]} "
                         f"and {second.shape[0]}. Take fewer folds, or more rows.")  # fmt: skip
    if classifier is not None:
        as_able(classifier, ("fit", "predict_proba", "get_params"), "classifier")
        if method != "classifier":
            raise InputError("classifier is used by method='classifier' only.")
    middle, spread = _scale(np.concatenate([first, second]))
    parts = [(rows - middle) / spread for rows in (first, second)]
    groups = [rng.permutation(rows.shape[0]) % folds for rows in parts]
    weights, ratios = [np.empty(rows.shape[0]) for rows in parts], []
    for fold in range(folds):
        train = [rows[group != fold] for rows, group in zip(parts, groups, strict=True)]
        model = (
            _odds(train[0], train[1], classifier) if method == "classifier" else _least_squares(train[0], train[1], rng)
        )
        for values, rows, group in zip(weights, parts, groups, strict=True):
            values[group == fold] = model(rows[group == fold])
        ratios.append(partial(_scaled, model=model, middle=middle, spread=spread))
    if not (weights[0] > 0).any():
        raise InputError(
            "every source row has weight 0: source and target have nothing in common, and no weights help."
        )
    own, other = (check_result(values, "the weight") for values in weights)
    return ShiftWeights(own, other, method, tuple(ratios), first.shape[1])


def _scale(rows: Matrix) -> tuple[Vector, Vector]:
    spread = check_result(rows.std(axis=0), "the spread of a feature")
    return rows.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _scaled(rows: Matrix, *, model: Ratio, middle: Vector, spread: Vector) -> Vector:
    return model((rows - middle) / spread)


def _odds(source: Matrix, target: Matrix, classifier: Any) -> Ratio:
    """Odds of being a target row, for equally many of both."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    plain = GridSearchCV(LogisticRegression(max_iter=1000), {"C": _STRENGTHS}, scoring="neg_log_loss", cv=2)
    model = plain if classifier is None else clone(classifier)
    model.fit(np.concatenate([source, target]), np.repeat([0, 1], [source.shape[0], target.shape[0]]))
    factor = source.shape[0] / target.shape[0]

    def ratio(rows: Matrix) -> Vector:
        p = np.clip(np.asarray(model.predict_proba(rows), dtype=np.float64)[:, 1], _SUREST, 1 - _SUREST)
        return np.asarray(factor * p / (1 - p))

    return ratio


def _least_squares(source: Matrix, target: Matrix, rng: np.random.Generator) -> Ratio:
    """uLSIF; width and ridge by the squared error on held-out halves."""
    centers = target[rng.permutation(target.shape[0])[:_CENTERS]]
    squares = [_squares(rows, centers) for rows in (source, target)]
    typical = float(np.median(squares[1])) or 1.0
    held = [rng.permutation(part.shape[0]) % 2 == 0 for part in squares]
    best, chosen = np.inf, (1.0, 1.0)
    for width in _WIDTHS:
        near = [np.exp(-part / (2 * width**2 * typical)) for part in squares]
        for ridge in _RIDGES:
            loss = 0.0
            for half in (False, True):
                weights = _solve(near[0][held[0] == half], near[1][held[1] == half], ridge)
                other = [np.maximum(part[rows != half] @ weights, 0) for part, rows in zip(near, held, strict=True)]
                loss += float(np.mean(other[0] ** 2) / 2 - np.mean(other[1]))
            if loss < best:
                best, chosen = loss, (width, ridge)
    scale = 2 * chosen[0] ** 2 * typical
    weights = _solve(np.exp(-squares[0] / scale), np.exp(-squares[1] / scale), chosen[1])
    return lambda rows: np.asarray(np.maximum(np.vecdot(np.exp(-_squares(rows, centers) / scale), weights), 0))


def _solve(source: Matrix, target: Matrix, ridge: float) -> Vector:
    """The coefficients that minimize the squared error of the ratio over the source, plus the ridge."""
    second = source.T @ source / source.shape[0]
    return np.asarray(np.linalg.solve(second + ridge * np.eye(second.shape[0]), target.mean(axis=0)))


def _squares(rows: Matrix, centers: Matrix) -> Matrix:
    """Squared distances (n, k)."""
    lengths = np.square(rows).sum(axis=1)[:, None] + np.square(centers).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * row_products(rows, centers, transposed=True), 0))
