r"""Prediction sets whose coverage survives every perturbation within a radius.

An attacker sees a clean, exchangeable test point x and hands over x' with |x' - x| <= epsilon. With bounds of the
nonconformity a(., y) over the ball, one side of the comparison gives way:

$$ C(x') = \{ y : \min_{B(x')} a(\cdot, y) \le \hat q \}, \quad \hat q \text{ of } a(x_i, y_i)
   \qquad\text{(test side)} $$
$$ C(x') = \{ y : a(x', y) \le \hat q^+ \}, \quad \hat q^+ \text{ of } \max_{B(x_i)} a(\cdot, y_i)
   \qquad\text{(calibration side)} $$

Test side: x is in B(x'), so the minimum over B(x') is at most a(x, y), which is at or below q with probability
1 - alpha. Calibration side: a(x', y) is at most the maximum over B(x), which is exchangeable with those of calibration.
Either way the promise is that of split conformal prediction, for every attacker. The price is larger sets.
Gendler, Weng, Daniel and Romano, "Adversarially Robust Conformal Prediction", ICLR 2022, with smoothing; Jeary,
Kuipers, Hosseini and Paoletti, "Verifiably Robust Conformal Prediction", NeurIPS 2024,
arXiv:2405.18942, with verified bounds.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_comparable, as_labels, as_vector, check_same, check_shape, same_length
from caveat.conformal.grouped import GroupedScores
from caveat.conformal.quantile import Promise
from caveat.errors import CaveatWarning, InputError
from caveat.results import PredictionSets

__all__ = ["certified_sets"]


def certified_sets(
    *,
    alpha: float,
    calibration: ArrayLike | None = None,
    test_lower: ArrayLike | None = None,
    calibration_upper: ArrayLike | None = None,
    test: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    delta: float | None = None,
) -> PredictionSets:
    """Sets that hold the true label with probability at least 1 - alpha under every attack within the radius.

    Give ``calibration`` with ``test_lower`` (bounds are computed when a point comes in), or ``calibration_upper`` with
    ``test`` (bounds are computed once; a point that comes in costs a plain pass). The promise is marginal, and needs
    the clean test points to be exchangeable with the calibration points.

    Parameters
    ----------
    alpha
        Allowed error.
    calibration
        Nonconformity of the clean calibration inputs: (n,) of the true labels, or (n, K) with ``labels``. Any score for
        which bounds exist will do, such as -log p_y (``bounds.label_bounds``).
    test_lower
        Lower bounds (m, K) of the nonconformity over the ball around each input as it came in.
    calibration_upper
        Upper bounds over the ball around each clean calibration input: (n,), or (n, K) with ``labels``.
    test
        Nonconformity (m, K) of the inputs as they came in.
    labels
        True labels of the calibration inputs (n,); needed with matrices.
    delta
        None: coverage on average over calibration sets. A number: with probability 1 - delta (PAC).

    Returns
    -------
    PredictionSets
        ``member`` (n, C) says which labels are in each set.

    Examples
    --------
    >>> calibration = [0.1, 0.2, 0.3, 0.4]
    >>> scores, lower = np.array([[0.2, 0.6]]), np.array([[0.0, 0.3]])
    >>> certified_sets(alpha=0.2, calibration=calibration, test_lower=lower).member  # 0.3 <= 0.4: label 1 may be true
    array([[ True,  True]])
    >>> certified_sets(alpha=0.2, calibration_upper=[0.3, 0.4, 0.5, 0.55], test=scores).member
    array([[ True, False]])
    """
    sides = {"calibration": calibration, "test_lower": test_lower, "calibration_upper": calibration_upper, "test": test}
    arrays = {name: as_comparable(value, name) for name, value in sides.items() if value is not None}
    if list(arrays) not in (["calibration", "test_lower"], ["calibration_upper", "test"]):
        raise InputError("give calibration and test_lower, or calibration_upper and test: bounds on exactly one side.")
    (name, own), (_, scores) = arrays.items()
    check_shape(scores, "the test scores", 2, "matrix (m, K)")
    grouped = GroupedScores.of(_of_labels(own, labels, name, scores.shape[1]), None)
    promise = Promise(alpha, delta)
    level, caveat = promise.kept_by(grouped, by_group=False)
    if caveat:
        warnings.warn(caveat, CaveatWarning, stacklevel=2)
    member = scores <= float(grouped.thresholds(promise.rank)[0])
    return PredictionSets(member, alpha=alpha, level=level, delta=delta, caveat=caveat)


def _of_labels(scores: NDArray[np.float64], labels: ArrayLike | None, name: str, classes: int) -> NDArray[np.float64]:
    if scores.ndim != 2:
        return as_vector(scores, name, allow_infinite=True)
    if labels is None:
        raise InputError(f"{name} is a matrix, so labels must say which column of each row is true; it is None.")
    check_same("number of columns", **{name: scores.shape[1], "the test scores": classes})
    true = as_labels(labels, "labels", n_classes=classes)
    same_length(**{name: scores, "labels": true})
    return np.asarray(scores[np.arange(true.size), true])
