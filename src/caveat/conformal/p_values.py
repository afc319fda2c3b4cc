r"""Conformal p-values: the share of calibration scores at least as strange as the test score.

$$ p = \frac{\#\{a_i > a\} + \tau\,(1 + \#\{a_i = a\})}{n + 1}, \qquad \tau \sim U(0, 1) \text{ or } \tau = 1 $$

Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016, eq. (2),
written for nonconformity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._checks import as_real_array, as_vector
from caveat.errors import InputError

__all__ = ["p_values"]


def p_values(*, calibration: ArrayLike, test: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
    """P-values of test scores against calibration scores. Small means stranger than the calibration data.

    If test point and calibration sample are exchangeable, P(p <= t) <= t, and exactly t for the smoothed p-values of a
    continuous t. One sort, two binary searches per score.

    Parameters
    ----------
    calibration
        Nonconformity, shape (n,); larger is stranger.
    test
        Nonconformity, shape (m,), or (m, C) with one column per tentative label.
    rng
        Smooths the p-values: one tau per test object, shared by its labels. None: tau = 1, deterministic.

    Examples
    --------
    >>> p_values(calibration=[1, 2, 3, 4], test=[0, 3, 9])
    array([1. , 0.6, 0.2])
    """
    known = np.sort(as_vector(calibration, "calibration", allow_infinite=True))
    asked = as_real_array(test, "test")
    if asked.ndim not in (1, 2):
        raise InputError(f"test must have shape (m,) or (m, C), got {asked.shape}.")
    if np.isnan(asked).any():
        row = int(np.argwhere(np.isnan(asked))[0][0])
        raise InputError(f"test has NaN, first at row {row}. Drop or impute it before scoring.")
    above = known.size - np.searchsorted(known, asked, side="right")
    at_least = known.size - np.searchsorted(known, asked, side="left")
    if rng is None:
        return np.asarray((at_least + 1) / (known.size + 1))
    tau = rng.random((asked.shape[0],) + (1,) * (asked.ndim - 1))
    return np.asarray((above + tau * (1 + at_least - above)) / (known.size + 1))
