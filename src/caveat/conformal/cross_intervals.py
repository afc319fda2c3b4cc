r"""CV+ and jackknife+ intervals: every row trains some regressions and calibrates the one that did not see it.

With $\mu_k$ trained without fold k, of n rows $i$ in folds $k(i)$ with residuals $r_i = |y_i - \mu_{k(i)}(x_i)|$:

$$ C(x) = [\,\lfloor \alpha (n + 1) \rfloor\text{-th smallest of } \mu_{k(i)}(x) - r_i,\;
              \lceil (1 - \alpha)(n + 1) \rceil\text{-th smallest of } \mu_{k(i)}(x) + r_i\,] $$

Barber, Candes, Ramdas and Tibshirani, "Predictive Inference with the Jackknife+", Annals of Statistics 49, 2021,
section 3, arXiv:1905.02928. Jackknife+: each row is a fold of its own. ``caveat.conformal._folds`` says what is proven.
The same with a scale, $\mu_{k(i)}(x) \pm r_i \sigma_{k(i)}(x)$, and with two quantiles, because the proof compares
nonconformity only.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_matrix, as_vector, check_each, check_same
from caveat._internal.params import check_params
from caveat.conformal._folds import allowed_misses, as_folds, cross_caveat, cross_level
from caveat.conformal.grouped import GroupedScores, as_groups
from caveat.conformal.p_values import check_seen
from caveat.conformal.quantile import Promise, quantile_rank
from caveat.conformal.split_intervals import SplitIntervals, interval_score
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.results import Intervals

__all__ = ["CrossIntervals"]

Floats = NDArray[np.float64]


@final
@dataclass(eq=False)
class CrossIntervals:
    """Prediction intervals from cross-validation: no row is held out from training.

    The intervals hold the true value with probability of about 1 - alpha where the models of the folds are alike; the
    level that is proven for any model, at least 1 - 2 alpha for the jackknife+, is the ``level`` of the intervals. The
    test row and all others must be exchangeable, and folds must be drawn without a look at the rows.

    Parameters
    ----------
    score
        As for ``SplitIntervals``: ``"absolute"``, ``"normalized"`` or ``"cqr"``.
    alpha
        Allowed error.
    unseen
        As for ``SplitIntervals``.

    Examples
    --------
    >>> intervals = CrossIntervals(alpha=0.25).calibrate([1.0, 2.0, 3.0], folds=[0, 0, 1], mean=[1.5, 1.0, 3.0])
    >>> intervals.predict(mean=[[10.0, 12.0]]).bounds  # of one row, by the two models
    array([[ 9., 12.]])
    """

    score: Literal["absolute", "normalized", "cqr"] = interval_score("absolute")
    alpha: float = 0.1
    unseen: Literal["error", "all"] = "error"

    def __post_init__(self) -> None:
        check_params(self)
        self._split()

    def calibrate(
        self,
        y: ArrayLike,
        folds: ArrayLike,
        *,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Keep the nonconformity of every row by the model that did not see it.

        Parameters
        ----------
        y
            Targets, shape (n,).
        folds
            Fold of each row, shape (n,).
        mean, scale, lower, upper
            Prediction for each row by the model of its own fold, shape (n,); which are needed depends on ``score``.
        groups
            Group of each row, shape (n,): rows are compared within their group.
        """
        true = as_vector(y, "y")
        self.folds_, self._fold = as_folds(folds, true.size)
        self._scores = self._split().nonconformity(true, mean=mean, scale=scale, lower=lower, upper=upper)
        self.by_group_ = groups is not None
        named = np.zeros(true.size, np.intp) if groups is None else as_groups(groups, "groups", true.size)
        self._names, self._group = np.unique(named, return_inverse=True)
        return self._set_promise()

    def at(self, alpha: float) -> Self:
        """The intervals of the same rows with another allowed error; smaller alpha, wider intervals.

        Parameters
        ----------
        alpha
            The allowed error.
        """
        self._demand_calibrated()
        other = copy.copy(self)
        other.alpha = Promise(alpha).alpha
        return other._set_promise()

    def predict(
        self,
        *,
        mean: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Intervals:
        """The intervals of m rows.

        Parameters
        ----------
        mean, scale, lower, upper
            Predictions by the model of each fold, shape (m, K), in the order of ``folds_``.
        groups
            Group of each row, shape (m,), where rows were calibrated by group.

        Returns
        -------
        Intervals
            ``lower`` and ``upper``, each of shape (m,).
        """
        self._demand_calibrated()
        columns = {"mean": mean, "scale": scale, "lower": lower, "upper": upper}
        self._split().check_columns(**columns)
        centers = {name: self._by_model(values, name) for name, values in columns.items() if values is not None}
        check_same("shape", **{name: values.shape for name, values in centers.items()})
        low, high = (centers[end] if self.score == "cqr" else centers["mean"] for end in ("lower", "upper"))
        number = self._group_of(low.shape[0], groups)
        ends = np.tile([-np.inf, np.inf], (low.shape[0], 1))  # a group that calibration never saw: every value
        for g in np.unique(number[number >= 0]):
            rows, calibration = np.flatnonzero(number == g), self._group == g
            ends[rows] = self._ends(low[rows], high[rows], _rows_of(centers.get("scale"), rows), calibration)
        return Intervals(ends[:, 0], ends[:, 1], alpha=self.alpha, level=self.level_, caveat=self.caveat_)

    def _ends(self, low: Floats, high: Floats, scale: Floats | None, calibration: NDArray[np.bool_]) -> Floats:
        """Lower and upper ends of rows of one group from its calibration rows, shape (m, 2)."""
        reach, fold = self._scores[calibration], self._fold[calibration]
        # A value that ties with a calibration row must not miss its own interval by rounding, as in SplitIntervals.
        reach = reach + 2 * np.finfo(np.float64).eps * np.abs(reach)
        ends = np.tile([-np.inf, np.inf], (low.shape[0], 1))
        least, most = allowed_misses(fold.size, self.alpha), quantile_rank(fold.size, self.alpha)
        if least == 0:
            return ends
        for rows in row_blocks(low.shape[0], row_bytes=16 * fold.size):
            half = reach * (1.0 if scale is None else scale[rows][:, fold])
            ends[rows, 0] = np.partition(low[rows][:, fold] - half, least - 1, axis=1)[:, least - 1]
            ends[rows, 1] = np.partition(high[rows][:, fold] + half, most - 1, axis=1)[:, most - 1]
        return ends

    # -- the parts ----------------------------------------------------------------------------------------------------

    def _split(self) -> SplitIntervals:
        return SplitIntervals(self.score, alpha=self.alpha, unseen=self.unseen)

    def _set_promise(self) -> Self:
        self.level_ = cross_level(self._fold, self._group, self.alpha)
        grouped = GroupedScores.of(self._scores, self._names[self._group], names=self._names)
        _, too_few = Promise(self.alpha).kept_by(grouped, by_group=self.by_group_)
        if too_few:
            warnings.warn(too_few, CaveatWarning, stacklevel=3)
        self.caveat_ = " ".join(filter(None, (too_few, cross_caveat(self.level_, self.alpha))))
        return self

    def _demand_calibrated(self) -> None:
        if not hasattr(self, "level_"):
            raise NotFittedError("CrossIntervals has seen no rows yet. Call calibrate(y, folds, ...) first.")

    def _by_model(self, values: ArrayLike, name: str) -> Floats:
        matrix = np.asarray(as_matrix(values, name), dtype=np.float64)
        if matrix.shape[1] != self.folds_.size:
            raise InputError(f"{name} must have one column per fold ({self.folds_.size}), got {matrix.shape[1]}.")
        if name == "scale":
            check_each(matrix, matrix > 0, name, "be positive")
        return matrix

    def _group_of(self, n: int, groups: ArrayLike | None) -> NDArray[Any]:
        if (groups is not None) != self.by_group_:
            had, has = ("with", "without") if self.by_group_ else ("without", "with")
            raise InputError(f"intervals were calibrated {had} groups and are now asked {has} them. Use the same.")
        if groups is None:
            return np.zeros(n, dtype=np.intp)
        named = as_groups(groups, "groups", n)
        number = GroupedScores(self._names, np.zeros(1, dtype=np.intp), np.zeros(0)).find(named)
        check_seen(named, number, self.unseen)
        return number


def _rows_of(values: Floats | None, rows: NDArray[np.intp]) -> Floats | None:
    return None if values is None else values[rows]
