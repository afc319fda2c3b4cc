r"""Conformal p-values: the share of calibration scores at least as strange as the test score.

$$ p = \frac{\#\{a_i > a\} + \tau\,(1 + \#\{a_i = a\})}{n + 1}, \qquad \tau \sim U(0, 1) \text{ or } \tau = 1 $$

Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016, eq. (2),
written for nonconformity.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_comparable, as_rng, as_vector, check_known
from caveat.conformal.grouped import GroupedScores, as_groups
from caveat.errors import InputError

__all__ = ["check_seen", "p_values"]


def p_values(
    *,
    calibration: ArrayLike,
    test: ArrayLike,
    rng: Rng | None = None,
    calibration_groups: ArrayLike | None = None,
    test_groups: ArrayLike | None = None,
    unseen: Literal["error", "all"] = "error",
) -> NDArray[np.float64]:
    """P-values of test scores against calibration scores. Small means stranger than the calibration data.

    If test point and calibration sample are exchangeable, P(p <= t) <= t, and exactly t for the smoothed p-values of a
    continuous t. With groups this holds within each group. One sort, two binary searches per score.

    Parameters
    ----------
    calibration
        Nonconformity, shape (n,); larger is stranger.
    test
        Nonconformity, shape (m,), or (m, C) with one column per tentative label.
    rng
        Smooths the p-values: one tau per test object, shared by its labels. None: tau = 1, deterministic.
    calibration_groups, test_groups
        Group of each calibration score (n,) and of each test object (m,): an object is compared with its group only.
        None for both: with all. Label-conditional p-values of sets: ``SplitSets(by="label")``.
    unseen
        What to do with a test group that calibration never saw: an error, or ``"all"``: the p-value is tau, so that no
        label is ever excluded.

    Returns
    -------
    array of shape (m,)
        One p-value per test score.

    Examples
    --------
    >>> p_values(calibration=[1, 2, 3, 4], test=[0, 3, 9])
    array([1. , 0.6, 0.2])
    >>> p_values(calibration=[1, 2, 3, 4], test=[3, 3], calibration_groups=[0, 0, 0, 1], test_groups=[0, 1])
    array([0.5, 1. ])
    """
    rng = None if rng is None else as_rng(rng)
    scores, values = as_vector(calibration, "calibration", allow_infinite=True), as_comparable(test, "test")
    if values.ndim not in (1, 2):
        raise InputError(f"test must have shape (m,) or (m, C), got {values.shape}.")
    if (calibration_groups is None) != (test_groups is None):
        raise InputError("give calibration_groups and test_groups, or neither.")
    tau = None if rng is None else np.asarray(rng.random(values.shape[0]))
    if calibration_groups is None or test_groups is None:
        return GroupedScores.of(scores).p_values(values, tau=tau)
    grouped = GroupedScores.of(scores, as_groups(calibration_groups, "calibration_groups", scores.size))
    groups = as_groups(test_groups, "test_groups", values.shape[0])
    number = grouped.find(groups)
    check_seen(groups, number, unseen)
    return grouped.p_values(values, number, tau)


def check_seen(groups: NDArray[np.generic], number: NDArray[np.intp], unseen: str) -> None:
    """Raise InputError for a group that calibration never saw, unless the whole label set is wanted for it."""
    check_known(unseen, ("error", "all"), "rule for unseen groups")
    if unseen == "error" and (number < 0).any():
        row = int(np.flatnonzero(number < 0)[0])
        raise InputError(
            f"group {groups[row].item()!r} at row {row} was not seen in calibration. Calibrate on it, "
            "or choose unseen='all' to leave every label possible."
        )
