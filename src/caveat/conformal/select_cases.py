r"""Selecting the cases that satisfy a condition, with a bound on the share of selected cases that do not.

Of calibration cases it is known whether the condition holds: the answer is right, the outcome is above c. A test case
gets a p-value from the calibration cases without the condition that look at least as promising,

$$ p_j = \frac{\#\{i : y_i \le c,\ s_i < s_j\} + \tau_j\,(1 + \#\{i : y_i \le c,\ s_i = s_j\})}{n + 1} $$

with n counting all calibration cases and $\tau_j$ uniform, or 1. If calibration and test cases are exchangeable,
P(p <= t and the condition fails) <= t, and Benjamini-Hochberg keeps the false discovery rate at or below q: Jin and
Candes, "Selection by Prediction with Conformal p-values", JMLR 24, 2023, arXiv:2210.01408, with the clipped score
$V(x, y) = \infty \cdot 1\{y > c\} + s(x)$.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_comparable, as_mask, as_rng, as_vector, same_length
from caveat.conformal.selection import select_outliers
from caveat.errors import InputError

__all__ = ["case_p_values", "select_cases"]


def case_p_values(
    *, calibration: ArrayLike, satisfied: ArrayLike, test: ArrayLike, rng: Rng | None = None
) -> NDArray[np.float64]:
    """P-values of "this case does not satisfy the condition". Small means that it very likely does.

    Parameters
    ----------
    calibration
        Scores of cases with known outcome, shape (n,); the larger, the less likely the condition: the doubt of a
        classifier, or minus a predicted outcome. The score must not have been trained on these cases.
    satisfied
        Whether the condition holds for each, shape (n,): ``outputs.correct``, or ``y > c``.
    test
        Scores of the cases to choose from, shape (m,).
    rng
        Breaks ties at random (tau in the formula). None: tau = 1, deterministic and slightly larger.

    Returns
    -------
    array of shape (m,)
        One p-value per test case.

    Examples
    --------
    >>> case_p_values(calibration=[1, 2, 3, 4], satisfied=[True, True, False, False], test=[0, 3, 9])
    array([0.2, 0.4, 0.6])
    """
    scores, holds = as_vector(calibration, "calibration", allow_infinite=True), as_mask(satisfied, "satisfied")
    n = same_length(calibration=scores, satisfied=holds)
    tests = as_comparable(test, "test")
    if tests.ndim != 1:
        raise InputError(f"test must be a vector, got shape {tests.shape}.")
    failing = np.sort(scores[~holds])
    up_to = np.searchsorted(failing, tests, side="right")
    if rng is None:
        return np.asarray((up_to + 1) / (n + 1))
    below = np.searchsorted(failing, tests, side="left")
    return np.asarray((below + as_rng(rng).random(tests.size) * (1 + up_to - below)) / (n + 1))


def select_cases(
    *, calibration: ArrayLike, satisfied: ArrayLike, test: ArrayLike, q: float, rng: Rng | None = None
) -> NDArray[np.bool_]:
    """Which test cases to select so that at most a share q of them is expected not to satisfy the condition.

    The share is that of the whole selection, on average over calibration and test cases drawn together. Unlike for
    ``select_outliers``, all test cases must be exchangeable with the calibration cases, those to be selected too. At
    best a p-value is 1 / (n + 1): k of m test cases can be selected if n + 1 >= m / (q k).

    Parameters
    ----------
    calibration, satisfied, test
        As in ``case_p_values``.
    q
        Allowed false discovery rate.
    rng
        As in ``case_p_values``.

    Returns
    -------
    boolean array of shape (m,)
        Which test cases are selected.

    Examples
    --------
    Answers of which at most 10 % are expected to be wrong, from a classifier that is wrong in half of all cases.

    >>> rng = np.random.default_rng(0)
    >>> doubt, new = rng.random(1000), rng.random(500)
    >>> chosen = select_cases(calibration=doubt, satisfied=rng.random(1000) > doubt, test=new, q=0.1)
    >>> int(chosen.sum())
    106
    """
    return select_outliers(case_p_values(calibration=calibration, satisfied=satisfied, test=test, rng=rng), q)
