r"""Weighted conformal p-values and quantiles: for test points that are drawn otherwise than the calibration sample.

$$ p = \frac{\sum_i w_i 1[a_i \ge a] + w}{\sum_i w_i + w}, \qquad
   \hat q = \min\{ a_i : w + \textstyle\sum_{j : a_j > a_i} w_j \le \alpha\,(w + \sum_j w_j) \} $$

with $w_i$ the likelihood ratio of test to calibration distribution at sample i, and w that of the test point itself.
Tibshirani, Barber, Candes and Ramdas, "Conformal Prediction Under Covariate Shift", NeurIPS 2019, lemma 3; for weights
of the labels: Podkopaev and Ramdas, "Distribution-Free Uncertainty Quantification for Classification Under Label
Shift", UAI 2021. The effective sample size of the weights is $(\sum w)^2 / \sum w^2$ (Kish, "Survey Sampling", 1965).
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    Rng,
    as_comparable,
    as_number,
    as_real_array,
    as_rng,
    as_vector,
    check_each,
    check_finite,
    exact_level,
    same_length,
)
from caveat.errors import CaveatWarning, InputError
from caveat.results import Promise

__all__ = ["WeightedScores", "effective_n", "shift_promise", "weighted_p_values", "weighted_quantile"]

_NO_WEIGHT = "at least one weight must be positive, got only zeros: no score says anything about the test."


def weighted_quantile(scores: ArrayLike, alpha: float, *, weights: ArrayLike, test_weight: float) -> float:
    """The threshold that a new score of weight ``test_weight`` stays at or below with probability at least 1 - alpha.

    ``inf``, with a warning, if the test point weighs more than alpha of the total: nothing can be excluded then. With
    equal weights it is ``quantile``.

    Parameters
    ----------
    scores
        Calibration nonconformity, shape (n,); larger is stranger.
    alpha
        Allowed error.
    weights
        Likelihood ratio of each calibration sample, shape (n,), in the order of ``scores``.
    test_weight
        Likelihood ratio of the test point.

    Returns
    -------
    float
        One of the scores, or ``inf``.

    Examples
    --------
    >>> weighted_quantile([3.0, 1.0, 2.0], 0.25, weights=[1.0, 1.0, 1.0], test_weight=1.0)
    3.0
    >>> weighted_quantile([3.0, 1.0, 2.0], 0.25, weights=[0.1, 5.0, 5.0], test_weight=1.0)
    2.0
    """
    values = as_vector(scores, "scores", allow_infinite=True)
    own = as_number(test_weight, "test_weight", least=0, most=sys.float_info.max)
    weighted = WeightedScores.of(values, as_weights(weights, "weights", scores=values))
    threshold = float(weighted.thresholds(np.array([own]), alpha)[0])
    if threshold == math.inf and weighted.scores[-1] < math.inf:
        warnings.warn(
            f"the test point holds more than alpha = {alpha} of all weight: the threshold is infinite.",
            CaveatWarning,
            stacklevel=2,
        )
    return threshold


def weighted_p_values(
    *,
    calibration: ArrayLike,
    test: ArrayLike,
    calibration_weights: ArrayLike,
    test_weights: ArrayLike,
    rng: Rng | None = None,
) -> NDArray[np.float64]:
    """P-values of test scores drawn from a shifted distribution. Small means stranger than the calibration data.

    With the true likelihood ratios P(p <= t) <= t, over calibration sample and test point together; with estimated ones
    (``shift_weights``, ``label_shift_weights``) as far as they are right. With equal weights it is ``p_values``.

    Parameters
    ----------
    calibration
        Nonconformity, shape (n,); larger is stranger.
    test
        Nonconformity, shape (m,), or (m, C) with one column per tentative label.
    calibration_weights
        Likelihood ratio of test to calibration distribution at each calibration sample, shape (n,).
    test_weights
        The same at each test sample, shape (m,); or (m, C) where the ratio depends on the label, as in label shift.
    rng
        Smooths the p-values: one tau per test object, shared by its labels. None: tau = 1, deterministic.

    Returns
    -------
    array of shape (m,)
        One p-value per test score.

    Examples
    --------
    >>> weighted_p_values(calibration=[1, 2, 3], test=[2.5], calibration_weights=[1, 1, 2], test_weights=[1])
    array([0.6])
    """
    values, tests = as_vector(calibration, "calibration", allow_infinite=True), as_comparable(test, "test")
    if tests.ndim not in (1, 2):
        raise InputError(f"test must have shape (m,) or (m, C), got {tests.shape}.")
    weighted = WeightedScores.of(values, as_weights(calibration_weights, "calibration_weights", calibration=values))
    own = as_test_weights(test_weights, "test_weights", tests.shape)
    tau = None if rng is None else np.asarray(as_rng(rng).random(tests.shape[0]))
    return weighted.p_values(tests, own, tau)


def effective_n(weights: ArrayLike) -> float:
    r"""How many equally weighted rows say as much as these: $(\sum w)^2 / \sum w^2$.

    Parameters
    ----------
    weights
        Weights of n rows, shape (n,), at least 0.

    Returns
    -------
    float
        Between 1 and n.

    Examples
    --------
    >>> effective_n([1, 1, 1, 1]), effective_n([1, 0, 0, 0])
    (4.0, 1.0)
    """
    scaled = as_weights(weights, "weights")
    if not scaled.max() > 0:
        raise InputError(_NO_WEIGHT)
    scaled = scaled / scaled.max()
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


def shift_promise(weights: ArrayLike, alpha: float) -> Promise:
    """What weighted sets at ``alpha`` promise: coverage, or nothing where the effective n is below 1 / alpha.

    Parameters
    ----------
    weights
        Of the calibration rows, shape (n,).
    alpha
        Allowed error of the sets.

    Returns
    -------
    Promise
        Its ``holds`` says whether coverage is promised.

    Examples
    --------
    >>> print(shift_promise([1.0, 0.1, 0.1], alpha=0.1))
    Nothing can be promised about coverage at 90 %. The weights leave an effective n of 1.4 of 3 rows, and alpha = 0.1
    needs 10: calibrate on more rows like the test data, about 22 such rows in all.
    """
    mass = as_weights(weights, "weights")
    size, least = effective_n(mass), 1 / float(exact_level(alpha, "alpha"))
    remedy = ""
    if size < least * (1 - 1e-12):
        remedy = (
            f"The weights leave an effective n of {size:.1f} of {mass.size} rows, and alpha = {alpha:g} needs "
            f"{least:.4g}: calibrate on more rows like the test data, about {math.ceil(mass.size * least / size)} such "
            "rows in all."
        )
    return Promise(
        "coverage", 1 - 1 / least, None, mass.size, f"weighted split conformal, effective n = {size:.1f}",
        "calibration rows are independent, the shift is the one that the weights describe, and the weights are right",
        remedy,
    )  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class WeightedScores:
    """Calibration scores in ascending order, each with its weight. ``mass`` is that at or above each, with a final 0.

    >>> weighted = WeightedScores.of(np.array([3.0, 1.0, 2.0]), np.array([0.1, 5.0, 5.0]))
    >>> weighted.thresholds(np.array([1.0, 10.0]), 0.25)
    array([ 2., inf])
    """

    scores: NDArray[np.float64]
    mass: NDArray[np.float64]
    scale: float

    @classmethod
    def of(cls, scores: NDArray[np.float64], weights: NDArray[np.float64]) -> WeightedScores:
        """Sort once. Only ratios count, so weights are divided by the largest: 1e308 twice has no finite sum."""
        order, scale = np.argsort(scores, kind="stable"), float(weights.max()) or 1.0
        mass = np.append(np.cumsum(weights[order][::-1] / scale)[::-1], 0.0)
        return cls(scores[order], mass, scale)

    def thresholds(self, own: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
        """The weighted quantile for each weight of a test point, any shape; ``inf`` where nothing can be excluded."""
        mass, mine = self._factors(own)
        allowed = float(exact_level(alpha, "alpha")) * (1 + 1e-12)  # sums are off by rounding
        with np.errstate(divide="ignore", over="ignore"):  # beside a huge weight the others vanish: all of them are
            most = (allowed * (mine + self.mass[0] * mass) - mine) / mass  # needed, and none is enough
        place = self.scores.size - np.searchsorted(self.mass[:0:-1], most, side="right")
        return np.asarray(np.append(self.scores, math.inf)[place])

    def p_values(
        self, tests: NDArray[np.float64], own: NDArray[np.float64], tau: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """P-values of scores (m,) or (m, C) with weights that broadcast to them; ``tau`` (m,) smooths, None: 1."""
        mass, mine = self._factors(own)
        at_least = self.mass[np.searchsorted(self.scores, tests, side="left")] * mass
        total = self.mass[0] * mass + mine
        if tau is None:
            return np.asarray((at_least + mine) / total)
        above = self.mass[np.searchsorted(self.scores, tests, side="right")] * mass
        shared = tau.reshape(-1, *(1,) * (tests.ndim - 1))
        return np.asarray((above + shared * (at_least - above + mine)) / total)

    def _factors(self, own: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What ``mass`` and the weight of each test point are to be multiplied by and replaced with: both at most 1."""
        if self.mass[0] == 0 and not own.all():
            raise InputError(_NO_WEIGHT)
        largest = np.maximum(own, self.scale)
        return self.scale / largest, own / largest


def as_weights(value: ArrayLike, name: str, **scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of calibration rows: finite, 0 or larger, as many as the named scores."""
    weights = as_vector(value, name)
    if scores:
        same_length(**{**scores, name: weights})
    check_each(weights, weights >= 0, name, "be 0 or larger")
    return weights


def as_test_weights(value: ArrayLike, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Weights of test rows (m,) or of their labels (m, C), in a shape that broadcasts to that of the scores."""
    weights: NDArray[Any] = np.asarray(as_real_array(value, name), dtype=np.float64)
    if weights.shape not in (shape, shape[:1]):
        allowed = " or ".join(dict.fromkeys(map(str, (shape[:1], shape))))
        raise InputError(f"{name} must have shape {allowed}, got {weights.shape}.")
    check_finite(weights, name)
    check_each(weights, weights >= 0, name, "be 0 or larger")
    return weights.reshape(*weights.shape, *(1,) * (len(shape) - weights.ndim))
