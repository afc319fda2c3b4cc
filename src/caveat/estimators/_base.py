"""What both wrappers share: settings and tags of scikit-learn, models of the folds, the OOD flag."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError as UnfittedError
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from caveat._internal.checks import as_list, as_pair, check_known
from caveat._internal.streams import stream
from caveat.errors import InputError, NotFittedError
from caveat.estimators._folds import fold_numbers
from caveat.guard import Guard
from caveat.outputs import Outputs
from caveat.scores import Score

__all__ = ["NotCalibratedError", "UnfittedError", "Wrapper", "alphas_of", "available"]

_DEFAULT_SCORE = "mahalanobis"  # of guard=True: it reads features, and their scale does not matter
F = TypeVar("F", bound=Callable[..., Any])


class NotCalibratedError(NotFittedError, UnfittedError):  # type: ignore[misc]
    """Both Caveat's and scikit-learn's error for something that has seen no data."""


class Wrapper(MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the classifier and the regressor. The constructor only stores; ``wrap``, fit and calibrate check."""

    estimator: Any
    cv: Any
    guard: bool | str | Score | Sequence[str | Score] | Guard | None
    features: Callable[[Any], ArrayLike] | None
    n_jobs: int | None
    learned: ClassVar[str]  # the attribute that holds the calibrated sets or intervals

    aliases: ClassVar[dict[str, str]] = {}  # other names of settings -> their names in the constructor

    # -- scikit-learn's contract --------------------------------------------------------------------------------------

    @classmethod
    def _renamed(cls, params: dict[str, Any]) -> dict[str, Any]:
        """Settings by the names of the constructor; an error for one that it does not have."""
        params = {cls.aliases.get(name, name): value for name, value in params.items()}
        for name in params:
            check_known(name.partition("__")[0], cls._get_param_names(), "setting")
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings. What was learned is dropped, because it was made for the earlier ones.

        Parameters
        ----------
        **params
            Name -> value, as in ``get_params``.
        """
        params = self._renamed(params)
        settings = self.get_params(deep=False)
        for name in params:
            if "__" in name and self.cv is None and "cv" not in params:
                raise InputError(
                    f"{name} belongs to the fitted estimator. Set it there, fit again and wrap the result."
                )
        super().set_params(**params)
        for name in set(vars(self)) - set(settings):
            delattr(self, name)
        return self

    def __sklearn_clone__(self) -> Self:
        """Without cv, the clone keeps the fitted estimator, which is a setting then."""
        if self.cv is not None:
            return super().__sklearn_clone__()  # type: ignore[no-any-return]
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self.learned)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        parts = self.estimator if isinstance(self.estimator, tuple) else (self.estimator,)
        if not parts or not hasattr(parts[0], "__sklearn_tags__"):
            return tags
        inner = get_tags(parts[0])
        tags.input_tags, tags.non_deterministic = copy(inner.input_tags), inner.non_deterministic
        tags.target_tags.positive_only = inner.target_tags.positive_only
        if tags.classifier_tags is not None and inner.classifier_tags is not None:
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        if tags.regressor_tags is not None and inner.regressor_tags is not None:
            tags.regressor_tags.poor_score = inner.regressor_tags.poor_score
        return tags

    @property
    def n_features_in_(self) -> int:
        """How many columns the estimator was fitted on."""
        return int(self._first.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns that the estimator was fitted on."""
        return np.asarray(self._first.feature_names_in_)

    # -- fitting ------------------------------------------------------------------------------------------------------

    @property
    def _predictor(self) -> Any:
        """The fitted estimator, or pair of them, that predicts: of all rows with cv, else the one that was given."""
        if self.cv is None:
            return self.estimator
        if not hasattr(self, "estimator_"):
            raise NotCalibratedError(f"this {type(self).__name__} is not fitted. Call fit(X, y) first.")
        return self.estimator_

    @property
    def _first(self) -> Any:
        return self._predictor[0] if isinstance(self._predictor, tuple) else self._predictor

    def _learned(self) -> Any:
        """The calibrated sets or intervals."""
        if not hasattr(self, self.learned):
            call = "calibrate(X, y)" if self.cv is None else "fit(X, y)"
            raise NotCalibratedError(f"the wrapped {self._kind} is not calibrated. Call {call} first.")
        return getattr(self, self.learned)

    @property
    def _kind(self) -> str:
        return type(self).__name__.removeprefix("Conformal").lower()

    def _demand_cv(self, wanted: bool) -> None:
        if wanted and self.cv is None:
            raise InputError("fit needs cv, because without it the estimator is already fitted. Pass cv=5 to wrap, or "
                             "call calibrate(X, y) with held-out rows.")  # fmt: skip
        if not wanted and self.cv is not None:
            raise InputError("calibrate is for a fitted estimator. With cv, fit(X, y) trains and calibrates.")
        if not wanted:
            for part in self.estimator if isinstance(self.estimator, tuple) else (self.estimator,):
                check_is_fitted(part)

    def _fit_models(self, x: Any, y: ArrayLike, seed: int) -> tuple[Any, NDArray[Any], NDArray[np.intp]]:
        """Fit the estimator on all rows and once without each fold; rows that can be indexed, targets and folds."""
        target = column_or_1d(y, warn=True)
        (x,) = indexable(x)
        self.estimator_ = _fit(self.estimator, x, target)  # first: it refuses what it cannot learn from
        fold = fold_numbers(self.cv, x, target, seed)
        rows = [np.flatnonzero(fold != k) for k in range(int(fold.max()) + 1)]
        for k, kept in enumerate(rows):
            self._check_fold(target, kept, k)
        self.models_ = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit)(self.estimator, _safe_indexing(x, kept), target[kept]) for kept in rows
        )
        return x, target, fold

    def _check_fold(self, target: NDArray[Any], kept: NDArray[np.intp], k: int) -> None:
        """An error where the training rows of fold k cannot train the model."""

    def _made_guard(self) -> Guard | None:
        """A guard that is not fitted: made from the name of a score, or a copy of the one that was given."""
        if self.guard is None or self.guard is False:
            return None
        if isinstance(self.guard, Guard):
            return deepcopy(self.guard)
        return Guard(_DEFAULT_SCORE if self.guard is True else self.guard, sets=None)

    def _check_guard(self) -> None:
        self._made_guard()
        if self.features is not None and not callable(self.features):
            raise InputError("features must be None or a callable on X that gives the features of its rows.")

    def _fit_guard(self, x: Any, y: Any, train: Any, seed: int) -> None:
        """Fit and calibrate the guard, so that no row that calibrates it trained its score or the model behind it."""
        guard = self._made_guard()
        if guard is None:
            return
        learns = any(score.fits_on for score in guard.learners())
        (x,) = indexable(x)
        n, model = len(y), self._predictor
        chosen = stream(seed, "guard rows").permutation(n) < n // 2
        if self.cv is None and (train is not None or not learns):
            chosen[:] = False
        if chosen.any():
            train = (_safe_indexing(x, np.flatnonzero(chosen)), y[chosen])
            if self.cv is not None:  # the models of the folds saw these rows
                model = _fit(self.estimator, *train)
        if learns:
            rows, target = as_pair(train, "train")
            guard.fit(self._guard_outputs(model, rows, target))
        held = np.flatnonzero(~chosen)
        guard.calibrate(self._guard_outputs(model, _safe_indexing(x, held), y[held]), seed=seed)
        self.guard_, self.guard_estimator_ = guard, model

    @abstractmethod
    def _guard_outputs(self, model: Any, x: Any, y: Any = None) -> Outputs:
        """What the guard reads of rows."""

    def is_outlier(self, x: Any) -> NDArray[np.bool_]:
        """Which rows the guard calls outliers, shape (n,).

        Parameters
        ----------
        x
            Rows, as the estimator takes them.

        Returns
        -------
        boolean array of shape (n,)
            True for outliers.
        """
        guard = self._calibrated_guard()
        return np.asarray(guard(self._guard_outputs(self.guard_estimator_, x)).outliers)

    def _calibrated_guard(self) -> Guard:
        if self._made_guard() is None:
            raise InputError(
                "the wrapper has no guard. Pass guard=True, a score or a Guard to wrap, and fit or calibrate again."
            )
        self._learned()
        guard: Guard = self.guard_
        return guard


def alphas_of(alpha: Any) -> tuple[list[Any], bool]:
    """The levels that were asked for, and whether it was a list of them."""
    several = isinstance(alpha, Iterable) and not isinstance(alpha, (str, bytes))
    return (as_list(alpha, "alpha") if several else [alpha]), several


def available(method: str) -> Callable[[F], F]:
    """Makes a method of the wrapper exist where the estimator has it, as scikit-learn does."""
    return cast("Callable[[F], F]", available_if(lambda self: hasattr(self.estimator, method)))


def _fit(estimator: Any, x: Any, y: NDArray[Any]) -> Any:
    if isinstance(estimator, tuple):
        return tuple(_fit(part, x, y) for part in estimator)
    return clone(estimator).fit(x, y)
