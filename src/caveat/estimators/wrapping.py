"""``wrap``: conformal prediction around any scikit-learn classifier or regressor."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from caveat._internal.checks import as_able, as_pair
from caveat.errors import InputError, NotFittedError
from caveat.estimators._base import UnfittedError
from caveat.estimators.classifier import ConformalClassifier
from caveat.estimators.regressor import ConformalRegressor

__all__ = ["wrap"]


def wrap(estimator: Any, **settings: Any) -> Any:
    """Conformal prediction around a scikit-learn classifier or regressor.

    Around a fitted estimator (split conformal): ``wrap(estimator).calibrate(X, y)`` with held-out rows. With ``cv``
    (cross-conformal, CV+, jackknife+): ``wrap(estimator, cv=5).fit(X, y)`` trains and calibrates on the same rows. The
    first promises coverage of 1 - alpha. The second wastes no rows, covers about 1 - alpha, and proves about
    1 - 2 alpha; the ``level`` of its results is what is proven.

    Parameters
    ----------
    estimator
        A classifier (or pipeline, or grid search) gives a ``ConformalClassifier``; a regressor, or a pair of quantile
        regressors (lower, upper), a ``ConformalRegressor``. Fitted, unless ``cv`` is given.
    **settings
        Settings of ``ConformalClassifier`` or ``ConformalRegressor``: ``alpha``, ``by``, ``delta``, ``cv``, ``guard``,
        and ``score`` and ``nonempty`` for a classifier, ``scale`` for a regressor.

    Returns
    -------
    ConformalClassifier or ConformalRegressor
        Not calibrated yet: call ``calibrate``, or ``fit`` with ``cv``.

    Examples
    --------
    >>> import numpy as np
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

    All 100 rows train and calibrate, and alpha is given later:

    >>> model = wrap(LogisticRegression(max_iter=1000), cv=5).fit(x[:100], y[:100])
    >>> large, small = model.predict_set(x[100:], alpha=[0.02, 0.1])
    >>> float(large.sizes.mean()), float(small.sizes.mean()), round(small.level, 3)
    (1.28, 0.94, 0.733)
    """
    cross = settings.get("cv") is not None
    for part in estimator if isinstance(estimator, tuple) else (estimator,):
        as_able(part, ("fit", "predict"), "an estimator" if cross else "a fitted estimator")
        try:
            if not cross:
                check_is_fitted(part)
        except UnfittedError:
            raise NotFittedError(
                f"wrap takes a fitted estimator, but {type(part).__name__} is not. Fit it on training data first, or "
                "pass cv=5 and call fit(X, y)."
            ) from None
    kind: type[ConformalClassifier | ConformalRegressor] = ConformalRegressor
    if isinstance(estimator, tuple):
        as_pair(estimator, "a tuple of quantile regressors")
    elif is_classifier(estimator):
        if not hasattr(estimator, "predict_proba") and not hasattr(estimator, "decision_function"):
            raise InputError(
                f"{type(estimator).__name__} has neither predict_proba nor decision_function, so that labels cannot "
                "be ranked. Calibrate it with sklearn.calibration.CalibratedClassifierCV."
            )
        if isinstance(getattr(estimator, "classes_", None), list):
            raise InputError(f"wrap takes a classifier with one output, got {len(estimator.classes_)}. Wrap one "
                             "estimator for each output.")  # fmt: skip
        kind = ConformalClassifier
    elif not is_regressor(estimator):
        raise InputError(f"wrap takes a classifier or a regressor, got {type(estimator).__name__}.")
    model = kind(estimator, **kind._renamed(settings))
    model._check_settings()
    return model
