"""A scikit-learn regressor with intervals: split conformal around a fitted one, CV+ and jackknife+ with ``cv``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import _safe_indexing

from caveat._internal.checks import as_vector
from caveat.conformal import CrossIntervals, SplitIntervals
from caveat.errors import InputError
from caveat.estimators._base import Wrapper, alphas_of
from caveat.estimators._folds import check_cv
from caveat.estimators._outputs import features_of
from caveat.guard import Guard, Verdicts
from caveat.outputs import Outputs
from caveat.outputs.estimator import one_column
from caveat.scores import Score

__all__ = ["ConformalRegressor"]


@final
class ConformalRegressor(RegressorMixin, Wrapper):  # type: ignore[misc]
    """A regressor with prediction intervals. Made by ``caveat.wrap``.

    Around a fitted estimator, ``calibrate`` takes held-out rows. With ``cv``, ``fit`` trains and calibrates on the same
    rows. ``predict``, ``score``, ``get_params``, ``set_params`` and ``sklearn.base.clone`` work as in scikit-learn. A
    clone of a wrapper without ``cv`` keeps the fitted estimator, which is a setting then, and is not calibrated.

    Parameters
    ----------
    estimator
        With ``predict``; or a pair of quantile regressors, lower and upper, for conformalized quantiles.
    scale
        None, or how hard each row is: a callable on X or a fitted regressor that predicts a positive scale. It must not
        have seen the rows that calibrate, nor with ``cv`` those that train.
    alpha
        Allowed error, where ``predict_interval`` is not given another.
    delta
        As for ``SplitIntervals``; without ``cv`` only.
    by
        None, or a callable on X that names the group of each row.
    joint
        As for ``SplitIntervals``; without ``cv`` only.
    unseen
        As for ``SplitIntervals``.
    cv
        None: the estimator is fitted. A number of folds (CV+), ``"jackknife"`` (jackknife+) or a splitter of
        scikit-learn that holds out every row once.
    guard
        None, True (``mahalanobis`` on the features), an OOD score or several, or a ``caveat.Guard`` with ``sets=None``,
        which is copied: ``is_outlier`` and ``verdicts`` are its answers. All rows are one class, so that a score that
        learns classes learns one.
    features
        Callable on X that gives the features (n, D) for the guard. None: what the last step of a pipeline reads, else X
        itself, if these are finite numbers.
    n_jobs
        How many models are fitted at a time, with ``cv``.

    Attributes
    ----------
    intervals_ : SplitIntervals or CrossIntervals
    estimator_, models_ : estimators
        With ``cv``: fitted on all rows, which ``predict`` asks, and without each fold, which the intervals come from.
    guard_ : Guard
        The calibrated copy of ``guard``.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(120.0)[:, None]
    >>> y = x[:, 0] + np.random.default_rng(0).normal(size=120)
    >>> model = ConformalRegressor(LinearRegression().fit(x[::2], y[::2])).calibrate(x[1::2], y[1::2])
    >>> model.predict_interval([[5.0]]).widths.round(1)
    array([3.1])
    """

    intervals_: SplitIntervals | CrossIntervals
    learned = "intervals_"

    def __init__(
        self,
        estimator: Any,
        scale: Any = None,
        alpha: float = 0.1,
        delta: float | None = None,
        by: Callable[[Any], ArrayLike] | None = None,
        *,
        joint: bool = False,
        unseen: Literal["error", "all"] = "error",
        cv: Any = None,
        guard: bool | str | Score | Sequence[str | Score] | Guard | None = None,
        features: Callable[[Any], ArrayLike] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator, self.scale, self.alpha, self.delta, self.by = estimator, scale, alpha, delta, by
        self.joint, self.unseen = joint, unseen
        self.cv, self.guard, self.features, self.n_jobs = cv, guard, features, n_jobs

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, x: Any, y: ArrayLike, *, seed: int = 0) -> Self:
        """Train and calibrate on the same rows, with ``cv``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            Target of each row, shape (n,).
        seed
            Draws the folds, and the rows for the guard.
        """
        self._demand_cv(True)
        self._check_settings()
        x, target, fold = self._fit_models(x, y, seed)
        target = np.asarray(target, dtype=np.float64)  # numbers may come as objects
        columns: dict[str, Any] = {}
        for k, model in enumerate(self.models_):
            held = np.flatnonzero(fold == k)
            for name, values in self._predictions(model, _safe_indexing(x, held)).items():
                columns.setdefault(name, np.empty(target.size))[held] = values
        fresh = self._fresh()
        assert isinstance(fresh, CrossIntervals)
        fresh.calibrate(target, fold, **columns, **self._groups(x))
        self._fit_guard(x, target, None, seed)
        self.intervals_ = fresh
        return self

    def calibrate(self, x: Any, y: ArrayLike, *, train: tuple[Any, ArrayLike] | None = None, seed: int = 0) -> Self:
        """Set the threshold on held-out rows, around a fitted estimator.

        Parameters
        ----------
        x
            Rows that neither trained nor chose the estimator.
        y
            Target of each row, shape (n,) or (n, 1).
        train
            Rows and targets that the score of the guard learns from, such as those that trained the estimator. None: a
            score that learns takes one half of the rows, and the other half sets its threshold.
        seed
            Draws the rows for the guard.
        """
        self._demand_cv(False)
        self._check_settings()
        target, intervals = as_vector(one_column(y, "y"), "y"), self._fresh()
        assert isinstance(intervals, SplitIntervals)
        intervals.calibrate(target, **self._predictions(self.estimator, x), **self._groups(x))
        self._fit_guard(x, target, train, seed)
        self.intervals_ = intervals
        return self

    def _fresh(self) -> SplitIntervals | CrossIntervals:
        score: Literal["absolute", "normalized", "cqr"] = "absolute" if self.scale is None else "normalized"
        score = "cqr" if isinstance(self.estimator, tuple) else score
        if self.cv is None:
            return SplitIntervals(score, self.alpha, self.delta, self.unseen, self.joint)
        return CrossIntervals(score, self.alpha, self.unseen)

    def _check_settings(self) -> None:
        check_cv(self.cv)
        self._check_guard()
        if self.scale is not None and isinstance(self.estimator, tuple):
            raise InputError("a pair of quantile regressors has its own width. Leave scale out.")
        if self.by is not None and not callable(self.by):
            raise InputError("by must be None or a callable on X. Groups in an array are for SplitIntervals.")
        if self.cv is not None and (self.delta is not None or self.joint):
            raise InputError("delta needs rows that are held out, and cv holds out none for all models. Fit the "
                             "estimator, and wrap it without cv.")  # fmt: skip
        self._fresh()

    # -- predictions --------------------------------------------------------------------------------------------------

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
        return one_column(self._predictor.predict(x), "the prediction")

    def predict_interval(self, x: Any, *, alpha: float | Sequence[float] | None = None) -> Any:
        """Between which two values the target of each row lies.

        Parameters
        ----------
        x
            Rows.
        alpha
            Allowed error; None: that of the constructor. A list: one result for each, as a list. A smaller alpha gives
            wider intervals. Each promise holds by itself.

        Returns
        -------
        Intervals
            ``lower`` and ``upper``, each of shape (n,); a list of them where ``alpha`` is a list.
        """
        intervals = self._learned()
        if self.cv is None:
            columns = self._predictions(self.estimator, x)
        else:
            by_model = [self._predictions(model, x) for model in self.models_]
            columns = {name: np.column_stack([part[name] for part in by_model]) for name in by_model[0]}
        columns |= self._groups(x)
        alphas, several = alphas_of(alpha)
        answers = [(intervals if level is None else intervals.at(level)).predict(**columns) for level in alphas]
        return answers if several else answers[0]

    def outputs(self, x: Any, y: ArrayLike | None = None) -> Outputs:
        """Features of rows as outputs, for the guard; a regressor has no classes, and ``y`` is not read.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            Not read.

        Returns
        -------
        Outputs
            One sample per row.
        """
        return self._guard_outputs(self._first, x)

    def verdicts(self, x: Any) -> Verdicts:
        """What the guard says about each row: ``Verdicts``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.

        Returns
        -------
        Verdicts
            One verdict per row.
        """
        guard = self._calibrated_guard()
        return guard(self._guard_outputs(self.guard_estimator_, x))

    def _predictions(self, model: Any, x: Any) -> dict[str, Any]:
        """What intervals need to know of the rows, by the name of the argument."""
        if isinstance(model, tuple):
            lower, upper = (one_column(part.predict(x), "the prediction") for part in model)
            return {"lower": lower, "upper": upper}
        columns = {"mean": one_column(model.predict(x), "the prediction")}
        if self.scale is not None:
            scale = self.scale.predict if hasattr(self.scale, "predict") else self.scale
            columns["scale"] = one_column(scale(x), "scale")
        return columns

    def _groups(self, x: Any) -> dict[str, Any]:
        return {} if self.by is None else {"groups": self.by(x)}

    def _guard_outputs(self, model: Any, x: Any, y: Any = None) -> Outputs:
        features = features_of(model[0] if isinstance(model, tuple) else model, x, self.features)
        if features is None:
            raise InputError("X must be finite numbers for the guard of a regressor. Pass features=, a callable on X "
                             "that gives them.")  # fmt: skip
        return Outputs(features=features, labels=None if y is None else np.zeros(len(features), dtype=np.intp))
