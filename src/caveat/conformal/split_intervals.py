r"""Split conformal prediction intervals for regression.

Nonconformity of a value y at x, from the predictions of a regression model:

- ``absolute``    $|\mu(x) - y|$ (CP)
- ``normalized``  $|\mu(x) - y| / \sigma(x)$ (CP-A; SSCP with the sigma of ``DifficultyModel``)
- ``cqr``         $\max(q_{lo}(x) - y,\; y - q_{hi}(x))$ (Romano, Patterson and Candes, NeurIPS 2019, eq. 6)

and the interval holds every y whose nonconformity is at or below the threshold. Lei, G'Sell, Rinaldo, Tibshirani and
Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 113, 2018. With ``delta`` the threshold is a
PAC one; with ``groups`` there is one threshold per group.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_vector, check_each, same_length
from caveat._internal.params import check_params, choice
from caveat.conformal.grouped import GroupedScores, as_groups
from caveat.conformal.p_values import check_seen
from caveat.conformal.quantile import Promise
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.results import Intervals

__all__ = ["IntervalScore", "SplitIntervals", "interval_score"]

Floats = NDArray[np.float64]
IntervalScore = Literal["absolute", "normalized", "cqr"]

_NEEDS = {"absolute": ("mean",), "normalized": ("mean", "scale"), "cqr": ("lower", "upper")}
_NO_THRESHOLD = "SplitIntervals has no threshold yet. Call calibrate(y, ...) before predict(...)."


def interval_score(default: IntervalScore) -> IntervalScore:
    """A parameter that names the nonconformity score of intervals."""
    return choice(default, _NEEDS, "nonconformity score of regression")


@final
@dataclass(eq=False)
class SplitIntervals:
    """Prediction intervals that hold the true value with probability at least 1 - alpha.

    Parameters
    ----------
    score
        ``"absolute"`` needs ``mean``; ``"normalized"`` needs ``mean`` and a positive ``scale``; ``"cqr"`` needs
        ``lower`` and ``upper``, two predicted quantiles.
    alpha
        Allowed error.
    delta
        None: the promise holds on average over calibration sets. A number: with probability 1 - delta over the
        calibration set, the error is at most alpha (PAC). With ``groups`` this is the probability for each group by
        itself.
    unseen
        A group that calibration never saw: an ``"error"``, or ``"all"`` values.
    joint
        Whether the promise with ``delta`` shall hold for all groups at once: delta is then shared by the groups.

    Examples
    --------
    >>> intervals = SplitIntervals("absolute", alpha=0.25).calibrate([1.0, 2.0, 3.0], mean=[1.5, 1.0, 3.0])
    >>> intervals.predict(mean=[10.0]).bounds
    array([[ 9., 11.]])
    """

    score: Literal["absolute", "normalized", "cqr"] = interval_score("absolute")
    alpha: float = 0.1
    delta: float | None = None
    unseen: Literal["error", "all"] = choice("error", ("error", "all"), "rule for unseen groups")
    joint: bool = False

    def __post_init__(self) -> None:
        check_params(self)
        Promise(self.alpha, self.delta, self.joint)

    def calibrate(
        self,
        y: ArrayLike,
        *,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Set the threshold from held-out targets and the predictions for them, each of shape (n,).

        Parameters
        ----------
        y
            Held-out targets.
        mean, scale
            Predicted values, and their positive scales for ``"normalized"``.
        lower, upper
            Predicted quantiles, for ``"cqr"``.
        groups
            Group of each row, for a threshold in each group; None: one threshold.
        """
        true = as_vector(y, "y")
        scores = self.nonconformity(true, mean=mean, scale=scale, lower=lower, upper=upper)
        named = None if groups is None else as_groups(groups, "groups", true.size)
        self.by_group_ = named is not None
        self.grouped_ = GroupedScores.of(scores, named, own=True)
        return self._set_thresholds()

    def at(self, alpha: float) -> Self:
        """The intervals of the same calibration rows with another allowed error; smaller alpha, wider intervals.

        Parameters
        ----------
        alpha
            The allowed error.
        """
        if not hasattr(self, "grouped_"):
            raise NotFittedError(_NO_THRESHOLD)
        _ = self.grouped_.scores  # sorted from here on: threads may ask for several levels at a time
        other = copy.copy(self)
        other.alpha = Promise(alpha).alpha
        return other._set_thresholds()

    def nonconformity(self, true: Floats, **columns: Any) -> Floats:
        """How far each target is from its predictions, shape (n,).

        Parameters
        ----------
        true
            Targets, shape (n,).
        **columns
            ``mean``, ``scale``, ``lower`` and ``upper`` as for ``calibrate``.

        Returns
        -------
        array of shape (n,)
            The larger, the stranger.
        """
        model = self._columns(true.size, **columns)
        if self.score == "cqr":
            return np.maximum(model["lower"] - true, true - model["upper"])
        scores = model["mean"] - true
        np.abs(scores, out=scores)
        return scores / model["scale"] if "scale" in model else scores

    def _set_thresholds(self) -> Self:
        promise = Promise(self.alpha, self.delta, self.joint)
        self.thresholds_ = self.grouped_.thresholds(promise.among(self.grouped_).rank)
        self.level_, too_few = promise.among(self.grouped_).kept_by(self.grouped_, by_group=self.by_group_)
        if too_few:
            warnings.warn(too_few, CaveatWarning, stacklevel=3)
        self.caveat_ = " ".join(filter(None, (too_few, promise.scope(self.grouped_.names.size))))
        return self

    def predict(
        self,
        *,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Intervals:
        """The values whose nonconformity is at or below the threshold; with ``cqr`` ends may cross: empty.

        Parameters
        ----------
        mean, scale
            Predicted values, and their positive scales for ``"normalized"``, shape (n,).
        lower, upper
            Predicted quantiles, for ``"cqr"``, shape (n,).
        groups
            Group of each row, where ``calibrate`` had groups.

        Returns
        -------
        Intervals
            ``lower`` and ``upper``, each of shape (n,).
        """
        if not hasattr(self, "grouped_"):
            raise NotFittedError(_NO_THRESHOLD)
        model = self._columns(None, mean=mean, scale=scale, lower=lower, upper=upper)
        reach = self._threshold_of_rows(next(iter(model.values())).size, groups)
        # mean + (y - mean) can round to less than y: without two units in the last place, every y that ties with the
        # threshold would miss its own interval.
        reach = reach + 2 * np.finfo(np.float64).eps * np.abs(reach)
        half = reach * model["scale"] if "scale" in model else reach
        first, last = ("lower", "upper") if self.score == "cqr" else ("mean", "mean")
        ends = np.empty((2, model[first].size))
        np.subtract(model[first], half, out=ends[0])
        np.add(model[last], half, out=ends[1])
        return Intervals(ends[0], ends[1], alpha=self.alpha, level=self.level_, delta=self.delta, caveat=self.caveat_)

    def check_columns(self, **columns: Any) -> tuple[str, ...]:
        """The names of the arrays that the score needs; an error where one is missing, or another is not None.

        Parameters
        ----------
        **columns
            ``mean``, ``scale``, ``lower`` and ``upper`` as for ``calibrate``.

        Returns
        -------
        tuple of str
            The names.
        """
        needs = _NEEDS[self.score]
        for name, value in columns.items():
            if (value is None) == (name in needs):
                raise InputError(f"score '{self.score}' needs {' and '.join(needs)}; {name} is "
                                 f"{'None' if value is None else 'given but not used'}.")  # fmt: skip
        return needs

    def _threshold_of_rows(self, n: int, groups: ArrayLike | None) -> Floats | np.float64:
        if (groups is not None) != self.by_group_:
            had, has = ("with", "without") if self.by_group_ else ("without", "with")
            raise InputError(f"intervals were calibrated {had} groups and are now asked {has} them. Use the same.")
        if groups is None:
            threshold: np.float64 = self.thresholds_[0]
            return threshold
        named = as_groups(groups, "groups", n)
        number = self.grouped_.find(named)
        check_seen(named, number, self.unseen)
        return np.append(self.thresholds_, np.inf)[number]

    def _columns(self, n: int | None, **columns: Any) -> dict[str, Floats]:
        """The arrays that the score needs, checked; one that it does not use is an error."""
        needs = self.check_columns(**columns)
        vectors = {name: as_vector(columns[name], name) for name in needs}
        same_length(**vectors, **({} if n is None else {"y": range(n)}))
        if "scale" in vectors:
            check_each(vectors["scale"], vectors["scale"] > 0, "scale", "be positive")
        return vectors
