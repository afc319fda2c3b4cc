"""The two gates that a decision and its guard share: their thresholds, and what those promise."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from caveat.conformal import threshold_for, threshold_for_risk
from caveat.conformal.threshold import least_n
from caveat.errors import CaveatWarning
from caveat.results import Promise

__all__ = ["abstain_gate", "outlier_gate"]

Floats = NDArray[np.float64]


def outlier_gate(scores: Floats, *, false_alarm: float, delta: float, assumption: str) -> tuple[float, Promise]:
    """The threshold of the outlier gate from calibration scores, and its promise; ``inf`` where n is too small.

    >>> threshold, promise = outlier_gate(np.arange(9.0), false_alarm=0.05, delta=0.05, assumption="")
    >>> threshold, promise.holds, promise.remedy
    (inf, False, 'It takes 59 calibration rows; there are 9.')
    """
    with warnings.catch_warnings():  # too few rows are said in the promise
        warnings.simplefilter("ignore", CaveatWarning)
        threshold = threshold_for(scores, false_alarm, delta)
    needed = f"It takes {least_n(false_alarm, delta)} calibration rows; there are {scores.size}."
    return threshold, Promise(
        what="false alarms", bound=false_alarm, confidence=1 - delta, n=scores.size, method="order statistic, exact",
        assumption=assumption, remedy="" if math.isfinite(threshold) else needed,
    )  # fmt: skip


def abstain_gate(
    doubt: Floats, correct: NDArray[np.bool_], passed: NDArray[np.bool_], *, risk: float, delta: float, assumption: str
) -> tuple[float, Promise]:
    """The threshold of the abstain gate, and its promise; ``-inf`` where nothing can be promised: nothing is accepted.

    ``passed``: calibration rows that the outlier gate lets pass and for which some class fits.

    >>> threshold, promise = abstain_gate(np.zeros(5), np.ones(5, bool), np.zeros(5, bool), risk=0.05, delta=0.05,
    ...                                   assumption="")
    >>> threshold, promise.remedy
    (-inf, 'No calibration row passes the outlier gate.')
    """
    if not passed.any():
        return -math.inf, Promise(
            what="errors among the accepted", bound=risk, confidence=1 - delta, n=0, method="", assumption=assumption,
            remedy="No calibration row passes the outlier gate.",
        )  # fmt: skip
    gate = threshold_for_risk(score=doubt[passed], correct=correct[passed], risk=risk, delta=delta)
    return gate.threshold, gate.promise
