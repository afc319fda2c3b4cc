"""Conformal prediction around a fitted scikit-learn estimator: sets for a classifier, intervals for a regressor.

The estimator is already fitted; ``calibrate`` takes data that neither fitted nor chose it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat.conformal import SplitIntervals, SplitSets
from caveat.conformal.nonconformity import Nonconformity
from caveat.errors import InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.results import Intervals, PredictionSets

__all__ = ["ConformalClassifier", "ConformalRegressor", "wrap"]


@final
@dataclass(eq=False)
class ConformalClassifier:
    """A fitted classifier with prediction sets. Made by ``caveat.wrap``.

    Parameters
    ----------
    estimator
        With ``classes_`` and ``predict_proba``, or ``decision_function``, whose values are then taken as logits.
    score, alpha, by, delta
        As for ``SplitSets``; ``by`` is None, ``"label"`` or a callable on the rows X that names the group of each.
    """

    estimator: Any
    score: str | Nonconformity = "lac"
    alpha: float = 0.1
    by: Literal["label"] | Callable[[Any], ArrayLike] | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.by, str) and self.by != "label":
            raise InputError(f"by must be None, 'label' or a callable on X, got {self.by!r}.")
        SplitSets(self.score, alpha=self.alpha, delta=self.delta)

    @property
    def classes_(self) -> NDArray[Any]:
        """The class names, in the order of the columns of sets and p-values."""
        return np.asarray(self.estimator.classes_)

    def calibrate(self, x: Any, y: ArrayLike, rng: np.random.Generator | None = None) -> Self:
        """Set the threshold on held-out rows and their classes. ``rng`` randomises aps, raps and saps."""
        names, found = self.classes_, np.asarray(y)
        place = np.minimum(np.searchsorted(names, found), names.size - 1)
        if (unknown := names[place] != found).any():
            row = int(np.argmax(unknown))
            raise InputError(f"y must hold classes the estimator knows, got {found[row].item()!r} at row {row}.")
        by = self.by(x) if callable(self.by) else self.by
        self.sets_ = SplitSets(self.score, alpha=self.alpha, by=by, delta=self.delta)
        self.sets_.calibrate(self._outputs(x, place), rng)
        return self

    def predict_set(self, x: Any, rng: np.random.Generator | None = None) -> PredictionSets:
        """Which classes are still possible for each row; columns follow ``classes_``."""
        return self._calibrated().predict(self._outputs(x), rng, groups=self._groups(x))

    def predict_labels(self, x: Any, rng: np.random.Generator | None = None) -> list[NDArray[Any]]:
        """The names of the classes that are still possible, row by row."""
        sets = self.predict_set(x, rng)
        return [self.classes_[sets.labels(i)] for i in range(sets.n)]

    def predict_p(self, x: Any, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """P-value of every class of each row, shape (n, C)."""
        return self._calibrated().p_values(self._outputs(x), rng, groups=self._groups(x))

    def _calibrated(self) -> SplitSets:
        if not hasattr(self, "sets_"):
            raise NotFittedError("the wrapped classifier is not calibrated. Call calibrate(X, y) first.")
        return self.sets_

    def _groups(self, x: Any) -> ArrayLike | None:
        return self.by(x) if callable(self.by) else None

    def _outputs(self, x: Any, labels: NDArray[np.intp] | None = None) -> Outputs:
        if hasattr(self.estimator, "predict_proba"):
            return Outputs(probs=self.estimator.predict_proba(x), labels=labels)
        margins = np.asarray(self.estimator.decision_function(x), dtype=np.float64)
        logits = np.column_stack([np.zeros_like(margins), margins]) if margins.ndim == 1 else margins
        if logits.shape[1] != self.classes_.size:
            raise InputError(
                f"decision_function must give one column per class ({self.classes_.size}), got {logits.shape[1]}. "
                "For SVC choose decision_function_shape='ovr'."
            )
        return Outputs(logits=logits, labels=labels)


@final
@dataclass(eq=False)
class ConformalRegressor:
    """A fitted regressor with prediction intervals. Made by ``caveat.wrap``.

    Parameters
    ----------
    estimator
        With ``predict``; or a pair of fitted quantile regressors, lower and upper, for conformalised quantiles.
    scale
        None, or how hard each row is: a callable on X or a fitted regressor that predicts a positive scale.
    alpha, delta
        As for ``SplitIntervals``.
    by
        None, or a callable on X that names the group of each row.
    """

    estimator: Any
    scale: Any = None
    alpha: float = 0.1
    delta: float | None = None
    by: Callable[[Any], ArrayLike] | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and isinstance(self.estimator, tuple):
            raise InputError("a pair of quantile regressors has its own width. Leave scale out.")
        self.intervals_ = self._fresh()

    def calibrate(self, x: Any, y: ArrayLike) -> Self:
        """Set the threshold on held-out rows and their targets."""
        self.intervals_ = self._fresh().calibrate(y, **self._said(x))
        return self

    def predict_interval(self, x: Any) -> Intervals:
        """Between which two values the target of each row lies."""
        if not hasattr(self.intervals_, "grouped_"):
            raise NotFittedError("the wrapped regressor is not calibrated. Call calibrate(X, y) first.")
        return self.intervals_.predict(**self._said(x))

    def _fresh(self) -> SplitIntervals:
        score: Literal["absolute", "normalised", "cqr"] = "absolute" if self.scale is None else "normalised"
        return SplitIntervals("cqr" if isinstance(self.estimator, tuple) else score, alpha=self.alpha, delta=self.delta)

    def _said(self, x: Any) -> dict[str, Any]:
        said: dict[str, Any] = {} if self.by is None else {"groups": self.by(x)}
        if isinstance(self.estimator, tuple):
            return said | {"lower": self.estimator[0].predict(x), "upper": self.estimator[1].predict(x)}
        said["mean"] = self.estimator.predict(x)
        if self.scale is not None:
            said["scale"] = self.scale.predict(x) if hasattr(self.scale, "predict") else self.scale(x)
        return said


def wrap(estimator: Any, **settings: Any) -> ConformalClassifier | ConformalRegressor:
    """Conformal prediction around any fitted scikit-learn classifier or regressor.

    Parameters
    ----------
    estimator
        A fitted classifier (or pipeline, or grid search) gives a ``ConformalClassifier``; a fitted regressor, or a pair
        of fitted quantile regressors (lower, upper), a ``ConformalRegressor``.
    settings
        ``alpha``, ``delta``, ``by``, and ``score`` for a classifier, ``scale`` for a regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> x, y = x[order], np.array(["setosa", "versicolor", "virginica"])[y[order]]
    >>> model = wrap(LogisticRegression(max_iter=1000).fit(x[:50], y[:50]), alpha=0.05).calibrate(x[50:100], y[50:100])
    >>> model.predict_labels(x[100:102])
    [array(['virginica'], dtype='<U10'), array(['setosa'], dtype='<U10')]
    >>> model.predict_p(x[100:101]).round(2)
    array([[0.02, 0.02, 0.33]])
    """
    from sklearn.base import is_classifier, is_regressor
    from sklearn.exceptions import NotFittedError as Unfitted
    from sklearn.utils.validation import check_is_fitted

    for part in estimator if isinstance(estimator, tuple) else (estimator,):
        if not hasattr(part, "fit") or not hasattr(part, "predict"):
            raise InputError(f"wrap takes a fitted scikit-learn estimator, got {type(part).__name__}.")
        try:
            check_is_fitted(part)
        except Unfitted:
            raise NotFittedError(
                f"wrap takes a fitted estimator, but {type(part).__name__} is not. Fit it on training data first."
            ) from None
    if isinstance(estimator, tuple):
        if len(estimator) != 2:
            raise InputError(f"wrap takes one estimator or a pair of quantile regressors, got {len(estimator)}.")
        return ConformalRegressor(estimator, **settings)
    if is_classifier(estimator):
        if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
            raise InputError(
                f"{type(estimator).__name__} has neither predict_proba nor decision_function, so that labels cannot "
                "be ranked. Calibrate it with sklearn.calibration.CalibratedClassifierCV."
            )
        return ConformalClassifier(estimator, **settings)
    if is_regressor(estimator):
        return ConformalRegressor(estimator, **settings)
    raise InputError(f"wrap takes a classifier or a regressor, got {type(estimator).__name__}.")
