"""Detection: how well strangeness tells outliers from inliers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat import _ranking
from caveat._checks import as_vector, check_known
from caveat.errors import InputError

__all__ = ["auroc", "detection_threshold", "fpr_at_tpr", "roc_curve"]


def auroc(*, inlier: ArrayLike, outlier: ArrayLike) -> float:
    r"""Chance that a random outlier scores above a random inlier; ties count one half.

    $$ P(S_{out} > S_{in}) + \tfrac12 P(S_{out} = S_{in}) $$

    Higher is better; 0.5 is a coin. Hanley and McNeil, Radiology 143(1), 1982.

    Examples
    --------
    >>> auroc(inlier=[0, 1, 2], outlier=[1, 3])
    0.75
    """
    known = as_vector(inlier, "inlier", allow_infinite=True)
    return _ranking.auroc(known, as_vector(outlier, "outlier", allow_infinite=True))


def detection_threshold(
    *, inlier: ArrayLike, outlier: ArrayLike, tpr: float, positive: Literal["outlier", "inlier"] = "outlier"
) -> float:
    """The strictest threshold whose true-positive rate is at least ``tpr``.

    ``positive="outlier"``: flag scores >= the threshold. ``positive="inlier"``: accept scores <= the threshold.
    """
    check_known(positive, ("outlier", "inlier"), "positive class")
    if not 0 < tpr <= 1:
        raise InputError(f"tpr must be above 0 and at most 1, got {tpr!r}.")
    side = as_vector(outlier, "outlier") if positive == "outlier" else as_vector(inlier, "inlier")
    caught = math.ceil(Fraction(str(tpr)) * side.size)  # exact: 0.95 * 20 must be 19, not 19.000000000000004
    k = side.size - caught if positive == "outlier" else caught - 1
    return float(np.partition(side, k)[k])


def fpr_at_tpr(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    tpr: float = 0.95,
    positive: Literal["outlier", "inlier"] = "outlier",
) -> float:
    """False-positive rate at the strictest threshold that reaches the true-positive rate. Lower is better.

    Two conventions share this name in the literature, and the same scores can give 0.97 under one and 0.33 under the
    other. ``positive="outlier"`` (OpenOOD): the share of inliers rejected when ``tpr`` of the outliers are caught.
    ``positive="inlier"`` (ODIN, ViM): the share of outliers accepted when ``tpr`` of the inliers are kept.
    Tied scores stay together; nothing is interpolated.

    Examples
    --------
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=0.75)
    0.0
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=1.0)
    0.5
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=1.0, positive="inlier")
    0.25
    """
    threshold = detection_threshold(inlier=inlier, outlier=outlier, tpr=tpr, positive=positive)
    if positive == "outlier":
        return float(np.mean(as_vector(inlier, "inlier") >= threshold))
    return float(np.mean(as_vector(outlier, "outlier") <= threshold))


def roc_curve(*, inlier: ArrayLike, outlier: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False- and true-positive rates over all thresholds, outliers positive, from (0, 0) to (1, 1).

    Examples
    --------
    >>> fpr, tpr = roc_curve(inlier=[0, 1], outlier=[1, 2])
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    known, asked = np.sort(as_vector(inlier, "inlier")), np.sort(as_vector(outlier, "outlier"))
    cuts = np.unique(np.concatenate([known, asked]))[::-1]
    fpr = 1 - np.searchsorted(known, cuts, side="left") / known.size
    tpr = 1 - np.searchsorted(asked, cuts, side="left") / asked.size
    return np.concatenate([[0.0], fpr]), np.concatenate([[0.0], tpr])
