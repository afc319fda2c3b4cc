"""Conformal prediction around a fitted scikit-learn estimator: sets for a classifier, intervals for a regressor.

The estimator is already fitted; ``calibrate`` takes data that neither fitted nor chose it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_able, as_array, as_pair, as_rng, as_vector, check_each, check_known
from caveat.conformal import SplitIntervals, SplitSets
from caveat.conformal.nonconformity import Nonconformity
from caveat.errors import InputError, NotFittedError
from caveat.outputs import Outputs
from caveat.results import Intervals, PredictionSets

__all__ = ["ConformalClassifier", "ConformalRegressor", "wrap"]


class _Wrapped(ABC):
    """What scikit-learn asks of an estimator: settings that can be listed, changed and cloned."""

    settings: ClassVar[tuple[str, ...]]  # arguments of the constructor
    estimator: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings; with ``deep`` also those of the estimator, as ``estimator__name``.

        Parameters
        ----------
        deep
            Whether to include the parameters of the estimator.

        Returns
        -------
        dict
            Name -> value.
        """
        own = {name: getattr(self, "nonconformity" if name == "score" else name) for name in self.settings}
        if not deep or not hasattr(self.estimator, "get_params"):
            return own
        return own | {f"estimator__{name}": value for name, value in self.estimator.get_params().items()}

    def set_params(self, **params: Any) -> Self:
        """Change settings. The calibration is dropped, because it was made for the earlier ones.

        Parameters
        ----------
        **params
            Name -> value, as in ``get_params(deep=False)``.
        """
        settings = self.get_params(deep=False)
        for name in params:
            if name.startswith("estimator__"):
                raise InputError(
                    f"{name} belongs to the fitted estimator. Set it there, fit again and wrap the result."
                )
            check_known(name, settings, "setting")
        fresh = type(self)(**settings | params)  # checked before anything changes
        vars(self).clear()
        vars(self).update(vars(fresh))
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        return get_tags(self.estimator[0] if isinstance(self.estimator, tuple) else self.estimator)

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({params})"


@final
class ConformalClassifier(_Wrapped):
    """A fitted classifier with prediction sets. Made by ``caveat.wrap``.

    ``predict``, ``score``, ``get_params``, ``set_params`` and ``sklearn.base.clone`` work as in scikit-learn. A clone
    keeps the fitted estimator, which is a setting here, and is not calibrated.

    Parameters
    ----------
    estimator
        With ``classes_`` and ``predict_proba``, or ``decision_function``, whose values are then taken as logits.
    score, alpha, by, delta
        As for ``SplitSets``; ``by`` is None, ``"label"`` or a callable on the rows X that names the group of each.
        ``score`` is kept as ``nonconformity``, because ``score(X, y)`` is the accuracy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(LogisticRegression(max_iter=1000).fit(x[::3], y[::3]), alpha=0.1)
    >>> model.calibrate(x[1::3], y[1::3]).predict_set(x[2::3]).sizes[:5]
    array([1, 1, 1, 1, 1])
    """

    settings = ("estimator", "score", "alpha", "by", "delta")

    def __init__(
        self,
        estimator: Any,
        score: str | Nonconformity = "lac",
        alpha: float = 0.1,
        by: Literal["label"] | Callable[[Any], ArrayLike] | None = None,
        delta: float | None = None,
    ) -> None:
        if isinstance(by, str):
            check_known(by, ("label",), "value of by")
        SplitSets(score, alpha=alpha, delta=delta)
        self.estimator, self.nonconformity, self.alpha, self.by, self.delta = estimator, score, alpha, by, delta

    @property
    def classes_(self) -> NDArray[Any]:
        """The class names, in the order of the columns of sets and p-values."""
        return np.asarray(self.estimator.classes_)

    def calibrate(self, x: Any, y: ArrayLike, rng: Rng | None = None) -> Self:
        """Set the threshold on held-out rows and their classes.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            Classes, shape (n,).
        rng
            Randomizes aps, raps and saps; None: they are not randomized.
        """
        labels = self._class_numbers(y)
        by = self.by(x) if callable(self.by) else self.by
        sets = SplitSets(self.nonconformity, alpha=self.alpha, by=by, delta=self.delta)
        self.sets_ = sets.calibrate(self._outputs(x, labels), _generator(rng))
        return self

    def predict(self, x: Any) -> NDArray[Any]:
        """The one class that the estimator predicts for each row.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.

        Returns
        -------
        array of shape (n,)
            Class names.
        """
        return np.asarray(self.estimator.predict(x))

    def score(self, x: Any, y: ArrayLike) -> float:
        """Share of rows whose predicted class is right, as scikit-learn's ``score``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            True classes, shape (n,).

        Returns
        -------
        float
            The accuracy.
        """
        right = np.asarray(self.predict(x)).ravel() == self.classes_[self._class_numbers(y)]
        return float(np.mean(right))

    def predict_set(self, x: Any, rng: Rng | None = None) -> PredictionSets:
        """Which classes are still possible for each row; columns follow ``classes_``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        rng
            Randomizes the sets, where ``calibrate`` did.

        Returns
        -------
        PredictionSets
            ``member`` (n, C) says which classes are in each set.
        """
        return self._calibrated().predict(self._outputs(x), _generator(rng), groups=self._groups(x))

    def predict_labels(self, x: Any, rng: Rng | None = None) -> list[NDArray[Any]]:
        """The names of the classes that are still possible, row by row.

        Parameters
        ----------
        x, rng
            As for ``predict_set``.

        Returns
        -------
        list of arrays
            Class names in the set of each row.
        """
        sets = self.predict_set(x, rng)
        return [self.classes_[sets.labels(i)] for i in range(sets.n)]

    def predict_p(self, x: Any, rng: Rng | None = None) -> NDArray[np.float64]:
        """P-value of every class of each row.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        rng
            Smooths the p-values; None: no smoothing.

        Returns
        -------
        array of shape (n, C)
            Columns follow ``classes_``.
        """
        return self._calibrated().p_values(self._outputs(x), _generator(rng), groups=self._groups(x))

    def _calibrated(self) -> SplitSets:
        if not hasattr(self, "sets_"):
            raise NotFittedError("the wrapped classifier is not calibrated. Call calibrate(X, y) first.")
        return self.sets_

    def _groups(self, x: Any) -> ArrayLike | None:
        return self.by(x) if callable(self.by) else None

    def _class_numbers(self, y: ArrayLike) -> NDArray[np.intp]:
        numbers = {name: i for i, name in enumerate(self.classes_.tolist())}
        column = _one_column(y, "y")
        try:
            labels = np.array([numbers.get(name, -1) for name in column.tolist()], dtype=np.intp)
        except TypeError:  # a list or a dict in the place of a class
            raise InputError("y must hold one class per row, got a container. Pass class names or numbers.") from None
        check_each(column, labels >= 0, "y", "hold classes the estimator knows")
        return labels

    def _outputs(self, x: Any, labels: NDArray[np.intp] | None = None) -> Outputs:
        if hasattr(self.estimator, "predict_proba"):
            return Outputs(probs=self.estimator.predict_proba(x), labels=labels)
        margins = np.asarray(self.estimator.decision_function(x), dtype=np.float64)
        logits = np.column_stack([np.zeros_like(margins), margins]) if margins.ndim == 1 else margins
        pairs = margins.ndim > 1 and _gives_pairs(self.estimator)
        if pairs or logits.shape[1] != self.classes_.size:
            what = f"one per pair ({logits.shape[1]})" if pairs else f"{logits.shape[1]}"
            raise InputError(
                f"decision_function must give one column per class ({self.classes_.size}), got {what}. For SVC set "
                "decision_function_shape='ovr' (set_params does, without fitting again)."
            )
        return Outputs(logits=logits, labels=labels)


@final
class ConformalRegressor(_Wrapped):
    """A fitted regressor with prediction intervals. Made by ``caveat.wrap``.

    ``predict``, ``score``, ``get_params``, ``set_params`` and ``sklearn.base.clone`` work as in scikit-learn. A clone
    keeps the fitted estimator, which is a setting here, and is not calibrated.

    Parameters
    ----------
    estimator
        With ``predict``; or a pair of fitted quantile regressors, lower and upper, for conformalized quantiles.
    scale
        None, or how hard each row is: a callable on X or a fitted regressor that predicts a positive scale.
    alpha, delta
        As for ``SplitIntervals``.
    by
        None, or a callable on X that names the group of each row.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(120.0)[:, None]
    >>> y = x[:, 0] + np.random.default_rng(0).normal(size=120)
    >>> model = ConformalRegressor(LinearRegression().fit(x[::2], y[::2])).calibrate(x[1::2], y[1::2])
    >>> model.predict_interval([[5.0]]).widths.round(1)
    array([3.1])
    """

    settings = ("estimator", "scale", "alpha", "delta", "by")

    def __init__(
        self,
        estimator: Any,
        scale: Any = None,
        alpha: float = 0.1,
        delta: float | None = None,
        by: Callable[[Any], ArrayLike] | None = None,
    ) -> None:
        if scale is not None and isinstance(estimator, tuple):
            raise InputError("a pair of quantile regressors has its own width. Leave scale out.")
        self.estimator, self.scale, self.alpha, self.delta, self.by = estimator, scale, alpha, delta, by
        self._fresh()

    def calibrate(self, x: Any, y: ArrayLike) -> Self:
        """Set the threshold on held-out rows and their targets.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            Targets, shape (n,).
        """
        self.intervals_ = self._fresh().calibrate(_one_column(y, "y"), **self._predictions(x))
        return self

    def predict(self, x: Any) -> NDArray[np.float64]:
        """The value that the estimator predicts for each row.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.

        Returns
        -------
        array of shape (n,)
            The predictions.
        """
        if isinstance(self.estimator, tuple):
            raise InputError("a pair of quantile regressors predicts no single value. Use predict_interval(X).")
        return _one_column(self.estimator.predict(x), "the prediction")

    def score(self, x: Any, y: ArrayLike) -> float:
        """The coefficient of determination of ``predict``, as scikit-learn's ``score``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            True targets, shape (n,).

        Returns
        -------
        float
            R squared, 1 at most.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(as_vector(_one_column(y, "y"), "y"), self.predict(x)))

    def predict_interval(self, x: Any) -> Intervals:
        """Between which two values the target of each row lies.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.

        Returns
        -------
        Intervals
            ``lower`` and ``upper``, each of shape (n,).
        """
        if not hasattr(self, "intervals_"):
            raise NotFittedError("the wrapped regressor is not calibrated. Call calibrate(X, y) first.")
        return self.intervals_.predict(**self._predictions(x))

    def _fresh(self) -> SplitIntervals:
        score: Literal["absolute", "normalised", "cqr"] = "absolute" if self.scale is None else "normalised"
        return SplitIntervals("cqr" if isinstance(self.estimator, tuple) else score, alpha=self.alpha, delta=self.delta)

    def _predictions(self, x: Any) -> dict[str, Any]:
        """What ``SplitIntervals`` needs to know of the rows, by the name of its argument."""
        columns: dict[str, Any] = {} if self.by is None else {"groups": self.by(x)}
        if isinstance(self.estimator, tuple):
            lower, upper = (_one_column(part.predict(x), "the prediction") for part in self.estimator)
            return columns | {"lower": lower, "upper": upper}
        columns["mean"] = self.predict(x)
        if self.scale is not None:
            scale = self.scale.predict if hasattr(self.scale, "predict") else self.scale
            columns["scale"] = _one_column(scale(x), "scale")
        return columns


def _generator(rng: Rng | None) -> np.random.Generator | None:
    return None if rng is None else as_rng(rng)


def _one_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """A vector; scikit-learn also gives and takes shape (n, 1)."""
    column = as_array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"{name} must have one value per row, got shape {column.shape}. Wrap one estimator for each "
                         "output.")  # fmt: skip
    return column


def _gives_pairs(estimator: Any) -> bool:
    """Whether decision_function has one column per pair of classes, also at the end of a pipeline or a search."""
    if hasattr(estimator, "steps"):
        return _gives_pairs(estimator.steps[-1][1])
    if type(estimator).__name__ == "FrozenEstimator":
        return _gives_pairs(estimator.estimator)
    if hasattr(estimator, "best_estimator_"):
        return _gives_pairs(estimator.best_estimator_)
    return bool(getattr(estimator, "decision_function_shape", "ovr") == "ovo")


def wrap(estimator: Any, **settings: Any) -> ConformalClassifier | ConformalRegressor:
    """Conformal prediction around any fitted scikit-learn classifier or regressor.

    Parameters
    ----------
    estimator
        A fitted classifier (or pipeline, or grid search) gives a ``ConformalClassifier``; a fitted regressor, or a pair
        of fitted quantile regressors (lower, upper), a ``ConformalRegressor``.
    **settings
        ``alpha``, ``delta``, ``by``, and ``score`` for a classifier, ``scale`` for a regressor.

    Returns
    -------
    ConformalClassifier or ConformalRegressor
        Not calibrated; call ``calibrate(X, y)`` with held-out rows.

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
        as_able(part, ("fit", "predict"), "a fitted estimator")
        try:
            check_is_fitted(part)
        except Unfitted:
            raise NotFittedError(
                f"wrap takes a fitted estimator, but {type(part).__name__} is not. Fit it on training data first."
            ) from None
    if isinstance(estimator, tuple):
        return ConformalRegressor(as_pair(estimator, "a tuple of quantile regressors"), **settings)
    if is_classifier(estimator):
        if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
            raise InputError(
                f"{type(estimator).__name__} has neither predict_proba nor decision_function, so that labels cannot "
                "be ranked. Calibrate it with sklearn.calibration.CalibratedClassifierCV."
            )
        if isinstance(getattr(estimator, "classes_", None), list):
            raise InputError(f"wrap takes a classifier with one output, got {len(estimator.classes_)}. Wrap one "
                             "estimator for each output.")  # fmt: skip
        return ConformalClassifier(estimator, **settings)
    if is_regressor(estimator):
        return ConformalRegressor(estimator, **settings)
    raise InputError(f"wrap takes a classifier or a regressor, got {type(estimator).__name__}.")
