"""A scikit-learn classifier with prediction sets: split conformal around a fitted one, cross-conformal with ``cv``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing

from caveat._internal.checks import Rng
from caveat.conformal import CrossSets, LabelClusters, LabelRanks, SplitSets
from caveat.conformal.nonconformity import Nonconformity
from caveat.errors import InputError
from caveat.estimators._base import Wrapper, alphas_of, available
from caveat.estimators._folds import check_cv
from caveat.estimators._outputs import class_outputs, features_of
from caveat.guard import Guard, Verdicts
from caveat.outputs import Outputs
from caveat.outputs.estimator import class_numbers
from caveat.results import PredictionSets
from caveat.scores import Score

__all__ = ["ConformalClassifier"]


@final
class ConformalClassifier(ClassifierMixin, Wrapper):  # type: ignore[misc]
    """A classifier with prediction sets. Made by ``caveat.wrap``.

    Around a fitted estimator, ``calibrate`` takes held-out rows. With ``cv``, ``fit`` trains and calibrates on the same
    rows. ``predict``, ``score``, ``get_params``, ``set_params`` and ``sklearn.base.clone`` work as in scikit-learn. A
    clone of a wrapper without ``cv`` keeps the fitted estimator, which is a setting then, and is not calibrated.

    Parameters
    ----------
    estimator
        With ``classes_`` and ``predict_proba``, or ``decision_function``, whose values are then taken as logits.
    nonconformity
        Nonconformity of a class, the ``score`` of ``SplitSets``. ``wrap`` and ``set_params`` also call it ``score``.
    alpha
        Allowed error, where ``predict_set`` is not given another.
    by
        None, ``"label"``, ``"label_rank"`` or ``"cluster"`` as for ``SplitSets``, or a callable on X that names the
        group of each row. With ``cv``: None, ``"label"`` or a callable.
    delta, joint
        As for ``SplitSets``; without ``cv`` only.
    unseen, nonempty
        As for ``SplitSets``.
    cv
        None: the estimator is fitted. A number of folds, ``"jackknife"`` (leave one out) or a splitter of scikit-learn
        that holds out every row once: cross-conformal sets. A class that the training rows of a fold lack has
        probability 0 there. Folds that a splitter makes from y, as ``StratifiedKFold``, are not drawn without a look at
        the rows: what is promised then holds within each class (``by="label"``), and about over all.
    guard
        None, True (``mahalanobis`` on the features), an OOD score or several, or a ``caveat.Guard`` with its own
        settings, which is copied: ``is_outlier`` and ``verdicts`` are its answers.
    features
        Callable on X that gives the features (n, D) for the guard. None: what the last step of a pipeline reads, else X
        itself, if these are finite numbers.
    n_jobs
        How many models are fitted at a time, with ``cv``.

    Attributes
    ----------
    sets_ : SplitSets or CrossSets
    estimator_, models_ : estimators
        With ``cv``: fitted on all rows, which ``predict`` asks, and without each fold, which the sets come from.
    guard_ : Guard
        The calibrated copy of ``guard``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(LogisticRegression(max_iter=1000).fit(x[::3], y[::3]), alpha=0.1)
    >>> model.calibrate(x[1::3], y[1::3]).predict_set(x[2::3]).sizes[:5]
    array([1, 1, 1, 1, 1])
    """

    sets_: SplitSets | CrossSets
    learned = "sets_"
    aliases = {"score": "nonconformity"}  # noqa: RUF012  score is a method of every estimator

    def __init__(
        self,
        estimator: Any,
        nonconformity: str | Nonconformity = "lac",
        alpha: float = 0.1,
        by: str | LabelRanks | LabelClusters | Callable[[Any], ArrayLike] | None = None,
        delta: float | None = None,
        *,
        joint: bool = False,
        unseen: Literal["error", "all"] = "error",
        nonempty: bool = False,
        cv: Any = None,
        guard: bool | str | Score | Sequence[str | Score] | Guard | None = None,
        features: Callable[[Any], ArrayLike] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator, self.nonconformity, self.alpha, self.by, self.delta = estimator, nonconformity, alpha, by, delta
        self.joint, self.unseen, self.nonempty = joint, unseen, nonempty
        self.cv, self.guard, self.features, self.n_jobs = cv, guard, features, n_jobs

    @property
    def classes_(self) -> NDArray[Any]:
        """The class names, in the order of the columns of sets and p-values."""
        return np.asarray(self._predictor.classes_)

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, x: Any, y: ArrayLike, rng: Rng | None = None, *, seed: int = 0) -> Self:
        """Train and calibrate on the same rows, with ``cv``.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        y
            Class of each row, shape (n,).
        rng
            Randomizes aps, raps and saps; None: not randomized.
        seed
            Draws the folds, and the rows for the guard.
        """
        self._demand_cv(True)
        self._check_settings()
        x, target, fold = self._fit_models(x, y, seed)
        labels = class_numbers(target, self.classes_)
        probs = np.empty((labels.size, self.classes_.size))
        for k, model in enumerate(self.models_):
            held = np.flatnonzero(fold == k)
            probs[held] = class_outputs(model, _safe_indexing(x, held), self.classes_).probs
        sets = self._sets(x)
        assert isinstance(sets, CrossSets)
        sets.calibrate(Outputs(probs=probs, labels=labels), fold, rng)
        self._fit_guard(x, target, None, seed)
        self.sets_ = sets
        return self

    def calibrate(
        self, x: Any, y: ArrayLike, rng: Rng | None = None, *, train: tuple[Any, ArrayLike] | None = None, seed: int = 0
    ) -> Self:
        """Set the threshold on held-out rows, around a fitted estimator.

        Parameters
        ----------
        x
            Rows that neither trained nor chose the estimator.
        y
            Class of each row, shape (n,) or (n, 1).
        rng
            Randomizes aps, raps and saps; None: not randomized.
        train
            Rows and classes that the score of the guard learns from, such as those that trained the estimator. None: a
            score that learns takes one half of the rows, and the other half sets its threshold.
        seed
            Draws the rows that cluster labels (``by="cluster"``), and those for the guard.
        """
        self._demand_cv(False)
        self._check_settings()
        labels, sets = class_numbers(y, self.classes_), self._sets(x)
        assert isinstance(sets, SplitSets)
        outputs = class_outputs(self.estimator, x, self.classes_, labels)
        sets.calibrate(outputs, rng, clustering=seed)
        self._fit_guard(x, self.classes_[labels], train, seed)
        self.sets_ = sets
        return self

    def _sets(self, x: Any = None) -> SplitSets | CrossSets:
        """Sets that are not calibrated; with rows, by their groups."""
        by: Any = self.by if not callable(self.by) else None if x is None else self.by(x)
        if self.cv is None:
            return SplitSets(self.nonconformity, self.alpha, by, delta=self.delta, unseen=self.unseen,
                             joint=self.joint, nonempty=self.nonempty)  # fmt: skip
        return CrossSets(self.nonconformity, self.alpha, by, unseen=self.unseen, nonempty=self.nonempty)

    def _check_settings(self) -> None:
        check_cv(self.cv)
        self._check_guard()
        if self.by is not None and not isinstance(self.by, (str, LabelRanks, LabelClusters)) and not callable(self.by):
            raise InputError("by must be None, a name or a callable on X. Groups in an array are for SplitSets.")
        if self.cv is None:
            self._sets()
            return
        if self.delta is not None or self.joint:
            raise InputError("delta needs rows that are held out, and cv holds out none for all models. Fit the "
                             "estimator, and wrap it without cv.")  # fmt: skip
        if self.by in ("cluster", "label_rank") or isinstance(self.by, (LabelRanks, LabelClusters)):
            raise InputError(f"by={self.by!r} needs rows that are held out. With cv, take by='label' or a callable.")
        self._sets()

    def _check_fold(self, target: NDArray[Any], kept: NDArray[np.intp], k: int) -> None:
        if np.unique(target[kept]).size < min(2, np.unique(target).size):
            raise InputError(f"the training rows of fold {k} hold one class only. Use more rows, or cv=StratifiedKFold "
                             "from sklearn.model_selection.")  # fmt: skip

    # -- predictions --------------------------------------------------------------------------------------------------

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
        return np.asarray(self._predictor.predict(x))

    @available("predict_proba")
    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The probabilities that the estimator gives, shape (n, C)."""
        return np.asarray(self._predictor.predict_proba(x))

    @available("decision_function")
    def decision_function(self, x: Any) -> NDArray[np.float64]:
        """The margins that the estimator gives."""
        return np.asarray(self._predictor.decision_function(x))

    def predict_set(self, x: Any, rng: Rng | None = None, *, alpha: float | Sequence[float] | None = None) -> Any:
        """Which classes are still possible for each row; columns follow ``classes_``.

        Parameters
        ----------
        x
            Rows.
        rng
            Randomizes aps, raps and saps, where calibration did.
        alpha
            Allowed error; None: that of the constructor. A list: one result for each, as a list. A smaller alpha gives
            larger sets. Each promise holds by itself.

        Returns
        -------
        PredictionSets
            ``member`` (n, C) says which classes are in each set; a list of them where ``alpha`` is a list.
        """
        sets, outputs = self._learned(), self._asked(x)
        (alphas, several), groups = alphas_of(alpha), self._groups(x)
        draws = [*(deepcopy(rng) for _ in alphas[1:]), rng]  # the same random numbers, so that sets are nested
        answers = [
            (sets if level is None else sets.at(level)).predict(outputs, u, groups=groups)
            for level, u in zip(alphas, draws, strict=True)
        ]
        return answers if several else answers[0]

    def predict_labels(self, x: Any, rng: Rng | None = None, *, alpha: float | None = None) -> list[NDArray[Any]]:
        """The names of the classes that are still possible, row by row.

        Parameters
        ----------
        x, rng, alpha
            As for ``predict_set``, with one alpha.

        Returns
        -------
        list of arrays
            Class names in the set of each row.
        """
        sets: PredictionSets = self.predict_set(x, rng, alpha=alpha)
        return [self.classes_[sets.labels(i)] for i in range(sets.n)]

    def predict_p(self, x: Any, rng: Rng | None = None) -> NDArray[np.float64]:
        """P-value of every class of each row, shape (n, C).

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
        sets = self._learned()
        return np.asarray(sets.p_values(self._asked(x), rng, groups=self._groups(x)))

    def outputs(self, x: Any, y: ArrayLike | None = None) -> Outputs:
        """Outputs of the estimator on rows: probabilities (or margins), features where there are any, and labels.

        Parameters
        ----------
        x
            Rows.
        y
            Class of each row, shape (n,); None: without labels.

        Returns
        -------
        Outputs
            One sample per row.
        """
        return self._guard_outputs(self._predictor, x, y)

    def verdicts(self, x: Any, rng: Rng | None = None) -> Verdicts:
        """What the guard says about each row: ``Verdicts``.

        A guard with ``sets=None`` and ``risk=None`` gets the sets of ``predict_set``, and abstains where one is empty.

        Parameters
        ----------
        x
            Rows, as the estimator takes them.
        rng
            Randomizes the sets, as for ``predict_set``.

        Returns
        -------
        Verdicts
            One verdict per row.
        """
        guard = self._calibrated_guard()
        outputs = self._guard_outputs(self.guard_estimator_, x)
        if guard.sets is not None or guard.risk is not None:
            return guard(outputs)
        return guard.decide(
            score=guard.statistic_.score(outputs),
            sets=self.predict_set(x, rng),
            predictions=class_numbers(self.predict(x), self.classes_),
        )

    def _asked(self, x: Any) -> Any:
        """What the sets read: outputs of the estimator, or of the model of each fold."""
        if self.cv is None:
            return class_outputs(self.estimator, x, self.classes_)
        return [class_outputs(model, x, self.classes_) for model in self.models_]

    def _groups(self, x: Any) -> ArrayLike | None:
        return self.by(x) if callable(self.by) else None

    def _guard_outputs(self, model: Any, x: Any, y: Any = None) -> Outputs:
        labels = None if y is None else class_numbers(y, self.classes_)
        return class_outputs(model, x, self.classes_, labels, features_of(model, x, self.features))
